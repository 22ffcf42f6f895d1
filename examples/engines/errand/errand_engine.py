"""The agent `errand` as an engine of git-swarm."""

from __future__ import annotations

import json
import shlex
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from gitswarm.engines.adapter import EngineAdapter, EngineSetup, Program, ProgramSection
from gitswarm.engines.agent_process import AgentProcess, agent_process
from gitswarm.engines.base import SESSION_WORK, Capabilities, Emit, StepRequest, StepResult, WithoutModel, capped
from gitswarm.engines.handoff import read_handoff
from gitswarm.engines.recorder import OpenCall, Recorder, ToolOutcome
from gitswarm.processes import CommandLimits, run_shell
from gitswarm.records.envelope import Handoff
from gitswarm.records.execution import Result
from gitswarm.records.json_value import JsonValue
from gitswarm.records.receipt import EngineOutcome, Tokens
from gitswarm.records.record import Record
from gitswarm.records.safety import Deny, Rewrite, Verdict

CAN = replace(SESSION_WORK, output_format=False)


class Settings(Record):
    """`step_timeout`: seconds that one step may take."""

    step_timeout: Annotated[float, Meta(gt=0)] = 600


@dataclass
class Session:
    """What an agent has said up to now."""

    calls: list[tuple[OpenCall, Verdict]] = field(default_factory=list)
    tokens: Tokens = field(default_factory=Tokens)
    cost_usd: float | None = 0.0
    text: str = ""
    handed_over: JsonValue = None


@dataclass(frozen=True)
class ErrandEngine(WithoutModel):
    setup: EngineSetup
    engine_id: str = "errand-step"
    mode: str = "cli"
    capabilities: Capabilities = CAN

    def run(self, request: StepRequest, emit: Emit) -> StepResult:
        started, timeout_s = time.monotonic(), Settings.from_plain(self.setup.settings).step_timeout
        deadline = min(started + timeout_s, request.deadline or started + timeout_s)
        recorder, session = Recorder(request, self.setup.clock, emit, "cli-observed"), Session()
        recorder.prompt(request.prompt)
        env = {**request.env, **self.setup.access.env}
        # In the sandbox, too, the agent has to find its own files: they lie beside this one.
        request = replace(request, containment=request.containment.opened(read=[Path(__file__).parent]))
        argv = [str(program_in(self.setup, env))]
        try:
            with agent_process(argv, request, env, deadline) as agent:
                agent.say(json.dumps({"prompt": f"{request.prompt.system}\n{request.prompt.user}"}))
                for line in agent.lines():
                    hear(line, session, request, recorder, agent)
                outcome = how_it_ended(agent)
        except TimeoutError:
            late = request.deadline is not None and deadline == request.deadline
            outcome = EngineOutcome(kind="budget" if late else "killed", detail="its time was over: it was ended")
        except OSError as error:
            outcome = EngineOutcome(kind="engine_missing", detail=f"cannot start {argv[0]}: {error.strerror}")
        recorder.abandon("the agent ended in the middle of it")
        handoff, problem = handoff_of(session, outcome)
        failed = outcome.kind in ("killed", "engine_missing")
        return StepResult(
            step_id=request.execution.step,
            status=Result.FAILED if failed else Result.SUCCEEDED,
            output=capped(session.text),
            error=f"errand: {outcome.detail}" if failed else None,
            duration_ms=int((time.monotonic() - started) * 1000),
            handoff=handoff,
            handoff_problem=problem,
            transcript=recorder.transcript,
            tool_calls=recorder.tool_calls,
            tokens=session.tokens,
            cost_usd=session.cost_usd,
            outcome=EngineOutcome(kind="no_envelope", detail=problem)
            if problem and outcome.kind == "ok"
            else outcome,
        )


def hear(line: str, session: Session, request: StepRequest, recorder: Recorder, agent: AgentProcess) -> None:
    """One line of the agent: told, judged, answered."""
    try:
        ((what, said),) = json.loads(line).items()
    except (ValueError, AttributeError):
        recorder.note("assistant", f"(not understood) {line}")
        return
    if what == "say":
        session.text = str(said)
        recorder.say(session.text)
    elif what == "ask":
        call, verdict = recorder.begin(said["tool"], said["input"]), request.decide(said["tool"], said["input"])
        if isinstance(verdict, Deny):
            recorder.end(call, ToolOutcome(success=False, output=verdict.message), verdict)
            agent.say(json.dumps({"allow": False, "why": verdict.message}))
        else:
            session.calls.append((call, verdict))
            given = dict(verdict.input) if isinstance(verdict, Rewrite) else said["input"]
            agent.say(json.dumps({"allow": True, "input": given}))
    elif what == "did" and session.calls:
        call, verdict = session.calls.pop()
        recorder.end(call, ToolOutcome(bool(said["ok"]), str(said["output"])), verdict)
    elif what == "used":
        session.tokens = Tokens.of(said["prompt"], said["completion"])
        session.cost_usd = said.get("cost_usd")
        recorder.used(session.tokens, session.cost_usd)
    elif what == "hand_over":
        session.handed_over = said


def how_it_ended(agent: AgentProcess) -> EngineOutcome:
    if agent.exit_code == 0:
        return EngineOutcome(kind="ok")
    return EngineOutcome(kind="killed", detail=f"exit code {agent.exit_code} {agent.complaints}".strip())


def handoff_of(session: Session, outcome: EngineOutcome) -> tuple[Handoff | None, str | None]:
    """What was handed over, else why it cannot be used."""
    if outcome.kind != "ok" or session.handed_over is None:
        return None, outcome.detail or "the agent handed nothing over"
    said = read_handoff(session.handed_over)
    return (None, said) if isinstance(said, str) else (said, None)


def program_in(setup: EngineSetup, env: Mapping[str, str]) -> Path:
    return Path(setup.access.cli or shutil.which("errand", path=env.get("PATH")) or "errand")


class ErrandAdapter(EngineAdapter):
    short_name = "errand"
    modes = {"cli": CAN}
    section, settings = ProgramSection, Settings
    inherits = ("ERRAND_",)
    advised = "cli"
    install = "pip install git-swarm-errand"
    prices = {"default": (0.0, 0.0)}  # it has no model: nothing is paid

    def open(self, mode: str, setup: EngineSetup) -> ErrandEngine:
        return ErrandEngine(setup, self.engine_id, mode)

    def find(self, mode: str, setup: EngineSetup, env: Mapping[str, str]) -> Program:
        del mode
        path = program_in(setup, env)
        asked = run_shell(
            f"exec {shlex.quote(str(path))} --version", cwd=Path.cwd(), env=env, limits=CommandLimits(10)
        )
        name, _space, version = asked.output.strip().partition(" ")
        if asked.exit_code != 0 or name != "errand":
            return Program(None, problem=f"there is no errand at {path}", advice=self.install)
        return Program(path, version)


ADAPTER = ErrandAdapter()
