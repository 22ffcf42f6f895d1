"""`discard` of many runs and of the worktree only; what approve, land and rollback say as JSON."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.conftest import Project
from tests.projects import ask, new_project

FLOW = "id: one\nsteps: [{id: s1, station: code-implementer}, {id: s2, station: code-implementer}]\n"
WORKS = "steps: {{s1: {{write: {{{name}: x}}}}}}\ndefault: {{status: VERIFIED}}\n"
FAILS = "steps: {s2: {fail: broken}}\n"
ASKS = "steps: {s1: {status: BLOCKED, blockers: [which?]}}\n"


@dataclass(frozen=True, slots=True)
class Runs:
    project: Project
    landed: str
    failed: str
    open: str
    paused: str

    @property
    def every(self) -> list[str]:
        return [self.landed, self.failed, self.open, self.paused]

    def there(self) -> list[str]:
        return sorted(str(each["run_id"]) for each in self.project.json("list"))


@pytest.fixture(scope="module")
def said() -> dict[str, Any]:
    """What commands said while the runs were made."""
    return {}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, said: dict[str, Any]) -> Runs:
    project = new_project(tmp_path_factory.mktemp("discard"))
    project.commit({".swarm/flows/one.yaml": FLOW})
    landed = project.start(WORKS.format(name="a.txt"), "--allow-stub", flow="one")
    said["unapproved"] = ask(project, "land", landed, "--json")
    said["approve"] = project.json("approve", landed)
    said["again"] = project.json("approve", landed)
    said["dry"] = project.json("land", landed, "--dry-run")
    said["landed"] = project.swarm("land", landed).stdout
    said["land"] = project.json("land", landed)
    failed = project.start(FAILS, "--allow-stub", flow="one", code=4)
    unlanded = project.start(WORKS.format(name="b.txt"), "--allow-stub", flow="one")
    said["rollback dry"] = project.json("rollback", "s1", "--run", unlanded, "--dry-run")
    said["rollback"] = project.json("rollback", "s1", "--run", unlanded)
    said["rollback undone"] = project.json("rollback", "--undo", "--run", unlanded)
    said["reject"] = project.json("approve", unlanded, "--reject", "-m", "no")
    paused = project.start(ASKS, "--allow-stub", flow="one", code=5)
    return Runs(project, landed, failed, unlanded, paused)


@pytest.fixture
def runs(template: Runs) -> Iterator[Runs]:
    """All of them, whatever the test does."""
    yield template
    trash = template.project.git("for-each-ref", "--format=%(refname)", "refs/swarm/trash")
    gone = sorted({line.split("/")[3] for line in trash.splitlines()})
    if gone:
        template.project.swarm("discard", "--restore", *gone)


def discarded(runs: Runs, *options: str, code: int = 0) -> list[str]:
    found = runs.project.json("discard", *options, code=code)
    return [each["run_id"] for each in found["runs"] if each["discarded"]]


def test_several_runs_by_name_and_back_again(runs: Runs) -> None:
    answer = runs.project.swarm("discard", runs.failed[-6:], runs.landed, runs.failed)
    lines = answer.stdout.splitlines()
    assert [line.split()[:2] for line in lines[:2]] == [["discarded", runs.failed], ["discarded", runs.landed]]
    assert lines[2:] == ["2 runs discarded", f"undo       git swarm discard --restore {runs.failed} {runs.landed}"]
    assert runs.there() == sorted([runs.open, runs.paused])
    asked = ask(runs.project, "show", "1", "--run", runs.failed[-6:]).stderr
    assert asked == f"git-swarm: {runs.failed} was discarded\nhint: git swarm discard --restore {runs.failed}\n"
    gone = sorted([runs.failed, runs.landed])
    assert [line.split()[:2] for line in runs.project.swarm("list", "--all").stdout.splitlines()[3:5]] == [
        [run, "discarded"] for run in reversed(gone)
    ]
    listed = runs.project.swarm("discard", "--restore").stdout.splitlines()
    assert [line.split()[:2] for line in listed[:2]] == [["discarded", run] for run in gone]
    assert runs.project.json("discard", "--restore") == {"discarded": gone, "archived": []}
    back = runs.project.swarm("discard", "--restore", runs.failed, runs.landed).stdout
    assert back.splitlines() == [
        f"{runs.failed} is restored",
        f"{runs.landed} is restored",
        "next       git swarm list",
    ]
    assert runs.there() == sorted(runs.every)


def test_a_decision_that_holds_again_is_told_once(runs: Runs) -> None:
    shown = runs.project.swarm("show", "s1", "--run", runs.open).stdout
    assert shown.count("  led to ") == 1


def test_an_unknown_name_removes_nothing_at_all(runs: Runs) -> None:
    answer = ask(runs.project, "discard", runs.landed, "nobody")
    assert (answer.code, runs.there()) == (1, sorted(runs.every))


def test_what_has_landed_and_nothing_else(runs: Runs) -> None:
    assert discarded(runs, "--landed", "--dry-run") == [runs.landed]
    assert runs.there() == sorted(runs.every)
    assert discarded(runs, "--landed") == [runs.landed]


def test_what_was_reverted_or_is_not_on_its_target_any_more_is_kept(runs: Runs) -> None:
    project = runs.project
    tip = project.git("rev-parse", "main")
    project.git("revert", "--no-edit", "HEAD")
    assert discarded(runs, "--landed", "--dry-run") == []
    project.git("reset", "-q", "--hard", f"{tip}~1")
    assert discarded(runs, "--landed", "--dry-run") == []
    project.git("reset", "-q", "--hard", tip)
    assert discarded(runs, "--landed", "--dry-run") == [runs.landed]


def test_what_failed_and_is_old_enough(runs: Runs) -> None:
    assert discarded(runs, "--failed", "--older-than", "1h") == []
    assert discarded(runs, "--failed", "--landed", "--older-than", "0s", "--dry-run") == [runs.failed, runs.landed]
    assert discarded(runs, "--failed") == [runs.failed]


def test_age_alone_takes_what_has_ended_not_what_waits(runs: Runs) -> None:
    assert discarded(runs, "--older-than", "0s", "--dry-run") == [runs.open, runs.failed, runs.landed]


def test_work_that_is_not_committed_stays_and_is_named(runs: Runs) -> None:
    path = runs.project.worktree(runs.failed) / "mine.txt"
    path.write_text("mine", encoding="utf-8")
    assert discarded(runs, "--failed", "--dry-run") == []
    assert discarded(runs, "--failed", "--dry-run", "--force") == [runs.failed]
    answer = ask(runs.project, "discard", runs.failed, runs.landed)
    assert (answer.code, runs.there()) == (1, sorted([runs.failed, runs.open, runs.paused]))
    assert "holds work that is not committed" in " ".join(answer.stderr.split())
    assert f"git swarm discard {runs.failed} --force" in " ".join(answer.stderr.split())
    path.unlink()


def test_a_repository_in_a_worktree_stays_one(runs: Runs) -> None:
    inner = runs.project.worktree(runs.open) / "inner"
    runs.project.git("init", "-q", str(inner))
    for options in (["--dry-run"], ["--keep-evidence"], []):
        answer = ask(runs.project, "discard", runs.open, *options)
        assert "holds a repository of its own: inner" in " ".join((answer.stdout + answer.stderr).split())
        assert (inner / ".git").is_dir()
    shutil.rmtree(inner)


def test_what_is_only_staged_and_what_is_locked_stays(runs: Runs) -> None:
    path = runs.project.worktree(runs.open)
    (path / "staged.txt").write_text("only here", encoding="utf-8")
    runs.project.git("add", "staged.txt", cwd=path)
    (path / "staged.txt").unlink()
    answer = ask(runs.project, "discard", runs.open, "--keep-evidence")
    assert (answer.code, "has staged changes" in " ".join(answer.stderr.split())) == (1, True)
    runs.project.git("reset", "-q", cwd=path)
    runs.project.git("worktree", "lock", str(path))
    answer = ask(runs.project, "discard", runs.open, "--keep-evidence")
    assert (answer.code, "git worktree unlock" in " ".join(answer.stderr.split())) == (1, True)
    runs.project.git("worktree", "unlock", str(path))
    assert path.is_dir()


def test_a_run_that_continued_since_a_discard_was_killed_is_not_restored(runs: Runs) -> None:
    """The trash of that discard is older than the run."""
    branch = f"refs/heads/shadow/{runs.open}"
    tip = runs.project.git("rev-parse", branch)
    runs.project.git("update-ref", f"refs/swarm/trash/{runs.open}/heads/shadow/{runs.open}", f"{tip}~1")
    answer = ask(runs.project, "discard", "--restore", runs.open)
    assert (answer.code, "continued since" in " ".join(answer.stderr.split())) == (1, True)
    assert runs.project.git("rev-parse", branch) == tip
    runs.project.git("update-ref", "-d", f"refs/swarm/trash/{runs.open}/heads/shadow/{runs.open}")


def test_only_the_worktree_goes_and_comes_back(runs: Runs) -> None:
    log, path = runs.project.json("log", runs.open), runs.project.worktree(runs.open)
    (path / "ignored.log").write_text("big", encoding="utf-8")
    (path / ".git-ignored").touch()
    answer = ask(runs.project, "discard", runs.open, "--keep-evidence")
    assert answer.code == 1, "files that git does not ignore are work"
    answer = ask(runs.project, "discard", runs.open, "--keep-evidence", "--force")
    assert answer.stdout.splitlines() == [
        f"{runs.open}: worktree removed",
        f"undo       git swarm resume {runs.open}",
    ]
    again = ask(runs.project, "discard", runs.open, "--keep-evidence")
    assert again.stdout.splitlines()[0] == f"{runs.open}: it has no worktree here"
    assert (path.exists(), list(path.parent.glob(".trash/*"))) == (False, [])
    assert runs.project.json("log", runs.open) == log
    assert runs.project.json("status", runs.open)["worktree"] is None
    kept = runs.project.git("for-each-ref", "--format=%(refname)", f"refs/swarm/{runs.open}/rollback").split()[-1]
    assert runs.project.git("show", f"{kept}:ignored.log") == "big"
    assert f"hint: git swarm resume {runs.open}" in ask(runs.project, "path", runs.open).stderr
    answer = ask(runs.project, "resume", runs.open)
    assert (answer.code, path.is_dir()) == (0, True)
    assert f"succeeded already: its worktree was made again: {path}" in " ".join(answer.stderr.split())
    assert runs.project.json("log", runs.open) == log
    assert "succeeded already: nothing to do" in ask(runs.project, "resume", runs.open).stderr


def test_what_a_kill_left_of_a_dropped_worktree_is_swept(runs: Runs) -> None:
    path = runs.project.worktree(runs.open).parent / ".trash" / "run-20200101-000000-abcdef"
    shutil.copytree(runs.project.root / "src", path)
    runs.project.swarm("gc")
    assert path.exists(), "a process may be at work there"

    os.utime(path, (1, 1))
    assert f"{path.name}" in runs.project.swarm("gc").stdout
    assert not path.exists()


@pytest.mark.parametrize(
    "line",
    [
        [],
        ["--dry-run"],
        ["RUN", "--landed"],
        ["--restore", "--landed"],
        ["--older-than", "30"],
        ["--older-than", "soon"],
    ],
)
def test_a_line_that_does_not_say_which_runs(runs: Runs, line: list[str]) -> None:
    answer = ask(runs.project, "discard", *(runs.landed if word == "RUN" else word for word in line))
    assert (answer.code, runs.there()) == (2, sorted(runs.every))
    assert "hint: git swarm discard" in answer.stderr


def test_land_says_how_to_tidy_up(template: Runs, said: dict[str, Any]) -> None:
    assert said["landed"].splitlines()[-1] == f"tidy       git swarm discard {template.landed}"


def test_approve_and_land_as_json(template: Runs, said: dict[str, Any]) -> None:
    refused = json.loads(said["unapproved"].stdout)
    assert (said["unapproved"].code, refused["hint"].partition("   ")[0]) == (
        1,
        f"git swarm approve {template.landed}",
    )
    first, again = said["approve"], said["again"]
    assert (first["word"], first["is_new"], again["is_new"]) == ("approved", True, False)
    assert (first["changes"], first["next"]) == ("1 file, +1 -0", f"git swarm land {template.landed}")
    assert (said["dry"]["would_land"], said["dry"]["target"], said["dry"]["approved"]) == (
        True,
        "main",
        first["about"],
    )
    landed = said["land"]
    assert (landed["is_new"], landed["target"], landed["pushed_to"]) == (False, "main", None)
    assert template.project.git("log", "-1", "--format=%(trailers:key=Swarm-Run,valueonly)", landed["commit"]).strip()
    assert (said["reject"]["word"], said["reject"]["next"]) == ("rejected", None)


def test_rollback_as_json(template: Runs, said: dict[str, Any]) -> None:
    dry, done = said["rollback dry"], said["rollback"]
    assert (dry["dry_run"], dry["kept"], [each["step"] for each in dry["undone"]]) == (True, None, ["one/s2"])
    assert (done["dry_run"], done["target"]) == (False, "one/s1@1")
    assert {**done, "dry_run": True, "kept": None} == dry
    assert done["kept"] == f"refs/swarm/{template.open}/rollback/1"
    assert said["rollback undone"]["steps"] == 2


def test_code_that_came_after_the_landing_is_kept(runs: Runs) -> None:
    (runs.project.worktree(runs.landed) / "more.txt").write_text("more", encoding="utf-8")
    runs.project.swarm("resume", runs.landed, "--adopt")
    assert discarded(runs, "--landed") == []
