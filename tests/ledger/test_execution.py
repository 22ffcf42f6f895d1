"""The identity of an execution, in trailers and in records."""

from __future__ import annotations

import pytest

from gitswarm.records.envelope import Envelope
from gitswarm.records.execution import Execution

EXECUTION = Execution("run-20260101-000000-abcdef", "build", "critique_code", 2, "code-critic")


def test_it_is_read_from_the_trailers_that_it_writes() -> None:
    assert Execution.of_trailers(EXECUTION.run_id, EXECUTION.trailers) == EXECUTION


def test_a_record_of_it_says_the_same() -> None:
    envelope = Envelope(**EXECUTION.keys)
    keys = (envelope.run_id, envelope.flow_key, envelope.step_id, envelope.iteration, envelope.agent_key)
    assert Execution(*keys) == EXECUTION


@pytest.mark.parametrize("name", ["Swarm-Flow", "Swarm-Step", "Swarm-Iteration", "Swarm-Agent"])
def test_every_trailer_is_needed(name: str) -> None:
    trailers = {key: value for key, value in EXECUTION.trailers.items() if key != name}
    with pytest.raises(KeyError, match=name):
        Execution.of_trailers(EXECUTION.run_id, trailers)
