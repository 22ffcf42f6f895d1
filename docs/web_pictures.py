"""The page in Chromium, and pictures of it from the dishonest run of the demo: python -m docs.web_pictures FOLDER"""
# ruff: noqa: INP001

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = Path(sys.prefix) / "chromium" / "bin" / "chromium"
"""`tests/fetch_chromium.sh` puts it there."""

_QUIET = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
_QUIET += " --disable-component-update --disable-sync"
_SHOWN = (
    ("web-run", "/runs/{run}?step=build/fix@1", 1200, "light"),
    ("web-diff", "/runs/{run}?step=build/implement@2&tab=diff", 1200, "dark"),
)
"""File, address, width, colours."""


@contextmanager
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - not in every environment

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=_QUIET.split())
        yield browser
        browser.close()


@contextmanager
def visiting(browser: Any, folder: Path, env: Mapping[str, str]) -> Iterator[tuple[Any, str]]:
    """Windows of a browser that has logged in to the page of a repository, and the page's address."""
    argv = [sys.executable, "-m", "gitswarm", "web"]
    with subprocess.Popen(argv, cwd=folder, env=dict(env), stdout=subprocess.PIPE, text=True) as served:
        try:
            address = (served.stdout.readline() if served.stdout else "").split()[1]
            with browser.new_context(viewport={"width": 1200, "height": 900}) as context:
                page = context.new_page()
                page.goto(address)
                page.close()
                yield context, address.partition("/?")[0]
        finally:
            served.terminate()


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        project, home = Path(folder) / "slugline", Path(folder) / "home"
        home.mkdir()
        env = {"HOME": str(home), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        env |= {"LC_ALL": "C.UTF-8", "PYTHONPATH": str(Path(__file__).parent.parent)}
        subprocess.run(["git", "swarm", "demo", "--all", str(project)], env=env, check=True, capture_output=True)
        with chromium() as browser, visiting(browser, project, env) as (context, address):
            page = context.new_page()
            page.goto(f"{address}/")
            run = page.locator("[data-uiid^='flow_studio.runs.run:']").first.get_attribute("data-uiid").split(":")[1]
            for name, path, width, colours in _SHOWN:
                page.set_viewport_size({"width": width, "height": 960})
                page.emulate_media(color_scheme=colours)
                page.goto(f"{address}{path.format(run=run)}")
                page.wait_for_timeout(400)
                page.screenshot(path=str(target / f"{name}.png"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
