"""What a script of an agent tries, in the sandbox and without it: the same lines, measured from outside."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import Project, new_project
from tests.fingerprint import fingerprint
from tests.projects import ask
from tests.safety.sandbox.conftest import confined_environment, needs_bwrap

pytestmark = needs_bwrap

ATTACKS = {
    "write outside": 'echo x > "$MAIN/evil.txt"',
    "filter": (
        'printf "[filter \\"evil\\"]\\nclean = \\"touch $WORLD/filtered; cat\\"\\n" >> "$COMMON/config";'
        ' echo "hello.txt filter=evil" > .gitattributes; echo hi > hello.txt'
    ),
    "hook": 'mkdir -p "$COMMON/hooks"; echo "#!/bin/sh" > "$COMMON/hooks/post-merge"',
    "new branch": "git update-ref refs/heads/evil HEAD",
    "main moved": 'git rev-parse HEAD > "$COMMON/refs/heads/main"',
    "new tag": 'git rev-parse HEAD > "$COMMON/refs/tags/evil"',
    "other run": 'rm -f "$COMMON/refs/heads/shadow/other"',
    "HEAD of the checkout": 'echo "ref: refs/heads/evil" > "$COMMON/HEAD"',
    "index of the checkout": 'echo x >> "$COMMON/index"',
    "exclude": 'mkdir -p "$COMMON/info"; echo "*.nothing" >> "$COMMON/info/exclude"',
    "attributes": 'mkdir -p "$COMMON/info"; echo "*.nothing text" > "$COMMON/info/attributes"',
    "alternates": 'mkdir -p "$COMMON/objects/info"; echo /nowhere > "$COMMON/objects/info/alternates"',
    "object store": 'touch "$COMMON/objects/evil"',
    "hard link": 'ln "$MAIN/README.md" hard && echo x >> hard; rm -f hard',
    "symbolic link": 'ln -s "$MAIN/src/app.py" soft && echo x >> soft; rm -f soft',
    "global configuration": "git config --global evil.key value",
    "shell profile": "echo x >> ~/.bashrc",
    "admin folder": 'cp -r "$ADMIN" "$ADMIN.copy" && echo evil > "$ADMIN.copy/made"',
    "inbox": 'mkdir -p "$COMMON/swarm/inbox/run-evil"',
    "pointer": (
        'cp .git pointer; rm -f .git; echo "gitdir: /nowhere" > .git && touch pointed; cp pointer .git; rm pointer'
    ),
    "key": "cat ~/.ssh/id_rsa > stolen.txt",
    "token of the remote": 'git config --get remote.origin.url > url.txt; cat "$COMMON/config" >> url.txt',
    "environment of others": "tr '\\0' '\\n' < /proc/$PROCESS/environ > environ.txt",
    "signal": "kill -9 $PROCESS",
    "socket": (
        "python3 -c 'import socket,sys; s=socket.socket(socket.AF_UNIX);"
        ' s.connect(sys.argv[1]); s.send(b"x"); s.close()\' "$WORLD/door"'
    ),
    "kernel setting": 'python3 -c \'open("/proc/sys/kernel/core_pattern","a")\' && touch opened',
    "system file": "[ -w /etc/passwd ] && touch wrote-passwd",
    "capabilities": "python3 -c 'import os; os.mknod(\"node\", 0o20600, os.makedev(1, 3))'",
    "shared memory": "touch /dev/shm/$MARK",
    "temporary folder": "touch /tmp/$MARK",
    "left behind": (
        'python3 -c \'import subprocess,sys; subprocess.Popen(["sh","-c","sleep 2; touch $WORLD/late"],'
        ' env={"WORLD": sys.argv[1], "PATH": "/bin:/usr/bin"}, start_new_session=True)\' "$WORLD"'
    ),
}

PUT_BACK = {"filter", "hook", "new branch", "exclude", "attributes", "left behind"}
"""What is undone after the step where there is no sandbox."""
ROOTS = {"kernel setting", "system file", "capabilities"}
"""What only root can do without the sandbox."""


@dataclass(frozen=True)
class Scene:
    project: Project
    token: str
    process: subprocess.Popen[bytes]
    knocks: list[bytes]

    @property
    def world(self) -> Path:
        return self.project.root.parent

    def play(self) -> Path:
        """Executes all attacks in one step; the worktree."""
        lines = [
            f"WORLD={self.world} MAIN={self.project.root} MARK={self.token} PROCESS={self.process.pid}",
            'COMMON=$(git rev-parse --git-common-dir) ADMIN="$(git rev-parse --git-dir)"',
            "export WORLD MARK PROCESS",
            *(f"{{ {line}; }} >/dev/null 2>&1" for line in ATTACKS.values()),
            "rm x.sh; echo played > played.txt",
        ]
        script = self.world.parent / "script.yaml"
        indented = "\n".join(f"          {line}" for line in lines)
        script.write_text(
            "steps:\n  build/implement:\n    - write:\n        x.sh: |\n" + indented + "\n      run: [sh x.sh]\n",
            "utf-8",
        )
        ask(self.project, "start", "build", "--script", str(script), "--until", "implement")
        time.sleep(2.5)  # for what was left behind
        worktree = next((self.world / "repo.swarm").glob("run-*"))
        assert (worktree / "played.txt").exists()
        return worktree

    def harmed(self, worktree: Path) -> set[str]:
        """Names of the attacks whose effect can be seen."""
        common, home = self.project.root / ".git", self.world / "home"

        def text(path: Path) -> str:
            return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""

        seen = {
            "write outside": (self.project.root / "evil.txt").exists(),
            "filter": (self.world / "filtered").exists(),
            "hook": (common / "hooks/post-merge").exists(),
            "new branch": (common / "refs/heads/evil").exists(),
            "main moved": text(common / "refs/heads/main") != self.main,
            "new tag": (common / "refs/tags/evil").exists(),
            "other run": not (common / "refs/heads/shadow/other").exists(),
            "HEAD of the checkout": "evil" in text(common / "HEAD"),
            "index of the checkout": text(common / "index").endswith("x\n"),
            "exclude": "*.nothing" in text(common / "info/exclude"),
            "attributes": (common / "info/attributes").exists(),
            "alternates": (common / "objects/info/alternates").exists(),
            "object store": (common / "objects/evil").exists(),
            "hard link": text(self.project.root / "README.md").endswith("x\n"),
            "symbolic link": text(self.project.root / "src/app.py").endswith("x\n"),
            "global configuration": "evil" in text(home / ".gitconfig"),
            "shell profile": (home / ".bashrc").exists(),
            "admin folder": bool(list((common / "worktrees").glob("*.copy"))),
            "inbox": (common / "swarm/inbox/run-evil").exists(),
            "pointer": (worktree / "pointed").exists(),
            "key": "PLANTED" in text(worktree / "stolen.txt"),
            "token of the remote": "t0ken" in text(worktree / "url.txt"),
            "environment of others": "PLANTED" in text(worktree / "environ.txt"),
            "signal": self.process.poll() is not None,
            "socket": bool(self.knocks),
            "kernel setting": (worktree / "opened").exists(),
            "system file": (worktree / "wrote-passwd").exists(),
            "capabilities": os.path.lexists(worktree / "node"),
            "shared memory": Path("/dev/shm", self.token).exists(),
            "temporary folder": Path("/tmp", self.token).exists(),
            "left behind": (self.world / "late").exists(),
        }
        assert set(seen) == set(ATTACKS)
        return {name for name, harm in seen.items() if harm}

    @property
    def main(self) -> str:
        return self.project.git("rev-parse", "refs/swarm/test-main") + "\n"


@contextmanager
def scene(folder: Path, *, sandbox: str) -> Iterator[Scene]:
    world = folder / "world"
    world.mkdir(parents=True)
    env = confined_environment(world / "home")
    project = new_project(world / "repo", env)
    project.git("config", "--global", "swarm.policy.sandbox", sandbox)
    project.git("config", "remote.origin.url", "https://user:t0ken@example.org/x.git")
    (world / "home/.ssh").mkdir()
    (world / "home/.ssh/id_rsa").write_text("PLANTED\n", encoding="utf-8")
    project.git("update-ref", "refs/heads/shadow/other", "HEAD")
    project.git("update-ref", "refs/swarm/test-main", "HEAD")
    token = f"evil-{secrets.token_hex(8)}"
    knocks: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as door:
        here = Path.cwd()
        os.chdir(world)  # an address has room for 100 characters
        door.bind("door")
        os.chdir(here)
        door.listen()

        def attend() -> None:
            while True:
                try:
                    caller, _address = door.accept()
                except OSError:
                    return
                with caller:
                    knocks.append(caller.recv(1))

        threading.Thread(target=attend, daemon=True).start()
        process = subprocess.Popen(["sleep", "600"], env={"KEY": "PLANTED", "PATH": os.environ["PATH"]})
        try:
            yield Scene(project, token, process, knocks)
        finally:
            process.kill()
            process.wait()
            door.shutdown(socket.SHUT_RDWR)
            for folder_ in ("/dev/shm", "/tmp"):
                Path(folder_, token).unlink(missing_ok=True)


def test_nothing_gets_out_of_the_sandbox(tmp_path: Path) -> None:
    with scene(tmp_path, sandbox="require") as played:
        before = fingerprint(played.world)
        worktree = played.play()
        assert played.harmed(worktree) == set()
        assert fingerprint(played.world).entries == before.entries
        run = played.project.json("list")[0]["run_id"]
        played.project.swarm("verify", run)
        assert list((played.project.root / ".git/swarm/sessions").glob("*/*")) == []


def test_without_it_the_same_lines_do_harm(tmp_path: Path) -> None:
    """So that the test above can fail."""
    with scene(tmp_path, sandbox="off") as played:
        harmed = played.harmed(played.play())
        expected = set(ATTACKS) - PUT_BACK - (set() if os.geteuid() == 0 else ROOTS)
        assert (expected - harmed, PUT_BACK & harmed) == (set(), set())
