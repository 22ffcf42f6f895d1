"""What a run needs and does not find, looked for before its first step."""

from __future__ import annotations

import shlex
import shutil

from gitswarm.runner.session import Session


def preflight(session: Session) -> str | None:
    """The first thing that the run's own commands lack; None when nothing is known to be missing.

    Only plain commands are looked at: what a shell would make of the others is the shell's to say.
    """
    path = session.around.env.get("PATH")
    for name, command in session.spec.settings.commands.items():
        if command is None or not _is_used(session, name):
            continue
        program = _program(command)
        if program is not None and shutil.which(program, path=path) is None:
            return f"the command {name} needs '{program}', which is not installed"
    return None


def _is_used(session: Session, name: str) -> bool:
    flows = (session.specs.flows[flow] for flow in session.spec.flows)
    return any(step.command == name for flow in flows for step in flow.steps)


def _program(command: str) -> str | None:
    """The program that a plain command starts; None for a path, an assignment, or what only a shell understands."""
    try:
        first = shlex.split(command)[0]
    except (ValueError, IndexError):
        return None
    plain = first.replace("-", "").replace("_", "").replace(".", "").isalnum()
    return first if plain and first not in _BUILTINS else None


_BUILTINS = frozenset(
    {"cd", "exit", "true", "false", "test", "echo", "export", "set", "source", "eval", "exec", "if"}
)
