"""The page in a real browser. Skipped without Chromium or playwright."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs.web_pictures import CHROMIUM, browsing
from tests.cli.gated import GATE, gated, open_gate
from tests.conftest import Project
from tests.documents import ROOT

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no {CHROMIUM}: apt-get install chromium"),
    pytest.mark.skipif(importlib.util.find_spec("playwright") is None, reason="pip install playwright"),
]

FLOW = "id: talk\nsteps: [{id: write, station: code-implementer}, {id: check, station: code-implementer}]\n"
MARKUP = "<img src=x onerror=alert(1)>"
STEPS = {
    "write": {"write": {f"a{MARKUP}.txt".replace("/", ""): f"{MARKUP}\n"}, "run": ["echo first"], "summary": MARKUP},
    "check": {"run": [f"echo '{MARKUP}'", GATE, "echo after"], "summary": "checked"},
}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Project, str, Any, str]]:
    """A run whose second step waits, the browser, and the page's address; and nothing came from outside."""
    project = gated(tmp_path_factory.mktemp("browser"), FLOW, STEPS)
    script = str(project.root.parent / "script.yaml")
    run = project.swarm_process("start", "talk", "--detach", "--script", script).stdout.split(maxsplit=1)[0]
    with browsing(project.root, project.env) as (context, address):
        outside: list[str] = []

        def note(request: Any) -> None:
            if not request.url.startswith(address):
                outside.append(request.url)

        context.on("request", note)
        context.on("console", lambda message: outside.append(message.text))
        context.on("dialog", lambda dialog: outside.append(dialog.message))
        yield project, run, context, address
        assert outside == []


def uiid(name: str) -> str:
    return f'[data-uiid="flow_studio.{name}"]'


def test_the_machine_contract(live: tuple[Project, str, Any, str]) -> None:
    _project, run, context, address = live
    page = context.new_page()
    page.goto(f"{address}/runs/{run}")
    page.wait_for_selector(uiid("canvas.graph.step:check"))
    state = page.evaluate("window.__flowStudio.getState()")
    assert (state["runId"], state["activeFlow"], state["steps"]) == (run, "talk", ["write", "check"])
    assert page.evaluate("window.__flowStudio.selectStep('write')") is True
    page.wait_for_selector(f'{uiid("inspector.panel")} h2:has-text("talk/write")')
    assert page.evaluate("window.__flowStudio.getState().selectedStep") == "write"
    assert page.evaluate("window.__flowStudio.selectStep('nowhere')") is False
    assert page.evaluate("window.__flowStudio.setActiveFlow('talk')") is True
    page.close()


def test_hostile_text_is_inert_in_every_tab(live: tuple[Project, str, Any, str]) -> None:
    _project, run, context, address = live
    page = context.new_page()
    for tab in ("evidence", "diff", "transcript", "receipt", "prompt", "routing"):
        page.goto(f"{address}/runs/{run}?step=write&tab={tab}")
        page.wait_for_timeout(300)
        assert page.evaluate("document.images.length") == 0
        assert tab != "diff" or MARKUP in page.inner_text(".d2h-wrapper")
    page.close()


def test_it_is_readable_at_every_width_and_driven_by_keys(live: tuple[Project, str, Any, str]) -> None:
    _project, run, context, address = live
    page = context.new_page()
    for width in (400, 1000, 1600):
        page.set_viewport_size({"width": width, "height": 800})
        for path in ("/", f"/runs/{run}", f"/runs/{run}?step=write&tab=diff", "/start"):
            page.goto(f"{address}{path}")
            page.wait_for_timeout(200)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} at {width}"
    page.goto(f"{address}/")
    page.keyboard.press("/")
    page.keyboard.type("nothing like it")
    assert page.locator(uiid(f"runs.run:{run}")).is_hidden()
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{address}/runs/{run}")
    page.close()


def test_eight_tabs_load_and_one_that_is_looked_at_again_has_every_line(live: tuple[Project, str, Any, str]) -> None:
    """The last one here: it opens the gate. A browser has six connections to a host, and each tab follows."""
    project, run, context, address = live
    tabs = [context.new_page() for _ in range(8)]
    for tab in tabs:
        tab.bring_to_front()
        tab.evaluate("document.hidden")
    for tab in tabs:
        tab.goto(f"{address}/runs/{run}", timeout=10_000)
        hide(tab, is_hidden=True)
    first = tabs[0]
    assert first.evaluate("window.__flowStudio.getState().isLive") is False
    hide(first, is_hidden=False)
    first.wait_for_selector(f"{uiid('timeline.step:talk/check@1')} >> text={MARKUP}")
    first.click("summary:has-text('Steer')")
    first.fill("textarea[name=message]", "half typed")
    began = time.monotonic()
    open_gate(project)
    first.wait_for_selector(f"{uiid('timeline.step:talk/check')} a", timeout=20_000)
    assert time.monotonic() - began < 10
    first.wait_for_selector(f'{uiid("header.state")}:has-text("rehearsal")')
    assert first.input_value("textarea[name=message]") == "half typed"
    hide(tabs[-1], is_hidden=False)
    tabs[-1].wait_for_selector(f'{uiid("header.state")}:has-text("rehearsal")')


def hide(page: Any, *, is_hidden: bool) -> None:
    """As a browser does with a tab behind another; a headless one shows all of them."""
    page.evaluate(
        """(hidden) => {
            Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        is_hidden,
    )


def test_the_pictures_are_made_by_this(tmp_path: Path) -> None:
    """In a process of its own: playwright is one loop per process."""
    subprocess.run([sys.executable, "-m", "docs.web_pictures", str(tmp_path)], cwd=ROOT, check=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["web-diff.png", "web-run.png"]
