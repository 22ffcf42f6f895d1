"""A real browser at the page of a repository: where it is skipped, and what it may not do."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from docs.web_pictures import CHROMIUM, visiting
from tests.cli.gated import GATE, gated
from tests.conftest import Project
from tests.waiting import DEADLINE_S

needs_chromium = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no {CHROMIUM}: see tests/fetch_chromium.sh"),
    pytest.mark.skipif(
        importlib.util.find_spec("playwright") is None, reason="no playwright: pip install playwright"
    ),
]

MARKUP = "<img src=x onerror=alert(1)>"
SECOND_GATE = GATE.replace("gate", "second")
_FLOW = "id: talk\nsteps: [{id: write, station: code-implementer}, {id: check, station: code-implementer}]\n"
_STEPS = {
    "write": {"write": {f"a{MARKUP}.txt".replace("/", ""): f"{MARKUP}\n"}, "run": ["echo first"], "summary": MARKUP},
    "check": {"run": [f"echo '{MARKUP}'", GATE, "echo after", SECOND_GATE], "summary": "checked"},
}


@contextmanager
def quiet_window(browser: Any, project: Project) -> Iterator[tuple[Any, str]]:
    """Windows that speak with the page alone: no other host, no message on the console, no dialog."""
    with visiting(browser, project.root, project.env) as (context, address):
        context.set_default_timeout(DEADLINE_S * 1000)
        outside: list[str] = []

        def note(request: Any) -> None:
            if not request.url.startswith(address):
                outside.append(request.url)

        def hear(message: Any) -> None:
            if "status of 409" not in message.text:  # what a button says when its command refuses
                outside.append(message.text)

        context.on("request", note)
        context.on("console", hear)
        context.on("weberror", lambda error: outside.append(str(error.error)))
        context.on("dialog", lambda dialog: outside.append(dialog.message))
        yield context, address
        assert outside == []


def waiting_run(folder: Path) -> tuple[Project, str]:
    """A run of a hostile agent in the background, whose second step waits at two gates."""
    project = gated(folder, _FLOW, _STEPS, "second")
    return project, begun(project, "talk")


def begun(project: Project, flow: str) -> str:
    """A run of the project's script in the background."""
    script = str(project.root.parent / "script.yaml")
    return project.swarm_process("start", flow, "--detach", "--script", script).stdout.split(maxsplit=1)[0]


def uiid(name: str) -> str:
    return f'[data-uiid="flow_studio.{name}"]'


def steer(page: Any, action: str) -> None:
    """Presses a button of Steer, and waits until its command has answered."""
    page.evaluate("document.querySelector('#steer').open = true; document.querySelector('#answer').textContent = ''")
    page.click(uiid(f"controls.{action}"))
    page.wait_for_selector(f"{uiid('controls.answer')} code", timeout=60_000)
