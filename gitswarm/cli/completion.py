"""`completion`: what a shell has to read to complete our commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gitswarm.cli.arguments import Argument
from gitswarm.cli.console import out_bytes
from gitswarm.errors import UsageError

_SHELLS = ("bash", "zsh", "fish")


def completion(shell: Annotated[str, Argument(metavar="SHELL", help="bash, zsh or fish.")]) -> None:
    """Print the completion of a shell, for git swarm and git-swarm: eval "$(git swarm completion bash)"."""
    if shell not in _SHELLS:
        raise UsageError(f"there is no completion for '{shell}'", hint=f"git swarm completion {_SHELLS[0]}")
    out_bytes((Path(__file__).parent / "completions" / f"git-swarm.{shell}").read_bytes())
