"""A commit changed its own files in `.swarm/runs` and no others, and the code only where it may."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from gitswarm.git.objects import FILE
from gitswarm.ledger.layout import HUMAN, KERNEL, expired_events
from gitswarm.ledger.message import Kind
from gitswarm.ledger.verify.finding import Mismatch
from gitswarm.ledger.verify.link import Link, in_runs, shown
from gitswarm.ledger.verify.schemas import PARTIAL, PROPOSALS, Papers
from gitswarm.records.evidence import DiffSummary
from gitswarm.records.execution import Execution
from gitswarm.specs.flow import Flow
from gitswarm.specs.promises import declared_artifacts
from gitswarm.specs.station import Station


class Frozen(Struct, frozen=True):
    """The specs that a run stored in its first commit."""

    flows: Mapping[str, Flow]
    stations: Mapping[str, Station]


def check_paths(link: Link, papers: Papers, frozen: Frozen) -> Iterator[Mismatch]:
    declared = _declared(link, papers, frozen)
    for change in link.changes:
        if not in_runs(change.path):
            continue
        path = shown(change.path)
        if not change.path.startswith(f"{link.layout.base}/"):
            yield link.finding("paths", "is in another run's folder", path)
        elif change.after is None:
            if link.execution is None or not _is_expired(link.execution, change.path):
                yield link.finding("paths", "was removed", path)
        elif not _is_own(link, change.path, declared):
            yield link.finding("paths", "is not a file of this step", path)
        elif change.after.mode != FILE:
            yield link.finding("paths", f"is not a plain file (mode {change.after.mode:o})", path)
    yield from _agent(link, papers, frozen)
    yield from _code(link, papers)


def _is_own(link: Link, path: str, declared: frozenset[str]) -> bool:
    layout, execution = link.layout, link.execution
    name = path.removeprefix(f"{layout.base}/")
    if link.kind is Kind.RUN:
        return path in (layout.spec, layout.attributes, layout.run_events) or name.startswith("specs/")
    if PROPOSALS in path:
        return name.partition("/")[2].startswith(PROPOSALS.removeprefix("/"))
    if execution is None:
        return path == link.events or name.partition("/")[2] == PARTIAL
    engine = link.said.get("Swarm-Engine", "").partition("/")[0]
    own = (execution.receipt, execution.envelope, execution.evidence, execution.events, execution.transcript(engine))
    if path == execution.base_tests:
        return engine == "command"
    # What a failed step left is kept elsewhere, but for its commit beside others.
    return path in own or (name in declared and (link.beside or not link.is_failed))


def _is_expired(execution: Execution, path: str) -> bool:
    folder, _slash, name = path.rpartition("/")
    return folder == execution.events_folder and path in expired_events(execution, [name])


def _declared(link: Link, papers: Papers, frozen: Frozen) -> frozenset[str]:
    """Files that the step or its station may write, relative to RUN_BASE."""
    execution = link.execution
    flow = frozen.flows.get(execution.flow) if execution else None
    if execution is None or flow is None or execution.agent == HUMAN:
        return frozenset()
    step = flow.step(execution.step) if flow.has_step(execution.step) else None
    if execution.agent == KERNEL and (step is None or not step.is_kernel):
        return frozenset()  # typed by a person, out of band
    station = step.station if step is not None else papers.receipt.station if papers.receipt is not None else None
    return frozenset(declared_artifacts(flow, step, frozen.stations.get(station or "")))


def _agent(link: Link, papers: Papers, frozen: Frozen) -> Iterator[Mismatch]:
    """Who executed the step is who the frozen flow says; of other steps only that there is such a station."""
    execution, receipt = link.execution, papers.receipt
    if execution is None or receipt is None or execution.agent in (HUMAN, KERNEL):
        return
    flow = frozen.flows.get(execution.flow)
    if flow is None:
        yield link.finding("trailers", f"the run has no flow {execution.flow}")
        return
    if flow.has_step(execution.step):
        step = flow.step(execution.step)
        if (step.agent, step.station) != (execution.agent, receipt.station):
            message = f"the flow has {step.agent} for this step, not {receipt.station}"
            yield link.finding("trailers", message, execution.receipt)
    elif receipt.station != execution.agent or execution.agent not in frozen.stations:
        yield link.finding("trailers", f"the run has no station {execution.agent}", execution.receipt)


def _code(link: Link, papers: Papers) -> Iterator[Mismatch]:
    """Only steps change code; a failed one's is kept elsewhere; what a step changed is what its evidence says."""
    changed = {shown(change.path) for change in link.changes if not in_runs(change.path)}
    if link.kind is not Kind.STEP or (link.is_failed and not link.beside):
        for path in sorted(changed):
            yield link.finding("paths", "is code, which this commit may not change", path)
    elif papers.evidence is not None and not link.replays:
        told = _told(papers.evidence.diff)
        for path in sorted(changed ^ told):
            what = (
                "the evidence does not say that it changed"
                if path in changed
                else "the evidence says that it changed"
            )
            yield link.finding("paths", what, path)


def _told(diff: DiffSummary) -> set[str]:
    renamed = {file.old_path for file in diff.files if file.old_path and file.change == "renamed"}
    return {file.path for file in diff.files} | renamed
