"""The write-ahead log of one step."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gitswarm.ledger.journal import Journal, OpenJournal, Received, open_journals
from gitswarm.ledger.layout import RunLayout
from gitswarm.records.event import Event, EventKind, LoggedEvent
from gitswarm.records.execution import Execution
from gitswarm.records.safety import SecretRules
from gitswarm.safety.redact.redactor import Redactor

RUN = RunLayout("run-20260101-000000-abcdef")
EXECUTION = Execution(RUN.run_id, "build", "critique_code", 2, "code-critic")
START = Event(EventKind.TOOL_START, {"tool": "Bash", "input": {"command": "true"}})
END = Event(EventKind.TOOL_END, {"tool": "Bash", "success": True, "output": "ü"})


def clock() -> datetime:
    return datetime(2026, 1, 1, 12, 0, 0, 5000, tzinfo=UTC)


def journal(folder: Path, told: list[LoggedEvent] | None = None) -> Journal:
    return Journal(folder, EXECUTION, clock, (told if told is not None else []).append, Redactor(SecretRules(), {}))


def logged(seq: int, event: Event, origin: str | None = None) -> LoggedEvent:
    return LoggedEvent(
        run_id=RUN.run_id,
        seq=seq,
        ts="2026-01-01T12:00:00.005Z",
        kind=event.kind,
        flow_key="build",
        step_id="critique_code",
        iteration=2,
        agent_key="code-critic",
        origin=origin,
        payload=dict(event.payload),
    )


def test_an_event_is_on_disk_when_append_returns(tmp_path: Path) -> None:
    journal(tmp_path).append(START)
    assert (tmp_path / "build.critique_code@2.jsonl").read_bytes() == logged(1, START).to_line()


def test_events_are_numbered_stamped_and_told(tmp_path: Path) -> None:
    told: list[LoggedEvent] = []
    log = journal(tmp_path, told)
    log.append(START)
    log.append_all([Received("7.json", END)])
    assert told == [logged(1, START), logged(2, END, origin="7.json")]


def test_what_the_commit_holds_is_what_lies_on_disk(tmp_path: Path) -> None:
    log = journal(tmp_path)
    log.append(START)
    log.append(END)
    assert log.content == log.path.read_bytes()


def test_an_event_that_breaks_the_contract_is_not_written(tmp_path: Path) -> None:
    log = journal(tmp_path)
    with pytest.raises(ValueError, match="tool_end: 'output' is missing"):
        log.append(Event(EventKind.TOOL_END, {"tool": "Bash", "success": True}))
    assert log.path.read_bytes() == b""


def test_a_deleted_journal_is_gone(tmp_path: Path) -> None:
    log = journal(tmp_path)
    log.append(START)
    log.delete()
    assert open_journals(tmp_path) == []


def test_deleting_twice_is_safe(tmp_path: Path) -> None:
    log = journal(tmp_path)
    log.delete()
    log.delete()
    assert not log.path.exists()


def test_a_journal_whose_owner_died_is_found_with_its_execution(tmp_path: Path) -> None:
    log = journal(tmp_path)
    log.append(START)
    assert open_journals(tmp_path) == [OpenJournal(log.path, "build", "critique_code", 2)]


def test_a_torn_last_line_costs_only_itself(tmp_path: Path) -> None:
    log = journal(tmp_path)
    log.append(START)
    log.append(END)
    log.path.write_bytes(log.content[:-20])
    (found,) = open_journals(tmp_path)
    assert found.read() == [logged(1, START)]


def test_a_journal_that_is_deleted_while_it_is_read_is_empty(tmp_path: Path) -> None:
    log = journal(tmp_path)
    (found,) = open_journals(tmp_path)
    log.delete()
    assert found.read() == []


def test_other_files_are_no_journals(tmp_path: Path) -> None:
    for name in ("notes.txt", "build.jsonl", "build.x@y.jsonl", "@1.jsonl"):
        (tmp_path / name).touch()
    assert open_journals(tmp_path) == []


def test_a_folder_that_does_not_exist_has_no_journals(tmp_path: Path) -> None:
    assert open_journals(tmp_path / "none") == []
