"""`schemas`: JSON schemas of what people write and of what a run stores, for editors and other programs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from gitswarm.cli.arguments import Argument
from gitswarm.cli.console import out
from gitswarm.cli.report_model import RunReport
from gitswarm.errors import NotFoundError
from gitswarm.records.envelope import Envelope, Handoff
from gitswarm.records.event import LoggedEvent
from gitswarm.records.evidence import BaseTests, Evidence
from gitswarm.records.gate_decision import DeployDecision, GateFindings, MergeDecision, Traceability
from gitswarm.records.guidance import Learnings, Proposals, RunWisdom
from gitswarm.records.json_schema import json_schema
from gitswarm.records.receipt import Receipt
from gitswarm.records.record import Record
from gitswarm.records.routing import Decision
from gitswarm.records.run_spec import RunSpec
from gitswarm.records.worklists import AcMatrix, AcStatus, PullRequestStatus, ReviewWorklist
from gitswarm.settings import config_with
from gitswarm.specs.flow import Flow
from gitswarm.specs.fragments import StepTemplate
from gitswarm.specs.model_policy import ModelPolicy
from gitswarm.specs.script import Script
from gitswarm.specs.sidequest import Sidequest
from gitswarm.specs.station import Station

SCHEMAS: Mapping[str, type[Record | RunReport]] = {
    "ac_matrix": AcMatrix,
    "ac_status": AcStatus,
    "base_tests": BaseTests,
    "config": config_with(),
    "decision": Decision,
    "deploy_decision": DeployDecision,
    "envelope": Envelope,
    "event": LoggedEvent,
    "evidence": Evidence,
    "flow": Flow,
    "gate_findings": GateFindings,
    "handoff": Handoff,
    "learnings": Learnings,
    "merge_decision": MergeDecision,
    "model_policy": ModelPolicy,
    "pr_status": PullRequestStatus,
    "proposals": Proposals,
    "receipt": Receipt,
    "report": RunReport,
    "review_worklist": ReviewWorklist,
    "run_spec": RunSpec,
    "run_wisdom": RunWisdom,
    "script": Script,
    "sidequest": Sidequest,
    "station": Station,
    "step_template": StepTemplate,
    "traceability": Traceability,
}


def schema_text(name: str) -> str:
    """The schema of one of `SCHEMAS` as a file holds it."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **json_schema(SCHEMAS[name])}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _nearest(folder: Path) -> str:
    """The folder, or the nearest above it that there is, as a shell reads it."""
    there = next((each for each in (folder, *folder.absolute().parents) if each.exists()), folder)
    return shlex.quote(str(there))


def schemas(
    folder: Annotated[Path, Argument(help="Where the files go.")],
) -> None:
    """Write the JSON schemas of all files: flows, stations, configuration, and what a run stores."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in SCHEMAS:
            (folder / f"{name}.json").write_text(schema_text(name), encoding="utf-8")
    except OSError as error:
        raise NotFoundError(
            f"{folder}: cannot be written: {error.strerror}", hint=f"ls -ld {_nearest(folder)}"
        ) from error
    out(f"{len(SCHEMAS)} schemas in {folder}")
    out("in a flow's first line: # yaml-language-server: $schema=PATH/flow.json")
