"""A station: the role that executes steps, what it may write in RUN_BASE, and what it promises to leave there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from gitswarm.records.envelope import Handoff
from gitswarm.records.record import AtLeastOne, Record, short_form
from gitswarm.records.text import did_you_mean, words
from gitswarm.specs.flow import SDLC_FLOWS, Flow, Identifier, Step
from gitswarm.specs.yaml_source import YamlSource

_GLOB = frozenset("*?[")


class RunArtifact(Struct, frozen=True):
    """A file in RUN_BASE, `path` relative to it: `plan/adr.md`."""

    path: str


class CodePattern(Struct, frozen=True):
    """A file or glob in the worktree."""

    pattern: str


def parse_artifact(name: str, flow_id: str) -> RunArtifact | CodePattern:
    """`plan/adr.md` names a flow: RUN_BASE/plan/adr.md. `adr.md`: RUN_BASE/<flow>/adr.md.

    Everything else (`src/**`, `docs/x.md`, `./README.md`) is code in the worktree.
    """
    if name.startswith("./"):
        return CodePattern(name[2:])
    head, slash, _rest = name.partition("/")
    if _GLOB & set(name):
        return CodePattern(name)
    if not slash:
        return RunArtifact(f"{flow_id}/{name}")
    if head == flow_id or head in SDLC_FLOWS:
        return RunArtifact(name)
    return CodePattern(name)


Category = Literal[
    "shaping",
    "spec",
    "design",
    "implementation",
    "critic",
    "verification",
    "analytics",
    "reporter",
    "infra",
    "router",
]
_READING: frozenset[Category] = frozenset(
    {"critic", "verification", "analytics", "shaping", "design", "spec", "router"}
)
Written = Literal["test", "product", "docs", "config"]
"""What the code of a project is for, as far as roles differ in it."""

Tier = Literal["primary", "economy", "standard", "elite", "edge"]


class StationIo(Record):
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


class HandoffContract(Record):
    """What the agent must say when it finishes, and when each status is honest."""

    required: tuple[str, ...] = ("status", "summary")
    verified_when: str = ""
    unverified_when: str = ""
    partial_when: str = ""
    blocked_when: str = ""


CommandName = Literal["test", "lint", "smoke"]
CommandCheck = Literal["ran", "green"]


def _all_ran(value: object) -> object:
    """Names alone: it is enough that they ran."""
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        return dict.fromkeys(value, "ran")
    return value


class Verification(Record):
    """What has to hold before the agent hands over. `artifacts`: files that exist and say something; `commands`: the
    project's commands that `ran`, or ended well (`green`), on the files as they are left."""

    artifacts: tuple[str, ...] = ()
    commands: Annotated[
        dict[CommandName, CommandCheck],
        short_form(_all_ran, {"type": "array", "items": {"enum": ["test", "lint", "smoke"]}}),
    ] = {}


_TOOLS = words("""
    Agent AskUserQuestion Bash BashOutput Delete Edit EnterPlanMode EnterWorktree ExitPlanMode ExitWorktree Glob Grep
    KillBash KillShell LS LSP MultiEdit NotebookEdit NotebookRead Read Skill SlashCommand Task TodoRead TodoWrite
    ToolSearch WebFetch WebSearch Write
""")
_SIMILAR = 0.7


class Station(Record):
    """`tier` None: the model policy's for the category. `fragments` are paths below `flows/fragments/`.

    `writes`: what its role changes in the code; none: anything, if it writes code at all.
    """

    id: Identifier
    title: str
    category: Category
    identity: str
    invariants: Annotated[tuple[str, ...], Meta(min_length=1)]
    io: StationIo = StationIo()
    writes: tuple[Written, ...] = ()
    tools: tuple[str, ...] = ()
    tier: Tier | None = None
    fragments: tuple[str, ...] = ()
    max_turns: AtLeastOne = 15
    verification: Verification = Verification()
    handoff: HandoffContract = HandoffContract()

    @property
    def writes_code(self) -> bool:
        """Whether its work is in the code of the project; the others read it, and write artifacts in RUN_BASE."""
        return self.category not in _READING or any(
            isinstance(parse_artifact(name, self.id), CodePattern) for name in self.io.outputs
        )


def station_problems(station: Station, source: YamlSource, fragments: Sequence[str]) -> Iterator[str]:
    """Names in it that name nothing, each with its place. A tool that nobody here knows may be one of an engine or of
    an MCP server: only what looks like a slip of the pen is one.

    :param fragments: those that there are.
    """
    yield from fragment_problems(station.fragments, source, fragments)
    for index, name in enumerate(station.tools):
        meant = _tool_meant(name)
        if meant is not None:
            yield source.problem(("tools", index), f"tools: unknown tool '{name}' (did you mean '{meant}'?)")
    known = Handoff.__struct_fields__
    for index, name in enumerate(station.handoff.required):
        if name not in known:
            what = f"handoff.required: a handoff has no '{name}'{did_you_mean(name, known)}"
            yield source.problem(("handoff", "required", index), what)


def _tool_meant(name: str) -> str | None:
    """The known tool that an unknown name is a slip of; None: it is none, or no slip."""
    if name in _TOOLS or name.startswith("mcp__"):
        return None
    from difflib import get_close_matches  # noqa: PLC0415 - for names that nobody knows

    folded = {each.casefold(): each for each in _TOOLS}
    near = get_close_matches(name.casefold(), folded, n=1, cutoff=_SIMILAR)
    return folded[near[0]] if near else None


def fragment_problems(named: Sequence[str], source: YamlSource, known: Sequence[str]) -> Iterator[str]:
    """Those of a station or a template that do not exist."""
    for index, name in enumerate(named):
        if name not in known:
            what = f"fragments: unknown fragment '{name}'{did_you_mean(name, known)}"
            yield source.problem(("fragments", index), what)


def declared_artifacts(flow: Flow, step: Step | None, station: Station | None) -> tuple[str, ...]:
    """Files in RUN_BASE that a step or its station may write, relative to RUN_BASE.

    :param step: None: one that the flow does not have, of a sidequest or injected.
    """
    owed = station.verification.artifacts if station else ()
    names = (*(step.teaching.output_names if step else ()), *(station.io.outputs if station else ()), *owed)
    return _in_run_base(flow, names)


def promised_artifacts(
    flow: Flow, station: Station | None, step: Step | None = None, holds: Callable[[str], bool] = lambda _when: True
) -> tuple[str, ...]:
    """Files in RUN_BASE that have to exist and say something when the step is over, relative to RUN_BASE.

    :param step: as for `declared_artifacts`.
    :param holds: whether the condition of an output does.
    """
    promised = step.teaching.promised if step else ()
    named = (each.path for each in promised if each.when is None or holds(each.when))
    return _in_run_base(flow, (*(station.verification.artifacts if station else ()), *named))


def writes_code(flow: Flow, step: Step, station: Station | None) -> bool:
    """Whether a step may change the project's code; commands may."""
    outputs = (parse_artifact(name, flow.id) for name in step.teaching.output_names)
    return station is None or station.writes_code or any(isinstance(item, CodePattern) for item in outputs)


def _in_run_base(flow: Flow, names: Iterable[str]) -> tuple[str, ...]:
    named = (parse_artifact(name, flow.id) for name in dict.fromkeys(names))
    return tuple(dict.fromkeys(artifact.path for artifact in named if isinstance(artifact, RunArtifact)))
