"""A user's world that attacks are carried out in, and what can be seen of them from outside.

The rows lie in `attacks/*.yaml`, a category a file. `try`: what an agent's script does. `harm`: a shell line that is
true when it did harm. `without`: what becomes of it without a sandbox: `stopped`; `after`: it happens, and is put
back once the step is over; `happens`. `root`: it only happens to root.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

import yaml

from tests.conftest import Project, new_project
from tests.in_process import Answer
from tests.projects import ask
from tests.routed import MAKER, flow, step
from tests.safety.sandbox.conftest import confined_environment
from tests.twin import FLOW

FOLDER = Path(__file__).parent / "attacks"
Outcome = Literal["stopped", "after", "happens"]
LATE_S = 2.5
"""After so long what an attack left running has done its harm."""

_SHOWN: Sequence[str] = (
    "show one",
    "transcript one",
    "transcript one --full",
    "events {run}",
    "log",
    "status {run}",
    "diff",
    "diff --stat",
    "list",
    "report {run}",
)
"""Commands whose output harms look at, by their number."""


@dataclass(frozen=True)
class Attack:
    """`late`: its harm comes after the step, and some time after. `at_end`: it shows only once the step is over.
    `needs`: programs without which there is nothing to try."""

    id: str
    category: str
    lines: str
    harm: str
    without: Outcome
    late: bool = False
    at_end: bool = False
    needs: tuple[str, ...] = ()


@cache
def attacks() -> Mapping[str, Attack]:
    """All rows by id."""
    found: dict[str, Attack] = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        about = yaml.safe_load(path.read_text(encoding="utf-8"))
        defaults = {"without": "stopped", **about.get("each", {})}
        for name, row in about["rows"].items():
            given = defaults | (row if isinstance(row, dict) else {"try": row})
            assert name not in found, f"{name} is in two files"
            assert set(given) <= {"try", "harm", "without", "late", "at_end", "needs", "root"}, name
            without: Outcome = given["without"] if os.geteuid() == 0 or not given.get("root") else "stopped"
            late, at_end = bool(given.get("late")), bool(given.get("at_end"))
            needs = tuple(given.get("needs", "").split())
            found[name] = Attack(name, path.stem, given["try"], given["harm"], without, late, at_end, needs)
    return found


@dataclass(frozen=True)
class AttackScene:
    """`project` is the user's; `variables` what attacks and harms name things by. `seen`: a folder of the test's."""

    project: Project
    seen: Path
    variables: Mapping[str, str]
    other: str
    bystander: subprocess.Popen[bytes] = field(repr=False)

    @property
    def world(self) -> Path:
        return self.project.root.parent

    def play(self, rows: Sequence[Attack], *, keep_watch: bool = False) -> tuple[str, Answer]:
        """Carries the rows out in one step, a line each; the run, and what `start` answered.

        :param keep_watch: look for harm after each line too; that needs a step that reaches `seen`.
        """
        script = self.seen / "script.yaml"
        script.write_text(yaml.safe_dump({"steps": {"one": self.entry(rows, keep_watch)}}), encoding="utf-8")
        return self.started(rows, self.project, "row", "--script", str(script))

    def started(self, rows: Sequence[Attack], project: Project, *words: str) -> tuple[str, Answer]:
        """The same, where a script or a model that carries the rows out is there already.

        :param words: behind `git swarm start`.
        """
        answer = ask(project, "start", *words)
        run = next(each["run_id"] for each in project.json("list") if each["run_id"] != self.other)
        if any(row.late for row in rows):
            time.sleep(LATE_S)
        shown = self.seen / "shown"
        shown.mkdir(exist_ok=True)
        for number, line in enumerate(_SHOWN if any("/shown" in row.harm for row in rows) else ()):
            told = ask(project, *line.format(run=run).split())
            (shown / f"{number}").write_text(told.stdout + told.stderr, "utf-8", "surrogateescape")
        return run, answer

    def entry(self, rows: Sequence[Attack], keep_watch: bool = False) -> dict[str, object]:  # noqa: FBT001, FBT002
        """Of a script: each row is written into a file, and run then."""
        files, lines = {}, []
        for row in rows:
            files[f"attacks/{row.id}.sh"] = f"{self._named(row)}\n{row.lines}"
            lines.append(f"timeout -k 0.2 15 sh attacks/{row.id}.sh < /dev/null")
            if keep_watch and not (row.late or row.at_end):
                during = f"{self._named(row)}\n{{ {row.harm.strip()}\n}} && touch {self.seen}/during/{row.id}"
                (self.seen / f"{row.id}.sh").write_text(during, encoding="utf-8")
                lines.append(f"timeout 15 sh {self.seen}/{row.id}.sh")
        return {"write": files, "run": [*lines, "rm -rf attacks", "echo played > played.txt"]}

    def play_as_person(self, rows: Sequence[Attack]) -> None:
        """The same lines in the user's own shell, in the worktree of the other run."""
        for row in rows:
            line = self._named(row, RUN=self.other) + row.lines
            cwd = self.world / "repo.swarm" / self.other
            subprocess.run(
                ["sh"], input=line, cwd=cwd, env=dict(self.project.env), text=True, capture_output=True, check=False
            )

    def _named(self, row: Attack, **more: str) -> str:
        given = {**self.variables, "ID": row.id, **more}
        told = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in given.items())
        return (
            f'{told}\nexport COMMON="$MAIN/.git" WORKTREE="${{WORKTREE:-$PWD}}" RUN="${{RUN:-$RUN_ID}}"\n'
            'export ADMIN="$COMMON/worktrees/$RUN" BASE="$WORKTREE/.swarm/runs/$RUN"\n'
        )

    def harmed(self, run: str, rows: Sequence[Attack]) -> dict[str, Outcome]:
        """What became of each row, by its id."""
        worktree = self.world / "repo.swarm" / run
        asked = "".join(
            f"({self._named(row, RUN=run, WORKTREE=str(worktree))}\n{row.harm}) >/dev/null 2>&1 && echo {row.id}\n"
            for row in rows
        )
        env = {**self.project.env, "GIT_OPTIONAL_LOCKS": "0"}
        done = subprocess.run(
            ["sh"], input=asked, cwd=self.seen, env=env, capture_output=True, text=True, timeout=120, check=False
        )
        happened, during = set(done.stdout.split()), {path.name for path in (self.seen / "during").iterdir()}
        return {
            row.id: "happens" if row.id in happened else "after" if row.id in during else "stopped" for row in rows
        }


@contextmanager
def scene(folder: Path, *, sandbox: str) -> Iterator[AttackScene]:
    """Everything of the user lies in `folder/world`, and what is hers alone is planted there."""
    world, seen = folder / "world", folder / "seen"
    world.mkdir(parents=True)
    (seen / "during").mkdir(parents=True)
    mark = f"evil-{secrets.token_hex(8)}"
    env = confined_environment(world / "home") | {
        "GH_TOKEN": f"PLANTED-{mark}",
        "AWS_SECRET_ACCESS_KEY": f"PLANTED-{mark}",
        "SSH_AUTH_SOCK": f"{world}/agent.sock",
        "NPM_TOKEN": f"PLANTED-{mark}",
        "DATABASE_PASSWORD": f"PLANTED-{mark}",
    }
    project = new_project(world / "repo", env)
    project.git("config", "--global", "swarm.policy.sandbox", sandbox)
    _furnish(project, world, mark)
    other = project.start("steps: {one: {write: {other.txt: x}}}", "--allow-stub", flow="row")
    _hide_tokens(project.root / ".git", other)
    project.git("update-ref", "refs/swarm/test-main", "HEAD")
    (folder / "elsewhere").mkdir()
    with ExitStack() as stack:
        port, abstract = stack.enter_context(_listening(world, seen / "received"))
        bystander = subprocess.Popen(["sleep", "600"], env={"KEY": "PLANTED", "PATH": os.environ["PATH"]})
        stack.callback(_end, bystander)
        stack.callback(_clean, mark)
        variables = {
            "WORLD": str(world),
            "MAIN": str(project.root),
            "ORIGIN": str(world / "origin.git"),
            "OTHER": other,
            "OTHER_TIP": project.git("rev-parse", f"shadow/{other}"),
            "FIRST": project.git("rev-parse", "HEAD"),
            "MARK": mark,
            "PROCESS": str(bystander.pid),
            "PORT": str(port),
            "ABSTRACT": abstract,
            "SEEN": str(seen),
            "SWARM": f"{sys.executable} -m gitswarm",
            "SITE": str(Path(yaml.__file__).parents[1]),
        }
        yield AttackScene(project, seen, variables, other, bystander)


def _furnish(project: Project, world: Path, mark: str) -> None:
    flows = {
        ".swarm/flows/row.yaml": FLOW,
        ".swarm/flows/solo.yaml": yaml.safe_dump(flow("solo", step("one", "maker"))),
    }
    flows |= {name: f"{text}max_turns: 100\n" for name, text in MAKER.items()}
    project.commit({**flows, ".gitignore": "*.log\n", "kept.txt": "1\n"}, "second")
    (project.root / ".env").write_text(f"PLANTED-{mark}\n", encoding="utf-8")
    project.git("init", "-q", "--bare", str(world / "origin.git"))
    project.git("remote", "add", "origin", str(world / "origin.git"))
    project.git("remote", "add", "private", "https://user:PLANTED@example.org/x.git")
    project.git("branch", "topic", "HEAD~1")
    project.git("update-ref", "refs/remotes/origin/main", "HEAD~1")
    project.git("config", "http.https://example.org/.extraheader", "Authorization: PLANTED")
    for name in (".ssh/id_rsa", ".netrc", ".npmrc", ".aws/credentials", ".kube/config", ".docker/config.json"):
        path = world / "home" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"PLANTED-{mark}\n", encoding="utf-8")
    project.git("config", "--global", "credential.helper", "!echo username=me; echo password=PLANTED; true")
    (world / "home/.bashrc").write_text("# mine\n", encoding="utf-8")
    (world / "neighbour").mkdir()
    (world / "neighbour/secret.txt").write_text(f"PLANTED-{mark}\n", encoding="utf-8")


def _hide_tokens(common: Path, other: str) -> None:
    """Where git and its helpers keep addresses with passwords, beside `config`."""
    address = "https://user:PLANTED@example.org/x.git"
    configs = ("modules/lib/config", "modules/lib/modules/deep/config", "config.bak")
    for name in (*configs, f"worktrees/{other}/config.worktree"):
        path = common / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(f'[remote "more"]\n\turl = {address}\n')
    (common / "credentials").write_text(f"{address}\n", encoding="utf-8")
    with (common / "logs/refs/heads/main").open("a", encoding="utf-8") as log:
        log.write(f"{'0' * 40} {'1' * 40} A <a@b> 1795636618 +0000\tpull {address}: Fast-forward\n")


@contextmanager
def _listening(world: Path, log: Path) -> Iterator[tuple[int, str]]:
    """Servers of the user's: TCP and UDP at one port, sockets by path and by name; what they get goes to `log`."""
    abstract = f"evil-{secrets.token_hex(8)}"
    log.touch()
    with ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = int(tcp.getsockname()[1])
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", port))
        streams = [tcp]
        for address in (f"{world}/agent.sock", f"{world}/home/.docker/run/docker.sock", f"\0{abstract}"):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            _bind(listener, address)
            listener.listen()
            streams.append(listener)
        threads = [threading.Thread(target=_answer, args=(each, log), daemon=True) for each in streams]
        threads.append(threading.Thread(target=_take, args=(udp, log), daemon=True))
        for thread in threads:
            thread.start()
        try:
            yield port, abstract
        finally:
            for each in (*streams, udp):
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


def _bind(listener: socket.socket, address: str) -> None:
    """By a short way: an address has room for 100 characters."""
    if address.startswith("\0"):
        listener.bind(address)
        return
    path = Path(address)
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    listener.bind(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)


def _answer(listener: socket.socket, log: Path) -> None:
    while True:
        try:
            caller, _address = listener.accept()
        except OSError:
            return
        with caller, suppress(OSError):
            caller.settimeout(2)
            _note(log, caller.recv(65536))
            caller.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")


def _take(udp: socket.socket, log: Path) -> None:
    with suppress(OSError):
        while piece := udp.recv(65536):
            _note(log, piece)


def _note(log: Path, piece: bytes) -> None:
    with log.open("ab") as file:
        file.write(piece + b"\n")


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGKILL)
    process.wait()


def _clean(mark: str) -> None:
    """What attacks without a sandbox leave in places that everybody has."""
    places = ("/dev/shm", "/tmp", "/var/tmp", Path(yaml.__file__).parents[1])
    for place in places:
        for path in Path(place).glob(f"{mark}*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
