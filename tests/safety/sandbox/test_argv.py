"""The command lines and texts that a sandbox is made of."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gitswarm.safety.sandbox.backends import NAMESPACES, Bubblewrap, Sandbox, Seatbelt, profile
from gitswarm.safety.sandbox.limits import Limits
from gitswarm.safety.sandbox.mounts import (
    Machine,
    covered,
    emptied,
    entries_of,
    identity_config,
    look_around,
    ordered,
    replaced,
    shown,
    shown_config,
    unreadable,
    virtual_environment,
    writable,
)

SMALL = Limits(temporary=1, shared_memory=2, home=3, growth=4, processes=5, threads=6)


def test_the_whole_line() -> None:
    machine = Machine((shown(Path("/usr")),), (("usr/bin", "/bin"),), Path("/home/u"))
    backend = Bubblewrap("/x/bwrap", NAMESPACES[0], machine, "/usr/bin/prlimit", SMALL)
    backend = backend.showing(shown(Path("/home/u/r/.git"))).opened(write=(Path("/home/u/r.swarm/w"),))
    assert backend.wrap(["sh", "-c", "true"]) == [
        "/x/bwrap",
        *("--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--new-session"),
        *("--die-with-parent", "--cap-drop", "ALL"),
        *("--symlink", "usr/bin", "/bin"),
        *("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"),
        *("--size", "2", "--tmpfs", "/dev/shm"),
        *("--size", "3", "--tmpfs", "/home/u"),
        *("--ro-bind-try", "/home/u/r/.git", "/home/u/r/.git"),
        *("--bind", "/home/u/r.swarm/w", "/home/u/r.swarm/w"),
        *("--size", "1", "--tmpfs", "/tmp"),
        *("--ro-bind-try", "/usr", "/usr"),
        *("--dir", "/run", "--dir", "/var", "--symlink", "/tmp", "/var/tmp"),
        *("--remount-ro", "/dev", "--remount-ro", "/", "--"),
        *("/usr/bin/prlimit", "--nproc=6", "--fsize=4", "--core=0", "--"),
        *("sh", "-c", "true"),
    ]


def test_without_network_and_without_prlimit() -> None:
    backend = Bubblewrap("bwrap", (), Machine((), (), None), network="none")
    line = backend.wrap(["true"])
    assert line[:2] == ["bwrap", "--unshare-net"]
    assert line[-2:] == ["--", "true"]


def test_mounts_go_from_the_outside_in_and_none_is_made_twice() -> None:
    repository, worktree = Path("/h/r/.git"), Path("/h/w")
    mounts = [
        shown(worktree / ".git"),
        writable(worktree),
        covered(repository / "config", Path("/x")),
        shown(repository),
        shown(repository / "hooks"),
        replaced(repository / "objects", Path("/y")),
        shown(repository / "objects" / "pack"),
        emptied(Path("/h"), 7),
        shown(Path("/h/r/.git")),
    ]
    assert ordered(mounts) == [
        emptied(Path("/h"), 7),
        shown(repository),
        covered(repository / "config", Path("/x")),
        replaced(repository / "objects", Path("/y")),
        shown(repository / "objects" / "pack"),
        writable(worktree),
        shown(worktree / ".git"),
    ]


def test_a_shown_configuration_has_no_way_to_anything(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        """
[core]
    repositoryformatversion = 1
    bare
    sshCommand = ssh -i key
    hooksPath = .husky
[extensions]
    worktreeConfig = true
    partialClone = origin
[remote "origin"]
    url = https://user:s3cret@example.org/x.git
    pushurl = git@example.org:x.git
    proxy = http://p
[remote "we\\\\ird \\"name"]
    url = ../other
[http "https://example.org/"]
    extraheader = Authorization: Basic s3cret
    cookieFile = ~/.cookies
[credential]
    helper = store
[url "https://tok@example.org/"]
    insteadOf = gh:
[includeIf "gitdir:~/work/"]
    path = ~/secret
[user]
    name = "  A  # B"
    email = a@b
[filter "lfs"]
    clean = git-lfs clean -- %f
[myservice]
    apiKey = s3cret
[alias]
    x = "!echo \\"a\\nb\\""
""",
        encoding="utf-8",
    )

    def listed(file: Path) -> list[tuple[str, str | None]]:
        argv = ["git", "config", "--file", str(file), "--no-includes", "--list", "-z"]
        return entries_of(subprocess.run(argv, capture_output=True, check=True).stdout)

    out = tmp_path / "shown"
    out.write_text(shown_config(listed(path)), encoding="utf-8")
    assert "s3cret" not in out.read_text(encoding="utf-8")
    assert listed(out) == [
        ("core.repositoryformatversion", "1"),
        ("core.bare", None),
        ("extensions.worktreeconfig", "true"),
        ("extensions.partialclone", "origin"),
        ("remote.origin.url", "https://example.org/x.git"),
        ("remote.origin.pushurl", "git@example.org:x.git"),
        ('remote.we\\ird "name.url', "../other"),
        ("user.name", "  A  # B"),
        ("user.email", "a@b"),
        ("filter.lfs.clean", "git-lfs clean -- %f"),
        ("alias.x", '!echo "a\nb"'),
    ]


def test_an_identity_is_a_configuration_of_its_own() -> None:
    assert identity_config("A", "a@b").startswith('[user]\n\tname = "A"\n[user]\n\temail = "a@b"\n')


def test_a_machine_shows_tools_and_not_the_home(tmp_path: Path) -> None:
    home, python = tmp_path / "home", tmp_path / "python"
    for folder in (home / ".ssh", home / ".cargo/bin", home / "bin", python / "bin", home / "venv/bin"):
        folder.mkdir(parents=True)
    (home / "venv/pyvenv.cfg").write_text(f"home = {python}/bin\nversion = 3\n", encoding="utf-8")
    path = f"{home}/venv/bin:/usr/bin:relative:{home}/bin:{home}/missing:{home}"
    machine = look_around({"PATH": path}, home)
    targets = {mount.target for mount in machine.mounts}
    assert {Path("/usr"), Path("/etc"), home / ".cargo/bin", home / "bin", home / "venv", python} <= targets
    assert not {home, home / ".ssh", home / ".cargo", tmp_path, Path("relative")} & targets
    assert all(mount.kind in ("read", "empty") for mount in machine.mounts)
    assert machine.home == home


def test_a_home_that_is_the_system_is_not_replaced() -> None:
    assert look_around({}, Path("/")).home is None
    assert look_around({}, Path("/usr")).home is None


def test_root_does_not_see_what_only_root_may_read(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = covered(Path("/etc/shadow"), Path(os.devnull))
    assert Path("/etc/shadow").is_file()
    for user, is_hidden in ((0, True), (1000, False)):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert (hidden in look_around({}, None).mounts) == is_hidden


def test_what_others_may_not_read_is_covered(tmp_path: Path) -> None:
    modes = {"open": 0o755, "open/key": 0o640, "open/text": 0o644, "named": 0o711, "named/key": 0o600, "shut": 0o710}
    for name, mode in modes.items():
        path = tmp_path / name
        path.touch() if "/" in name else path.mkdir()
        path.chmod(mode)
    (tmp_path / "shut/key").touch()
    (tmp_path / "link").symlink_to("shut/key")
    assert set(unreadable(str(tmp_path))) == {
        covered(tmp_path / "open/key", Path(os.devnull)),
        covered(tmp_path / "named/key", Path(os.devnull)),
        emptied(tmp_path / "shut", 4096),
    }


def test_a_folder_without_a_virtual_environment_needs_nothing(tmp_path: Path) -> None:
    assert list(virtual_environment(tmp_path)) == []


def test_a_profile_for_macos() -> None:
    mounts = [
        writable(Path("/Users/u/w")),
        shown(Path("/Users/u/w/.git")),
        shown(Path("/Users/u/r/.git")),
        covered(Path("/Users/u/r/.git/config"), Path("/x")),
        shown(Path('/Users/u/a"b')),
    ]
    assert profile(Path("/Users/u"), mounts) == (
        "(version 1)\n"
        "(allow default)\n"
        "(deny file-write*)\n"
        '(deny file-read* (subpath "/Users/u"))\n'
        '(allow file-read-metadata (subpath "/Users/u"))\n'
        '(allow file-write* (subpath "/private/tmp"))\n'
        '(allow file-write* (subpath "/private/var/folders"))\n'
        '(allow file-write* (subpath "/dev"))\n'
        '(allow file-read* (subpath "/Users/u/a\\"b"))\n'
        '(deny file-write* (subpath "/Users/u/a\\"b"))\n'
        '(allow file-read* (subpath "/Users/u/r/.git"))\n'
        '(deny file-write* (subpath "/Users/u/r/.git"))\n'
        '(deny file-read* file-write* (subpath "/Users/u/r/.git/config"))\n'
        '(allow file-read* file-write* (subpath "/Users/u/w"))\n'
        '(allow file-read* (subpath "/Users/u/w/.git"))\n'
        '(deny file-write* (subpath "/Users/u/w/.git"))\n'
    )


@pytest.mark.parametrize(
    ("user", "prlimit", "groups", "kept"),
    [
        (1000, "/usr/bin/prlimit", None, "by the kernel"),
        (1000, None, None, "counted: there is no prlimit"),
        (0, "/usr/bin/prlimit", Path("/sys/fs/cgroup/x"), "by a control group"),
        (0, "/usr/bin/prlimit", None, "counted: root, and no control group"),
    ],
)
def test_people_are_told_what_keeps_the_number_of_processes(
    monkeypatch: pytest.MonkeyPatch, user: int, prlimit: str | None, groups: Path | None, kept: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    backend = Bubblewrap("bwrap", (), Machine((), (), None), prlimit, groups=groups)
    assert Sandbox(backend).limits == f"processes: {kept}; memory: watched"
    assert Sandbox().limits == Sandbox(Seatbelt(None)).limits == ""
