"""`rebase` and `carry_over`: the code of a run on another base, and the end of that, one way or the other."""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace
from pydantic import JsonValue

from gitswarm.engines.base import Emit, StepRequest, StepResult
from gitswarm.errors import SwarmError
from gitswarm.ledger.approval import ApprovalKind, last_word
from gitswarm.ledger.copies import merged_onto
from gitswarm.ledger.message import parse_message
from gitswarm.ledger.rebase import GIVEN_UP, ONTO, REBASED
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.envelope import Handoff
from gitswarm.records.execution import RUNS_FOLDER
from gitswarm.records.outcome import Status
from gitswarm.runner.operations.kernel_step import KernelStep, reported
from gitswarm.runner.operations.reset_upstream import UPSTREAM
from gitswarm.runner.step.texts import text_of
from gitswarm.worktree import snapshot

REBASE = "reset/rebase.json"

_MARKER = re.compile(r"^(?:<{7}|\|{7}|>{7})(?: .*)?$", re.MULTILINE)
_MOST_NAMED = 50


class Rebase(Struct, frozen=True):
    """Merges the run's code onto upstream; once that is done, counts the conflicts that are left."""

    step: KernelStep

    def __call__(self, request: StepRequest, _emit: Emit) -> StepResult:
        if self.step.state.ground.before is not None:
            return self._counted(request)
        step, state = self.step, self.step.state
        onto = step.earlier(UPSTREAM).get("upstream")
        if not isinstance(onto, str) or not step.session.repository.objects.has(onto):
            raise SwarmError(
                f"{UPSTREAM} names no commit that is here", hint=f"git swarm rollback reset --run {step.run}"
            )
        found = merged_onto(step.session.repository, state.base, onto, state.tip_tree)
        shadow = step.place.shadow
        tree = _with_runs(step, found.tree)
        occupied = snapshot.in_the_way(shadow, tree)
        if occupied:
            return self._occupied(request, occupied)
        snapshot.restore(shadow, tree, step.session.layout.base)
        result = self._told(request, list(found.conflicts), onto, state.base)
        return replace(result, brought=tree, trailers={ONTO: f"{onto} {state.base}"})

    def _counted(self, request: StepRequest) -> StepResult:
        """After the agent step that settles conflicts."""
        step = self.step
        state, begun = step.state, beginning(step)
        tree, objects = state.tip_tree, step.session.repository.objects
        before = objects.commit(begun.parent).tree
        changed = {delta.path for delta in step.session.repository.diffs.between(begun.tree, tree)}
        told = step.earlier(REBASE).get("files")
        named = {str(path) for path in told} if isinstance(told, list) else set()
        known = (before, objects.commit(state.base).tree)
        left = [path for path in sorted(changed | named) if self._is_marked(path, tree, known)]
        return self._told(request, left, state.base, state.ground.before or "")

    def _is_marked(self, path: str, tree: str, known: tuple[str, ...]) -> bool:
        """Whether a file has markers of a conflict, and not only such as one of the two sides has in it."""
        objects = self.step.session.repository.objects
        marks = set(_MARKER.findall(text_of(objects, tree, path) or ""))
        return bool(marks) and not any(
            marks <= set(_MARKER.findall(text_of(objects, side, path) or "")) for side in known
        )

    def _told(self, request: StepRequest, conflicts: list[str], onto: str, before: str) -> StepResult:
        report: dict[str, JsonValue] = {
            "conflicts": len(conflicts),
            "files": [*conflicts],
            "onto": onto,
            "from": before,
            "old_tip": self._old_tip(),
            "steps": len(self.step.state.own_steps),
        }
        files = "1 file" if len(conflicts) == 1 else f"{len(conflicts)} files"
        summary = f"{files} in conflict" if conflicts else "no conflict"
        handoff = Handoff(
            status=Status.UNVERIFIED if conflicts else Status.VERIFIED,
            summary=f"the code is merged onto {onto[:12]}: {summary}",
            concerns=tuple(f"{path}: in conflict" for path in conflicts[:_MOST_NAMED]),
        )
        return reported(self.step, request, handoff, report)

    def _old_tip(self) -> str:
        """The last commit with the code of before."""
        state = self.step.state
        return state.tip if state.ground.before is None else beginning(self.step).parent

    def _occupied(self, request: StepRequest, names: list[str]) -> StepResult:
        run, folder = self.step.run, self.step.place.shadow.path
        handoff = Handoff(
            status=Status.BLOCKED,
            summary=f"{names[0]}: a file that git ignores is where upstream has one now",
            blockers=(*names[:_MOST_NAMED], f"move it out of {folder}, then: git swarm resume {run}"),
        )
        report: dict[str, JsonValue] = {"conflicts": 0, "files": [], "in_the_way": [*names[:_MOST_NAMED]]}
        return reported(self.step, request, handoff, report)


class CarryOver(Struct, frozen=True):
    """Says that the run belongs on its new base, or that it stays where it was. The commits follow by themselves:
    `runner/new_ground.py`."""

    step: KernelStep

    def __call__(self, request: StepRequest, _emit: Emit) -> StepResult:
        step, state = self.step, self.step.state
        before = state.ground.before
        if before is None:
            return self._told(request, moved=False, reason="no rebase is under way")
        if step.earlier(REBASE).get("conflicts") != 0:
            return self._given_up(request, before)
        spoken = last_word(step.session.repository, state)
        approval = spoken.commit if spoken is not None and spoken.word is ApprovalKind.APPROVES else None
        trailers = {REBASED: f"{state.base} {before}"}
        if approval is not None:
            trailers[ApprovalKind.VOIDS] = approval
        result = self._told(request, moved=True, reason="", approval=approval)
        return replace(result, trailers=trailers)

    def _given_up(self, request: StepRequest, before: str) -> StepResult:
        step, state = self.step, self.step.state
        code = step.session.repository.objects.commit(beginning(step).parent).tree
        tree = _with_runs(step, code)
        snapshot.restore(step.place.shadow, tree, step.session.layout.base)
        result = self._told(request, moved=False, reason="conflicts were left: the run stays on its base")
        is_there = state.base == state.ground.root  # rolled back into a rebase whose commits have moved
        return replace(result, brought=tree, trailers={REBASED: state.base} if is_there else {GIVEN_UP: before})

    def _told(self, request: StepRequest, *, moved: bool, reason: str, approval: str | None = None) -> StepResult:
        state = self.step.state
        report: dict[str, JsonValue] = {
            "moved": moved,
            "base": state.base if moved else state.ground.before or state.base,
            "from": state.ground.before,
            "old_tip": state.tip,
            "commits": len(state.own_steps) + state.ends + 1,
            "voided_approval": approval,
            "reason": reason,
        }
        summary = f"the run is based on {state.base[:12]}" if moved else f"nothing has moved: {reason}"
        voided = ("the approval is void: it was about the old base",) if approval is not None else ()
        return reported(self.step, request, Handoff(status=Status.VERIFIED, summary=summary, concerns=voided), report)


def beginning(step: KernelStep) -> StepRecord:
    """The step that began the rebase which is under way.

    :raises SwarmError: there is none.
    """
    objects = step.session.repository.objects
    for record in reversed(step.state.own_steps):
        message = parse_message(objects.commit(record.commit).message)
        if message is not None and ONTO in message.trailers:
            return record
    raise SwarmError("no rebase is under way", hint=f"git swarm log {step.run}")


def _with_runs(step: KernelStep, code: str) -> str:
    objects = step.session.repository.objects
    return objects.with_subtree(code, RUNS_FOLDER, objects.entry(step.state.tip_tree, RUNS_FOLDER))
