"""What an agent is told: station (system) and step (user), with the teaching notes of the flow."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gitswarm.specs.flow import Flow, Step
from gitswarm.specs.station import Station

RUN_BASE = "RUN_BASE"


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a session engine is told. `RUN_BASE` stands for the run's evidence folder in both parts."""

    system: str
    user: str

    @property
    def hash(self) -> str:
        """SHA-256 of what is told; no path, time or id of a run goes into it."""
        return hashlib.sha256(f"{self.system}\0{self.user}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class EarlierStep:
    """What an earlier step handed over."""

    name: str
    status: str
    summary: str
    concerns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Briefing:
    """What is particular to this execution: the task, the handoffs so far, what a person said when resuming."""

    task: str
    earlier: Sequence[EarlierStep] = ()
    told: tuple[str, ...] = ()


def compose(flow: Flow, step: Step, station: Station | None, briefing: Briefing) -> Prompt:
    """The prompt of one execution. Sections without content are left out."""
    return Prompt(_system(station), _user(flow, step, briefing))


def _system(station: Station | None) -> str:
    if station is None:
        return "This step runs a command of the project; no model is asked."
    handoff = station.handoff
    honest = [
        f"{status} when {when}"
        for status, when in (
            ("VERIFIED", handoff.verified_when),
            ("UNVERIFIED", handoff.unverified_when),
            ("PARTIAL", handoff.partial_when),
            ("BLOCKED", handoff.blocked_when),
        )
        if when
    ]
    parts = [
        f"# {station.title}\n\n{station.identity.strip()}",
        _listed("Invariants", station.invariants),
        _listed("Hand over at the end", (f"fields: {', '.join(handoff.required)}", *honest)),
    ]
    return "\n\n".join(part for part in parts if part)


def _user(flow: Flow, step: Step, briefing: Briefing) -> str:
    teaching = step.teaching
    handed = [
        f"{item.name}: {item.status}: {item.summary}" + "".join(f"\n  - {concern}" for concern in item.concerns)
        for item in briefing.earlier
    ]
    charter = flow.charter.goal if flow.charter else ""
    parts = [
        f"# Step {step.id} of flow {flow.id}\n\n{step.objective.strip()}".strip(),
        f"## Goal of the flow\n\n{charter.strip()}" if charter else "",
        f"## Task\n\n{briefing.task.strip()}" if briefing.task.strip() else "",
        _listed("Said by a person when the run was resumed", [said for said in briefing.told if said]),
        _listed("Inputs", teaching.inputs),
        _listed("Outputs", teaching.outputs),
        _listed("What matters", teaching.emphasizes),
        _listed("Constraints", teaching.constraints),
        _listed("Handed over by earlier steps", handed),
        f"Evidence of this run lies in {RUN_BASE}/; an artifact without a folder belongs in {RUN_BASE}/{flow.id}/.",
    ]
    return "\n\n".join(part for part in parts if part)


def _listed(title: str, items: Iterable[str]) -> str:
    lines = [f"- {item}" for item in items]
    return f"## {title}\n\n" + "\n".join(lines) if lines else ""
