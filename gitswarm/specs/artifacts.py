"""Names of artifacts as authors write them in teaching notes, and where they lie."""

from __future__ import annotations

from msgspec import Struct

from gitswarm.specs.flow import SDLC_FLOWS

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
