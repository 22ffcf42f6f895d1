"""A run followed and judged in a real browser, once. Skipped without Chromium; the soak has more."""

from __future__ import annotations

from pathlib import Path

from docs.web_pictures import chromium
from tests.cli.gated import open_gate
from tests.web.windows import MARKUP, needs_chromium, quiet_window, steer, uiid, waiting_run

pytestmark = needs_chromium


def test_a_run_is_followed_and_judged(tmp_path: Path) -> None:
    project, run = waiting_run(tmp_path)
    with chromium() as browser, quiet_window(browser, project) as (context, address):
        page = context.new_page()
        page.goto(f"{address}/")
        page.click(f"{uiid(f'runs.run:{run}')} a")
        page.wait_for_selector(f"{uiid('canvas.graph.step:check')}.active rect")
        page.wait_for_selector(f"{uiid('timeline.step:talk/check@1')} >> text={MARKUP}")
        assert page.evaluate("window.__flowStudio.selectStep('write')") is True
        # The tabs of the step before stand there until then, and would show that step's difference.
        page.wait_for_selector(f'{uiid("inspector.panel")} h2:has-text("talk/write")')
        page.click(uiid("inspector.tab:diff"))
        page.wait_for_selector(f".d2h-diff-table >> text={MARKUP}")
        open_gate(project)
        page.wait_for_selector(f"{uiid('timeline.step:talk/check@1')} >> text=after")
        open_gate(project, "second")
        page.wait_for_selector(f"{uiid('timeline.step:talk/check')} a")
        page.wait_for_selector(f'{uiid("header.state")}:has-text("rehearsal")')
        page.evaluate("document.querySelector('#steer').open = true")
        page.fill("form[action$='/reject'] input", MARKUP)
        steer(page, "reject")
        page.wait_for_selector(f'{uiid("header.state")}:has-text("rejected")')
        assert page.evaluate("document.images.length") == 0
    assert project.json("status", run)["rejected"]["valid"] is True
