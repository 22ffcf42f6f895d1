"""The page in a real browser, whole. Skipped without Chromium or playwright."""

from __future__ import annotations

import contextlib
import http.server
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.web_pictures import chromium
from tests.claude.runs import reaching
from tests.cli.gated import GATE, gated, open_gate
from tests.conftest import Project
from tests.documents import ROOT
from tests.loopback.api import ApiRequest, Reply, Text, Use, say
from tests.loopback.replies import handed_over
from tests.loopback.server import serving
from tests.projects import new_project
from tests.routed import MAKER, Case, drive, fires_after, flow, quest, step
from tests.waiting import DEADLINE_S, wait_until
from tests.web.windows import MARKUP, SECOND_GATE, begun, needs_chromium, quiet_window, steer, uiid, waiting_run

pytestmark = [pytest.mark.soak, *needs_chromium]
_SOON_MS = DEADLINE_S * 1000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def live(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Project, str, Any, str]]:
    """A run whose second step waits, the browser, and the page's address."""
    project, run = waiting_run(tmp_path_factory.mktemp("browser"))
    with quiet_window(browser, project) as (context, address):
        yield project, run, context, address


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


def test_of_two_clicks_the_last_one_counts_whichever_answer_comes_last(live: tuple[Project, str, Any, str]) -> None:
    _project, run, context, address = live
    page = context.new_page()
    page.goto(f"{address}/runs/{run}?step=write")
    held: list[Any] = []
    page.route(re.compile("step=[^&]*check"), lambda route: held.append(route))  # noqa: PLW0108 - it takes no method
    page.click(uiid("canvas.outline.step:check"))
    page.click(uiid("inspector.tab:prompt"))
    page.wait_for_selector(f"{uiid('inspector.tab:prompt')}[aria-current=page]")
    assert held
    with contextlib.suppress(Exception):  # the page has given it up
        held[0].continue_()
    page.wait_for_timeout(500)
    assert page.locator(f"{uiid('inspector.tab:prompt')}[aria-current=page]").count() == 1
    assert page.url.endswith("tab=prompt")
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


def test_the_frozen_page_is_inert_and_styled_without_a_server(
    live: tuple[Project, str, Any, str], browser: Any, tmp_path: Path
) -> None:
    project, run, _context, _address = live
    (tmp_path / "report.html").write_text(project.swarm("report", run, "--format", "html").stdout, encoding="utf-8")
    page = browser.new_page(viewport={"width": 400, "height": 800})
    outside: list[str] = []
    page.on("console", lambda message: outside.append(message.text))
    page.on("request", lambda request: outside.append(request.url))
    page.goto((tmp_path / "report.html").as_uri())
    page.click("a[href='#step-1']")
    assert page.locator("#step-1").is_visible(), "a link opens what is folded"
    assert page.evaluate("[getComputedStyle(document.body).fontSize, document.images.length]") == ["15px", 0]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert outside == [(tmp_path / "report.html").as_uri()]
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
    assert not page.locator(".runs .narrow").first.is_visible()
    page.set_viewport_size({"width": 400, "height": 800})
    page.click(".runs .narrow >> text=compare")
    assert page.locator("[name=run]").first.is_checked()
    page.set_viewport_size({"width": 1600, "height": 800})
    page.evaluate("document.activeElement.blur()")
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


def test_a_tab_whose_stream_was_refused_follows_again_when_it_is_looked_at(
    live: tuple[Project, str, Any, str],
) -> None:
    """As after a new start of the page on the same port, and a login in another tab."""
    _project, run, context, address = live
    page = context.new_page()
    page.route("**/stream?*", lambda route: route.fulfill(status=204))  # the one refusal without a message
    page.goto(f"{address}/runs/{run}")
    is_live = "window.__flowStudio.getState().isLive"
    wait_until(lambda: page.evaluate(is_live) is False, "the page knows that it follows nothing")
    page.unroute("**/stream?*")
    hide(page, is_hidden=True)
    hide(page, is_hidden=False)
    page.wait_for_selector(f"{uiid('timeline.step:talk/check@1')} >> text={MARKUP}")
    assert page.evaluate(is_live) is True
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
    first.check("input[name=adopt]")
    first.evaluate("document.activeElement.blur()")
    began = time.monotonic()
    open_gate(project)
    open_gate(project, "second")
    first.wait_for_selector(f"{uiid('timeline.step:talk/check')} a", timeout=20_000)
    assert time.monotonic() - began < 10
    first.wait_for_selector(f'{uiid("header.state")}:has-text("rehearsal")')
    assert first.input_value("textarea[name=message]") == "half typed"
    assert (first.is_checked("input[name=adopt]"), first.is_checked("input[name=approve]")) == (True, False)
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


@dataclass
class _Waiting:
    """A model that writes a file, and ends when it is told to."""

    go_on: threading.Event = field(default_factory=threading.Event)

    def __call__(self, asked: ApiRequest) -> Reply:
        if asked.wants_result:
            return handed_over()
        if asked.turn == 0:
            return Reply((Text("I write it."), Use("Bash", {"command": "echo hi >hello.txt && echo written"})))
        assert self.go_on.wait(DEADLINE_S)
        return say("That was all.")


def test_a_real_session_from_its_start_to_the_landed_commit(browser: Any, tmp_path: Path) -> None:
    """By the program `claude`, and by the page alone."""
    model = _Waiting()
    with serving() as loopback:
        project = reaching(new_project(tmp_path), loopback, model)
        project.commit({**MAKER, ".swarm/flows/one.yaml": "id: one\nsteps: [{id: work, station: maker}]\n"})
        with quiet_window(browser, project) as (context, address):
            page = context.new_page()
            page.goto(f"{address}/start")
            page.fill("[name=flow]", "one")
            page.fill("[name=message]", "Say hi in a file")
            page.select_option("[name=mode]", "cli")
            page.click(uiid("controls.start"))
            page.click("#answer a", timeout=_SOON_MS)
            executing = uiid("timeline.step:one/work@1")
            page.wait_for_selector(f"{executing} >> text=I write it.", timeout=_SOON_MS)
            page.wait_for_selector(f"{executing} >> text=written", timeout=_SOON_MS)
            assert page.locator(f"{uiid('canvas.graph.step:work')}.active").count() == 1
            model.go_on.set()
            page.wait_for_selector(f'{uiid("header.state")}:has-text("succeeded")', timeout=_SOON_MS)
            assert "claude-step/cli" in page.inner_text(uiid("inspector.panel"))
            steer(page, "land")
            assert "not approved" in page.inner_text(uiid("controls.answer"))
            steer(page, "approve")
            page.wait_for_selector(f'{uiid("header.state")}:has-text("approved")', timeout=_SOON_MS)
            page.fill("form[action$='/land'] textarea", "Say hi")
            steer(page, "land")
            page.wait_for_selector(f'{uiid("header.state")}:has-text("landed")', timeout=_SOON_MS)
    assert project.git("log", "-1", "--format=%s", "main") == "Say hi"
    assert project.git("show", "main:hello.txt") == "hi"


def test_a_run_is_paused_answered_and_stopped_by_buttons(browser: Any, tmp_path: Path) -> None:
    names = ("first", "asks", "last", "never")
    steps = {
        "first": {"run": [GATE]},
        "asks": [{"status": "BLOCKED", "blockers": ["which?"]}, {"summary": "answered"}],
        "last": {"run": [SECOND_GATE]},
    }
    made = yaml.safe_dump(flow("talk", *(step(name) for name in names)))
    project = gated(tmp_path, made, steps, "second")
    run = begun(project, "talk")

    def is_now(word: str) -> None:
        page.wait_for_selector(f'{uiid("header.state")}:has-text("{word}")', timeout=_SOON_MS)

    with quiet_window(browser, project) as (context, address):
        page = context.new_page()
        page.goto(f"{address}/runs/{run}")
        page.wait_for_selector(f"{uiid('canvas.outline.step:first')}.active")
        steer(page, "pause")
        open_gate(project)
        is_now("paused")
        steer(page, "resume")
        page.wait_for_selector("text=waits for you: which?", timeout=_SOON_MS)
        page.fill("form[action$='/resume'] textarea", "this one")
        steer(page, "resume")
        page.wait_for_selector(f"{uiid('canvas.outline.step:last')}.active", timeout=_SOON_MS)
        steer(page, "stop")
        open_gate(project, "second")
        is_now("stopped")
    assert "this one" in project.swarm("transcript", "asks", "--run", run, "--prompt").stdout
    assert [each["step"] for each in project.json("log", run)] == ["first", "asks", "asks", "last"]


def test_five_bad_nights_by_the_page_alone(browser: Any, tmp_path: Path) -> None:
    """As docs/runbook.md says: a step that hangs, a limit, a wrong approval, a changed receipt, a conflict."""
    steps = {
        "first": {"write": {"a.txt": "1\n"}, "cost_usd": 1.2},
        "last": {"run": ["test -e ../../go || sleep 600"], "write": {"a.txt": "2\n"}},
    }
    project = gated(tmp_path, yaml.safe_dump(flow("work", step("first"), step("last"))), steps)
    script = str(project.root.parent / "script.yaml")
    words = ("start", "work", "--detach", "--allow-stub", "--max-cost", "1", "--script", script)
    run = project.swarm_process(*words).stdout.split(maxsplit=1)[0]
    with quiet_window(browser, project) as (context, address):
        page = context.new_page()
        page.goto(f"{address}/runs/{run}")

        def is_now(word: str) -> None:
            page.wait_for_selector(f'{uiid("header.state")}:has-text("{word}")', timeout=_SOON_MS)

        def said() -> str:
            return " ".join(page.inner_text(uiid("controls.answer")).split())

        is_now("paused")
        assert "--max-cost 3" in page.inner_text(".head")
        page.evaluate("document.querySelector('#steer').open = true")
        page.fill("[name=max-cost]", "9")
        steer(page, "resume")
        page.wait_for_selector(f"{uiid('canvas.outline.step:last')}.active", timeout=_SOON_MS)
        time.sleep(0.5)
        steer(page, "stop.now")
        is_now("stopped")
        (tmp_path / "go").touch()
        steer(page, "resume")
        is_now("succeeded")
        steer(page, "approve")
        is_now("approved")
        page.fill("form[action$='/reject'] input", "too early")
        steer(page, "reject")
        is_now("rejected")
        steer(page, "land")
        assert "rejected" in said()
        steer(page, "approve")
        is_now("approved")
        tip = project.git("rev-parse", f"shadow/{run}")
        worktree = Path(project.swarm("path", run).stdout.strip())
        (receipt,) = worktree.glob(".swarm/runs/*/work/receipts/last-*.json")
        receipt.write_text("{}\n", encoding="utf-8")
        project.git("-C", str(worktree), "commit", "-q", "--amend", "--no-edit", "--all")
        steer(page, "verify")
        assert receipt.name in said()
        steer(page, "land.dry-run")
        assert "would land on main" in said()
        assert project.git("rev-parse", f"shadow/{run}") == tip
        steer(page, "verify")
        assert "no changes found" in said()
        project.commit({"a.txt": "3\n"}, "meanwhile")
        steer(page, "land")
        assert said().startswith(f"git swarm land {run} a.txt ")
        assert "conflict in 1 file: the approval is void" in said()


def test_a_detour_is_dashed_and_a_fork_has_its_branches_beside_each_other(browser: Any, tmp_path: Path) -> None:
    steps = (
        step("begin", kind="fork", fork_targets=["left", "right"]),
        *(step("left"), step("right"), step("both", kind="join", join_from=["left", "right"])),
    )
    quests = [quest("look", fires_after("begin"))]
    case = Case("", [flow("fan", *steps)], {"begin": {"status": "PARTIAL"}}, (), sidequests=quests)
    project = new_project(tmp_path)
    run = drive(project, case)
    with quiet_window(browser, project) as (context, address):
        page = context.new_page()
        page.goto(f"{address}/runs/{run}")

        def box(name: str) -> dict[str, float]:
            found: dict[str, float] = page.locator(f"{uiid(f'canvas.graph.step:{name}')} rect").bounding_box()
            return found

        page.wait_for_selector(uiid("canvas.graph.step:both"))
        left, right, both = box("left"), box("right"), box("both")
        assert left["x"] + left["width"] / 2 == pytest.approx(right["x"] + right["width"] / 2, abs=1)
        assert abs(left["y"] - right["y"]) >= left["height"]
        assert both["x"] > left["x"]
        dashed = "getComputedStyle(document.querySelector(`%s`)).%s"
        for name, is_dashed in (("sq-look-look", True), ("left", False)):
            rect = page.evaluate(dashed % (f"{uiid(f'canvas.graph.step:{name}')} rect", "strokeDasharray"))
            pill = page.evaluate(dashed % (uiid(f"canvas.outline.step:{name}"), "borderTopStyle"))
            assert (rect != "none", pill == "dashed") == (is_dashed, is_dashed), name
        assert page.locator("#graph .edge.aside").count() >= 1


def test_a_browser_without_the_cookie_or_from_elsewhere_gets_nothing(browser: Any, tmp_path: Path) -> None:
    """401, 421 and 403, as a browser sends it."""
    project = new_project(tmp_path)
    with quiet_window(browser, project) as (context, address), browser.new_context() as stranger:
        page = stranger.new_page()
        assert page.goto(f"{address}/").status == 401
        assert page.goto(f"{address}/stream").status == 401
        assert page.goto(address.replace("127.0.0.1", "localhost")).status == 421
        (evil := tmp_path / "evil").mkdir()
        (evil / "index.html").write_text(
            f"<form method=post action={address}/start><input name=flow value=build><button>x</button></form>"
            f"<script src={address}/runs.json></script>",
            encoding="utf-8",
        )
        with _served(evil) as elsewhere, browser.new_context(storage_state=context.storage_state()) as victim:
            page = victim.new_page()
            said: dict[str, int] = {}
            page.on("response", lambda answer: said.update({answer.url.removeprefix(address): answer.status}))
            page.on("requestfailed", lambda asked: said.update({asked.url.removeprefix(address): 0}))
            page.goto(elsewhere)
            page.click("button")
            page.wait_for_load_state()
            assert (said["/runs.json"], said["/start"]) == (0, 403), "a script gets not even the refusal"
    assert project.json("list") == []


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """Another site on this machine."""
    handler = partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_arguments: object) -> None:
        pass


def test_the_pictures_are_made_by_this(tmp_path: Path) -> None:
    """In a process of its own: playwright is one loop per process."""
    subprocess.run([sys.executable, "-m", "docs.web_pictures", str(tmp_path)], cwd=ROOT, check=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["web-diff.png", "web-run.png"]
