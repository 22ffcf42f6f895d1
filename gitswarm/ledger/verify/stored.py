"""What lies beside a run's branch: its notes, and the commits that its other refs hold."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gitswarm.errors import GarbledError
from gitswarm.git.refs import Refs
from gitswarm.git.sealed import SealedObjects
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.routing_note import parse
from gitswarm.ledger.verify.finding import Mismatch
from gitswarm.ledger.verify.notes import RunNotes
from gitswarm.ledger.verify.numbers import StepKey
from gitswarm.ledger.verify.reader import LinkReader
from gitswarm.records.routing import Decision

_ID = re.compile(r"[0-9a-f]{40}")


def read_notes(refs: Refs, reader: LinkReader, layout: RunLayout) -> RunNotes:
    """Today's notes of a run; what cannot be read of them is a finding of the reader."""
    events = _noted(refs, reader, layout.events_notes)
    routing = _noted(refs, reader, layout.routing_notes)
    where = Mismatch(check="notes", path=layout.routing_notes, message="")
    contents = {
        commit: reader.blob(blob_id, where.model_copy(update={"commit": commit}))
        for commit, blob_id in (routing or {}).items()
    }
    whole = {commit: content for commit, content in contents.items() if content is not None}
    entries = [entry for content in whole.values() for entry in parse(content)]
    forks = tuple(entry for entry in entries if isinstance(entry, Decision) and entry.fork is not None)
    return RunNotes(events, whole if routing is not None else None, forks)


def _noted(refs: Refs, reader: LinkReader, ref: str) -> dict[str, str] | None:
    """Commit → id of its note; None: there is no such ref."""
    try:
        tip = refs.read(ref)
        if tip is None:
            return None
        files = reader.objects.files(reader.objects.commit(tip).tree)
        found = ((path.replace("/", ""), entry.id) for path, entry in files)
        return {name: blob_id for name, blob_id in found if _ID.fullmatch(name)}
    except GarbledError as error:
        reader.findings.append(Mismatch(check="notes", path=ref, message=error.message))
        return {}


def sibling_commits(refs: Refs, layout: RunLayout) -> list[str]:
    """Commits of steps that were executed beside others, in the order of their refs."""
    found = (_read(refs, name) for name in refs.list(layout.fork_prefix))
    return list(dict.fromkeys(commit for commit in found if commit is not None))


def interrupted(refs: Refs, objects: SealedObjects, layout: RunLayout) -> dict[StepKey, int]:
    """Highest iteration per flow and step of executions that were cut off, as what was kept of them says."""
    highest: dict[StepKey, int] = {}
    for name in refs.list(layout.rollback_prefix):
        said = _said(refs, objects, name)
        flow, step, iteration = (said.get(f"Swarm-{what}", "") for what in ("Flow", "Step", "Iteration"))
        if iteration.isdecimal():
            highest[flow, step] = max(highest.get((flow, step), 0), int(iteration))
    return highest


def _said(refs: Refs, objects: SealedObjects, name: str) -> dict[str, str]:
    commit = _read(refs, name)
    try:
        message = objects.commit(commit).message if commit else ""
    except GarbledError:
        return {}
    pairs = (line.partition(": ") for line in message.split("\n"))
    return {key: value for key, colon, value in pairs if colon}


def hub_tips(refs: Refs, layout: RunLayout) -> Iterator[str]:
    """Where remotes had the run's branch when they were asked last."""
    suffix = layout.branch.removeprefix("refs/heads")
    for name in refs.list("refs/remotes/"):
        if name.endswith(suffix) and (commit := _read(refs, name)) is not None:
            yield commit


def _read(refs: Refs, name: str) -> str | None:
    """None also for a ref that is damaged: git itself says so everywhere."""
    try:
        return refs.read(name)
    except GarbledError:
        return None
