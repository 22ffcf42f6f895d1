"""Stub mode of the session engines: plays a script, or leaves small valid outputs behind; and files as a recorded
step left them: content, mode, link, or gone.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.engines.base import (
    SESSION_WORK,
    Emit,
    RouteTerms,
    StepEndedError,
    StepRequest,
    StepResult,
    WithoutModel,
    capped,
)
from gitswarm.engines.recorder import Given, Recorder, ToolOutcome
from gitswarm.processes import CommandLimits, Ending, run_shell
from gitswarm.records.budget import time_words
from gitswarm.records.envelope import Handoff
from gitswarm.records.execution import Result, Status
from gitswarm.records.gate_decision import (
    DeployDecision,
    DeployOutcome,
    GateFindings,
    GateVerdict,
    MergeDecision,
    Traceability,
)
from gitswarm.records.guidance import Learnings, Proposals
from gitswarm.records.json_value import JsonValue
from gitswarm.records.mistakes import MistakesError
from gitswarm.records.receipt import EngineOutcome, Tokens
from gitswarm.records.record import Clock, Record
from gitswarm.records.routing import RouteAnswer, RouteQuestion
from gitswarm.records.worklists import (
    AcceptanceCriterion,
    AcMatrix,
    AcStatus,
    CriterionStatus,
    PullRequestStatus,
    Requirement,
    ReviewWorklist,
)
from gitswarm.specs.script import LeftFile, Script, ScriptEntry


class LineEnd(Struct, frozen=True):
    """How a shell line ended; `blocked`: the policy did not let it begin."""

    ending: Ending
    exit_code: int | None
    blocked: bool = False


_POLL_S = 0.05
_OUTPUT_BYTES = 4_000_000  # of a long test run the report is read; transcripts keep less


def out_of_time(request: StepRequest, began: float) -> str | None:
    """`ended after 60s by --max-time`; None: the budget has time left.

    :param began: on the monotonic clock.
    """
    now = time.monotonic()
    if request.deadline is None or now < request.deadline:
        return None
    return f"ended after {time_words(now - began)} by {request.set_by}"


def time_left(request: StepRequest, timeout_s: float) -> float:
    """Seconds: `timeout_s`, or less where the budget has less."""
    return timeout_s if request.deadline is None else max(0.0, min(timeout_s, request.deadline - time.monotonic()))


def wait_as_scripted(entry: ScriptEntry, request: StepRequest) -> str | None:
    """`delay_ms`, and `hang`: until the process is interrupted or killed. Returns why it was ended before, or None.

    :raises StepEndedError: the step was ended meanwhile.
    """
    began = time.monotonic()
    request.ended.wait(time_left(request, entry.delay_ms / 1000))
    # With a timeout: a signal that comes just before Python waits here is handled only when it wakes up.
    while entry.hang and time_left(request, 1.0) and not request.ended.wait(_POLL_S):
        pass
    if request.ended.is_set():
        raise StepEndedError
    return out_of_time(request, began)


def shown_line(line: str, request: StepRequest) -> str:
    """The line as people know it: a test command without what asks it for reports."""
    order = request.command
    return order.shell if order is not None and order.shell and order.asking == line else line


def run_line(line: str, request: StepRequest, recorder: Recorder, timeout_s: float) -> LineEnd:
    """One shell line in the worktree, recorded as a tool call.

    A test command that is asked for reports is recorded as it stands, without the folder that they go to: what is
    recorded is the same on every machine.
    """
    order, shown = request.command, shown_line(line, request)
    folder = str(order.reports) if order is not None and order.reports is not None else ""
    ended = LineEnd(Ending.NOT_STARTED, None, blocked=True)

    def act(given: Given) -> ToolOutcome:
        nonlocal ended
        called = line if given["command"] == shown else str(given["command"])
        reports = (order.reports,) if order is not None and order.reports is not None else ()
        limits = CommandLimits(timeout_s, _OUTPUT_BYTES, request.containment.opened(write=reports))
        done = run_shell(called, cwd=request.worktree, env=request.env, limits=limits)
        ended = LineEnd(done.ending, done.exit_code)
        output = done.output if done.error is None else f"{done.output}{done.error}"
        output = output.replace(folder, "REPORTS") if folder else output
        return ToolOutcome(done.ending is Ending.EXITED and done.exit_code == 0, output)

    recorder.call("Bash", {"command": shown}, act)
    return ended


RUN_LINE_TIMEOUT_S = 600


def stub_matrix() -> AcMatrix:
    criterion = AcceptanceCriterion(id="AC-001-1", criterion="stub: true")
    requirement = Requirement(id="REQ-001", description="stub: true", acceptance_criteria=(criterion,))
    return AcMatrix(stub=True, requirements=(requirement,))


_TRACED = partial(Traceability, stub=True, reason="stub: true")
_PLACEHOLDERS: Mapping[str, Callable[[], Record]] = {
    "plan/ac_matrix.json": stub_matrix,
    "build/ac_status.json": lambda: AcStatus(
        stub=True, criteria=(CriterionStatus(id="AC-001-1", status="done", evidence="stub: true"),)
    ),
    "review/review_worklist.json": partial(ReviewWorklist, stub=True),
    "review/pr_status.json": partial(PullRequestStatus, stub=True, state="ready", reason="stub: true"),
    "gate/gate_findings.json": partial(GateFindings, stub=True),
    "gate/traceability.json": _TRACED,
    "gate/merge_decision.json": partial(MergeDecision, stub=True, verdict=GateVerdict.MERGE, reason="stub: true"),
    "wisdom/learnings.json": partial(Learnings, stub=True),
    "wisdom/proposals.json": partial(Proposals, stub=True),
    "wisdom/traceability.json": _TRACED,
}
"""What stands in artifacts that have a schema, by path in RUN_BASE; all their models take 5 ms to build."""


_MARKED = "swarm-stub.txt"
_MERGE_RESULT = "deploy/merge_result.json"


class StubEngine(WithoutModel):
    """Executes without a model. `script` None: every promised output is written, status VERIFIED."""

    mode = "stub"
    capabilities = SESSION_WORK

    def __init__(self, engine_id: str, script: Script | None, clock: Clock) -> None:
        self.engine_id = engine_id
        self._script = script
        self._clock = clock

    def run(self, request: StepRequest, emit: Emit) -> StepResult:
        started = time.monotonic()
        recorder = Recorder(request, self._clock, emit, "kernel-executed")
        recorder.prompt(request.prompt)
        if self._script is None:
            entry = ScriptEntry(status=Status.VERIFIED, summary="stub: wrote its promised outputs")
            files = {name: stub_content(name, request) for name in request.outputs}
            if request.execution.step == "implement":  # so that there is something to judge, to show and to land
                files[_MARKED] = f"stub: true\nrun: {request.execution.run_id}\n"
            entry = replace(entry, write=files)
        else:
            entry = self._script.entry(request.execution.flow, request.execution.step, request.executed)
        tokens = Tokens.of(entry.tokens.prompt, entry.tokens.completion)
        if tokens.total or entry.cost_usd != 0:
            recorder.used(tokens, entry.cost_usd)
        error = _act(entry, request, recorder)
        placeholders = () if error else _fill_in(entry, request)
        handoff, problem = _handoff(entry)
        output = capped(entry.output if entry.output is not None else handoff.summary if handoff else "")
        recorder.say(error or output)
        return StepResult(
            step_id=request.execution.step,
            status=Result.FAILED if error else Result.SUCCEEDED,
            output=output,
            error=error,
            duration_ms=int((time.monotonic() - started) * 1000),
            handoff=None if error else handoff,
            handoff_problem=problem,
            transcript=recorder.transcript,
            tool_calls=recorder.tool_calls,
            tokens=tokens,
            cost_usd=entry.cost_usd,
            outcome=_outcome(error, problem) if error or entry.outcome is None else entry.outcome,
            placeholders=placeholders,
        )

    def route(self, question: RouteQuestion, terms: RouteTerms) -> RouteAnswer:
        """What the script lets a navigator answer."""
        if self._script is None:
            return RouteAnswer()
        entry = self._script.entry(terms.flow_key, terms.step_id, terms.execution)
        wait_s = entry.route_delay_ms / 1000
        if wait_s > question.timeout_s:
            time.sleep(question.timeout_s)
            raise TimeoutError
        time.sleep(wait_s)
        return RouteAnswer(entry.route)


def _outcome(error: str | None, problem: str | None) -> EngineOutcome:
    if error is not None:
        return EngineOutcome(kind="api_error", detail=error)
    return EngineOutcome(kind="ok") if problem is None else EngineOutcome(kind="no_envelope", detail=problem)


def _act(entry: ScriptEntry, request: StepRequest, recorder: Recorder) -> str | None:
    """Carries an entry out; returns why the step failed, or None."""
    ended = wait_as_scripted(entry, request)
    if ended is not None:
        return ended
    for name, content in entry.write.items():
        recorder.call("Write", {"file_path": name}, partial(_write, request, content))
    for name in entry.delete:
        recorder.call("Delete", {"file_path": name}, partial(_delete, request))
    for line in entry.run:
        run_line(line, request, recorder, time_left(request, RUN_LINE_TIMEOUT_S))
    leave(entry.files, request, recorder)
    return entry.fail


def _fill_in(entry: ScriptEntry, request: StepRequest) -> tuple[str, ...]:
    """Writes what the station promises and the script leaves to us; returns the paths. What is there from before
    still holds."""
    written = {request.worktree / name for name in entry.write} | {placed(name, request) for name in entry.files}
    left_out = {path.removeprefix("RUN_BASE/") for path in entry.leaves_out}
    filled = []
    for path in request.promised:
        target = request.run_base / path
        if path in left_out or target.name in left_out or target in written:
            continue
        if not target.exists():
            put_files(request.worktree, {str(target): LeftFile(text=stub_content(f"/{path}", request))})
        filled.append(path)
    return tuple(filled)


def _write(request: StepRequest, content: str, given: Given) -> ToolOutcome:
    path = request.worktree / str(given["file_path"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return ToolOutcome(output=f"{len(content.encode())} bytes")


def _delete(request: StepRequest, given: Given) -> ToolOutcome:
    path = request.worktree / str(given["file_path"])
    found = path.is_file() or path.is_symlink()
    path.unlink(missing_ok=True)
    return ToolOutcome(success=found)


def _handoff(entry: ScriptEntry) -> tuple[Handoff | None, str | None]:
    if entry.envelope is not None:
        try:
            return Handoff.from_plain(entry.envelope), None
        except MistakesError as error:
            return None, f"the envelope is not valid: {error.mistakes[0].text}"
    return (
        Handoff(
            status=entry.status or Status.VERIFIED,
            summary=entry.summary or "ok",
            can_further_iteration_help=entry.can_further_iteration_help,
            concerns=entry.concerns or (),
            blockers=entry.blockers or (),
            routing=entry.routing,
        ),
        None,
    )


def stub_content(name: str, request: StepRequest) -> str:
    """A small valid file of the kind that its name promises, marked as the stub's."""
    about: dict[str, JsonValue] = {"stub": True, "flow": request.execution.flow, "step": request.execution.step}
    artifact = "/".join(name.split("/")[-2:])
    if artifact in _PLACEHOLDERS:
        return _PLACEHOLDERS[artifact]().to_json().decode()
    if artifact == "deploy/deploy_decision.json":
        return _deploy_decision(request).to_json().decode()
    suffix = Path(name).suffix
    if suffix == ".json":
        return json.dumps(about, indent=2) + "\n"
    if suffix in (".yaml", ".yml"):
        return "".join(f"{key}: {json.dumps(value)}\n" for key, value in about.items())
    return f"# {Path(name).stem}\n\nstub: true\n\nWritten by {request.execution.name} in stub mode.\n"


def _deploy_decision(request: StepRequest) -> DeployDecision:
    """STABLE where something landed: the one placeholder whose truth depends on what the run did before it."""
    try:
        landed = json.loads((request.run_base / _MERGE_RESULT).read_bytes())["commit"]
    except (OSError, ValueError, LookupError, TypeError):
        landed = None
    landed = landed if isinstance(landed, str) else None
    decision = DeployOutcome.STABLE if landed else DeployOutcome.NOT_DEPLOYED
    return DeployDecision(stub=True, decision=decision, reason="stub: true", evidence=(_MERGE_RESULT,), landed=landed)


_RUN_BASE = "RUN_BASE/"


def leave(files: Mapping[str, LeftFile | None], request: StepRequest, recorder: Recorder) -> None:
    """Makes these paths what they were after the recorded step, each as a tool call that the policy is not asked
    about: it was then, and a shell line may have made what no tool may."""
    for name, file in _in_order(files):
        call = recorder.begin("Delete" if file is None else "Write", {"file_path": name})
        _put(request.worktree, placed(name, request), file)
        recorder.end(call, ToolOutcome())


def put_files(worktree: Path, files: Mapping[str, LeftFile | None]) -> None:
    """Writes the files of an entry without a step: what a person did by hand."""
    for name, file in _in_order(files):
        _put(worktree, worktree / name, file)


def placed(name: str, request: StepRequest) -> Path:
    if name.startswith(_RUN_BASE):
        return request.run_base / name.removeprefix(_RUN_BASE)
    return request.worktree / name


def _in_order(files: Mapping[str, LeftFile | None]) -> list[tuple[str, LeftFile | None]]:
    """What goes first: a folder may stand in its place then, or it in that of a folder."""
    return sorted(files.items(), key=lambda each: each[1] is not None)


def _put(worktree: Path, path: Path, file: LeftFile | None) -> None:
    """Follows no link: what lies behind one is another path."""
    above = [folder for folder in path.parents if folder != worktree and folder.is_relative_to(worktree)]
    in_the_way = [folder for folder in above if folder.is_symlink() or (folder.exists() and not folder.is_dir())]
    if file is None:
        if not in_the_way and (path.is_symlink() or path.is_file()):
            path.unlink()
        return
    for each in in_the_way:
        each.unlink()
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if file.link is not None:
        path.unlink(missing_ok=True)
        path.symlink_to(file.link)
        return
    # Whole from the first moment on: another branch of a fork may look at it, or put its own there.
    staged = path.with_name(f".{secrets.token_hex(8)}")
    with staged.open("xb") as written:
        written.write(file.content)
        os.fchmod(written.fileno(), 0o755 if file.executable else 0o644)
    staged.replace(path)
