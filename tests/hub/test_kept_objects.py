"""`list --hub` reads what a hub has once, and believes only what has the id that the hub names."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import pytest

from gitswarm.git.reader import RepositoryReader
from gitswarm.git.remote import Remote
from gitswarm.ledger import kept_overviews, lease
from gitswarm.ledger.archive import printed_objects
from gitswarm.ledger.lease import HubArchive, archive_on_hub
from tests.hub.clones import two_clones


def test_a_lease_is_read_once_and_no_file_changes_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clones = two_clones(tmp_path)
    clones.here.swarm(*clones.start(), "--until", "first")
    there, asked = clones.there, list[int]()
    monkeypatch.setattr(kept_overviews, "_FEW", 0)

    def printed(output: bytes) -> dict[str, bytes]:
        found = printed_objects(output)
        asked.append(len(found))
        return found

    monkeypatch.setattr(kept_overviews, "printed_objects", printed)

    def reads() -> tuple[object, int]:
        """What is shown, and how many leases git was asked for with success."""
        asked.clear()
        return there.json("list", "--hub"), sum(asked)

    told, read = reads()
    assert (read, reads()) == (1, (told, 0))
    file = there.root / ".git" / "swarm" / "overviews" / "leases"
    (kept,) = msgspec.msgpack.decode(file.read_bytes(), type=dict[str, bytes]).items()
    forged = kept[1].replace(b'"state":"stopped"', b'"state":"succeeded"')
    assert forged != kept[1]
    for damaged in (b"", b"\x93", msgspec.msgpack.encode({kept[0]: forged}), msgspec.msgpack.encode({kept[0]: 1})):
        file.write_bytes(damaged)
        assert (reads(), reads()) == ((told, 1), (told, 0))
    clones.here.swarm("resume", "--hub")
    now, read = reads()
    assert (read, [each["state"] for each in now]) == (1, ["succeeded"])  # type: ignore[attr-defined]


def test_an_archived_run_is_fetched_once_and_no_file_changes_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clones = two_clones(tmp_path)
    clones.here.swarm(*clones.start())
    clones.here.swarm("gc", "--hub", "--archive", "0s")
    there, opened = clones.there, list[str]()
    monkeypatch.setattr(kept_overviews, "_FEW", 0)

    def on_hub(repository: RepositoryReader, remote: Remote) -> AbstractContextManager[HubArchive | None]:
        opened.append(remote.name)
        return archive_on_hub(repository, remote)

    monkeypatch.setattr(lease, "archive_on_hub", on_hub)

    def reads() -> tuple[object, int]:
        """What is shown, and whether something was fetched."""
        opened.clear()
        return there.json("list", "--hub", "--all"), len(opened)

    told, read = reads()
    assert (read, reads()) == (1, (told, 0))
    file = there.root / ".git" / "swarm" / "overviews" / "archive"
    kept = msgspec.msgpack.decode(file.read_bytes(), type=dict[str, bytes])
    forged = {each: content.replace(b'"succeeded"', b'"failed"') for each, content in kept.items()}
    assert forged != kept
    for damaged in (b"", msgspec.msgpack.encode(forged), msgspec.msgpack.encode(dict(list(kept.items())[:3]))):
        file.write_bytes(damaged)
        assert (reads(), reads()) == ((told, 1), (told, 0))
