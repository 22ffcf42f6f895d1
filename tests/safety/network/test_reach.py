"""What commands and agents reach from the sandbox, measured at the server that they try to reach."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from gitswarm.safety.sandbox import backends, bridge
from gitswarm.safety.sandbox.gateway import Gateway
from tests.conftest import Project
from tests.projects import ask
from tests.safety.network.conftest import Outside
from tests.safety.sandbox.conftest import needs_bwrap

pytestmark = needs_bwrap

FLOW = """\
id: f
steps:
  - {{id: try, engine: command, command: {{run: "sh try.sh"}}}}
"""
PYTHON = "python3 -c 'import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=20).read().decode())'"
SERVES_ITSELF = """\
python3 - <<'END'
import http.server, threading, urllib.request
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("own server:", urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/try.sh").status)
END
"""


def tried(project: Project, script: str, policy: str) -> str:
    """What a command step with this script printed; the policy is the team's."""
    project.commit(
        {".swarm/flows/f.yaml": FLOW.format(), ".swarm/config.yaml": f"policy: {policy}\n", "try.sh": script}, "try"
    )
    ask(project, "start", "f")
    return ask(project, "transcript", "try", "--full").stdout


def through(project: Project, outside: Outside) -> Project:
    """The user's own programs go through a proxy that knows our hosts."""
    return replace(project, env={**project.env, "HTTPS_PROXY": outside.url, "HTTP_PROXY": outside.url})


@pytest.mark.parametrize("program", ["perl", "python"])
def test_a_command_reaches_itself_and_what_is_allowed(
    confined: Project, outside: Outside, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    if program == "python":
        monkeypatch.setattr(backends, "LISTENS", "no-such-program")
    script = f"{SERVES_ITSELF}{PYTHON} http://build.example/x\n{PYTHON} http://other.example/x\ntrue\n"
    said = tried(through(confined, outside), script, "{allow_hosts: [build.example]}")
    assert "own server: 200" in said
    assert "reached" in said
    assert "HTTP Error 403: not in policy.allow_hosts: other.example:80" in said
    assert outside.asked == ["build.example:80"]


def test_the_same_through_a_tunnel(confined: Project, outside: Outside) -> None:
    tunnel = """\
import http.client, os, urllib.parse
proxy = urllib.parse.urlsplit(os.environ["https_proxy"])
for name in ("build.example", "other.example"):
    wire = http.client.HTTPConnection(proxy.hostname, proxy.port, timeout=20)
    wire.set_tunnel(name, 443)
    try:
        wire.request("GET", "/")
        print(name, wire.getresponse().read())
    except OSError as error:
        print(name, error)
"""
    script = f"python3 - <<'END'\n{tunnel}END\n"
    said = tried(through(confined, outside), script, "{allow_hosts: ['*.example:443', 'x.org']}")
    assert "build.example b'reached'" in said
    assert "other.example b'reached'" in said
    said = tried(through(confined, outside), script, "{allow_hosts: ['build.example:443']}")
    assert "Tunnel connection failed: 403 not in policy.allow_hosts: other.example:443" in said


def test_the_user_is_told_what_was_refused(confined: Project) -> None:
    script = f"{PYTHON} http://other.example/x 2>/dev/null\nexit 1\n"
    confined.commit({".swarm/flows/f.yaml": FLOW.format(), "try.sh": script}, "try")
    done = ask(confined, "start", "f")
    told = "not in policy.allow_hosts: other.example:80"
    assert f"{told} (the place for it is .swarm/config.yaml)" in " ".join(done.stderr.split())
    (step,) = confined.json("log")
    assert step["summary"].endswith(f"; {told} (.swarm/config.yaml)")


def test_a_port_of_this_machine(confined: Project, outside: Outside) -> None:
    script = f"{PYTHON} {outside.url}/x\n{PYTHON} http://localhost:{outside.port}/x\n"
    assert tried(confined, script, f"{{allow_hosts: ['localhost:{outside.port}']}}").count("reached") == 2
    assert json.loads(ask(confined, "show", "try", "--receipt").stdout)["network"] == [f"localhost:{outside.port}"]


MANY = """\
python3 - <<'END'
import collections, os, threading, urllib.request
came = collections.Counter()
def send(proxies):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
    try:
        came[opener.open("URL", b"x" * 1_000_000, timeout=60).read()] += 1
    except OSError as error:
        came[repr(error)] += 1
through = {"http": os.environ["http_proxy"]}
threads = [threading.Thread(target=send, args=(through if number % 2 else {},)) for number in range(60)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
print(dict(came))
END
"""


def test_many_connections_at_once_lose_nothing(confined: Project, outside: Outside) -> None:
    script = MANY.replace("URL", outside.url)
    assert "{b'1000000': 60}" in tried(confined, script, f"{{allow_hosts: ['127.0.0.1:{outside.port}']}}")


WAYS_OUT = """\
import os, socket, sys
port = int(sys.argv[1])
def tried(name, way):
    try:
        way(); print(name, "OPEN")
    except OSError as error:
        print(name, "closed")
tried("dns", lambda: socket.getaddrinfo("example.org", 443))
tried("direct", lambda: socket.create_connection(("127.0.0.1", port), 2))
tried("machine", lambda: socket.create_connection((sys.argv[2], port), 2))
tried("address", lambda: socket.create_connection(("192.0.2.1", 443), 2))
def abstract():
    with socket.socket(socket.AF_UNIX) as s: s.connect("\\0" + sys.argv[3])
tried("abstract", abstract)
def datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s: s.sendto(b"x", ("192.0.2.1", 53))
tried("udp", datagram)
def raw(request):
    def way():
        with socket.create_connection(("127.0.0.1", 3128), 5) as s:
            s.settimeout(10); s.sendall(request); said = s.recv(4096)
            if b" 200 " not in said.split(b"\\r\\n")[0]: raise OSError(said)
    return way
at = b"127.0.0.1:%d" % port
tried("tunnel", raw(b"CONNECT " + at + b" HTTP/1.1\\r\\n\\r\\n"))
tried("userinfo", raw(b"GET http://allowed.example@" + at + b"/ HTTP/1.1\\r\\nHost: allowed.example\\r\\n\\r\\n"))
tried("host header", raw(b"GET http://" + at + b"/ HTTP/1.1\\r\\nHost: allowed.example\\r\\n\\r\\n"))
tried("no host", raw(b"GET / HTTP/1.1\\r\\nHost: " + at + b"\\r\\n\\r\\n"))
tried("control", raw(b"GET http://allowed.example/ HTTP/1.1\\r\\nHost: allowed.example\\r\\n\\r\\n"))
tried("decimal", raw(b"GET http://2130706433:%d/ HTTP/1.1\\r\\n\\r\\n" % port))
"""


def test_no_other_way_leads_out(confined: Project, outside: Outside) -> None:
    name = f"swarm-test-{os.getpid()}-{time.time_ns()}"
    with socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0{name}")
        abstract.listen()
        abstract.settimeout(0)
        machine = socket.gethostbyname(socket.gethostname())
        script = f"cat > ways.py <<'END'\n{WAYS_OUT}END\npython3 ways.py {outside.port} {machine} {name}\n"
        said = tried(through(confined, outside), script, "{allow_hosts: [allowed.example]}")
        with pytest.raises(BlockingIOError):
            abstract.accept()
    assert said.count("OPEN") == said.count("control OPEN") == 1
    assert said.count(" closed") == 11
    assert outside.asked == ["allowed.example:80"]


def test_without_a_limit_everything_is_open(confined: Project, outside: Outside) -> None:
    assert "reached" in tried(confined, f"{PYTHON} {outside.url}/x\n", "{network: allow}")
    assert json.loads(ask(confined, "show", "try", "--receipt").stdout)["network"] == ["*"]


def test_none_is_stricter_than_a_list(confined: Project, outside: Outside) -> None:
    script = f"{PYTHON} http://build.example/\ntrue\n"
    said = tried(through(confined, outside), script, "{network: none, allow_hosts: [build.example]}")
    assert "not in policy.allow_hosts: build.example:80" in said
    assert not outside.asked


def test_setup_reaches_everything(confined: Project, outside: Outside) -> None:
    confined.commit(
        {
            ".swarm/flows/f.yaml": FLOW.format(),
            "try.sh": "cat got.txt\n",
            "get.sh": f"{PYTHON} {outside.url}/x > got.txt\n",
            ".swarm/config.yaml": "worktree: {setup: sh get.sh}\n",
            ".gitignore": "got.txt\n",
        },
        "try",
    )
    ask(confined, "start", "f")
    assert "reached" in ask(confined, "transcript", "try", "--full").stdout


def test_the_first_line_says_what_is_reached(confined: Project) -> None:
    lines = [line for hosts in ("[]", "[a.org, b.org, c.org, d.org, e.org]") for line in _first(confined, hosts)]
    assert lines == [
        "sandbox: bubblewrap, network: the model's provider",
        "sandbox: bubblewrap, network: the model's provider, a.org, b.org, c.org, 2 more",
    ]


def _first(project: Project, hosts: str) -> list[str]:
    files = {".swarm/flows/f.yaml": FLOW.format(), "try.sh": "true\n"}
    project.commit({**files, ".swarm/config.yaml": f"policy: {{allow_hosts: {hosts}}}\n"}, "try")
    return [line for line in ask(project, "start", "f").stderr.splitlines() if line.startswith("sandbox")]


def test_without_a_sandbox_none_refuses(project: Project) -> None:
    project.commit({".swarm/config.yaml": "policy: {network: none}\n"}, "try")
    done = project.swarm("start", "build", "--script", project.script("steps: {}"), code=2)
    assert "policy.network is none, and nothing here keeps programs from the network" in " ".join(done.stderr.split())


def test_nothing_is_left_of_it(confined: Project) -> None:
    """No process after a step, none after kill -9, and no socket once the run was resumed."""
    script = f"{PYTHON} http://other.example/ 2>/dev/null\ntouch went; sleep 60\n"
    confined.commit({".swarm/flows/f.yaml": FLOW.format(), "try.sh": script}, "try")
    running = subprocess.Popen(
        confined.argv("start", "f"), cwd=confined.root, env=dict(confined.env), stderr=subprocess.DEVNULL
    )
    worktrees = confined.root.parent / "repo.swarm"
    deadline = time.monotonic() + 60
    while not list(worktrees.glob("run-*/went")) and time.monotonic() < deadline:
        time.sleep(0.05)
    below = psutil.Process(running.pid).children(recursive=True)
    assert any("gitswarm.safety.sandbox.proxy" in process.cmdline() for process in below)
    running.send_signal(signal.SIGKILL)
    running.wait()
    _gone, alive = psutil.wait_procs(below, timeout=5)
    assert not alive
    ask(confined, "stop")
    assert not list((confined.root / ".git/swarm/sessions").glob("**/door"))


def test_a_proxy_that_does_not_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    gateway = Gateway(tmp_path / "gateway")
    with gateway.opened(), socket.socket(socket.AF_UNIX) as caller:
        folder = os.open(tmp_path / "gateway" / "shown", os.O_RDONLY)
        caller.settimeout(10)
        caller.connect(f"/proc/self/fd/{folder}/door")
        os.close(folder)
        with suppress(ConnectionResetError):
            assert caller.recv(1) == b""
    assert gateway.refused == ["no host can be reached: the proxy ended, exit code 1"]
    assert not gateway.folder.exists()


BRIDGE = Path(bridge.__file__)


@pytest.mark.parametrize(
    "first",
    [
        (sys.executable, "-I", "-S", str(BRIDGE)),
        pytest.param(
            ("perl", str(BRIDGE.with_name("listen.pl")), sys.executable, str(BRIDGE)),
            marks=pytest.mark.skipif(shutil.which("perl") is None, reason="there is no perl"),
        ),
    ],
    ids=["python", "perl"],
)
def test_the_bridge_is_no_child_of_the_program(tmp_path: Path, first: Sequence[str]) -> None:
    """A program that waits for all its children would wait for it for ever."""
    waits = "import os\ntry: os.waitpid(-1, 0)\nexcept ChildProcessError: print('no children')"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = [*first, str(tmp_path / "door"), str(port), "python3", "-c", waits]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
    assert done.stdout == "no children\n"
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if str(tmp_path / "door") in process.cmdline():
                process.kill()
