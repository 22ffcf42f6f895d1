"""What a browser gets while a run executes: every line once, in order, whole, and at once."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from gitswarm.git.reader import open_reader
from gitswarm.ledger.finding import find_run
from gitswarm.web.stream import Cursor, list_messages, list_stamp, read_on, run_messages
from tests.cli.gated import GATE, gated, open_gate
from tests.conftest import Project
from tests.web.browsing import uiids, visitor

FLOW = """\
id: talk
steps:
  - {id: plan, station: code-implementer}
  - {id: write, station: code-implementer}
  - {id: check, station: code-implementer}
"""
STEPS = {
    "plan": {"cost_usd": 0.2},
    "write": {"write": {"hello.txt": "hi\n"}, "run": ["echo first", GATE], "cost_usd": 0.4},
    "check": {"summary": "checked"},
}


@dataclass(frozen=True)
class Message:
    event: str
    id: str
    said: dict[str, Any]


def parsed(text: str) -> list[Message]:
    """Server-sent events, as a browser reads them."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in fields:
            found.append(Message(fields["event"], fields["id"], json.loads(fields["data"])))
    return found


def heard(
    stream: AsyncIterator[str], until: Callable[[list[Message]], bool], do: Callable[[], object] = bool
) -> list[Message]:
    """What comes up to there, at most 30 s; `do` is done meanwhile, when the first message was heard."""
    found: list[Message] = []

    async def listen() -> None:
        begun = False
        with anyio.fail_after(30):
            async with anyio.create_task_group() as beside:
                async for text in stream:
                    found.extend(parsed(text))
                    if not begun:
                        begun = True
                        beside.start_soon(anyio.to_thread.run_sync, do)
                    if until(found):
                        return

    anyio.run(listen)
    return found


def lines(messages: list[Message]) -> list[str]:
    return [f"{each.said['kind']} {each.said['text']}" for each in messages if each.event == "line"]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Project, str]]:
    """A run in the background whose first step waits at the gate; let go at the end."""
    project = gated(tmp_path_factory.mktemp("stream"), FLOW, STEPS)
    script = str(project.root.parent / "script.yaml")
    run = project.swarm_process("start", "talk", "--detach", "--script", script).stdout.split(maxsplit=1)[0]
    deadline = time.monotonic() + 30
    while (
        not (journals := list(folder(project, run).glob("*.jsonl")))
        or GATE.encode()[:3] not in journals[0].read_bytes()
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield project, run
    if is_running(project, run):
        open_gate(project)
    while is_running(project, run):
        time.sleep(0.05)


def is_running(project: Project, run: str) -> bool:
    return bool(project.json("status", run)["state"] == "running")


def folder(project: Project, run: str) -> Path:
    return project.root / ".git" / "swarm" / "journal" / run


def stream(project: Project, run: str, known: Cursor) -> AsyncIterator[str]:
    def opened() -> Any:
        return open_reader(project.root, project.env)

    return run_messages(opened, find_run(opened(), run), known, lambda: False)


def test_the_page_of_a_running_run_shows_its_lines_and_what_stops_it(live: tuple[Project, str]) -> None:
    project, run = live
    page = visitor(project).get(f"/runs/{run}").text
    assert {"flow_studio.controls.pause", "flow_studio.controls.stop"} <= set(uiids(page))
    assert 'data-lines="talk/write@1"' in page
    assert "<span>echo first</span>" in page
    assert re.search(r'class="active running"[^>]*data-uiid="flow_studio.canvas.outline.step:write"', page)
    assert json.loads(visitor(project).get(f"/runs/{run}.json").text)["current_step"] == "write"
    (ticker,) = re.findall(r'data-uiid="flow_studio.header.cost">(.*?)</span>', page)
    assert ticker == "$0.60, 0 tokens, about $0.90 in the end"


def test_who_comes_back_with_an_id_gets_exactly_what_is_behind_it(live: tuple[Project, str]) -> None:
    project, run = live
    repository = open_reader(project.root, project.env)
    layout = find_run(repository, run)
    tip = repository.refs.read(layout.branch) or ""
    every = heard(stream(project, run, Cursor(tip)), lambda found: found[-1:] != [] and found[-1].event == "moved")
    everything = lines(every)
    assert any(each.endswith("echo first") for each in everything)
    assert [str(read_on(repository, layout, Cursor.of(each.id)).cursor) for each in every] == [every[-1].id] * len(
        every
    )
    for number, each in enumerate(every[:4], 1):
        again = read_on(repository, layout, Cursor.of(each.id))
        assert [f"{line.kind} {line.text}" for line, _behind in again.lines] == everything[number:]
        assert again.is_moved, "the message behind these lines is owed"
    nothing = read_on(repository, layout, Cursor.of(every[-1].id))
    assert (nothing.lines, nothing.is_moved) == ([], False)


def test_a_half_line_is_held_back_and_a_whole_one_is_there_within_a_second(live: tuple[Project, str]) -> None:
    project, run = live
    repository = open_reader(project.root, project.env)
    layout = find_run(repository, run)
    known = read_on(repository, layout, Cursor.of("")).cursor
    (journal,) = folder(project, run).glob("*.jsonl")
    before = journal.read_bytes()
    event = {"run_id": run, "seq": 900, "ts": "2026-01-01T00:00:00.000Z", "kind": "message", "flow_key": "talk"}
    event |= {"step_id": "write", "iteration": 1, "payload": {"role": "assistant", "text": "<b>late</b>"}}
    half, end = json.dumps(event)[:80].encode(), json.dumps(event)[80:].encode() + b"\n"
    try:
        with journal.open("ab", buffering=0) as file:
            file.write(half)
            assert (read_on(repository, layout, known).lines, read_on(repository, layout, known).cursor) == (
                [],
                known,
            )
            began = 0.0

            def write() -> None:
                nonlocal began
                time.sleep(0.3)  # the stream has looked, and waits
                began = time.monotonic()
                file.write(end)

            said = heard(stream(project, run, known), lambda found: bool(lines(found)), write)
        assert time.monotonic() - began < 1
        assert lines(said) == ["assistant <b>late</b>"]
    finally:
        os.truncate(journal, len(before))


def test_a_step_that_is_committed_is_announced_and_then_shown_from_git(live: tuple[Project, str]) -> None:
    """The last one here: it opens the gate."""
    project, run = live
    repository = open_reader(project.root, project.env)
    known = read_on(repository, find_run(repository, run), Cursor.of("")).cursor
    end = f"shadow/{run}"

    def is_over(found: list[Message]) -> bool:
        return bool(found) and found[-1].id == project.git("rev-parse", end) and not is_running(project, run)

    said = heard(stream(project, run, known), is_over, lambda: open_gate(project))
    assert {each.event for each in said} <= {"line", "moved"}
    page = visitor(project).get(f"/runs/{run}").text
    assert 'data-uiid="flow_studio.timeline.step:talk/write"' in page
    assert "data-lines" not in page
    assert f'data-after="{said[-1].id}"' in page


def test_the_list_hears_of_a_new_run(tmp_path: Path) -> None:
    project = gated(tmp_path, FLOW, {"write": {"summary": "w"}})

    def opened() -> Any:
        return open_reader(project.root, project.env)

    known = list_stamp(opened())
    project.swarm("start", "talk", "--script", str(project.root.parent / "script.yaml"))
    said = heard(list_messages(opened, known, lambda: False), bool)
    assert said[0].event == "moved"
    assert said[0].id != known


def test_the_header_of_a_browser_that_comes_back_wins(live: tuple[Project, str]) -> None:
    project, run = live
    stands = str(
        read_on(repository := open_reader(project.root, project.env), find_run(repository, run), Cursor.of("")).cursor
    )
    for header, count in (({}, 1), ({"Last-Event-ID": stands}, 0)):
        client = visitor(project, iter((False, True)).__next__)
        text = client.get(f"/runs/{run}/stream?after=x", headers=header).text
        assert (text.startswith("retry: 1000\n\n"), [each.event for each in parsed(text)].count("moved")) == (
            True,
            count,
        )


def test_streams_end_with_the_server(live: tuple[Project, str]) -> None:
    project, run = live
    repository = open_reader(project.root, project.env)
    ended = run_messages(lambda: repository, find_run(repository, run), Cursor.of(""), lambda: True)
    assert heard(ended, lambda _found: False) == []
