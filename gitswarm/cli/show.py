"""`show` and `diff`: one step up close, and the code that a step or a run changed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Struct

from gitswarm.cli.arguments import Argument, Option
from gitswarm.cli.console import (
    duration,
    err,
    field,
    line_counts,
    money,
    out,
    out_json,
    out_lines,
    out_stored,
    tail,
)
from gitswarm.cli.runs import (
    TEST_VERDICTS,
    JsonFlag,
    Opened,
    RunOption,
    StepArgument,
    executed_by,
    log_entry,
    mark,
    open_run,
    reader_here,
    reason_words,
    step_outcome,
    stored_file,
    understood,
)
from gitswarm.errors import NotFoundError, SwarmError, UsageError
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.finding import find_run, find_step
from gitswarm.ledger.state import replay
from gitswarm.ledger.steps import StepRecord
from gitswarm.ledger.stored_json import (
    EnvelopeFields,
    EvidenceFields,
    ReceiptFields,
    Timing,
    command_summary,
    decisions_after,
    is_of_tests,
)
from gitswarm.records.execution import RUNS_FOLDER
from gitswarm.records.json_value import JsonValue
from gitswarm.records.text import shorten


def show(
    step: StepArgument = None,
    run: RunOption = None,
    envelope: Annotated[bool, Option("--envelope", help="The handoff, as stored.")] = False,
    receipt: Annotated[bool, Option("--receipt", help="The receipt, as stored.")] = False,
    evidence: Annotated[bool, Option("--evidence", help="What git and the tests prove, as stored.")] = False,
    prompt: Annotated[bool, Option("--prompt", help="The prompt that the agent got.")] = False,
    routing: Annotated[bool, Option("--routing", help="The decisions after the step.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """One step: what was done, what is proven, where it led."""
    opened = open_run(run)
    record = find_step(opened.repository, opened.state, step)
    execution = record.execution
    files = [(envelope, execution.envelope), (receipt, execution.receipt), (evidence, execution.evidence)]
    wanted = [path for asked, path in files if asked]
    if as_json and (prompt or len(wanted) + routing > 1):
        what = "--json gives one document: of the whole step, or of one of its parts (not --prompt)"
        raise UsageError(what, hint=f"git swarm show {record.number} --json --run {opened.layout.run_id}")
    if as_json and not (wanted or prompt or routing):
        out_json(whole_step(opened, record))
    elif not (wanted or prompt or routing):
        _show_step(opened, record)
    for path in wanted:
        out_stored(stored_file(opened, record, path))
    if prompt:
        from gitswarm.cli.transcript import out_prompt

        out_prompt(opened, record)
    if routing and as_json:
        out_json(_decisions(opened, record))
    elif routing:
        from gitswarm.cli.decisions import step_lines

        out_lines(step_lines(opened, record))


def within(value: JsonValue | Mapping[str, JsonValue], *names: str) -> list[JsonValue]:
    """A list in stored JSON, by the names that lead to it; empty where there is something else."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, list) else []


def objects_within(value: JsonValue | Mapping[str, JsonValue], *names: str) -> list[dict[str, JsonValue]]:
    """The entries of a list that are objects."""
    return [each for each in within(value, *names) if isinstance(each, dict)]


def whole_step(opened: Opened, record: StepRecord) -> dict[str, JsonValue]:
    """`show --json`."""
    execution = record.execution
    stored = {
        name: understood(opened, record, path, json.loads)
        for name, path in (
            ("receipt", execution.receipt),
            ("envelope", execution.envelope),
            ("evidence", execution.evidence),
        )
    }
    took = understood(opened, record, execution.receipt, Timing.from_json)
    failed = understood(opened, record, execution.receipt, ReceiptFields.from_json).failed_output
    output: list[JsonValue] | None = list(tail(failed)) if failed is not None else None
    return {
        **log_entry(opened, record, took),
        **stored,
        "output": output,
        "decisions": _decisions(opened, record),
    }


def _decisions(opened: Opened, record: StepRecord) -> list[dict[str, JsonValue]]:
    return [taken.plain for taken in decisions_after(opened.repository, opened.layout, record.commit)]


def _show_step(opened: Opened, record: StepRecord) -> None:
    whole, execution = whole_step(opened, record), record.execution
    envelope, evidence = whole["envelope"], whole["evidence"]
    receipt = understood(opened, record, execution.receipt, ReceiptFields.from_json)
    proven = understood(opened, record, execution.evidence, EvidenceFields.from_json)
    outcome = step_outcome(record)
    out(f"{mark(outcome)} {record.name}  {outcome}  commit {record.commit[:12]}  (#{record.number})")
    _field("by", executed_by(record))
    used = f"{record.tokens} tokens, {money(record.cost_usd)}"
    _field("took", f"{duration(int(str(whole['duration_ms'])))}, {used}")
    _show_containment(receipt)
    _field("summary", command_summary(record, proven))
    reason = understood(opened, record, execution.envelope, EnvelopeFields.from_json).reason(record.summary)
    if reason is not None:
        _field("because", reason)
    for kind in ("concerns", "blockers", "artifacts"):
        for item in within(envelope, kind):
            _field(kind[:-1], str(item))
    _show_denied(receipt)
    if isinstance(evidence, dict):
        _show_evidence(evidence, of_tests=is_of_tests(opened.repository, opened.state, record, proven))
    output = within(whole, "output")
    for number, line in enumerate(output):
        out(f"  {'' if number else 'output':<9} {line}")
    for led_to in dict.fromkeys(map(_led_to, _decisions(opened, record))):
        _field("led to", led_to)
    _field("changes", f"git swarm diff {record.number} --run {opened.layout.run_id}")
    if output:
        _field("in full", f"git swarm transcript {record.number} --full --run {opened.layout.run_id}")


def _field(name: str, value: str) -> None:
    out_lines(field(name, value))


def _led_to(taken: dict[str, JsonValue]) -> str:
    """The next step and, where a person understands it, the reason; conditions of a flow are for `--routing`."""
    reason = reason_words(str(taken["reason"]))
    source = str(taken["routing_source"]).replace("_", " ")
    prefix = f"{reason}, " if reason else ""
    return f"{taken['to_step'] or 'the end'} ({prefix}{source})"


def _show_containment(receipt: ReceiptFields) -> None:
    name, hosts = receipt.sandbox, receipt.network
    if name is not None:
        reached = "open" if hosts and "*" in hosts else ", ".join(hosts or ()) or "none"
        _field("sandbox", name if hosts is None else f"{name}, network: {reached}")


def _show_denied(receipt: ReceiptFields) -> None:
    """What the agent wanted to do, and the policy did not let it."""
    for call in receipt.tool_calls:
        if call.blocked:
            _field("denied", f"{call.tool} {shorten(call.wanted, 60)}")
            _field("", call.blocked_reason or "")


def _show_evidence(evidence: dict[str, JsonValue], *, of_tests: bool) -> None:
    """
    :param of_tests: its command, if there is one, runs tests.
    """
    for file in objects_within(evidence, "diff", "files"):
        _field(str(file["change"]), f"{file['path']}  {line_counts(file['insertions'], file['deletions'])}")
    tests = evidence["tests"]
    if isinstance(tests, dict) and tests.get("command"):
        passed = tests["passed"] if isinstance(tests["passed"], bool) else None
        _field("tests" if of_tests else "command", f"{tests['command']}: {TEST_VERDICTS[passed]}")
    again = evidence.get("extra_runs_ms")
    if isinstance(again, dict) and again:
        runs = ", ".join(f"{name.replace('_', ' ')} {duration(int(str(ms)))}" for name, ms in again.items())
        _field("also ran", runs)
    _show_report(evidence.get("report"))
    _show_verdict(evidence.get("verdict"))
    for each in objects_within(evidence, "criteria"):
        _field(str(each["proof"]), f"{each['id']}: {each['reason']}")
    _show_concerns(evidence)
    for kind in ("tampered", "quarantined", "put_back", "artifact_problems"):
        for item in within(evidence, kind):
            _field(kind.removesuffix("_problems").replace("_", " "), f"{item}")


def _show_concerns(evidence: dict[str, JsonValue]) -> None:
    """What the step opened, settled, and what a person accepted."""
    why = {each["id"]: each["why"] for each in objects_within(evidence, "accepted")}
    for name in within(evidence, "closed"):
        _field("accepted" if name in why else "settled", f"{name}{f': {why[name]}' if name in why else ''}")
    for each in objects_within(evidence, "opened"):
        _field("blocking" if each["blocking"] else "warning", f"{each['id']}: {each['fact']}")


def _show_report(report: JsonValue) -> None:
    if isinstance(report, dict):
        more = " at least" if report["partial"] else ""
        counts = ", ".join(f"{report[kind]} {kind}" for kind in ("passed", "failed", "skipped"))
        _field("report", f"{counts}{more} ({report['source']})")
        for name in within(report, "failing"):
            _field("failing", f"{name}")


def _show_verdict(verdict: JsonValue) -> None:
    """Nothing about a handoff that agrees with the facts."""
    if not isinstance(verdict, dict) or not within(verdict, "findings"):
        return
    about = ", ".join(map(str, within(verdict, "about")))
    _field("verdict", f"{verdict['recommendation']}{about and f' about {about}'}, score {verdict['score']}")
    for finding in objects_within(verdict, "findings"):
        claim = f'claimed "{finding["claim"]}", but ' if finding["claim"] else ""
        _field("", f"{finding['flag']}: {claim}{finding['fact']}")


def diff(
    what: Annotated[
        list[str] | None,
        Argument(
            metavar="RUN|STEP",
            help="A run, or a step of the current run (its newest iteration; STEP@1: the first); two: the code of "
            "one against the other's.",
        ),
    ] = None,
    run: RunOption = None,
    evidence: Annotated[bool, Option("--evidence", help="The run's evidence files too.")] = False,
    stat: Annotated[bool, Option("--stat", help="Only how much changed in which file.")] = False,
    ext_diff: Annotated[
        bool, Option("--ext-diff", help="By the diff programs of the repository's own configuration too.")
    ] = False,
) -> None:
    """What a run or a step changed, or how two differ, by git.

    An agent may have configured a program in the repository: only those of the user's own configuration are run.
    """
    repository = reader_here()
    old, new = _ends(repository, what or [], run)
    plain = not ext_diff and _names_programs(repository)
    options = [*(["--stat"] if stat else []), *(["--no-ext-diff", "--no-textconv"] if plain else [])]
    arguments = ["diff", *options, old, new]
    if not evidence:
        arguments += ["--", f":(top,exclude){RUNS_FOLDER}"]
    git = repository.checkout_git if repository.checkout else repository.git
    sys.stdout.flush()
    pager = ["--paginate"] if sys.stdout.isatty() else ["--no-pager"]
    colour = ["-c", "color.ui=auto"]
    argv = git.argv()
    done = subprocess.run(
        [*argv, *colour, *pager, *arguments], env=dict(git.env), cwd=repository.checkout, check=False
    )
    if done.returncode != 0:
        raise SwarmError(f"git diff ended with {done.returncode}", hint=f"git diff {old[:12]} {new[:12]}")


def _names_programs(repository: RepositoryReader) -> bool:
    """Whether the repository itself, and not the user, configures programs that show differences."""
    arguments = ("config", "--show-scope", "-z", "--get-regexp", r"^diff\.(external|.*\.(command|textconv))$")
    scopes = repository.git_in(repository.checkout_git_dir, None).run(*arguments).stdout.split(b"\0")[::2]
    return bool({b"local", b"worktree"} & set(scopes))


def _ends(repository: RepositoryReader, words: Sequence[str], run: str | None) -> tuple[str, str]:
    """The two commits to compare.

    :raises UsageError: more than two are named.
    """
    if len(words) > 2:
        raise UsageError("give two at most", hint=f"git swarm diff {words[0]} {words[1]}")
    if not words:
        state = replay(repository, find_run(repository, run))
        return state.base, state.tip
    found = [_meant(repository, word, run) for word in words]
    if len(found) == 1:
        return found[0].before, found[0].after
    if found[0].after == found[1].after:
        err(f"both are {found[0].name}: there is no difference")
    if len({each.base for each in found}) > 1:
        err("their bases differ: what was changed between those is shown too")
    return found[0].after, found[1].after


class _Change(Struct, frozen=True):
    """What a run or a step changed. `base`: the run's."""

    name: str
    before: str
    after: str
    base: str


def _meant(repository: RepositoryReader, word: str, run: str | None) -> _Change:
    """A step name wins over a run's, as everywhere."""
    try:
        state = replay(repository, find_run(repository, run))
        record = find_step(repository, state, word)
    except NotFoundError:
        if run is not None:
            raise
        state = replay(repository, find_run(repository, word))
        return _Change(state.layout.run_id, state.base, state.tip, state.base)
    return _Change(f"{record.step}@{record.execution.iteration}", record.parent, record.commit, state.base)
