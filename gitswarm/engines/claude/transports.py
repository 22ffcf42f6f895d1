"""The two ways to hold a session: `cli` is `claude -p` with JSON lines on its standard output and our hook before
each tool call; `sdk` is the Agent SDK in a thread with an event loop of its own (sdk_session.py).
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, cast

from pydantic import JsonValue

from gitswarm.containment import Containment
from gitswarm.engines.agent_process import collect_lines, end_process, last_lines, start_piped
from gitswarm.engines.claude.claude_code import INSTALL_SDK
from gitswarm.engines.claude.gate import Gate
from gitswarm.engines.claude.messages import Gone, read_line
from gitswarm.engines.claude.order import SessionOrder, Tell
from gitswarm.engines.hook_server import HOOK_S, hook_command, open_door

_LINE_BYTES = 64 << 20
_REAP_S = 5.0


class CliTransport:
    mode = "cli"

    @contextmanager
    def hold(self, order: SessionOrder, gate: Gate, tell: Tell) -> Iterator[None]:
        order.write_system()
        with open_door(order.folder, gate) as socket:
            try:
                process = start_piped([*order.launched(), *arguments(order, socket)], order.cwd, order.env)
            except OSError as error:
                tell(Gone(None, f"cannot start {order.program}: {error.strerror}", missing=True))
                yield
                return
            listening = threading.Thread(target=_listen, args=(process, order.prompt, tell), daemon=True)
            listening.start()
            try:
                yield
            finally:
                end_process(process)  # it has ended on its own, or its owner ends it next
                listening.join(_REAP_S)


def arguments(order: SessionOrder, socket: Path) -> list[str]:
    """The command line behind `claude`. Never `--bare`: it takes the hooks away, without a word."""
    settings = order.settings
    argv = ["-p", "--output-format", "stream-json", "--input-format", "stream-json", "--verbose"]
    # Without these the tokens of an answer, and answers of a subagent, are not told before the session ends.
    argv += ["--include-partial-messages", "--forward-subagent-text"]
    argv += ["--permission-mode", "dontAsk", f"--setting-sources={','.join(settings.setting_sources)}"]
    argv += ["--settings", order.own_settings(_hooks(socket, order.containment)), "--tools", ",".join(order.tools)]
    if not settings.setting_sources:
        argv.append("--strict-mcp-config")
    if order.system:
        argv += ["--system-prompt-file" if order.bare else "--append-system-prompt-file", str(order.system_file)]
    for flag, value in (
        ("--model", order.model),
        ("--fallback-model", settings.fallback_model),
        ("--max-turns", order.max_turns),
        ("--max-budget-usd", order.max_cost_usd),
        ("--json-schema", json.dumps(order.schema) if order.schema is not None else None),
    ):
        if value is not None:
            argv += [flag, str(value)]
    if order.resume is not None:
        argv.append(f"--resume={order.resume}")
    return argv


def _hooks(socket: Path, containment: Containment) -> dict[str, JsonValue]:
    command = hook_command(socket, containment.depth)
    hook: dict[str, JsonValue] = {"type": "command", "command": command, "timeout": HOOK_S}
    # Without it a hook that fails, hangs or is not there lets the call through.
    return {"PreToolUse": [{"matcher": "*", "hooks": [{**hook, "onFailure": "block"}]}]}


def _listen(process: subprocess.Popen[bytes], prompt: str, tell: Tell) -> None:
    stderr = last_lines()
    complaints = threading.Thread(target=collect_lines, args=(process, stderr), daemon=True)
    complaints.start()
    asking = threading.Thread(target=_ask, args=(process.stdin, prompt), daemon=True)
    asking.start()
    with cast("IO[bytes]", process.stdout) as told:
        while line := told.readline(_LINE_BYTES):  # what is longer comes in pieces, which are noise
            for message in read_line(line):
                tell(message)
    exit_code = process.wait()
    complaints.join(1)  # something that it started may hold its stderr open
    tell(Gone(exit_code, " ".join(stderr).strip()))


def _ask(stdin: IO[bytes] | None, prompt: str) -> None:
    """`client_composed`: the prompt is made by a program, so `/x` is no command and `@x` is no file in it."""
    content: dict[str, JsonValue] = {"role": "user", "content": prompt}
    message = {"type": "user", "message": content, "parent_tool_use_id": None, "client_composed": True}
    if stdin is not None:
        with suppress(OSError), stdin:  # it went away before it had read everything: its end says why
            stdin.write(json.dumps(message).encode() + b"\n")


_GRACE_S = 1.0
_JOIN_S = 10.0


class SdkTransport:
    mode = "sdk"

    @contextmanager
    def hold(self, order: SessionOrder, gate: Gate, tell: Tell) -> Iterator[None]:
        try:
            from gitswarm.engines.claude.sdk_session import Cancel, talk  # noqa: PLC0415 - half a second
        except ImportError:
            tell(Gone(None, f"claude-agent-sdk is not installed: {INSTALL_SDK}", missing=True))
            yield
            return
        order.write_system()
        cancel = Cancel()
        talking = threading.Thread(target=talk, args=(order, gate, tell, cancel), daemon=True)
        talking.start()
        try:
            yield
        finally:
            # The caller has ended its processes. It ends with them, unless it waits for an answer of theirs, or has
            # more to read than anybody wants to hear.
            talking.join(_GRACE_S)
            cancel()
            talking.join(_JOIN_S)
