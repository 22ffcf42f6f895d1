"""What a tool call is judged against: where the agent works and what its step may write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct, field

from gitswarm.records.policy import PolicyRules
from gitswarm.safety.policy.table import listed

_OF_THE_SHELL = listed("PATH PWD OLDPWD IFS SHLVL PPID UID EUID RANDOM SECONDS LINENO")


class Scope(Struct, frozen=True):
    """`worktree` is absolute and resolved. `run_base` (`.swarm/runs/<run>`) and `artifacts` are relative to it;
    `artifacts` are the files in RUN_BASE that the step may write. `tools`: the station's; empty: any.

    `aliases`: git's, name to value as configured. `temp`: folders for temporary files. `resolve` follows symlinks
    as far as a path exists (`Path.resolve`). `variables`: of the agent's environment, as far as they mean to a shell
    what they mean to every program.
    """

    worktree: Path
    run_base: str
    artifacts: frozenset[str]
    writes_code: bool
    tools: tuple[str, ...]
    rules: PolicyRules
    aliases: Mapping[str, str]
    home: Path
    temp: tuple[Path, ...]
    resolve: Callable[[Path], Path]
    variables: Mapping[str, str] = field(default_factory=dict)


class StationRights(Struct, frozen=True):
    """What a step's station may do; `artifacts` as in `Scope`."""

    artifacts: frozenset[str]
    writes_code: bool
    tools: tuple[str, ...]


class RunScope(Struct, frozen=True):
    """What the machine and the repository say; the same for all steps of a run."""

    worktree: Path
    run_base: str
    git_config: Mapping[str, str]
    env: Mapping[str, str]


def make_scope(ground: RunScope, role: StationRights, rules: PolicyRules) -> Scope:
    """
    :param ground: `git_config` holds entries by full name, of which those below `alias.` count; `env` is the agent's.
    """
    home = Path(ground.env.get("HOME") or "/")
    named = ground.env.get("TMPDIR")
    folders = [Path("/tmp"), Path("/var/tmp"), *([Path(named)] if named else [])]  # noqa: S108 - named, not used
    return Scope(
        worktree=ground.worktree.resolve(),
        run_base=ground.run_base,
        artifacts=role.artifacts,
        writes_code=role.writes_code,
        tools=role.tools,
        rules=rules,
        aliases={name[6:]: value for name, value in ground.git_config.items() if name.lower().startswith("alias.")},
        home=home,
        temp=tuple(dict.fromkeys(folder.resolve() for folder in reversed(folders) if folder.is_absolute())),
        resolve=Path.resolve,
        variables={name: value for name, value in ground.env.items() if name not in _OF_THE_SHELL},
    )
