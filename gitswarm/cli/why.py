"""`why`: which step wrote a line, what it answered, and what shows that it is right."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from gitswarm.cli.arguments import Argument
from gitswarm.cli.blame import file_and_line, from_the_top, lines_of, plain_origin, show_lines
from gitswarm.cli.console import advise, err, money, out, out_json, out_lines
from gitswarm.cli.lines import field, next_lines
from gitswarm.cli.opened import JsonFlag, Opened, RunOption, plain_step, reader_here, step_name
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.approval import newest_landing
from gitswarm.ledger.blame import Origin
from gitswarm.ledger.finding import all_runs
from gitswarm.ledger.last_tests import command_summary, evidence_of_command
from gitswarm.ledger.reading import standing_decision
from gitswarm.ledger.state import replay
from gitswarm.ledger.step_files import step_files
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.trash import discarded_runs
from gitswarm.records.routing import Action
from gitswarm.records.text import shorten

if TYPE_CHECKING:
    from pydantic import JsonValue

_BACK = (Action.LOOP, Action.REPEAT, Action.BRANCH)


class Answered(Struct, frozen=True):
    """The step whose findings had this one executed again, and what it found."""

    step: str
    found: tuple[str, ...]


class StepOrigin(Struct, frozen=True):
    """All that is known of a step that wrote lines. `number` None: the run's branch is not here. `tested`: the next
    test run of the run, and what it said."""

    record: StepRecord
    number: int | None = None
    answered: Answered | None = None
    tested: tuple[str, str] | None = None


def why(
    what: Annotated[str, Argument(metavar="FILE[:LINE]", help="A line of a file; without LINE as `blame`.")],
    run: RunOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Which step wrote a line, what it answered, and what shows that it is right."""
    repository = reader_here()
    file, line = file_and_line(what, "why")
    found = lines_of(repository, file, line, run, command="why")
    if as_json:
        reasons = _reasons(repository, found)
        out_json([_plain(origin, reasons) for origin in found])
    elif line is None:
        show_lines(repository, found)
    else:
        _show_line(repository, from_the_top(repository, file), found[0], _reasons(repository, found))


def _reasons(repository: RepositoryReader, found: Iterable[Origin]) -> dict[str, StepOrigin]:
    """By the commits of the steps."""
    runs = {layout.run_id: layout for layout in all_runs(repository)}
    steps = {origin.step.commit: origin.step for origin in found if origin.step is not None}
    reasons = {commit: StepOrigin(record) for commit, record in steps.items()}
    for run in dict.fromkeys(record.execution.run_id for record in steps.values()):
        if run not in runs:
            continue
        opened = Opened(repository, runs[run], replay(repository, runs[run]))
        for record in opened.state.steps:
            if record.commit in reasons:
                reasons[record.commit] = _reason(opened, record)
    return reasons


def _reason(opened: Opened, record: StepRecord) -> StepOrigin:
    after = opened.state.steps[record.number :]
    tests = ((each, evidence_of_command(opened.repository, opened.state, each)) for each in after)
    tested = next(((step_name(each), command_summary(each, said)) for each, said in tests if said is not None), None)
    return StepOrigin(record, record.number, _answered(opened, record), tested)


def _answered(opened: Opened, record: StepRecord) -> Answered | None:
    """What sent the run back to this step."""
    if record.number < 2 or record.execution.iteration < 2:
        return None
    before = opened.state.steps[record.number - 2]
    decision = standing_decision(opened.repository, opened.layout, before.commit)
    if decision is None or decision.decision not in _BACK or decision.to_step != record.step:
        return None
    stored = step_files(opened.repository, opened.state)[before.number - 1]
    concerns = stored.envelope.concerns if stored.envelope is not None else ()
    facts = [concern.fact for concern in stored.evidence.opened] if stored.evidence is not None else []
    return Answered(step_name(before), tuple(dict.fromkeys((before.summary, *concerns, *facts))))


def _show_line(repository: RepositoryReader, path: str, origin: Origin, reasons: dict[str, StepOrigin]) -> None:
    out(f"{path}:{origin.line}  {shorten(origin.text, 200)}")
    if origin.step is not None:
        _show_step(reasons[origin.step.commit])
    elif origin.run is None:
        message = repository.objects.commit(origin.commit).message
        out_lines(field("commit", f"{origin.commit[:12]}: {_first(message)}"))
        out_lines(field("by", f"{repository.objects.author(origin.commit).name}, no run wrote it"))
        _hint_at_runs(repository, path, origin.line)
        return
    if origin.landing is not None:
        out_lines(field("landed", f"{origin.run} as {origin.landing[:12]}"))
    if origin.step is None and origin.run is not None:
        _show_missing(repository, origin.run)
    elif origin.run is not None and _is_discarded(repository, origin.run):
        out_lines(field("discarded", "in the trash, with what this answered, its tests and evidence"))
        out_lines(next_lines(f"  {'restore':<9} ", f"git swarm discard --restore {origin.run}"))


def _is_discarded(repository: RepositoryReader, run: str) -> bool:
    return run in {layout.run_id for layout in discarded_runs(repository)}


def _hint_at_runs(repository: RepositoryReader, path: str, line: int) -> None:
    """The newest run that changed the file and has not landed."""
    for layout in all_runs(repository):
        tip = repository.refs.read(layout.branch)
        if tip is None or repository.objects.entry(repository.objects.commit(tip).tree, path) is None:
            continue
        state = replay(repository, layout)
        before, after = repository.objects.commit(state.base).tree, state.tip_tree
        is_changed = repository.objects.entry(before, path) != repository.objects.entry(after, path)
        if is_changed and newest_landing(repository, state) is None:
            err(f"{layout.run_id} changed {path} and has not landed")
            advise(f"git swarm why {path}:{line} --run {layout.run_id}")
            return


def _show_missing(repository: RepositoryReader, run: str) -> None:
    if run in {layout.run_id for layout in all_runs(repository)}:
        out_lines(field("step", "none: the line comes from merging the run with its target"))
        return
    out_lines(field("step", "not known: the commits of the run are not here"))
    refs = (f"refs/heads/shadow/{run}", f"refs/swarm/{run}/*", f"refs/notes/swarm/{run}/*")
    out("  fetch     git fetch origin \\")
    for name in refs:
        out(f"      '{name}:{name}'" + ("" if name is refs[-1] else " \\"))


def _show_step(reason: StepOrigin) -> None:
    record, execution = reason.record, reason.record.execution
    number = f" (#{reason.number})" if reason.number is not None else ""
    out_lines(field("step", f"{step_name(record)}, commit {record.commit[:12]}{number}"))
    model = "" if record.model == "none" else f", {record.model}"
    out_lines(field("by", f"{execution.agent}, {record.engine}/{record.mode}{model}"))
    out_lines(field("summary", f"{record.status.value}: {_first(record.summary)}"))
    if reason.answered is not None:
        for index, fact in enumerate(reason.answered.found):
            told = f"{reason.answered.step}: {fact}" if not index else fact
            out_lines(field("" if index else "answers", told))
    if reason.tested is not None:
        out_lines(field("tests", f"{reason.tested[1]} ({reason.tested[0]})"))
    out_lines(field("cost", f"{record.tokens} tokens, {money(record.cost_usd)}"))
    if reason.number is not None:
        out(f"  evidence  git swarm show {reason.number} --run {execution.run_id}")


def _first(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _plain(origin: Origin, reasons: dict[str, StepOrigin]) -> dict[str, JsonValue]:
    reason = reasons.get(origin.step.commit) if origin.step is not None else None
    step: dict[str, JsonValue] | None = None
    if reason is not None:
        answered = reason.answered
        step = {
            "n": reason.number,
            **plain_step(reason.record),
            "tokens": reason.record.tokens,
            "cost_usd": reason.record.cost_usd,
            "answers": {"step": answered.step, "found": list(answered.found)} if answered is not None else None,
            "tests": {"step": reason.tested[0], "summary": reason.tested[1]} if reason.tested is not None else None,
        }
    return {**plain_origin(origin), "step": step}
