"""Where a run went: detours, open interruptions and their reasons on its page."""

from __future__ import annotations

import html
import re

import pytest
from starlette.testclient import TestClient

from gitswarm.web.cut_diff import MAX_CHARS
from tests.projects import new_project
from tests.routed import Case, drive, fires_after, flow, quest
from tests.web.browsing import visitor

STEPS = {
    "s1": [
        {
            "status": "PARTIAL",
            "cost_usd": 0.25,
            "tokens": {"prompt": 30, "completion": 12},
            "write": {"long.txt": "x" * (MAX_CHARS + 9)},
        },
        {"status": "VERIFIED"},
    ],
    "sq-check-look": {"status": "BLOCKED", "blockers": ["which?"]},
}


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> tuple[TestClient, str]:
    """A browser, and the address of a run that waits within a sidequest."""
    steps = ({"id": "s1", "station": "code-implementer"}, {"id": "s2", "station": "code-implementer"})
    case = Case("aside", [flow("two", *steps)], STEPS, (), sidequests=[quest("check", fires_after("s1"))])
    project = new_project(tmp_path_factory.mktemp("way"))
    return visitor(project), f"/runs/{drive(project, case)}"


@pytest.fixture(scope="module")
def page(waiting: tuple[TestClient, str]) -> str:
    client, address = waiting
    return html.unescape(client.get(address).text)


def test_a_detour_is_dashed_in_strip_and_timeline(page: str) -> None:
    strip = dict(re.findall(r'class="([^"]*)"[^>]*data-uiid="flow_studio.canvas.outline.step:([^"]*)"', page))
    named = {step: kinds.split() for kinds, step in strip.items()}
    (aside,) = [step for step, kinds in named.items() if "aside" in kinds]
    assert (aside.endswith("look"), set(named) - {aside}) == (True, {"s1", "s2"})
    rows = re.findall(r'<li data-item class="([^"]*)" data-uiid="flow_studio.timeline.step:([^"]*)"', page)
    assert [kinds.split()[:1] for kinds, _name in rows] == [[], ["aside"]]
    assert f'"source": "s1", "target": "{aside}"' in page


def test_what_is_open_is_above_the_graph_and_its_reason_in_the_timeline(page: str) -> None:
    (stack,) = re.findall(r'data-uiid="flow_studio.canvas.stack">(.*?)</ol>', page, re.DOTALL)
    assert re.findall(r"<li>(.*?)</li>", stack) == ["two", "sidequest check, back to two/s2"]
    assert "→ sidequest check" in page
    assert re.search(r"<dt>why now</dt><dd>[^<]+</dd><dt>for the charter</dt><dd>[^<]+</dd>", page)


def test_the_ticker_has_what_was_spent(page: str) -> None:
    (ticker,) = re.findall(r'data-uiid="flow_studio.header.cost">(.*?)</span>', page)
    assert ticker == "$0.25, 42 tokens"
    assert "PARTIAL, 0ms, 42 tokens, $0.25" in re.sub(r"\d+ms", "0ms", page)


def test_a_line_that_is_too_long_is_cut(waiting: tuple[TestClient, str]) -> None:
    client, address = waiting
    page = client.get(f"{address}?step=s1&tab=diff").text
    assert page.count("x" * 1000) < MAX_CHARS / 1000
    (link,) = re.findall(r'href="(\S+)">the rest', page)
    assert "x" * (MAX_CHARS + 9) in client.get(link).text
