"""What the pages show of runs that really were executed, and that they change nothing."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass

import pytest
import yaml
from starlette.testclient import TestClient

from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.state import RunState, replay
from gitswarm.web.cut_diff import MOST_LINES
from tests.conftest import Project
from tests.projects import new_project
from tests.web.browsing import uiids, visitor

FLOW = "id: two\nsteps: [{id: s1, station: code-implementer}, {id: s2, station: code-implementer}]\n"
MARKUP = "<img src=x onerror=alert(1)>"
HIDING = "odd b/README\u202e.md"
HIDDEN = "x = 1\rimport os  # \u202e\r\n"
SCRIPT = {
    "s1": {
        "write": {
            f"a{MARKUP[:-1]}.txt": f"</pre><script>alert(1)</script>{MARKUP}\n",
            "long.txt": "x\n" * (MOST_LINES + 500),
        },
        "run": [f"echo '{MARKUP}'"],
        "summary": f"wrote {MARKUP}",
        "envelope": {
            "status": "VERIFIED",
            "summary": f"wrote {MARKUP}",
            "concerns": [MARKUP],
        },
    },
    "s2": {"write": {"b.txt": "y\n"}, "summary": "second"},
}
QUESTION = f"which one? {MARKUP}"


@dataclass(frozen=True)
class Shown:
    """A landed run, a fork of it, one that waits for an answer, and one whose agent claims what is not so."""

    project: Project
    landed: str
    fork: str
    paused: str
    liar: str
    client: TestClient

    def get(self, address: str, status: int = 200) -> str:
        answer = self.client.get(address)
        assert answer.status_code == status, f"{address}\n{answer.text}"
        return answer.text


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    project = new_project(tmp_path_factory.mktemp("pages"))
    project.commit({".swarm/flows/two.yaml": FLOW})
    landed = project.start(yaml.safe_dump({"steps": SCRIPT}), "--allow-stub", "-m", f"The first {MARKUP}", flow="two")
    project.swarm("approve", landed, code=0)
    project.swarm("land", landed)
    project.swarm("fork", "s1", "--run", landed, "--until", "s2")
    fork = project.json("list")[0]["run_id"]
    asks = yaml.safe_dump({"steps": {"s1": {"status": "BLOCKED", "blockers": [QUESTION]}}})
    paused = project.start(asks, flow="two", code=5)
    claim = {"status": "VERIFIED", "summary": "done", "file_changes": [{"path": "nowhere.txt", "change": "added"}]}
    lies = yaml.safe_dump({"steps": {"s1": {"write": {"c.txt": "z\n", HIDING: HIDDEN}, "envelope": claim}}})
    liar = project.start(lies, flow="two", code=5)
    return Shown(project, landed, fork, paused, liar, visitor(project))


def test_the_list_has_a_row_for_each_run_and_is_filtered_by_its_address(shown: Shown) -> None:
    rows = re.findall(r'flow_studio.runs.run:(\S+)"', shown.get("/"))
    assert rows == [shown.liar, shown.paused, shown.fork, shown.landed]
    assert re.findall(r"flow_studio.runs.run:(\S+)\"", shown.get("/?state=landed")) == [shown.landed]
    assert re.findall(r"flow_studio.runs.run:(\S+)\"", shown.get("/?q=PAUSED&flow=two")) == [shown.liar, shown.paused]
    assert "No such run" in shown.get("/?flow=other")


def test_the_names_of_the_machine_contract_are_on_the_pages(shown: Shown) -> None:
    everywhere = {"flow_studio.header.search.input", "flow_studio.sidebar.flow_list"}
    assert everywhere <= set(uiids(shown.get("/")))
    found = uiids(shown.get(f"/runs/{shown.landed}"))
    assert everywhere <= set(found)
    steps = [name for name in found if name.startswith("flow_studio.canvas.outline.step:")]
    assert steps == ["flow_studio.canvas.outline.step:s1", "flow_studio.canvas.outline.step:s2"]
    assert [name for name in found if name.startswith("flow_studio.timeline.step:")] == [
        "flow_studio.timeline.step:two/s1",
        *("flow_studio.timeline.step:two/s2", "flow_studio.timeline.step:two/approve"),
        "flow_studio.timeline.step:two/land",
    ]


@pytest.mark.parametrize("tab", ["evidence", "diff", "transcript", "receipt", "prompt", "routing"])
def test_what_an_agent_wrote_is_text_in_every_tab(shown: Shown, tab: str) -> None:
    page = shown.get(f"/runs/{shown.landed}?step=s1&tab={tab}")
    assert "<img" not in page
    assert "<script>" not in page
    assert html.escape(MARKUP) in page
    assert f'aria-current="page" data-uiid="flow_studio.inspector.tab:{tab}"' in page


def test_what_hides_text_from_a_reviewer_is_visible(shown: Shown) -> None:
    """A browser takes a lone CR for the end of a line, and diff2html leaves out lines that begin with no sign."""
    page = shown.get(f"/runs/{shown.liar}?step=1&tab=diff")
    assert "\n+x = 1�import os  # �\n" in page
    assert "<summary>odd b/README�.md</summary>" in page
    assert not {"\r", "\u202e"} & set(page + shown.get("/"))


def test_what_an_agent_wrote_is_text_in_the_frozen_page(shown: Shown) -> None:
    for run in (shown.landed, shown.liar):
        page = shown.project.swarm("report", run, "--format", "html").stdout
        assert not re.search(r"<img|<script|[\r\u202e]", page)
        assert (html.escape(MARKUP) in page) == (run == shown.landed)
    assert re.search(r"<details open><summary>two/s1 .*≠ mismatch", page, re.DOTALL)


def test_what_an_agent_asks_is_text(shown: Shown) -> None:
    page = shown.get(f"/runs/{shown.paused}")
    assert f"waits for you: {html.escape(QUESTION)}" in page
    assert "<img" not in page + shown.get("/")


def test_a_claim_that_git_does_not_bear_out_is_marked(shown: Shown) -> None:
    page = html.unescape(shown.get(f"/runs/{shown.liar}?step=1"))
    (row,) = re.findall(r'<tr class="mismatch"><th scope="row">files .*?</tr>', page, re.DOTALL)
    assert "≠ mismatch" in row
    assert "<div>added nowhere.txt</div>" in row
    assert "nowhere.txt: said, and not in the diff" in row
    assert "c.txt: changed, and not said" in row
    assert "blocking <b>file_changes_mismatch@two/s1</b>: nowhere.txt is claimed, but does not exist" in page
    assert '<tr class=""><th scope="row">files' in shown.get(f"/runs/{shown.landed}?step=s2")


def test_a_long_file_is_cut_and_whole_behind_a_link(shown: Shown) -> None:
    page = shown.get(f"/runs/{shown.landed}?step=s1&tab=diff")
    cut = page.count("\n+x")
    (link, left) = re.findall(r'href="(\S+)">the rest: (\d+) more lines', page)[0]
    assert cut < MOST_LINES < cut + int(left)
    assert shown.get(link).count("\n+x") == MOST_LINES + 500 == cut + int(left)
    assert shown.get(f"/runs/{shown.landed}/diff").count("\n+x") == cut
    shown.get(f"/runs/{shown.landed}/steps/1/files/99", 404)


def test_of_a_page_that_is_full_the_other_files_are_behind_links(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gitswarm.web.cut_diff.MAX_PAGE", 300)
    page = shown.get(f"/runs/{shown.landed}/diff")
    links = dict(re.findall(r'href="(\S+)">the rest: (\d+) more lines', page))
    assert list(links) == [f"/runs/{shown.landed}/files/{number}" for number in (1, 2)], (
        "all of the first one was shown"
    )
    assert page.count("<summary>") == 3
    assert "\n+y\n" in shown.get(next(iter(links)))


def test_of_a_run_that_ended_the_step_that_blocks_it_is_opened(shown: Shown) -> None:
    number = {
        run: re.findall(r'data-uiid="flow_studio.inspector.panel">\s*<h2>(\S+)', shown.get(f"/runs/{run}"))
        for run in (shown.liar, shown.fork)
    }
    assert number == {shown.liar: ["two/s1"], shown.fork: ["two/s2"]}


def test_files_that_the_run_changed_are_listed(shown: Shown) -> None:
    page = html.unescape(shown.get(f"/runs/{shown.landed}"))
    listed = re.findall(r'<li>(\w+) <code>(.*?)</code> <span class="facts">(.*?)</span>', page)
    assert listed == [
        ("added", f"a{MARKUP[:-1]}.txt", "+1 -0"),
        ("added", "b.txt", "+1 -0"),
        ("added", "long.txt", "+2500 -0"),
    ]


def test_the_command_below_a_difference_says_the_same(shown: Shown) -> None:
    page = html.unescape(shown.get(f"/runs/{shown.landed}?step=s2&tab=diff"))
    (command,) = re.findall(r"<code>git (diff .*?)</code>", page)
    said = shown.project.git(*command.replace("'", "").split())
    assert said in page


@pytest.mark.parametrize(
    ("address", "command"),
    [
        ("/runs.json", "list --json"),
        pytest.param("/runs/RUN.json", "status RUN --json", marks=pytest.mark.soak),
        pytest.param("/runs/RUN/log.json", "log RUN --json", marks=pytest.mark.soak),
        pytest.param("/runs/RUN/cost.json", "cost RUN --json", marks=pytest.mark.soak),
        pytest.param("/runs/RUN/events.jsonl", "events RUN --json", marks=pytest.mark.soak),
        ("/runs/RUN/steps/two/s1.json", "show two/s1 --run RUN --json"),
        pytest.param("/runs/RUN/steps/2/transcript.json", "transcript 2 --run RUN --json", marks=pytest.mark.soak),
        ("/compare.json?run=RUN&run=FORK", "compare RUN FORK --json"),
    ],
)
def test_each_page_has_a_twin_that_is_what_the_command_says(shown: Shown, address: str, command: str) -> None:
    def named(text: str) -> str:
        return text.replace("RUN", shown.landed).replace("FORK", shown.fork)

    answer = shown.client.get(named(address))
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    said = shown.project.swarm(*named(command).split()).stdout
    assert re.sub(r'"disk_bytes": \d+', "", answer.text) == re.sub(r'"disk_bytes": \d+', "", said)


def test_a_twin_refuses_as_its_command_does(shown: Shown) -> None:
    answer = shown.client.get("/runs/nowhere.json")
    assert (answer.status_code, answer.json()) == (
        404,
        {"error": "no run matches 'nowhere'", "hint": "git swarm list"},
    )
    assert shown.client.get("/runs/--all/log.json").status_code == 400


def test_the_transcript_has_the_shape_of_its_contract(shown: Shown) -> None:
    run = shown.landed
    found = json.loads(shown.get(f"/api/runs/{run}/flows/two/steps/s1/transcript"))
    assert {name: found[name] for name in found if name != "messages"} == {
        "run_id": run,
        "flow_key": "two",
        "step_id": "s1",
    }
    path = f".swarm/runs/{run}/two/llm/s1-code-implementer-claude.jsonl"
    assert found["messages"] == [
        json.loads(line) for line in shown.project.git("show", f"shadow/{run}:{path}").splitlines()
    ]
    assert json.loads(shown.get("/api/runs/run-x/flows/two/steps/s1/transcript", 404)) == {"detail": "Run not found"}
    for place in ("flows/two/steps/s9", "flows/other/steps/s1"):
        missing = json.loads(shown.get(f"/api/runs/{run}/{place}/transcript", 404))
        assert missing == {"detail": "Transcript not found"}


def test_a_fork_says_where_it_comes_from(shown: Shown) -> None:
    page = shown.get(f"/runs/{shown.fork}")
    steps = re.findall(r'flow_studio.timeline.step:([^"]*)"|◇ forked here from <a href="/runs/(\S+)">', page)
    assert steps == [("two/s1", ""), ("", shown.landed), ("two/s2", "")]
    assert "forked here" not in shown.get(f"/runs/{shown.landed}")


def test_two_runs_are_compared_step_by_step(shown: Shown) -> None:
    page = shown.get(f"/compare?run={shown.landed}&run={shown.paused}")
    (row,) = re.findall(r'<tr data-item class="mismatch"><th scope="row">two/s1@1.*?</tr>', page, re.DOTALL)
    assert ("VERIFIED" in row or "UNVERIFIED" in row, "BLOCKED" in row) == (True, True)
    same = shown.get(f"/compare?run={shown.landed}&run={shown.fork}")
    assert '<tr data-item class=""><th scope="row">two/s1@1' in same
    shown.get(f"/compare?run={shown.landed}", 400)


@pytest.mark.parametrize("address", ["/nowhere", "/runs/nowhere", "/runs/nowhere/diff"])
def test_what_is_not_there_is_not_found(shown: Shown, address: str) -> None:
    assert "next <code>git swarm " in shown.get(address, 404)


def test_a_step_that_is_in_no_commit_is_named(shown: Shown) -> None:
    assert "s2 is in no commit yet." in shown.get(f"/runs/{shown.paused}?step=s2")


def test_a_list_that_is_filtered_reads_no_run_twice(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is fetched again whenever a run moves."""
    shown.get("/?state=paused")
    read: list[str] = []

    def counted(repository: RepositoryReader, layout: RunLayout) -> RunState:
        read.append(layout.run_id)
        return replay(repository, layout)

    monkeypatch.setattr("gitswarm.ledger.overview.replay", counted)
    assert f"flow_studio.runs.run:{shown.paused}" in uiids(shown.get("/?state=paused"))
    assert read == []


def test_looking_changes_nothing(shown: Shown) -> None:
    before = shown.project.git("for-each-ref"), shown.project.git("status", "--porcelain")
    for run in (shown.landed, shown.fork, shown.paused):
        shown.get(f"/runs/{run}")
    assert (shown.project.git("for-each-ref"), shown.project.git("status", "--porcelain")) == before


def test_an_archived_run_is_shown_as_before(shown: Shown) -> None:
    """The last test here: it folds the landed run."""
    before = shown.get(f"/runs/{shown.landed}?step=s1")
    shown.project.swarm("gc", "--archive", "0d")
    assert shown.landed not in shown.project.git("branch", "--list", "shadow/*")
    after = shown.get(f"/runs/{shown.landed}?step=s1")
    steps = re.compile(r'data-uiid="flow_studio\.(?:timeline|canvas)[^"]*"')
    assert steps.findall(after) == steps.findall(before)
    assert " archived," in after
    assert "flow_studio.controls.fork" not in after
    assert shown.landed not in uiids(shown.get("/"))
    assert f"flow_studio.runs.run:{shown.landed}" in uiids(shown.get("/?archived=1"))
    (more,) = re.findall(r'href="([^"]*)">more<', shown.get("/?archived=1&n=1"))
    assert f"flow_studio.runs.run:{shown.landed}" in uiids(shown.get(f"/{html.unescape(more)}"))
