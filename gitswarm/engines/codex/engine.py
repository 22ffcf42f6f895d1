"""Codex as an engine: `codex exec` works, and is resumed to hand over."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.containment import Uncontained
from gitswarm.engines import hook_client
from gitswarm.engines.adapter import EngineSetup, SessionSettings
from gitswarm.engines.agent_process import AgentProcess, agent_process
from gitswarm.engines.agent_session import (
    CONTINUE,
    FINALIZE,
    FINALIZE_S,
    SessionEnd,
    SessionLimits,
    host_and_port,
    may_pass,
    named_model,
    session_folder,
    session_result,
    waited_for_next,
)
from gitswarm.engines.base import Capabilities, Emit, StepRequest, StepResult, WithoutModel
from gitswarm.engines.codex.codex_cli import CAPABILITIES, KEY, find_codex
from gitswarm.engines.codex.codex_session import CodexSession
from gitswarm.engines.handoff import read_handoff
from gitswarm.engines.hook_server import HOOK_S, hook_command, serve_hooks
from gitswarm.engines.recorder import Recorder
from gitswarm.records.envelope import Handoff
from gitswarm.records.json_value import JsonValue
from gitswarm.records.receipt import EngineOutcome

_HOME, _SCHEMA = "home", "schema.json"
_FINALIZE_TIMES = 3
_URL = "https://api.openai.com/v1"
_NO_SHELL = (
    "\n\nThis step has no shell. Read with single commands, without pipes, patterns of the shell or several at once: "
    "cat FILE, sed -n '1,200p' FILE, head, tail, wc, ls, grep -n WORD FILE, rg WORD FOLDER. Write with apply_patch."
)
_STATUS = re.compile(r"status:? (\d{3})\b")
_MAY_PASS = re.compile(r"high demand|at capacity|rate limit|disconnected|connection|timed? ?out", re.IGNORECASE)
_KEPT_IN_SCHEMA = ("type", "enum", "anyOf", "$ref", "description", "const", "pattern")


class CodexEngine(WithoutModel, Struct, frozen=True):
    setup: EngineSetup
    settings: SessionSettings
    engine_id: str
    mode: str
    capabilities: Capabilities = CAPABILITIES
    retry_wait_s: float = 2.0

    def hosts(self, env: Mapping[str, str]) -> tuple[str, ...]:
        return (host_and_port(self.setup.environment(env).get("OPENAI_BASE_URL") or _URL),)

    def run(self, request: StepRequest, emit: Emit) -> StepResult:
        """
        :raises StepEndedError: nobody waits for it any more.
        """
        started = time.monotonic()
        recorder = Recorder(request, self.setup.clock, emit, "cli-observed")
        recorder.prompt(request.prompt)
        with session_folder(request.scratch) as folder:
            session = CodexSession(request, recorder, self.setup.prices, folder / _HOME)
            program = find_codex(self.setup, self.setup.environment(request.env))
            handoff: Handoff | str = "codex never worked"
            if program.path is None or program.problem is not None:
                outcome = EngineOutcome(kind="engine_missing", detail=program.message)
            else:
                recorder.note("system", f"Codex {program.version} adds its own instructions and tools to the prompt.")
                limits = SessionLimits.of_step(request, started, self.settings.step_timeout)
                turns = self._turns(request, program.path, folder, emit)
                outcome = turns.run(session, request.prompt.user, limits, ())
                if outcome.kind in ("ok", "max_turns") and session.thread is not None:
                    handoff = _ask_for_handoff(turns, session)
        if isinstance(handoff, str):
            if outcome.kind == "ok":
                outcome = EngineOutcome(kind="no_envelope", detail=handoff)
            handoff = ""
        end = SessionEnd(outcome, handoff, session.text, session.model, session.tokens, session.cost_usd)
        return session_result("codex", request, recorder, started, end)

    def _turns(self, request: StepRequest, program: Path, folder: Path, emit: Emit) -> _Turns:
        """With a home for codex in the session's folder: none of the user's settings, and no login."""
        env, home, vendor = self.setup.environment(request.env), folder / _HOME, program.parent.parent
        config, schema = home / "config.toml", folder / _SCHEMA
        home.mkdir()
        config.write_text(_config(request, folder, env), encoding="utf-8", errors="replace")
        schema.write_text(json.dumps(strict_schema(request.terms.output_schema)), encoding="utf-8")
        # An agent may write where codex keeps its records, but not what its next turn is told by.
        read = (program, vendor, Path(hook_client.__file__), folder, config)
        confined = replace(request, containment=request.containment.opened(read=read, write=(home,)))
        tools = f"{vendor / 'codex-path'}:{env.get('PATH', '')}"  # where it brings its ripgrep
        whole = {**env, "CODEX_HOME": str(home), "PATH": tools}
        return _Turns(confined, program, whole, folder, emit, self.settings.attempts, self.retry_wait_s)


class _Turns(Struct, frozen=True):
    """Turns of one session. `folder`: the session's own; what is in it the agent may read. `attempts` of a turn at
    most; `wait_s` before the second, which doubles with each further one."""

    request: StepRequest
    program: Path
    env: Mapping[str, str]
    folder: Path
    emit: Emit
    attempts: int
    wait_s: float

    def run(self, session: CodexSession, prompt: str, limits: SessionLimits, options: Sequence[str]) -> EngineOutcome:
        """One turn of a session: the first one, or the next of the one that is there.

        :raises StepEndedError: nobody waits for the step any more.
        """
        attempt = 0
        while True:
            outcome = replace(self._attempt(session, prompt, limits, options), attempts=attempt + 1)
            if not waited_for_next(outcome, self.attempts, self.wait_s * 2**attempt, limits, self.emit):
                return outcome
            attempt += 1
            if session.has_spoken and not session.is_handing_over:
                prompt = CONTINUE
                session.recorder.note("user", prompt)

    def _attempt(
        self, session: CodexSession, prompt: str, limits: SessionLimits, options: Sequence[str]
    ) -> EngineOutcome:
        resumed = ("resume", session.thread) if session.thread else ()
        argv = [str(self.program), "exec", *resumed, "--json", "--skip-git-repo-check", "--ignore-rules"]
        # They are ours alone: the home is our own, and a project's are not read, as none is trusted.
        argv += ["--dangerously-bypass-hook-trust", *options, "-"]
        session.finished, session.failure = False, None
        try:
            with (
                serve_hooks(self.folder, session),
                agent_process(argv, self.request, self.env, limits.deadline) as agent,
            ):
                session.agent = agent
                agent.say_all(prompt)
                for line in agent.lines():
                    session.read_line(line)
                    if session.over is not None:
                        break
                outcome = _outcome(session, agent)
        except TimeoutError:
            outcome = self._late(session, limits)
        except OSError as error:
            outcome = EngineOutcome(kind="engine_missing", detail=f"cannot start {self.program}: {error.strerror}")
        finally:
            session.close()
        if session.broken is not None:
            raise session.broken
        return outcome

    def _late(self, session: CodexSession, limits: SessionLimits) -> EngineOutcome:
        if session.over is not None:
            return EngineOutcome(kind=session.over[0], detail=session.over[1])
        if limits.set_by:
            return EngineOutcome(kind="budget", detail=f"its time was over by {limits.set_by}: it was ended")
        return EngineOutcome(kind="killed", detail="it took longer than engines.codex.step_timeout: it was ended")


def _config(request: StepRequest, folder: Path, env: Mapping[str, str]) -> str:
    """config.toml. Tools are the shell and patches: the hook is asked about no input that a program gets on a
    terminal, and what runs besides the session has no owner."""
    # To codex every other end of a hook than exit code 2 and a reason is a yes.
    hook = f"{hook_command(folder / 'gate', request.containment.depth)} || {{ echo denied >&2; exit 2; }}"
    hook_entry = f'{{ type = "command", command = {_toml(hook)}, timeout = {HOOK_S} }}'
    no_shell = bool(request.terms.tools) and "Bash" not in request.terms.tools
    off = ("apps", "goals", "image_generation", "memories", "plugins", "shell_snapshot", "sleep_tool", "view_image")
    config: dict[str, JsonValue] = {
        "model_provider": "gitswarm",
        "approval_policy": "never",
        # One sandbox: its own cannot be nested in ours.
        "sandbox_mode": "workspace-write" if isinstance(request.containment, Uncontained) else "danger-full-access",
        "sandbox_workspace_write.network_access": True,
        "sandbox_workspace_write.exclude_slash_tmp": True,
        "allow_login_shell": False,
        "check_for_update_on_startup": False,
        "web_search": "disabled",
        "project_doc_max_bytes": 0,
        "include_apps_instructions": False,
        "include_permissions_instructions": False,
        "developer_instructions": request.prompt.system + (_NO_SHELL if no_shell else ""),
        "model_providers.gitswarm.name": "gitswarm",
        "model_providers.gitswarm.base_url": env.get("OPENAI_BASE_URL") or _URL,
        "model_providers.gitswarm.wire_api": "responses",
        "model_providers.gitswarm.env_key": KEY,
        # Of what it tries again by itself; never 429.
        "model_providers.gitswarm.request_max_retries": 1,
        "model_providers.gitswarm.stream_max_retries": 1,
        **{f"features.{name}": False for name in (*off, "unified_exec_tty", "unbounded_connection_retries")},
        "agents.enabled": False,
        "analytics.enabled": False,
        "feedback.enabled": False,
        "history.persistence": "none",
        "skills.include_instructions": False,
        "skills.bundled.enabled": False,
        "shell_environment_policy.inherit": "all",
        "shell_environment_policy.ignore_default_excludes": True,
        "shell_environment_policy.exclude": [KEY],
    }
    if (model := named_model(request.model)) is not None:
        config["model"] = model
    lines = [f"{name} = {_toml(value)}" for name, value in config.items()]
    return "\n".join([*lines, f"hooks.PreToolUse = [{{ hooks = [{hook_entry}] }}]", ""])


def _toml(value: JsonValue) -> str:
    """JSON, but for one character that TOML does not take as it is."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _ask_for_handoff(turns: _Turns, session: CodexSession) -> Handoff | str:
    """What it hands over, or why there is nothing."""
    session.is_handing_over = True
    options = ("--output-schema", str(turns.folder / _SCHEMA))
    limits, prompt, text = SessionLimits.within(FINALIZE_S, turns.request.ended), FINALIZE, session.text
    found: Handoff | str = ""
    for _time in range(_FINALIZE_TIMES):
        session.recorder.note("user", prompt)
        session.text = ""
        outcome = turns.run(session, prompt, limits, options)
        if outcome.kind != "ok":
            found = outcome.detail or outcome.kind
            break
        try:
            found = read_handoff(json.loads(session.text))
        except ValueError:
            found = "what came is no JSON object"
        if isinstance(found, Handoff):
            break
        prompt = f"That cannot be used as the handoff: {found}. Answer with the JSON object alone."
    session.text = text
    return found


def strict_schema(schema: Any) -> Any:
    """The schema in the form that the API takes: every property is required, none besides, and only some words are
    known."""
    if not isinstance(schema, dict):
        return schema
    kept = {name: value for name, value in schema.items() if name in _KEPT_IN_SCHEMA and "$ref" not in schema}
    if "$ref" in schema:
        kept["$ref"] = schema["$ref"]
    for name in ("properties", "$defs"):
        if name in schema:
            kept[name] = {key: strict_schema(value) for key, value in schema[name].items()}
    if "anyOf" in schema:
        kept["anyOf"] = [strict_schema(each) for each in schema["anyOf"]]
    if "items" in schema:
        kept["items"] = strict_schema(schema["items"])
    if schema.get("type") == "object":
        kept |= {"required": list(schema.get("properties", ())), "additionalProperties": False}
    return kept


def _outcome(session: CodexSession, agent: AgentProcess) -> EngineOutcome:
    """The outcome by codex's last event; its exit code alone says nothing."""
    if session.over is not None:
        return EngineOutcome(kind=session.over[0], detail=session.over[1])
    if session.failure is not None:
        found = _STATUS.search(session.failure)
        status = int(found[1]) if found else None
        retryable = may_pass(status or 0) or bool(_MAY_PASS.search(session.failure))
        return EngineOutcome(kind="api_error", detail=session.failure, status=status, retryable=retryable)
    if not session.finished:
        detail = f"codex ended without a result, exit code {agent.exit_code} {agent.complaints}".strip()
        return EngineOutcome(kind="killed", detail=detail[:500])
    if session.ran_out and not session.is_handing_over:
        return EngineOutcome(kind="max_turns", detail="it made more tool calls than it had turns")
    return EngineOutcome(kind="ok")
