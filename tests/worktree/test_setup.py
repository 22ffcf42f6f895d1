"""A fresh worktree gets the files and the setup that the project needs, and nothing of it is committed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gitswarm.errors import SetupFailedError
from gitswarm.git.repository import open_repository
from gitswarm.processes import CommandLimits
from gitswarm.worktree.provisioning import Copied, copy_untracked, run_setup
from tests.conftest import Project
from tests.projects import evidence, only_run
from tests.unseen import unseen

ONE = "id: one\nsteps:\n  - {id: work, station: code-implementer}\n"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A worktree's folder."""
    folder = tmp_path / "target"
    folder.mkdir()
    return folder


def copied(project: Project, target: Path, *patterns: str) -> Copied:
    return copy_untracked(open_repository(project.root, project.env).checkout_git, target, patterns)


def contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize(
    ("patterns", "files"),
    [
        ((".env",), {".env": "top"}),
        (("**/.env",), {".env": "top", "src/.env": "src"}),
        (("src/.env", "conf/"), {"src/.env": "src", "conf/a.toml": "a", "conf/deep/b.toml": "b"}),
        (("conf",), {"conf/a.toml": "a", "conf/deep/b.toml": "b"}),
        (("conf/*.toml",), {"conf/a.toml": "a"}),
        (("*.toml", "none"), {}),
        ((), {}),
    ],
)
def test_untracked_files_are_copied_by_pattern(
    project: Project, target: Path, patterns: tuple[str, ...], files: dict[str, str]
) -> None:
    project.commit({".gitignore": ".env\n"})
    project.write({".env": "top", "src/.env": "src", "conf/a.toml": "a", "conf/deep/b.toml": "b"})
    assert copied(project, target, *patterns) == Copied(tuple(sorted(files)), ())
    assert contents(target) == files


def test_a_copied_file_keeps_its_mode(project: Project, target: Path) -> None:
    project.write({"tool": "#!/bin/sh\n"})
    (project.root / "tool").chmod(0o750)
    copied(project, target, "tool")
    assert (target / "tool").stat().st_mode & 0o777 == 0o750


def test_no_link_leads_a_copy_out_of_the_worktree(project: Project, target: Path, tmp_path: Path) -> None:
    """An agent may have put one there."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.toml").write_text("precious", encoding="utf-8")
    (target / "conf").symlink_to(outside)
    (target / ".env").symlink_to(outside / "a.toml")
    (target / "file").write_text("", encoding="utf-8")
    (target / "folder" / "inside").mkdir(parents=True)
    project.write({"conf/a.toml": "secret", "file/b.toml": "b", "folder": "c", ".env": "top"})
    source = open_repository(project.root, project.env).checkout_git
    done = copy_untracked(source, target, ["conf/", "file/", "folder", ".env"], lambda _name: False)
    why = "a link or a file is in the way of its folder"
    assert done == Copied((".env",), (("conf/a.toml", why), ("file/b.toml", why), ("folder", why)))
    assert contents(outside) == {"a.toml": "precious"}
    assert (target / ".env").read_text(encoding="utf-8") == "top"


def test_a_tracked_file_is_not_copied(project: Project, target: Path) -> None:
    project.commit({".env": "tracked"})
    project.write({".env": "changed"})
    assert copied(project, target, ".env") == Copied((), ())


def test_a_file_that_the_commit_has_is_not_overwritten(project: Project, target: Path) -> None:
    project.write({".env": "mine"})
    (target / ".env").write_text("committed", encoding="utf-8")
    assert copied(project, target, ".env") == Copied((), ((".env", "exists in the commit"),))
    assert contents(target) == {".env": "committed"}


@pytest.mark.parametrize("pattern", ["**/.env", "inner/.env", "inner", "inner/", "**"])
def test_the_border_of_a_nested_repository_is_never_crossed(project: Project, target: Path, pattern: str) -> None:
    project.git("init", "-q", "inner")
    project.write({"inner/.env": "not ours"})
    assert copied(project, target, pattern).files == ()
    assert contents(target) == {}


def test_a_nested_repository_that_was_asked_for_is_named_as_left_out(project: Project, target: Path) -> None:
    project.git("init", "-q", "inner")
    project.write({"inner/.env": "not ours"})
    assert copied(project, target, "inner") == Copied((), (("inner/", "a repository of its own"),))


@pytest.mark.parametrize("kind", ["file", "folder", "nothing"])
def test_a_link_that_leaves_the_repository_is_left_out(
    project: Project, target: Path, tmp_path: Path, kind: str
) -> None:
    outside = tmp_path / "outside"
    if kind == "file":
        outside.write_text("secret", encoding="utf-8")
    elif kind == "folder":
        outside.mkdir()
    (project.root / ".env").symlink_to(outside)
    assert copied(project, target, ".env") == Copied((), ((".env", "a link that leaves the repository"),))
    assert contents(target) == {}


def test_a_link_inside_the_repository_is_copied_as_what_it_shows(project: Project, target: Path) -> None:
    project.write({"conf/dev.env": "A=1\n"})
    (project.root / ".env").symlink_to("conf/dev.env")
    assert copied(project, target, ".env").files == (".env",)
    assert contents(target) == {".env": "A=1\n"}


@pytest.mark.parametrize("name", ["with space.env", "naïve.env", "new\nline.env", "[x].env", "-dash.env"])
def test_odd_names_are_copied(project: Project, target: Path, name: str) -> None:
    project.write({name: "x"})
    assert copied(project, target, "*.env") == Copied((name,), ())


def test_a_setup_command_that_succeeds_says_nothing(project: Project) -> None:
    run_setup("echo fine > made", project.root, project.env, CommandLimits(20))
    assert (project.root / "made").read_text(encoding="utf-8") == "fine\n"


@pytest.mark.parametrize(
    ("command", "timeout_s", "message"),
    [
        ("echo one; echo two >&2; exit 3", 20, "worktree.setup failed (exit code 3): {command}\none\ntwo"),
        ("exit 1", 20, "worktree.setup failed (exit code 1): {command}"),
        (
            "seq 1 40; false",
            20,
            "worktree.setup failed (exit code 1): {command}\n" + "\n".join(map(str, range(26, 41))),
        ),
        ("echo begun; exec tail -f /dev/null", 1, "worktree.setup failed (timed out after 1 s): {command}\nbegun"),
        ("no-such-command-x", 20, "worktree.setup failed (exit code 127): {command}\n"),
    ],
)
def test_a_setup_command_that_fails_is_told_with_the_end_of_its_output(
    project: Project, command: str, timeout_s: int, message: str
) -> None:
    with pytest.raises(SetupFailedError) as caught:
        run_setup(command, project.root, project.env, CommandLimits(timeout_s))
    assert caught.value.message.startswith(message.replace("{command}", command))


def test_a_setup_command_is_not_led_astray_by_git_variables(project: Project) -> None:
    run_setup(
        "git rev-parse --show-toplevel > top", project.root, {**project.env, "GIT_DIR": "/nowhere"}, CommandLimits(20)
    )
    assert (project.root / "top").read_text(encoding="utf-8").strip() == str(project.root)


# --- through a whole run ----------------------------------------------------------------------------------------


def configured(project: Project, config: str) -> None:
    project.commit({".swarm/config.yaml": config, ".swarm/flows/one.yaml": ONE})


def test_copied_files_lie_in_the_worktree_and_in_no_commit(project: Project) -> None:
    configured(project, "worktree: {copy: [.env, conf]}\n")
    project.write({".env": "SECRET=1\n", "conf/a.toml": "a\n"})
    seen = "cat .env conf/a.toml > seen.txt; echo b > conf/b.toml"
    project.swarm("start", "one", "--script", project.script(f'default: {{run: ["{seen}"]}}'))
    run = only_run(project)
    stored = project.git("log", "--format=", "--name-only", f"shadow/{run}").splitlines()
    code = {name for name in stored if not name.startswith(".swarm/")}
    assert code == {"README.md", "src/app.py", "seen.txt", "conf/b.toml"}
    assert project.git("show", f"shadow/{run}:seen.txt") == "SECRET=1\na"


def test_a_copied_file_that_the_agent_changes_is_in_no_commit(project: Project) -> None:
    configured(project, "worktree: {copy: [.env]}\n")
    project.write({".env": "SECRET=1\n"})
    script = project.script(unseen('default: {run: ["echo SECRET=2 >> .env", "git add -f .env"]}'))
    project.swarm("start", "one", "--script", script)
    assert project.git("log", "--format=%h", f"shadow/{only_run(project)}", "--", ".env") == ""


def test_copied_files_are_announced_and_those_left_out_with_the_reason(project: Project, tmp_path: Path) -> None:
    configured(project, "worktree: {copy: [.env, link]}\n")
    project.write({".env": "x"})
    (project.root / "link").symlink_to(tmp_path)
    done = project.swarm("start", "one", "--script", project.script("{}"))
    notices = [line for line in done.stderr.splitlines() if line.startswith(("copied", "not copied"))]
    assert notices == [
        "copied into the worktree, never committed: .env",
        "not copied: link: a link that leaves the repository",
    ]


def test_a_failing_setup_is_exit_code_1_with_the_end_of_its_output(project: Project) -> None:
    configured(project, 'worktree: {setup: "echo installing; echo no network >&2; exit 7"}\n')
    done = project.swarm("start", "one", "--script", project.script("{}"), code=1)
    lines = [line for line in done.stderr.splitlines() if line.startswith(("git-swarm:", "hint:"))]
    assert lines[:-1] == [
        "git-swarm: worktree.setup failed (exit code 7): echo installing; echo no network >&2; exit 7",
        "git-swarm: installing",
        "git-swarm: no network",
    ]
    assert lines[-1].startswith("hint: fix the command or what it needs, then: git swarm resume")


def test_a_run_whose_setup_failed_goes_on_when_it_is_mended(project: Project) -> None:
    configured(project, 'worktree: {setup: "test -e $HOME/network"}\n')
    project.swarm("start", "one", "--script", project.script("{}"), code=1)
    why = "worktree.setup failed (exit code 1): test -e $HOME/network"
    assert project.json("status")["last_error"] == why
    assert f"  error     {why}\n" in project.swarm("status").stdout
    (Path(project.env["HOME"]) / "network").touch()
    project.swarm("resume")
    assert project.json("status")["last_error"] is None
    assert evidence(project, "one/work")["tampered"] == []


def test_a_setup_that_does_not_end_is_ended(project: Project) -> None:
    configured(project, 'worktree: {setup: "echo waiting; exec tail -f /dev/null", setup_timeout: 1}\n')
    done = project.swarm("start", "one", "--script", project.script("{}"), code=1)
    assert "git-swarm: waiting" in done.stderr.splitlines()


def test_setup_runs_once_for_a_worktree_and_again_for_a_new_one(project: Project) -> None:
    configured(project, 'worktree: {setup: "echo set up >> $HOME/setups; echo x > made.txt"}\n')
    setups = Path(project.env["HOME"]) / "setups"
    script = project.script("steps: {work: [{fail: once}, {fail: twice}, {}]}")
    project.swarm("start", "one", "--script", script, code=4)
    project.swarm("resume", code=4)
    once = setups.read_text(encoding="utf-8").count("set up")
    shutil.rmtree(project.root.parent / "repo.swarm" / only_run(project))
    project.swarm("resume")
    assert (once, setups.read_text(encoding="utf-8").count("set up")) == (1, 2)
