from __future__ import annotations

from typing import Literal

from gitswarm.records.base import Record


class PartialHandoff(Record):
    """`<flow>/handoff_partial.json` (seed 003). `kept` is the ref that holds the work as it was; `siblings` are the
    steps that were executed side by side: what each left is kept under a ref of its own."""

    run_id: str
    flow_key: str
    step_id: str
    iteration: int
    status: Literal["PARTIAL"] = "PARTIAL"
    end: int
    interrupted_at: str
    summary: str
    files: tuple[str, ...]
    kept: str
    siblings: tuple[str, ...] = ()
