"""The two ways to hold a session, and what it is given: `cli` is `claude -p` with JSON lines on its standard output
and our hook before each tool call; `sdk` is the Agent SDK in a thread with an event loop (sdk_session.py).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Protocol, cast

from msgspec.structs import replace

from gitswarm.containment import Containment
from gitswarm.engines import hook_client
from gitswarm.engines.agent_process import collect_lines, end_process, last_lines, launched, pour, start_piped
from gitswarm.engines.agent_session import FINALIZE, NAVIGATOR, USUAL_TOOLS, named_model
from gitswarm.engines.base import RouteTerms, StepRequest
from gitswarm.engines.claude.claude_code import INSTALL_SDK, LINE_BYTES, OnEvent, SessionOptions
from gitswarm.engines.claude.messages import SUBAGENT_TOOLS, ProcessExit, read_line
from gitswarm.engines.claude.provider import ClaudeProfile, bring_login, config_folder
from gitswarm.engines.hook_server import HOOK_S, AnswersHooks, hook_command, serve_hooks
from gitswarm.records.json_value import JsonValue
from gitswarm.records.routing import RouteQuestion

_REAP_S = 5.0


class CliTransport:
    mode = "cli"

    @contextmanager
    def hold(self, options: SessionOptions, hooks: AnswersHooks, on_event: OnEvent) -> Iterator[None]:
        options.write_system()
        with serve_hooks(options.folder, hooks) as socket:
            try:
                program = launched([str(options.program)], options.env, options.containment)
                process = start_piped([*program, *arguments(options, socket)], options.cwd, options.env)
            except OSError as error:
                on_event(ProcessExit(None, f"cannot start {options.program}: {error.strerror}", missing=True))
                yield
                return
            listening = threading.Thread(target=_listen, args=(process, options.prompt, on_event), daemon=True)
            listening.start()
            try:
                yield
            finally:
                end_process(process)  # it has ended on its own, or its owner ends it next
                listening.join(_REAP_S)


def arguments(options: SessionOptions, socket: Path) -> list[str]:
    """The command line behind `claude`. Never `--bare`: it takes the hooks away, without a word."""
    settings = options.settings
    argv = ["-p", "--output-format", "stream-json", "--input-format", "stream-json", "--verbose"]
    # Without these the tokens of an answer, and answers of a subagent, are not told before the session ends.
    argv += ["--include-partial-messages", "--forward-subagent-text"]
    argv += ["--permission-mode", "dontAsk", f"--setting-sources={','.join(settings.setting_sources)}"]
    argv += [
        "--settings",
        options.own_settings(_hooks(socket, options.containment)),
        "--tools",
        ",".join(options.tools),
    ]
    if not settings.setting_sources:
        argv.append("--strict-mcp-config")
    if options.system:
        argv += ["--system-prompt-file" if options.bare else "--append-system-prompt-file", str(options.system_file)]
    for flag, value in (
        ("--model", options.model),
        ("--fallback-model", settings.fallback_model),
        ("--max-turns", options.max_turns),
        ("--max-budget-usd", options.max_cost_usd),
        ("--json-schema", json.dumps(options.schema) if options.schema is not None else None),
    ):
        if value is not None:
            argv += [flag, str(value)]
    if options.resume is not None:
        argv.append(f"--resume={options.resume}")
    return argv


def _hooks(socket: Path, containment: Containment) -> dict[str, JsonValue]:
    command = hook_command(socket, containment.depth)
    hook: dict[str, JsonValue] = {"type": "command", "command": command, "timeout": HOOK_S}
    # Without it a hook that fails, hangs or is not there lets the call through.
    return {"PreToolUse": [{"matcher": "*", "hooks": [{**hook, "onFailure": "block"}]}]}


def _listen(process: subprocess.Popen[bytes], prompt: str, on_event: OnEvent) -> None:
    stderr = last_lines()
    complaints = threading.Thread(target=collect_lines, args=(process, stderr), daemon=True)
    complaints.start()
    # `client_composed`: the prompt is made by a program, so `/x` is no command and `@x` is no file in it.
    content: dict[str, JsonValue] = {"role": "user", "content": prompt}
    user_message = {"type": "user", "message": content, "parent_tool_use_id": None, "client_composed": True}
    pour(process, json.dumps(user_message) + "\n")
    with cast("IO[bytes]", process.stdout) as output:
        while line := output.readline(LINE_BYTES):  # what is longer comes in pieces, which are noise
            for message in read_line(line):
                on_event(message)
    exit_code = process.wait()
    complaints.join(1)  # something that it started may hold its stderr open
    on_event(ProcessExit(exit_code, " ".join(stderr).strip()))


_GRACE_S = 1.0
_JOIN_S = 10.0


class SdkTransport:
    mode = "sdk"

    @contextmanager
    def hold(self, options: SessionOptions, hooks: AnswersHooks, on_event: OnEvent) -> Iterator[None]:
        try:
            from gitswarm.engines.claude.sdk_session import Cancel, hold_in_sdk  # noqa: PLC0415 - half a second
        except ImportError:
            on_event(ProcessExit(None, f"claude-agent-sdk is not installed: {INSTALL_SDK}", missing=True))
            yield
            return
        options.write_system()
        cancel = Cancel()
        thread = threading.Thread(target=hold_in_sdk, args=(options, hooks, on_event, cancel), daemon=True)
        thread.start()
        try:
            yield
        finally:
            # The caller has ended its processes. It ends with them, unless it waits for an answer of theirs, or has
            # more to read than anybody wants to hear.
            thread.join(_GRACE_S)
            cancel()
            thread.join(_JOIN_S)


class Transport(Protocol):
    @property
    def mode(self) -> str: ...

    def hold(self, options: SessionOptions, hooks: AnswersHooks, on_event: OnEvent) -> AbstractContextManager[None]:
        """Starts a session. Its events come from other threads, `ProcessExit` last. When the block is left nothing
        of the transport's own waits for it any more; its processes are the caller's to end."""


def work_options(request: StepRequest, profile: ClaudeProfile, program: Path, folder: Path) -> SessionOptions:
    """
    :param folder: the session's own.
    """
    terms = request.terms
    return SessionOptions(
        prompt=request.prompt.user,
        cwd=request.worktree,
        folder=folder,
        env=profile.environment(request.env),
        settings=profile.settings,
        program=program,
        tools=_by_every_name(terms.tools or USUAL_TOOLS),
        system=request.prompt.system,
        model=named_model(request.model),
        max_turns=terms.max_turns,
        max_cost_usd=terms.max_cost_usd,
        max_tokens=terms.max_tokens,
        schema=open_ended(terms.output_schema),
    )


def _by_every_name(tools: tuple[str, ...]) -> tuple[str, ...]:
    """Which name of the subagent tool the program knows depends on its version; it passes over the other."""
    return tuple(dict.fromkeys((*tools, *SUBAGENT_TOOLS))) if not {*tools}.isdisjoint(SUBAGENT_TOOLS) else tools


def open_ended(schema: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """A field more than there are costs no attempt: it is dropped."""
    return {**schema, "additionalProperties": True}


def finalize_options(work: SessionOptions, session: str) -> SessionOptions:
    """Continues the conversation of `session`, with nothing left to do but to hand over."""
    return replace(work, prompt=FINALIZE, tools=(), max_turns=None, resume=session)


def route_options(
    question: RouteQuestion, terms: RouteTerms, profile: ClaudeProfile, program: Path, folder: Path
) -> SessionOptions:
    """The options of a session that only answers: no tools, and nothing that stays behind."""
    return SessionOptions(
        prompt=question.prompt,
        cwd=terms.worktree,
        folder=folder,
        env=profile.environment(terms.env),
        settings=profile.settings,
        program=program,
        system=NAVIGATOR,
        bare=True,
        model=named_model(terms.model),
        schema=question.schema,
    )


_USERS = ("settings.json", "CLAUDE.md")


def confined_options(options: SessionOptions, containment: Containment) -> SessionOptions:
    """The same session, confined. Its state goes with the session's folder; none of the user's ever reads it."""
    state = options.folder / "state"
    state.mkdir(mode=0o700)
    users = config_folder(options.env)
    bring_login(options.env, state)
    for name in _USERS if "user" in options.settings.setting_sources else ():
        with suppress(FileNotFoundError):
            shutil.copyfile(users / name, state / name)
    program = options.program.resolve()
    needed = (options.folder, options.program, program.parent, Path(hook_client.__file__))
    env = {**options.env, **containment.environment, "CLAUDE_CONFIG_DIR": str(state)}
    return replace(options, env=env, containment=containment.opened(read=needed, write=(state,)))
