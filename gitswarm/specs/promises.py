"""What a step promises to leave in RUN_BASE."""

from __future__ import annotations

from gitswarm.specs.artifacts import RunArtifact, parse_artifact
from gitswarm.specs.flow import Flow, Step
from gitswarm.specs.station import Station


def declared_artifacts(flow: Flow, step: Step | None, station: Station | None) -> tuple[str, ...]:
    """Files in RUN_BASE that a step or its station promises, relative to RUN_BASE.

    :param step: None: one that the flow does not have, of a sidequest or injected.
    """
    names = (*(step.teaching.outputs if step else ()), *(station.io.outputs if station else ()))
    named = (parse_artifact(name, flow.id) for name in dict.fromkeys(names))
    return tuple(artifact.path for artifact in named if isinstance(artifact, RunArtifact))
