"""Guarantee 2: a run that was not landed leaves everything of the user byte-identical."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Project
from tests.fingerprint import fingerprint
from tests.unseen import unseen_line

FLOW = """\
id: visit
steps:
  - {id: work, station: visitor, teaching: {outputs: [notes.md, "src/**"]}}
  - {id: check, engine: command, command: {run: "test -e src/new.py"}}
"""
STATION = """\
id: visitor
title: Visitor
category: implementation
identity: You leave no trace elsewhere.
invariants: [Nothing but the worktree changes.]
"""
WORK = """
      write: {src/new.py: "new = 1\\n", src/app.py: "print('changed')\\n", RUN_BASE/visit/notes.md: "seen\\n"}
      delete: [README.md]
"""
SCRIPTS = {
    "succeeded": f"steps:\n  work:\n    - {WORK.strip()}\n",
    "failed": f"steps:\n  work:\n    - {WORK.strip()}\n      fail: model overloaded\n",
    "paused": f"steps:\n  work:\n    - {WORK.strip()}\n      status: BLOCKED\n      blockers: [a question]\n",
    "killed": f"steps:\n  work:\n    - {WORK.strip()}\n"
    f"""      run: [{unseen_line('[ "$SWARM_ITERATION" != 1 ] || kill -9 "$PPID"')}]\n""",
}
"""How a run may end. The killed one kills its owner, git-swarm, in the first execution of a step."""
EXIT_CODES = {"succeeded": 0, "failed": 4, "paused": 5, "killed": -9}

HOOKS = (
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-rewrite",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "prepare-commit-msg",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
)
"""Every hook that git could run on a user's machine."""

Arrange = Callable[[Project], Project]
"""Brings a lived-in repository into some state; where the user then stands."""


@pytest.fixture
def home(project: Project) -> Project:
    """A repository that somebody has lived in for a while: the user's checkout is clean."""
    world = project.root.parent
    project.commit(
        {
            ".gitignore": "*.o\n.env\n",
            ".swarm/flows/visit.yaml": FLOW,
            ".swarm/flows/stations/visitor.yaml": STATION,
            "tool.sh": "#!/bin/sh\n",
            "text.txt": "one\ntwo\nthree\n",
        },
        "second",
    )
    (project.root / "tool.sh").chmod(0o755)
    (project.root / "link").symlink_to("tool.sh")
    (project.root / "dangling").symlink_to("nowhere")
    project.commit({}, "third")
    project.git("tag", "light")
    project.git("tag", "-a", "-m", "heavy", "heavy")
    project.git("clone", "-q", "--bare", ".", str(world / "origin.git"))
    project.git("remote", "add", "origin", str(world / "origin.git"))
    project.git("fetch", "-q", "origin")
    project.git("branch", "-q", "--set-upstream-to=origin/main")
    project.git("pack-refs", "--all")
    project.git("switch", "-q", "-c", "feature")
    project.commit({"text.txt": "one\nTWO of the feature\nthree\n"}, "on the feature")
    project.git("branch", "shadowy")
    project.git("switch", "-q", "main")
    project.commit({"text.txt": "one\nTWO of main\nthree\n"}, "on main")
    project.write({"text.txt": "to be stashed\n"})
    project.git("stash", "push", "-q", "-m", "later")
    project.git("notes", "add", "-m", "a note of the user")
    project.git("reset", "-q", "--hard", "HEAD")
    project.git("config", "extensions.worktreeConfig", "true")
    project.git("config", "--worktree", "user.signingKey", "none")
    project.write({"a.o": "ignored\n", ".env": "SECRET=1\n", ".git/info/exclude": "*.local\n", "my.local": "mine\n"})
    (project.root / "empty").mkdir()
    return project


def clean(home: Project) -> Project:
    return home


def dirty(home: Project) -> Project:
    """Staged, unstaged, both in one file, deleted, intended to be added, untracked, ignored."""
    home.write({"text.txt": "staged\n", "staged.txt": "staged\n"})
    home.git("add", "text.txt", "staged.txt")
    home.git("rm", "-q", "--cached", "tool.sh")
    home.write({"text.txt": "staged, then changed\n", "untracked.txt": "untracked\n", "meant.txt": "meant\n"})
    home.git("add", "--intent-to-add", "meant.txt")
    (home.root / "link").unlink()
    return home


def merging(home: Project) -> Project:
    _in_conflict(home, "merge", "feature")
    return home


def rebasing(home: Project) -> Project:
    _in_conflict(home, "rebase", "feature")
    return home


def picking(home: Project) -> Project:
    _in_conflict(home, "cherry-pick", "feature")
    return home


def detached(home: Project) -> Project:
    home.git("checkout", "-q", "--detach", "HEAD~1")
    return home


def subfolder(home: Project) -> Project:
    return replace(home, root=home.root / "src")


def linked(home: Project) -> Project:
    """A worktree that the user added, with changes of its own."""
    folder = home.root.parent / "linked"
    home.git("worktree", "add", "-q", "-b", "elsewhere", str(folder))
    stands = replace(home, root=folder)
    return dirty(stands)


def of_a_bare_clone(home: Project) -> Project:
    world = home.root.parent
    home.git("clone", "-q", "--bare", ".", str(world / "bare.git"))
    home.git("--git-dir", str(world / "bare.git"), "worktree", "add", "-q", str(world / "tree"), "main")
    return dirty(replace(home, root=world / "tree"))


def _in_conflict(home: Project, *arguments: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(f"git ('{arguments[0]}'")):
        home.git(*arguments)
    assert "UU text.txt" in home.git("status", "--porcelain")


def with_hooks(home: Project) -> Project:
    for name in HOOKS:
        _program(home.root / ".git" / "hooks" / name, _trace(home, name))
    return home


def with_hooks_path(home: Project) -> Project:
    for name in HOOKS:
        _program(home.root / ".husky" / name, _trace(home, name))
    home.git("config", "core.hooksPath", ".husky")
    (home.root.parent / "trace").unlink(missing_ok=True)
    return home


def with_a_monitor(home: Project) -> Project:
    monitor = home.root.parent / "monitor"
    _program(monitor, _trace(home, "monitor"))
    home.git("config", "core.fsmonitor", str(monitor))
    return home


def with_a_broken_signer(home: Project) -> Project:
    signer = home.root.parent / "signer"
    _program(signer, f"{_trace(home, 'signer')}exit 1\n")
    home.git("config", "gpg.program", str(signer))
    home.git("config", "commit.gpgSign", "true")
    home.git("config", "tag.gpgSign", "true")
    home.git("config", "user.signingKey", "ABCDEF")
    return home


def without_identity(home: Project) -> Project:
    config = Path(home.env["HOME"]) / ".gitconfig"
    config.write_text("[user]\n    useConfigOnly = true\n[init]\n    defaultBranch = main\n", encoding="utf-8")
    return home


def with_autocrlf(home: Project) -> Project:
    home.git("config", "core.autocrlf", "true")
    home.git("config", "core.safecrlf", "true")
    home.git("rm", "-q", "--cached", "-r", ".")
    home.git("reset", "-q", "--hard")
    assert (home.root / "text.txt").read_bytes() == b"one\r\nTWO of main\r\nthree\r\n"
    return home


def with_a_split_index(home: Project) -> Project:
    home.git("update-index", "--split-index", "--untracked-cache")
    home.git("config", "core.splitIndex", "true")
    return home


def with_a_sparse_checkout(home: Project) -> Project:
    home.git("sparse-checkout", "set", "--cone", "src")
    return home


def with_an_ignored_file_to_copy(home: Project) -> Project:
    home.write({".swarm/config.yaml": "worktree: {copy: [.env]}\n"})
    home.git("add", ".swarm/config.yaml")
    home.git("commit", "-q", "-m", "copy .env")
    return home


def with_runs_ignored(home: Project) -> Project:
    home.write({".gitignore": "*.o\n.env\n.swarm/runs/\n"})
    home.git("commit", "-q", "-a", "-m", "ignore runs")
    return home


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}", encoding="utf-8")
    path.chmod(0o755)


def _trace(home: Project, name: str) -> str:
    """A file that appears where the fingerprint looks."""
    return f"echo {name} >> '{home.root.parent}/trace'\n"


PLACES: tuple[Arrange, ...] = (
    clean,
    dirty,
    merging,
    rebasing,
    picking,
    detached,
    subfolder,
    linked,
    of_a_bare_clone,
)
SETTINGS: tuple[Arrange, ...] = (
    with_hooks,
    with_hooks_path,
    with_a_monitor,
    with_a_broken_signer,
    without_identity,
    with_autocrlf,
    with_a_split_index,
    with_a_sparse_checkout,
    with_an_ignored_file_to_copy,
    with_runs_ignored,
)


@contextmanager
def untouched(world: Path) -> Iterator[None]:
    """The block changes nothing of the user's."""
    before = fingerprint(world)
    yield
    after = fingerprint(world)
    assert after.entries == before.entries
    assert before.objects <= after.objects


def visit(user: Project, ending: str) -> None:
    """A run that ends like this; a killed one is resumed."""
    start = ("start", "visit", "--script", str(_script(user)))
    if ending == "killed":
        done = subprocess.run(user.argv(*start), cwd=user.root, env=dict(user.env), capture_output=True, check=False)
        assert done.returncode == EXIT_CODES[ending], done.stderr
        user.swarm("resume")
    else:
        user.swarm(*start, code=EXIT_CODES[ending])


def _script(user: Project) -> Path:
    return Path(user.env["HOME"]) / "script.yaml"


def prepared(home: Project, arrange: Arrange, ending: str) -> Project:
    user = arrange(home)
    _script(user).write_text(SCRIPTS[ending], encoding="utf-8")
    return user


@pytest.mark.parametrize("arrange", PLACES)
def test_a_run_leaves_a_checkout_untouched(home: Project, tmp_path: Path, arrange: Arrange) -> None:
    user = prepared(home, arrange, "succeeded")
    with untouched(tmp_path):
        visit(user, "succeeded")


@pytest.mark.parametrize("arrange", SETTINGS)
def test_a_run_ends_well_and_leaves_everything_untouched(home: Project, tmp_path: Path, arrange: Arrange) -> None:
    user = prepared(home, arrange, "succeeded")
    with untouched(tmp_path):
        visit(user, "succeeded")


@pytest.mark.parametrize("ending", ["failed", "paused", "killed"])
def test_a_run_that_does_not_succeed_leaves_everything_untouched(home: Project, tmp_path: Path, ending: str) -> None:
    user = prepared(home, dirty, ending)
    with untouched(tmp_path):
        visit(user, ending)


@pytest.mark.soak
@pytest.mark.parametrize("ending", ["failed", "paused", "killed"])
@pytest.mark.parametrize("arrange", [*PLACES, *SETTINGS])
def test_any_run_leaves_any_checkout_untouched(home: Project, tmp_path: Path, arrange: Arrange, ending: str) -> None:
    user = prepared(home, arrange, ending)
    with untouched(tmp_path):
        visit(user, ending)


def test_looking_at_a_run_leaves_everything_untouched(home: Project, tmp_path: Path) -> None:
    user = prepared(home, dirty, "succeeded")
    visit(user, "succeeded")
    with untouched(tmp_path):
        for command in ("log", "show", "diff", "status", "list", "events"):
            user.swarm(command)


def test_a_refused_start_leaves_everything_untouched(home: Project, tmp_path: Path) -> None:
    user = prepared(home, dirty, "succeeded")
    with untouched(tmp_path):
        user.swarm("start", "no-such-flow", code=1)
    assert user.json("list") == []


def test_the_fingerprint_sees_every_kind_of_change(home: Project, tmp_path: Path) -> None:
    changes: dict[str, Callable[[], object]] = {
        "repo/text.txt": lambda: home.write({"text.txt": "changed\n"}),
        "repo/tool.sh": lambda: (home.root / "tool.sh").chmod(0o644),
        "repo/my.local": (home.root / "my.local").unlink,
        "repo/.git/index": lambda: home.git("add", "text.txt"),
        "repo/.git/HEAD": lambda: home.git("symbolic-ref", "HEAD", "refs/heads/feature"),
        "repo/.git/config": lambda: home.git("config", "a.b", "c"),
        "repo/.git/config.worktree": lambda: home.git("config", "--worktree", "a.b", "c"),
        "repo/.git/refs/stash": lambda: home.git("stash", "drop", "-q"),
        "repo/.git/refs/tags/new": lambda: home.git("update-ref", "refs/tags/new", "HEAD"),
        "repo/.git/refs/remotes/origin/new": lambda: home.git("update-ref", "refs/remotes/origin/new", "HEAD"),
        "repo/.git/refs/heads/new": lambda: home.git("update-ref", "refs/heads/new", "HEAD"),
        "repo/.git/logs/refs/heads/shadowy": lambda: home.git("reflog", "expire", "--expire=now", "shadowy"),
        "repo/.git/hooks/pre-push": lambda: home.write({".git/hooks/pre-push": "true\n"}),
        "repo/.git/ORIG_HEAD": lambda: home.git("update-ref", "ORIG_HEAD", "feature~1"),
        "repo/.git/info/exclude": lambda: home.write({".git/info/exclude": "\n"}),
        "home/.gitconfig": lambda: home.git("config", "--global", "a.b", "c"),
    }
    for name, change in changes.items():
        before = fingerprint(tmp_path).entries
        change()
        after = fingerprint(tmp_path).entries
        assert before.get(name) != after.get(name), name
