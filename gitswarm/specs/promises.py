"""What a step may write in RUN_BASE, and what it promises to leave there."""

from __future__ import annotations

from collections.abc import Iterable

from gitswarm.specs.flow import Flow, Step
from gitswarm.specs.station import CodePattern, RunArtifact, Station, parse_artifact


def declared_artifacts(flow: Flow, step: Step | None, station: Station | None) -> tuple[str, ...]:
    """Files in RUN_BASE that a step or its station may write, relative to RUN_BASE.

    :param step: None: one that the flow does not have, of a sidequest or injected.
    """
    owed = station.verification.artifacts if station else ()
    names = (*(step.teaching.outputs if step else ()), *(station.io.outputs if station else ()), *owed)
    return _in_run_base(flow, names)


def promised_artifacts(flow: Flow, station: Station | None) -> tuple[str, ...]:
    """Files in RUN_BASE that have to exist and say something when the step is over, relative to RUN_BASE."""
    return _in_run_base(flow, station.verification.artifacts if station else ())


def writes_code(flow: Flow, step: Step, station: Station | None) -> bool:
    """Whether a step may change the project's code; commands may."""
    outputs = (parse_artifact(name, flow.id) for name in step.teaching.outputs)
    return station is None or station.writes_code or any(isinstance(item, CodePattern) for item in outputs)


def _in_run_base(flow: Flow, names: Iterable[str]) -> tuple[str, ...]:
    named = (parse_artifact(name, flow.id) for name in dict.fromkeys(names))
    return tuple(dict.fromkeys(artifact.path for artifact in named if isinstance(artifact, RunArtifact)))
