"""`policy explain|rules`: what an agent may do here, and why not."""

from __future__ import annotations

import os
from typing import Annotated

from gitswarm.cli.arguments import Argument, Option
from gitswarm.cli.console import hanging, labelled, out_json, out_lines
from gitswarm.cli.invocation import library_here, repository_here
from gitswarm.cli.runs import JsonFlag
from gitswarm.errors import NotARepositoryError
from gitswarm.records.execution import RUNS_FOLDER
from gitswarm.records.json_value import JsonValue
from gitswarm.records.safety import Allow, Deny, Verdict
from gitswarm.safety.policy.decide import decide
from gitswarm.safety.policy.paths import RunScope, Scope, StationRights, make_scope
from gitswarm.safety.policy.table import CLASSES
from gitswarm.settings import CONFIG_FILE, load_config
from gitswarm.specs.flow import SDLC_FLOWS
from gitswarm.specs.station import RunArtifact, parse_artifact

_CONTAINED = "what it does when it runs is not read; only a sandbox limits it"
_ANY_RUN = f"{RUNS_FOLDER}/run"


def explain(
    command: Annotated[str, Argument(metavar="CMD", help="A shell command line; with --tool a path.")],
    station: Annotated[str | None, Option(metavar="ID", help="As this station; else one that may do all.")] = None,
    tool: Annotated[
        str, Option(metavar="NAME", help="A tool that takes a path: Write, Edit, Read, Delete.")
    ] = "Bash",
    as_json: JsonFlag = False,
) -> None:
    """Say whether an agent may run a command: the first word is allow, deny or rewrite. Nothing is run."""
    key = "command" if tool == "Bash" else "file_path"
    verdict = decide(tool, {key: command}, _scope(station))
    if as_json:
        out_json(_as_json(verdict))
        return
    out_lines(_lines(verdict, key))


def rules(as_json: JsonFlag = False) -> None:
    """The classes of what is refused, with what to do instead."""
    if as_json:
        out_json([{"rule": each.rule, "stops": each.stops, "instead": each.instead} for each in CLASSES])
        return
    for each in CLASSES:
        out_lines(hanging(f"{each.rule:<18}", each.stops))
        out_lines(hanging(f"{'':<18}-> ", each.instead))


def _scope(station: str | None) -> Scope:
    """What a step here would be judged against, with the configuration of the checkout that we stand in."""
    repository = repository_here()
    if repository.checkout is None:
        raise NotARepositoryError("a bare repository has no files to judge about", hint="cd into a checkout of it")
    file = repository.checkout / CONFIG_FILE
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else None
    config = load_config(text, repository.config("swarm."))
    ground = RunScope(repository.checkout, _ANY_RUN, repository.config("alias."), os.environ)
    return make_scope(ground, _role(station), config.policy)


def _role(name: str | None) -> StationRights:
    """A station may stand in any flow, so its artifacts are those of all of them."""
    if name is None:
        return StationRights(frozenset(), writes_code=True, tools=())
    station = library_here().station(name).station
    promised = [parse_artifact(each, flow) for each in station.io.outputs for flow in SDLC_FLOWS]
    artifacts = frozenset(f"{_ANY_RUN}/{each.path}" for each in promised if isinstance(each, RunArtifact))
    return StationRights(artifacts, station.writes_code, station.tools)


def _as_json(verdict: Verdict) -> dict[str, JsonValue]:
    if isinstance(verdict, Allow):
        return {"verdict": "allow", "contained": verdict.contained}
    if isinstance(verdict, Deny):
        return {"verdict": "deny", "rule": verdict.rule, "reason": verdict.reason, "instead": verdict.instead}
    return {"verdict": "rewrite", "reason": verdict.reason, "input": dict(verdict.input)}


def _lines(verdict: Verdict, key: str) -> list[str]:
    if isinstance(verdict, Allow):
        return ["allow contained", *labelled("reason", _CONTAINED)] if verdict.contained else ["allow"]
    if isinstance(verdict, Deny):
        return [f"deny {verdict.rule}", *labelled("reason", verdict.reason), *labelled("instead", verdict.instead)]
    return ["rewrite", *labelled("reason", verdict.reason), *labelled("input", str(verdict.input[key]))]
