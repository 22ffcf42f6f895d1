"""The files about itself that each step of a run stored, read for all steps at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct
from pydantic import JsonValue

from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.finding import parsed
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.envelope import Envelope
from gitswarm.records.evidence import Evidence


class StepFiles(Struct, frozen=True):
    """None: the step's commit has no such file. `name`: `flow/step@2`."""

    record: StepRecord
    envelope: Envelope | None
    evidence: Evidence | None
    receipt: JsonValue

    @property
    def name(self) -> str:
        execution = self.record.execution
        return f"{execution.flow}/{execution.step}" + (f"@{execution.iteration}" if execution.iteration > 1 else "")

    @property
    def why(self) -> str:
        """Why its status is what it is, where that is not the agent's own word."""
        return (self.envelope.status_reason if self.envelope is not None else None) or ""


def step_files(repository: RepositoryReader, state: RunState) -> list[StepFiles]:
    """
    :raises GarbledError: one of them is not what git-swarm wrote there.
    """
    steps = state.steps
    envelopes = _read(repository, state, [step.execution.envelope for step in steps], Envelope.from_json)
    evidences = _read(repository, state, [step.execution.evidence for step in steps], Evidence.from_json)
    receipts = _read(repository, state, [step.execution.receipt for step in steps], json.loads)
    return [StepFiles(*each) for each in zip(steps, envelopes, evidences, receipts, strict=True)]


T = TypeVar("T")


def _read(
    repository: RepositoryReader, state: RunState, paths: list[str], parse: Callable[[bytes], T]
) -> list[T | None]:
    places = [(step.tree, path) for step, path in zip(state.steps, paths, strict=True)]
    contents = repository.objects.files_of(places)
    return [
        None if content is None else parsed(parse, content, state.layout, f"{step.commit[:12]}:{path}")
        for step, path, content in zip(state.steps, paths, contents, strict=True)
    ]
