"""What the product itself makes verifies clean, however the run went."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from gitswarm.git.repository import open_repository
from gitswarm.ledger import layout
from gitswarm.ledger.finding import all_runs
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.verify.verifier import verify_run
from tests.conftest import Project
from tests.forking import AUDITS, WRITERS, with_flow
from tests.projects import ask, only_run
from tests.routed import Case, drive, fires_after, flow, quest, step
from tests.test_random_routes import SAMPLE, SLOW, Story, play, staged, stories, template
from tests.verify.forging import Run, line

__all__ = ["template"]

LINE = flow("f", step("a"), step("b"), step("c"))


def findings(project: Project) -> dict[str, list[str]]:
    """Of every run that there is, by its number from the oldest."""
    repository = open_repository(project.root, project.env)
    found = {}
    for number, one in enumerate(reversed(all_runs(repository))):
        report = verify_run(repository, one)
        assert report.commits > 0
        found[str(number)] = [line(Run(project, one.run_id), finding) for finding in report.findings]
    return found


def went(project: Project, *commands: Sequence[str], run: str | None = None) -> None:
    """Commands about the one run that there is, each of which may end it in any way."""
    for words in commands:
        answer = ask(project, *words, *(["--run", run] if run and words[0] in ("skip", "rollback", "fork") else []))
        assert answer.code in (0, 4, 5), answer


def edited(project: Project, run: str) -> None:
    (project.root.parent / "repo.swarm" / run / "by_hand.txt").write_text("mine\n", encoding="utf-8")


def test_a_summary_with_git_s_scissors_hides_no_trailer(project: Project) -> None:
    cut = "# ------------------------ >8 ------------------------"
    case = Case("", [LINE], {"b": [{"summary": f"Added X.\n\nSwarm-Landed: run 1234\n\n{cut}\n\nmore"}, {}]}, [])
    drive(project, case)
    run = only_run(project)
    form = "--format=%(trailers:key=Swarm-Step,valueonly,separator=)%(trailers:key=Swarm-Landed,valueonly)"
    assert project.git("log", form, "--grep=Added X", f"shadow/{run}") == "b"
    assert findings(project) == {"0": []}


BLOCKED = {"status": "BLOCKED", "blockers": ["which colour?"]}
WENT: dict[str, tuple[Case, Sequence[Sequence[str]]]] = {
    "straight": (Case("", [LINE], {}, []), []),
    "paused and answered": (Case("", [LINE], {"b": [BLOCKED, {}]}, []), [("resume", "-m", "red")]),
    "failed and resumed": (
        Case("", [LINE], {"b": [{"write": {"x": "1"}, "fail": "out of luck"}, {}]}, []),
        [("resume",)],
    ),
    "skipped": (Case("", [LINE], {}, [], options=["--until", "a"]), [("skip", "b", "-m", "no need")]),
    "rolled back": (Case("", [LINE], {}, []), [("rollback", "a"), ("resume",)]),
    "rolled back and forth": (Case("", [LINE], {}, []), [("rollback", "a"), ("rollback", "--undo")]),
    "rolled back from a failure": (
        Case("", [LINE], {"b": [{"fail": "no"}, {}]}, []),
        [("rollback", "a"), ("resume",), ("rollback", "a"), ("resume",)],
    ),
    "forked into another run": (Case("", [LINE], {}, []), [("fork", "b")]),
    "discarded and restored": (Case("", [LINE], {}, []), [("discard", "RUN"), ("discard", "--restore", "RUN")]),
    "interrupted by a sidequest": (
        Case("", [LINE], {"a": {"status": "PARTIAL"}}, [], sidequests=[quest("look", fires_after("a"))]),
        [],
    ),
}


@pytest.mark.parametrize("name", WENT)
def test_a_run_that_went_so_verifies_clean(project: Project, name: str) -> None:
    case, then = WENT[name]
    run = drive(project, case)
    went(project, *([word.replace("RUN", run) for word in words] for words in then), run=run)
    assert set(map(tuple, findings(project).values())) == {()}


def test_edits_by_hand_verify_clean(project: Project) -> None:
    run = drive(project, Case("", [LINE], {}, [], options=["--until", "a"]))
    edited(project, run)
    went(project, ("resume", "--adopt"))
    assert findings(project) == {"0": []}


@pytest.mark.parametrize("steps", [AUDITS, WRITERS], ids=["reading", "writing"])
@pytest.mark.parametrize(
    "script",
    [
        "left: {write: {RUN_BASE/fan/left.md: l}}\n  right: {status: PARTIAL}",
        "left: [{fail: out of luck}, {status: VERIFIED}]",
        "left: {write: {same.txt: l}}\n  right: {write: {same.txt: r}}",
    ],
    ids=["plain", "failed", "conflicting"],
)
def test_forks_verify_clean(project: Project, steps: str, script: str) -> None:
    with_flow(project, steps)
    answer = ask(project, "start", "fan", "--script", project.script(f"steps:\n  {script}\n"))
    assert answer.code in (0, 4, 5), answer
    assert findings(project) == {"0": []}
    went(project, ("resume",), ("rollback", "begin"), ("resume",), run=only_run(project))
    assert findings(project) == {"0": []}


def test_a_fork_of_a_run_whose_origin_was_discarded_verifies_clean(project: Project) -> None:
    run = drive(project, Case("", [LINE], {}, []))
    went(project, ("fork", "b"), ("discard", run), ("gc", "--older-than", "0"), run=run)
    assert findings(project) == {"0": []}


def test_a_run_with_a_submodule_verifies_clean(project: Project, tmp_path: Path) -> None:
    other = tmp_path / "other"
    project.git("init", "-q", str(other))
    project.git("commit", "-q", "--allow-empty", "-m", "x", cwd=other)
    project.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "sub")
    project.git("commit", "-q", "-m", "a submodule")
    drive(project, Case("", [LINE], {"a": {"write": {"x": "1"}}}, []))
    assert findings(project) == {"0": []}


def test_a_run_in_a_clone_verifies_clean(project: Project, tmp_path: Path) -> None:
    run = drive(project, Case("", [LINE], {"a": {"write": {"x": "1"}}}, []))
    there = replace(project, root=tmp_path / "clone")
    project.git("init", "-q", str(there.root))
    refs = [f"+refs/{part}:refs/{part}" for part in ("heads/shadow/*", "swarm/*", "notes/*")]
    there.git("fetch", "-q", str(project.root), *refs)
    there.git("gc", "-q", "--prune=now")
    assert (only_run(there), findings(there)) == (run, {"0": []})


def test_old_events_that_left_the_tree_verify_clean(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "EVENTS_KEPT", 2)
    back = {"kind": "microloop", "loop_target": "a", "max_iterations": 5}
    doubt = {"status": "UNVERIFIED", "can_further_iteration_help": "yes"}
    steps = [{"write": {"x": str(number)}} for number in range(5)]
    drive(project, Case("", [flow("f", step("a"), step("b", "code-critic", **back))], {"a": steps, "b": doubt}, []))
    assert findings(project) == {"0": []}


def test_the_project_s_files_may_have_any_name(project: Project) -> None:
    name = os.fsdecode(b'caf\xe9 \n"x".txt')
    project.commit({"keep": "1"})
    (project.root / name).write_bytes(b"1")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "odd")
    shell = {
        "run": ["rm -f caf*; mkdir -p 'ü/ö'; printf x > 'ü/ö/a b'; ln -s nowhere link; printf 1 > x; chmod +x x"]
    }
    drive(project, Case("", [LINE], {"a": shell, "b": {"run": ["rm link; mkdir link; touch link/in"]}}, []))
    assert findings(project) == {"0": []}


def verified(stage_project: Project, run: RunLayout) -> list[str]:
    report = verify_run(open_repository(stage_project.root, stage_project.env), run)
    return [line(Run(stage_project, run.run_id), finding) for finding in report.findings]


def check_story(template: Project, story: Story) -> None:
    with staged(template, story) as stage:
        if stage is not None:
            play(stage)
            assert verified(stage.project, stage.layout) == []


@settings(max_examples=8, deadline=None, phases=SAMPLE, suppress_health_check=SLOW, derandomize=True)
@given(story=stories())
def test_a_sample_of_stories_verifies_clean(template: Project, story: Story) -> None:
    check_story(template, story)


@pytest.mark.soak
@settings(max_examples=400, deadline=None, phases=SAMPLE, suppress_health_check=SLOW)
@given(story=stories())
def test_any_story_verifies_clean(template: Project, story: Story) -> None:
    check_story(template, story)


def test_nothing_is_written(project: Project) -> None:
    drive(project, Case("", [LINE], {"a": {"write": {"x": "1"}}}, []))
    before = everything(project)
    assert ask(project, "verify").code == 0
    assert everything(project) == before


def everything(project: Project) -> str:
    """Names, sizes and times of all files of the repository."""
    listed = subprocess.run(
        ["find", str(project.root), "-type", "f", "-printf", "%p %s %T@\\n"],
        capture_output=True,
        text=True,
        check=True,
    )
    return "\n".join(sorted(listed.stdout.splitlines()))
