"""What an agent can leave in its worktree to harm us or the user, and what git itself refuses to take."""

from __future__ import annotations

import json
import shlex
import stat
from pathlib import Path

import pygit2
import pytest
import yaml

from tests.conftest import Project
from tests.fingerprint import fingerprint
from tests.test_staging_repository import with_a_submodule
from tests.twin import FLOW
from tests.unseen import unseen

INITIALISED = "git submodule --quiet update; cd sub; echo 1 > f; echo '* filter=evil' > .gitattributes"
EMBEDDED = "rm -rf sub; git clone -q $INNER sub; cd sub; echo 1 > f; echo '* filter=evil' > .gitattributes"


@pytest.fixture
def row(project: Project) -> Project:
    """A repository with a flow of two steps; everything that ends in `.ign` is ignored."""
    project.commit({".swarm/flows/row.yaml": FLOW, ".gitignore": "*.ign\n"})
    return project


def played(project: Project, one: str, two: str = "true", code: int = 0) -> str:
    """A run of two blocks of shell lines that must not fail; its id."""
    steps = {name: {"run": [f"set -e\n{lines}"]} for name, lines in (("one", one), ("two", two))}
    return project.start(unseen(yaml.safe_dump({"steps": steps})), flow="row", code=code)


def traps(trace: Path) -> str:
    """Lines that make the git repository in the current folder run a program at every turn."""
    program = trace.with_suffix(".sh")
    program.write_text(f"#!/bin/sh\necho ran >> '{trace}'\nexec cat\n", encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    hooks = trace.with_suffix(".hooks")
    hooks.mkdir()
    for name in ("post-index-change", "post-checkout", "reference-transaction"):
        (hooks / name).symlink_to(program)
    keys = ("core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "core.pager")
    settings = [(key, str(program)) for key in keys] + [
        ("core.hooksPath", str(hooks)),
        ("filter.evil.required", "true"),
    ]
    return "\n".join(f"git config {key} '{value}'" for key, value in settings)


@pytest.mark.parametrize("made", [INITIALISED, EMBEDDED], ids=["initialised", "embedded"])
def test_nothing_that_a_submodule_configures_is_executed(row: Project, tmp_path: Path, made: str) -> None:
    with_a_submodule(row)
    row.git("config", "submodule.recurse", "true")
    trace = tmp_path / "trace"
    made = made.replace("$INNER", (tmp_path / "inner").as_uri())
    commit = "git add f .gitattributes; git commit -q -m 1 f"
    before = row.git("rev-parse", "HEAD:sub")

    run = played(row, f"{made}\n{commit}\n{traps(trace)}\necho dirty > f; echo dirty > g; echo new > h")
    row.swarm("rollback", "0")
    row.swarm("rollback", "--undo")

    assert not trace.exists()
    assert row.git("rev-parse", f"shadow/{run}:sub") != before


def test_a_submodule_that_leads_to_another_repository_becomes_files(row: Project) -> None:
    with_a_submodule(row)
    user = fingerprint(row.root).entries

    run = played(row, f"mkdir -p sub; echo 'gitdir: {row.root}/.git' > sub/.git; echo 1 > sub/f")
    row.swarm("rollback", "0")
    row.swarm("rollback", "--undo")

    assert row.tree(f"shadow/{run}")["sub/f"].startswith("100644 ")
    assert fingerprint(row.root).entries == user


def test_uncommitted_work_in_a_submodule_survives_a_rollback(row: Project) -> None:
    with_a_submodule(row)
    first = "git submodule --quiet update; cd sub; echo 1 > f; git commit -q -a -m 1"
    run = played(row, first, "cd sub; echo 2 > f; git commit -q -a -m 2")
    inside = row.worktree(run) / "sub"
    (inside / "g").write_text("precious", encoding="utf-8")
    (inside / "h").write_text("precious", encoding="utf-8")

    row.swarm("rollback", "one")

    assert [(inside / name).read_text(encoding="utf-8") for name in "fgh"] == ["1\n", "precious", "precious"]


IN_THE_WAY = {
    "link": ("ln -s README.md x.ign; git add -f x.ign", "git rm -q x.ign; echo precious > x.ign", "x.ign"),
    "file": ("echo 1 > x.ign; git add -f x.ign", "git rm -q x.ign; mkdir x.ign; echo precious > x.ign/y", "x.ign/y"),
    "folder": (
        "mkdir x.ign; echo 1 > x.ign/y; git add -f x.ign/y",
        "git rm -q -r x.ign; echo precious > x.ign",
        "x.ign",
    ),
}


@pytest.mark.parametrize("kind", IN_THE_WAY)
def test_an_ignored_file_in_the_way_of_a_rollback_is_kept_and_comes_back(row: Project, kind: str) -> None:
    one, two, name = IN_THE_WAY[kind]
    run = played(row, one, two)
    worktree = row.worktree(run)

    row.swarm("rollback", "one")
    after_one = row.git("status", "--porcelain", cwd=worktree)
    row.swarm("rollback", "--undo")

    assert after_one == ""
    assert row.git("show", f"refs/swarm/{run}/rollback/1:{name}") == "precious"
    assert (worktree / name).read_text(encoding="utf-8") == "precious\n"


def test_an_ignored_file_in_the_way_of_an_undo_is_kept(row: Project) -> None:
    run = played(row, "true", "echo 2 > x.ign; git add -f x.ign")
    row.swarm("rollback", "one")
    (row.worktree(run) / "x.ign").write_text("precious", encoding="utf-8")

    row.swarm("rollback", "--undo")

    assert row.git("show", f"refs/swarm/{run}/rollback/2:x.ign") == "precious"
    assert (row.worktree(run) / "x.ign").read_text(encoding="utf-8") == "2\n"


def test_an_ignored_repository_in_the_way_of_a_rollback_refuses_it(row: Project) -> None:
    made = "git rm -q x.ign; git init -q x.ign; echo precious > x.ign/y"
    run = played(row, "echo 1 > x.ign; git add -f x.ign", made)
    worktree = row.worktree(run)

    done = row.swarm("rollback", "one", code=1)

    assert done.stderr == (
        "git-swarm: x.ign/ is a repository that git ignores, in the way of a file: it would be deleted\n"
        f"hint: mv {shlex.quote(f'{worktree}/x.ign')} somewhere-else\n"
    )
    assert (worktree / "x.ign/y").read_text(encoding="utf-8") == "precious\n"


NOT_TAKEN = {
    "wrong encoding": ("echo x > a.u16", "fatal: BOM is required in 'a.u16' if encoded as UTF-16", ["a.u16"]),
    "pipe": ("rm README.md; mkfifo README.md", "error: README.md: can only add regular files, symbolic links or", ()),
    "name": ("mkdir -p d/.GIT; echo x > d/.GIT/x", "error: invalid path 'd/.GIT/x'", ["d/_.GIT/x"]),
}


@pytest.mark.parametrize("kind", NOT_TAKEN)
def test_what_git_cannot_take_fails_the_step_and_is_kept(row: Project, kind: str) -> None:
    row.commit({".gitattributes": "*.u16 text working-tree-encoding=UTF-16\n"})
    lines, said, kept = NOT_TAKEN[kind]
    # The second execution does not do it again.
    once = f'echo 1 > b; [ "$SWARM_ITERATION" != 1 ] || {{ {lines}; }}'
    run = row.start(unseen(yaml.safe_dump({"steps": {"one": {"run": [once]}}})), flow="row", code=4)
    told = row.json("status")["last_error"]
    assert row.git("status", "--porcelain", cwd=row.worktree(run)) == ""

    row.swarm("resume")

    assert told.startswith("git add failed: ")
    assert said in told
    assert row.json("status")["state"] == "succeeded"
    for path in ("b", *kept):
        assert row.git("show", f"refs/swarm/{run}/rollback/1:{path}") == ("1" if path == "b" else "x")
    row.swarm("verify")


def test_a_file_below_a_link_to_itself_is_gone(row: Project) -> None:
    run = played(row, "mkdir d; echo 1 > d/x", "rm -r d; ln -s d d; echo d > .gitignore")
    assert row.git("ls-tree", "-r", "--name-only", f"shadow/{run}", "d", ".gitignore") == ".gitignore"
    assert row.git("status", "--porcelain", cwd=row.worktree(run)) == ""


def test_the_journal_names_what_was_quarantined(row: Project) -> None:
    played(row, "git init -q emb; echo 1 > emb/x")
    events = [json.loads(line) for line in row.swarm("events", "--json").stdout.splitlines()]
    assert [event["payload"]["path"] for event in events if "path" in event["payload"]] == ["emb/.git"]


NOPE = "printf '*.txt text working-tree-encoding=NOPE-8\\n' > .gitattributes; printf 'a\\r\\n' > old.txt"


def kept_tree(project: Project, run: str, number: int) -> dict[str, bytes]:
    """What was set aside of the code."""
    tree = f"refs/swarm/{run}/rollback/{number}"
    names = project.git("ls-tree", "-r", "--name-only", tree).splitlines()
    repository = pygit2.Repository(str(project.root))
    blobs = repository.revparse_single(tree).peel(pygit2.Tree)
    found = {name: blobs[name] for name in names if name in blobs and not name.startswith(".swarm/")}
    return {name: blob.data for name, blob in found.items() if isinstance(blob, pygit2.Blob)}


def test_files_that_git_does_not_take_fail_the_step_and_are_kept_as_they_are(row: Project) -> None:
    row.commit({"old.txt": "old\n", "gone.txt": "gone\n"})
    made = (
        f"set -e\n{NOPE}; printf 'b\\r\\n' > 'new\nline.txt'; ln -s nowhere link.txt; chmod +x old.txt; rm gone.txt"
    )
    script = {"steps": {"one": [{"run": [made]}, {"run": ["echo better > old.txt"]}]}}
    run = row.start(unseen(yaml.safe_dump(script)), flow="row", code=4)
    said = "git add failed: fatal: failed to encode 'new\nline.txt' from NOPE-8 to UTF-8"
    assert row.json("status", run)["last_error"].startswith(said.partition("'")[0])
    kept = kept_tree(row, run, 1)
    assert {name: kept.get(name) for name in ("old.txt", "link.txt", "gone.txt")} == {
        "old.txt": b"a\r\n",
        "link.txt": b"nowhere",
        "gone.txt": None,
    }
    assert row.git("show", f"refs/swarm/{run}/rollback/1:new\nline.txt") == "b"

    row.swarm("resume")

    worktree = Path(row.json("status", run)["worktree"])
    assert row.git("status", "--porcelain", cwd=worktree) == ""
    assert row.git("show", f"shadow/{run}:old.txt") == "better"
    row.swarm("verify")


def test_edits_that_git_does_not_take_are_refused_or_set_aside(row: Project) -> None:
    row.commit({"old.txt": "old\n"})
    row.swarm("start", "row", "--until", "one")
    status = row.json("status")
    worktree, run = Path(status["worktree"]), status["run_id"]
    (worktree / ".gitattributes").write_text("*.txt text working-tree-encoding=NOPE-8\n", encoding="utf-8")
    (worktree / "old.txt").write_text("mine\n", encoding="utf-8")

    row.swarm("resume", "--adopt", code=1)
    assert (worktree / "old.txt").read_text("utf-8") == "mine\n"

    row.swarm("resume")
    assert kept_tree(row, run, 1)["old.txt"] == b"mine\n"
    assert row.git("show", f"shadow/{run}:old.txt") == "old"
