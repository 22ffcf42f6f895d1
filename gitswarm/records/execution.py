"""The identity of an execution: what its files, its records and the trailers of its commit are named after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from msgspec import Struct

RUNS_FOLDER = ".swarm/runs"


class RecordKeys(TypedDict):
    """The identity as records spell it."""

    run_id: str
    flow_key: str
    step_id: str
    agent_key: str
    iteration: int


class Execution(Struct, frozen=True):
    """One execution of a step. `iteration` counts from 1. Paths are relative to the worktree."""

    run_id: str
    flow: str
    step: str
    iteration: int
    agent: str

    @classmethod
    def of_trailers(cls, run_id: str, trailers: Mapping[str, str]) -> Execution:
        """
        :raises KeyError: a trailer is missing.
        :raises ValueError: the iteration is not a number.
        """
        iteration = int(trailers["Swarm-Iteration"])
        return cls(run_id, trailers["Swarm-Flow"], trailers["Swarm-Step"], iteration, trailers["Swarm-Agent"])

    @property
    def trailers(self) -> dict[str, str]:
        return {
            "Swarm-Run": self.run_id,
            "Swarm-Flow": self.flow,
            "Swarm-Step": self.step,
            "Swarm-Iteration": str(self.iteration),
            "Swarm-Agent": self.agent,
        }

    @property
    def keys(self) -> RecordKeys:
        return {
            "run_id": self.run_id,
            "flow_key": self.flow,
            "step_id": self.step,
            "agent_key": self.agent,
            "iteration": self.iteration,
        }

    @property
    def name(self) -> str:
        """`flow/step`, without the iteration."""
        return f"{self.flow}/{self.step}"

    @property
    def folder(self) -> str:
        return f"{RUNS_FOLDER}/{self.run_id}/{self.flow}"

    @property
    def receipt(self) -> str:
        return f"{self.folder}/receipts/{self.step}-{self.agent}.json"

    @property
    def envelope(self) -> str:
        return f"{self.folder}/handoff/{self.step}.json"

    @property
    def events_folder(self) -> str:
        return f"{self.folder}/events"

    @property
    def events(self) -> str:
        return f"{self.events_folder}/{self.step}@{self.iteration}.jsonl"

    @property
    def evidence(self) -> str:
        return f"{self.folder}/evidence/{self.step}.json"

    @property
    def base_tests(self) -> str:
        return f"{self.folder}/base/{self.step}.json"

    def transcript(self, engine: str) -> str:
        return f"{self.folder}/{self.transcript_in_flow(engine)}"

    def transcript_in_flow(self, engine: str) -> str:
        """Relative to `<flow>/`, as receipts name it; the engine's name without `-step`, as in the seeds."""
        return f"llm/{self.step}-{self.agent}-{engine.removesuffix('-step')}.jsonl"
