"""`wisdom`: what the run taught, added to the scent trail, for runs to come and for people."""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct
from pydantic import JsonValue, ValidationError

from gitswarm.engines.base import Emit, StepRequest, StepResult
from gitswarm.ledger.approval import last_landing
from gitswarm.ledger.wisdom import WISDOM_REF, scent_trail, wisdom_at
from gitswarm.ledger.wisdom_store import WisdomStore
from gitswarm.records.base import Record, timestamp
from gitswarm.records.envelope import Handoff
from gitswarm.records.outcome import Status
from gitswarm.records.wisdom import Learnings, Proposals, RunWisdom
from gitswarm.runner.step.operation import KernelStep, reported

LEARNINGS = "wisdom/learnings.json"
PROPOSALS = "wisdom/proposals.json"

RecordT = TypeVar("RecordT", bound=Record)


class WriteTrail(Struct, frozen=True):
    """Adds what is valid of learnings and proposals; what is not is said, and nothing of it is kept."""

    step: KernelStep

    def __call__(self, request: StepRequest, _emit: Emit) -> StepResult:
        step = self.step
        problems: list[str] = []
        learnings = self._read(LEARNINGS, Learnings, problems)
        proposals = self._read(PROPOSALS, Proposals, problems)
        if learnings is None and proposals is None:
            report: dict[str, JsonValue] = {"written": False, "ref": WISDOM_REF, "commit": None}
            handoff = Handoff(status=Status.UNVERIFIED, summary="nothing to keep", concerns=tuple(problems))
            return reported(step, request, handoff, report)
        session = step.session
        entry = self._entry(learnings or Learnings(), proposals or Proposals())
        store = WisdomStore(session.repository, session.around.clock, session.redactor)
        written = store.add(entry)
        runs = wisdom_at(session.repository, written.commit).runs
        lessons: list[JsonValue] = [each.model_dump(mode="json") for each in scent_trail(runs).lessons]
        summary = f"{len(entry.lessons)} learned, {len(entry.offered)} proposed"
        if entry.stub:
            summary += f"; {' and '.join(entry.stub)}: a stub's placeholders, never shown to a model"
        report = {
            "written": True,
            "ref": WISDOM_REF,
            "commit": written.commit,
            "learnings": len(entry.learnings),
            "proposals": len(entry.proposals),
            "stub": list(entry.stub),
            "outcome": entry.outcome,
            "runs": len(runs),
            "lessons": lessons,
        }
        status = Status.UNVERIFIED if problems else Status.VERIFIED
        return reported(step, request, Handoff(status=status, summary=summary, concerns=tuple(problems)), report)

    def _read(self, artifact: str, schema: type[RecordT], problems: list[str]) -> RecordT | None:
        """An artifact as the branch holds it; None, and a problem more: it is missing, or not valid."""
        content = self.step.text(artifact)
        if not content:
            problems.append(f"{artifact} is missing")
            return None
        try:
            return schema.from_json(content.encode())
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            problems.append(f"{artifact} is not kept, it is not valid: {place}: {first['msg']}")
            return None

    def _entry(self, learnings: Learnings, proposals: Proposals) -> RunWisdom:
        session, state = self.step.session, self.step.state
        landed = last_landing(session.repository, state) is not None
        return RunWisdom(
            run_id=self.step.run,
            date=timestamp(session.around.clock()),
            flows=session.spec.flows,
            base=state.base,
            outcome="landed" if landed else "unproven" if state.blocking else "not_landed",
            learnings=learnings.learnings,
            proposals=proposals.proposals,
            stub=tuple(
                name for name, is_stub in (("learnings", learnings.stub), ("proposals", proposals.stub)) if is_stub
            ),
        )
