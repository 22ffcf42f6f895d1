"""`flows list|show|validate`: the flows that can be started from this checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
import yaml

from gitswarm.cli.console import out, out_json, table
from gitswarm.cli.here import repository_here
from gitswarm.errors import NotARepositoryError, NotFoundError, SpecError
from gitswarm.resources import bundled
from gitswarm.runner.specs import checked_flow
from gitswarm.specs.flow import Branch, Flow, Microloop, Step
from gitswarm.specs.library import USER_FLOWS, Library, load_library

app = typer.Typer(
    help="List, show and check flows.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command("list")
def list_flows(as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False) -> None:
    """Flows by id: bundled ones, and yours from .swarm/flows."""
    library = _library()
    found = []
    for flow_id in library.flow_ids:
        try:
            loaded = library.flow(flow_id)
        except SpecError:
            found.append((flow_id, "(not valid: git swarm flows validate)", "user"))
            continue
        found.append((flow_id, loaded.flow.title, loaded.origin))
    if as_json:
        out_json([{"id": flow_id, "title": title, "source": origin} for flow_id, title, origin in found])
        return
    table(("flow", "from", "title"), [(flow_id, origin, title) for flow_id, title, origin in found])


@app.command()
def show(
    flow: Annotated[str, typer.Argument(help="The flow's id.")],
    as_json: Annotated[bool, typer.Option("--json", help="The whole flow as JSON.")] = False,
) -> None:
    """The steps of a flow and where each leads."""
    found = checked_flow(_library(), flow)
    if as_json:
        out_json(found.model_dump(mode="json", by_alias=True))
        return
    out(f"{found.id}: {found.title}")
    if found.charter:
        out(yaml.safe_dump({"goal": found.charter.goal.strip()}, width=76, allow_unicode=True).rstrip())
    table(
        ("step", "by", "then"),
        [(step.id, _executor(step), _way_on(found, step)) for step in found.steps],
    )


@app.command()
def validate(
    names: Annotated[list[str] | None, typer.Argument(metavar="FLOW", help="Flows to check; else all.")] = None,
) -> None:
    """Check flows, their stations and their conditions; every problem with file and line."""
    library = _library()
    problems: list[str] = []
    chosen = names or library.flow_ids
    for flow_id in chosen:
        try:
            checked_flow(library, flow_id)
        except SpecError as error:
            problems.extend(error.problems)
    if problems:
        raise SpecError(list(dict.fromkeys(problems)), hint="mend the lines above, then: git swarm flows validate")
    out(f"{len(chosen)} flow{'' if len(chosen) == 1 else 's'} fine: {', '.join(chosen)}")


def _library() -> Library:
    """Bundled flows and those of the checkout that we stand in; outside of a repository only the bundled ones."""
    user: dict[str, str] = {}
    try:
        checkout = repository_here().checkout
    except NotARepositoryError:
        checkout = None
    if checkout is not None:
        for path in sorted((checkout / USER_FLOWS).rglob("*")):
            if path.is_file():
                user[path.relative_to(checkout).as_posix()] = _read(path)
    return load_library(bundled("flows"), user)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NotFoundError(f"{path}: cannot be read: {error}", hint=f"ls -l {path}") from error


def _executor(step: Step) -> str:
    if step.is_command:
        command = step.command if isinstance(step.command, str) else getattr(step.command, "run", "")
        return f"command: {command}"
    return step.station or ""


def _way_on(flow: Flow, step: Step) -> str:
    onward = flow.following(step.id) or "end"
    routing = step.routing
    if isinstance(routing, Microloop):
        return f"{onward}; else {routing.loop_target}, at most {routing.max_iterations}"
    if isinstance(routing, Branch):
        ways = [f"{when.next} if {when.if_}" for when in routing.when]
        fallback = f"else {routing.default or onward}, at most {routing.max_iterations}"
        return "; ".join([*ways, fallback])
    return onward
