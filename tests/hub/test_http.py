"""A hub behind `git http-backend`, with a password, and what its hooks and an ordinary clone see."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.conftest import Project
from tests.hub.clones import STEPS, Clones, two_clones

HOOK = """#!/bin/sh
while read -r _old _new ref; do
	case $ref in refs/heads/main) echo 'Acme: main only by review' >&2; exit 1 ;; esac
	case $ref in refs/swarm/*) [ ! -e closed ] || { echo 'Acme: closed for the night' >&2; exit 1; } ;; esac
done
"""
HIDDEN = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "transfer.hideRefs", "GIT_CONFIG_VALUE_0": "refs/heads/shadow"}
"""What the door for people sets, which leads to the same repository."""


TEAM = {
    "GIT_NAMESPACE": "team",
    "GIT_CONFIG_COUNT": "2",
    **{f"GIT_CONFIG_KEY_{number}": "receive.hideRefs" for number in range(2)},
    "GIT_CONFIG_VALUE_0": "^refs/",
    "GIT_CONFIG_VALUE_1": "!^refs/namespaces/team/",
}
"""What the door of one team sets, which has a namespace of the repository to itself."""


class Backend(BaseHTTPRequestHandler):
    """With a password, `/runs/hub.git` for runs, and `/team/hub.git` for those of one team; `/code/hub.git` for
    people who read the code."""

    root: Path

    def do_GET(self) -> None:
        path, _mark, query = self.path.partition("?")
        door, _slash, rest = path.removeprefix("/").partition("/")
        asked = base64.b64encode(b"agent:secret").decode()
        if door != "code" and self.headers["Authorization"] != f"Basic {asked}":
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="runs"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        env = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "PATH_INFO": f"/{rest}",
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            **(HIDDEN if door == "code" else {"REMOTE_USER": "agent"}),
            **(TEAM if door == "team" else {}),
        }
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, check=True).stdout
        head, _blank, content = answer.partition(b"\r\n\r\n")
        fields = [line.partition(": ")[::2] for line in head.decode().split("\r\n")]
        self.send_response(int(dict(fields).get("Status", "200").split()[0]))
        for name, value in fields:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815 - the same

    def log_message(self, *_words: object) -> None:
        """Nothing: a test has no terminal."""


@pytest.fixture
def clones(tmp_path: Path) -> Iterator[Clones]:
    """As `two_clones`, over http; a credential helper is configured in each clone, as CI systems do."""
    made = two_clones(tmp_path)
    made.on_hub("config", "uploadpack.allowFilter", "true")
    hook = made.hub / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(HOOK, encoding="utf-8")
    hook.chmod(0o755)
    serving = type("Serving", (Backend,), {"root": made.hub.parent})
    with ThreadingHTTPServer(("127.0.0.1", 0), serving) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for project in (made.here, made.there):
            project.git("remote", "set-url", "hub", url(server, "runs"))
            project.git("config", "credential.helper", "!printf 'username=agent\\npassword=secret\\n' #")
            for door in ("code", "team"):
                project.git("config", f"swarm-test.{door}", url(server, door))
        yield made
        server.shutdown()


def url(server: ThreadingHTTPServer, door: str) -> str:
    return f"http://127.0.0.1:{server.server_port}/{door}/hub.git"


def refs_after(project: Project, *words: str) -> str:
    project.git(*words)
    return project.git("for-each-ref", "--format=%(refname)", cwd=project.root.parent / "ordinary")


def test_a_run_is_taken_over_and_archived_over_http(clones: Clones) -> None:
    here, there = clones.here, clones.there
    die = f"mkdir '{clones.door}/once' 2>/dev/null && kill -9 \"$PPID\"; true"
    here.swarm_process(*clones.start(second=[die]), code=-signal.SIGKILL)
    assert there.json("list", "--hub")[0]["hub"]["executes"]
    there.swarm("resume", "--hub")
    run = clones.run
    assert clones.pushed() == list(STEPS)
    here.swarm("pull", run)
    assert here.json("log", run) == there.json("log", run)

    code = here.git("config", "swarm-test.code")
    ordinary = refs_after(here, "clone", "-q", code, "../ordinary")
    assert ordinary.split() == ["refs/heads/main", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]

    there.swarm("gc", "--hub", "--archive", "0s")
    assert [each["archived"] for each in here.json("list", "--hub", "--all")] == [True]
    assert "promisor" not in (here.root / ".git" / "config").read_text(encoding="utf-8")


@pytest.mark.soak
def test_a_team_has_a_namespace_of_the_hub_to_itself(clones: Clones) -> None:
    here, there = clones.here, clones.there
    (clones.hub / "hooks" / "pre-receive").unlink()
    here.swarm(*clones.start())
    (other,) = here.json("list", "--hub")
    clones.on_hub("update-ref", "refs/namespaces/team/refs/heads/main", "main")
    for project in (here, there):
        project.git("remote", "set-url", "hub", project.git("config", "swarm-test.team"))
    assert here.json("list", "--hub") == []

    here.swarm(*clones.start(), "--until", "first")
    (listed,) = there.json("list", "--hub")
    there.swarm("resume", "--hub")
    assert there.json("status", "--hub")["state"] == "succeeded"
    here.swarm("pull", listed["run_id"])
    assert here.json("log", listed["run_id"]) == there.json("log", listed["run_id"])
    there.swarm("gc", "--hub", "--archive", "0s")
    assert [each["run_id"] for each in here.json("list", "--hub", "--all")] == [listed["run_id"]]
    assert clones.run == other["run_id"]


def test_what_a_hub_refuses_is_told_in_its_own_words(clones: Clones) -> None:
    (clones.hub / "closed").touch()
    ended = clones.here.swarm(*clones.start(), code=1)
    run = clones.here.json("list")[0]["run_id"]
    said = f"git-swarm: hub did not take {run}: Acme: closed for the night; pre-receive hook declined\n"
    hint = f"hint: git swarm push {run}   (when the hub lets runs in: docs/hub.md)\n"
    assert ended.stderr.endswith(said + hint)
    (clones.hub / "closed").unlink()
    clones.here.swarm("push", run)
    assert clones.run == run
