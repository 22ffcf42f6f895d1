"""Events of outside writers."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitswarm.ledger.journal import Inbox, InboxEvent, Received
from gitswarm.records.event import Event, EventKind

RUN = "run-20260101-000000-abcdef"


def received(origin: str, source: str, message: str) -> Received:
    return Received(origin, Event(EventKind.EXTERNAL, {"source": source, "message": message}))


def put_raw(swarm: Path, name: str, content: bytes) -> Path:
    path = swarm / "inbox" / RUN / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_events_wait_in_the_order_of_their_names(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path, RUN)
    inbox.put(InboxEvent(source="ci", message="second"), "2")
    inbox.put(InboxEvent(source="hook", message="first"), "1")
    assert inbox.waiting() == [received("1.json", "hook", "first"), received("2.json", "ci", "second")]


def test_reading_does_not_take_them_away(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path, RUN)
    inbox.put(InboxEvent(source="ci", message="green"), "1")
    assert inbox.waiting() == inbox.waiting() == [received("1.json", "ci", "green")]


def test_what_is_in_a_commit_is_deleted(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path, RUN)
    inbox.put(InboxEvent(source="ci", message="green"), "1")
    inbox.put(InboxEvent(source="ci", message="red"), "2")
    inbox.delete(["1.json", "1.json"])
    assert inbox.waiting() == [received("2.json", "ci", "red")]


def test_a_file_that_is_still_being_written_is_not_there_yet(tmp_path: Path) -> None:
    put_raw(tmp_path, ".1.tmp", b'{"source": "ci", "mess')
    assert Inbox(tmp_path, RUN).waiting() == []


def test_an_inbox_that_does_not_exist_is_empty(tmp_path: Path) -> None:
    assert Inbox(tmp_path, RUN).waiting() == []


def test_runs_have_inboxes_of_their_own(tmp_path: Path) -> None:
    Inbox(tmp_path, "run-20260101-000000-000000").put(InboxEvent(source="ci", message="green"), "1")
    assert Inbox(tmp_path, RUN).waiting() == []


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff", b'{"source": "ci"}', b'{"source": "ci", "message": "x", "seq": 1}'],
)
def test_what_is_no_event_goes_to_quarantine(tmp_path: Path, content: bytes) -> None:
    put_raw(tmp_path, "1.json", content)
    inbox = Inbox(tmp_path, RUN)
    inbox.put(InboxEvent(source="ci", message="green"), "2")
    assert inbox.waiting() == [received("2.json", "ci", "green")]
    assert (tmp_path / "quarantine" / RUN / "1.json").read_bytes() == content


def test_a_folder_in_the_inbox_goes_to_quarantine(tmp_path: Path) -> None:
    (tmp_path / "inbox" / RUN / "1.json").mkdir(parents=True)
    assert Inbox(tmp_path, RUN).waiting() == []
    assert (tmp_path / "quarantine" / RUN / "1.json").is_dir()


def test_a_dangling_link_in_the_inbox_goes_to_quarantine(tmp_path: Path) -> None:
    put_raw(tmp_path, "0.json", b"").unlink()
    (tmp_path / "inbox" / RUN / "1.json").symlink_to("nowhere")
    assert Inbox(tmp_path, RUN).waiting() == []
    assert (tmp_path / "quarantine" / RUN / "1.json").is_symlink()


def test_a_second_rejected_file_of_the_same_name_keeps_the_first(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path, RUN)
    for content in (b"one", b"two"):
        put_raw(tmp_path, "1.json", content)
        inbox.waiting()
    kept = sorted(path.read_bytes() for path in (tmp_path / "quarantine" / RUN).iterdir())
    assert kept == [b"one", b"two"]
