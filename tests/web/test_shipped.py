"""What the page is made of, and the command that serves it."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import signal
import subprocess
import urllib.error
import urllib.request

import pytest

from tests.conftest import Project
from tests.fetch_web_files import PACKAGES, STATIC


def test_files_of_others_are_those_that_were_fetched() -> None:
    listed = json.loads((STATIC / "VENDORED.json").read_text(encoding="utf-8"))
    assert {each["file"]: hashlib.sha256((STATIC / each["file"]).read_bytes()).hexdigest() for each in listed} == {
        each["file"]: each["sha256"] for each in listed
    }
    assert {f"{each['package']}@{each['version']}" for each in listed} == set(PACKAGES)
    own = {"page.js", "page.css", "icon.svg", "VENDORED.json", "LICENSES"}
    assert {path.name for path in STATIC.iterdir()} == own | {each["file"] for each in listed}
    assert all((STATIC / "LICENSES" / f"{each['file'].split('.')[0]}.txt").stat().st_size for each in listed)


def test_our_own_part_of_the_page_stays_small() -> None:
    assert len((STATIC / "page.js").read_text(encoding="utf-8").splitlines()) <= 250


def test_templates_mark_nothing_as_safe() -> None:
    for path in STATIC.parent.joinpath("templates").iterdir():
        assert not re.search(
            r"\|\s*safe\b|autoescape\s+false|\son\w+=|\sstyle=|javascript:", path.read_text(encoding="utf-8")
        ), path


def test_without_the_extra_it_says_what_to_install(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "uvicorn" else found(name))
    said = project.swarm("web", code=1).stderr
    assert said.splitlines()[-1] == "hint: pip install 'git-swarm[web]'"


@pytest.mark.parametrize("port", ["x", "70000", "-1"])
def test_a_port_that_is_none_is_refused(project: Project, port: str) -> None:
    assert "git swarm web" in project.swarm("web", f"--port={port}", code=2).stderr


def test_it_serves_on_loopback_and_ends_at_once_with_a_stream_open(project: Project) -> None:
    argv = project.argv("web")
    with subprocess.Popen(
        argv, cwd=project.root, env=dict(project.env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as served:
        try:
            assert served.stdout is not None
            address = served.stdout.readline().split()[1]
            port = re.match(r"http://127\.0\.0\.1:(\d+)/\?token=", address)
            assert port is not None
            taken = project.swarm("web", "--port", port[1], code=2).stderr
            assert "in use" in taken
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            assert opener.open(address).status == 200
            with opener.open(address.split("?")[0] + "stream") as stream:
                assert stream.readline() == b"retry: 1000\n"
                with pytest.raises(urllib.error.HTTPError, match="401"):
                    urllib.request.urlopen(address)  # noqa: S310
                served.send_signal(signal.SIGINT)
                _rest, problems = served.communicate(timeout=5)
        finally:
            served.kill()
    assert served.returncode == 130
    assert [line for line in problems.splitlines() if not line.startswith("again ")] == [], "no stream was cut off"
