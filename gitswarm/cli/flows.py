"""`flows list|show|validate|compile|graph`: the flows that can be started from this checkout. `stations
list|show|validate`: who carries out their steps."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated

import yaml

from gitswarm.cli.arguments import Argument, Option
from gitswarm.cli.console import err, hanging, out, out_json, out_lines, plural, readable, table
from gitswarm.cli.invocation import config_here, library_here, problems_of
from gitswarm.cli.runs import JsonFlag
from gitswarm.cli.terminal import terminal_width, text_width
from gitswarm.errors import SpecError, UsageError
from gitswarm.records.record import without_defaults
from gitswarm.runner.prompts import compile_blank, plan_json
from gitswarm.runner.run_engines import choice_of, without_effect
from gitswarm.runner.specs import checked_flow, checked_sidequest, refuse_unreachable
from gitswarm.settings import CommandLine, freeze_settings
from gitswarm.specs.flow import Branch, Flow, Fork, Join, Microloop, Step
from gitswarm.specs.graph import END, Edge, edges, mermaid

_GAP = 2


def drawing(flow: Flow) -> str:
    """One line per step; `┐` marks where a jump back arrives and `┘` where it starts, with its maximum; `║` steps
    that are executed in parallel."""
    names = [step.id for step in flow.steps]
    width = max(len(f"{step.id}  {step.agent}") for step in flow.steps) + _GAP
    backs = [edge for edge in edges(flow) if edge.limit is not None]
    parallel = {name for step in flow.steps if isinstance(step.routing, Fork) for name in step.routing.fork_targets}
    lines: list[str] = []
    for number, step in enumerate(flow.steps):
        label = f"{step.id}  {step.agent}".ljust(width)
        mark = "●" if number == 0 else "║" if step.id in parallel else "│"
        lines.append(f"{mark} {label}{_brackets(names, number, backs)}".rstrip())
        following = names[number + 1] if number + 1 < len(names) else END
        texts = _texts_below(flow, step, following, is_parallel=step.id in parallel)
        lines += [line for text in texts for line in _wrapped(text)]
    lines.append("○ end")
    return "\n".join(lines)


def _texts_below(flow: Flow, step: Step, following: str, *, is_parallel: bool) -> Iterator[str]:
    """A fork, a join, and where the step leads if that is not simply to the next one."""
    routing = step.routing
    if isinstance(routing, Join):
        yield f"⇇ {routing.join_strategy} of {', '.join(routing.join_from)}"
    if isinstance(routing, Fork):
        yield f"⇉ at the same time: {', '.join(routing.fork_targets)}"
    elif not is_parallel:
        forward = [edge for edge in edges(flow) if edge.source == step.id and edge.limit is None]
        if [edge.target for edge in forward] != [following]:
            yield from (f"↳ {_target_text(edge)}" for edge in forward)


def _target_text(edge: Edge) -> str:
    """The target of an edge and its condition, where it is one of several or not the next step."""
    if edge.label in ("", "else"):
        return f"{edge.target}{', else' if edge.label else ''}"
    return f"{edge.target} if {edge.label}"


def _wrapped(text: str) -> list[str]:
    """Lines below a step, as narrow as a terminal."""
    return textwrap.wrap(
        text, text_width(), initial_indent="│   ", subsequent_indent="│     ", break_long_words=False
    )


def _brackets(names: list[str], row: int, backs: list[Edge]) -> str:
    """The columns of this row, one per jump back, and where those lead that start here."""
    columns = []
    labels = []
    for edge in backs:
        top, bottom = names.index(edge.target), names.index(edge.source)
        if row == bottom == top:
            columns.append("⟲")
        elif row == top:
            columns.append("┐")
        elif row == bottom:
            columns.append("┘")
        else:
            columns.append("│" if top < row < bottom else " ")
        if row == bottom:
            labels.append(f"{edge.target} ≤{edge.limit}")
    return f"{' '.join(columns).rstrip()}  ↑ {', '.join(labels)}" if labels else " ".join(columns).rstrip()


def list_flows(as_json: JsonFlag = False) -> None:
    """Flows by id: bundled ones, and yours from .swarm/flows."""
    library = library_here()
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


def show_flow(
    flow: Annotated[str, Argument(help="The flow's id.")],
    as_json: Annotated[bool, Option("--json", help="The whole flow as JSON.")] = False,
) -> None:
    """The steps of a flow and where each leads."""
    found = checked_flow(library_here(), flow)
    if as_json:
        out_json(found.to_plain())
        return
    out_lines(hanging(f"{found.id}: ", found.title))
    if found.charter:
        out_lines(hanging("goal: ", found.charter.goal))
    table(
        ("step", "by", "then"),
        [(step.id, _executor(step), _next_steps(found, step)) for step in found.steps],
    )


def validate_flows(
    names: Annotated[list[str] | None, Argument(metavar="FLOW", help="Flows to check; else all.")] = None,
) -> None:
    """Check flows, and the sidequests of every run; without names also stations, templates, policy."""
    library = library_here()
    chosen = names or library.flow_ids
    checks: list[Callable[[], object]] = [partial(checked_flow, library, flow_id) for flow_id in chosen]
    checks += [partial(refuse_unreachable, library, flow_id) for flow_id in chosen]
    checks += [partial(checked_sidequest, library, name) for name in library.sidequest_ids]
    if not names:
        checks += [partial(library.station, name) for name in library.station_ids]
        checks += [partial(library.template, name) for name in library.template_ids]
        checks.append(library.policy)
    problems = problems_of(checks)
    for what in without_effect(library, freeze_settings(config_here(), os.environ, CommandLine(), scripted=False)):
        err(f"note: {what}")
    if problems:
        raise SpecError(problems, hint="fix the lines above, then: git swarm flows validate")
    out_lines(readable("", f"{plural(len(chosen), 'flow')} fine: {', '.join(chosen)}", sys.stdout))


def compile_step(
    name: Annotated[str, Argument(metavar="FLOW/STEP", help="build/implement, for instance.")],
    economy: Annotated[bool, Option("--economy", help="With the cheapest tier of models.")] = False,
    as_json: Annotated[bool, Option("--json", help="The whole plan as JSON.")] = False,
) -> None:
    """The prompt of a step, as an agent gets it at the start of a run; and what comes with it."""
    flow_id, _slash, step_id = name.partition("/")
    library = library_here()
    flow = checked_flow(library, flow_id)
    if not step_id:
        example = f"git swarm flows compile {flow_id}/{flow.steps[0].id}"
        raise UsageError(f"{name}: which step of the flow?", hint=example)
    settings = freeze_settings(config_here(), os.environ, CommandLine(), scripted=False)
    found = [step for step in flow.steps if step.id == step_id]
    engine = choice_of(settings, flow_id, found[0]).engine if found else settings.default_engine.engine
    plan = compile_blank(library, flow, step_id, engine=engine, economy=economy)
    if as_json:
        out_json(plan_json(plan))
        return
    out(f"── system\n{plan.prompt.system}")
    out(f"── user\n{plan.prompt.user}")
    out("── with it")
    out(f"model      {plan.model.model} ({plan.model.rule})")
    out(f"tools      {', '.join(plan.tools)}")
    out(f"turns      {plan.max_turns}")
    out(f"template   {plan.template.id}: {plan.template.title}")
    out(f"handoff    {', '.join(plan.required)}")
    out(f"hash       {plan.prompt.hash}")


def graph(
    flow: Annotated[str, Argument(help="The flow's id.")],
    as_mermaid: Annotated[bool, Option("--mermaid", help="As a Mermaid flowchart.")] = False,
) -> None:
    """Draw a flow: its steps from top to bottom, its loops beside them."""
    found = checked_flow(library_here(), flow)
    out(mermaid(found) if as_mermaid else drawing(found))


def _executor(step: Step) -> str:
    if step.is_command:
        command = step.command if isinstance(step.command, str) else getattr(step.command, "run", "")
        return f"command: {command}"
    return f"kernel: {step.operation}" if step.is_kernel else step.station or ""


def _next_steps(flow: Flow, step: Step) -> str:
    onward = flow.following(step.id) or "end"
    routing = step.routing
    if isinstance(routing, Microloop):
        return f"{onward}; else {routing.loop_target}, at most {routing.max_iterations}"
    if isinstance(routing, Branch):
        targets = [f"{when.next} if {when.if_}" for when in routing.when]
        fallback = f"else {routing.default or onward}, at most {routing.max_iterations}"
        return "; ".join([*targets, fallback])
    if isinstance(routing, Fork):
        return f"{', '.join(routing.fork_targets)} at the same time, then {onward}"
    if isinstance(routing, Join):
        quorum = f" {routing.join_quorum}" if routing.join_quorum else ""
        return f"{onward}; joins {', '.join(routing.join_from)} ({routing.join_strategy}{quorum})"
    return onward


_OVER = 16
"""PyYAML ends a line behind the word that is too much."""


def list_stations(as_json: JsonFlag = False) -> None:
    """Stations by id: bundled ones, and yours from .swarm/flows/stations."""
    library = library_here()
    found = []
    for name in library.station_ids:
        try:
            loaded = library.station(name)
        except SpecError:
            found.append((name, "?", "(not valid: git swarm stations validate)", "user"))
            continue
        found.append((name, loaded.station.category, loaded.station.title, loaded.origin))
    if as_json:
        out_json([{"id": name, "title": title, "source": origin} for name, _category, title, origin in found])
        return
    rows = [(name, category, origin, title) for name, category, title, origin in found]
    table(("station", "category", "from", "title"), rows)


def show_station(
    station: Annotated[str, Argument(help="The station's id.")],
    as_json: Annotated[bool, Option("--json", help="The whole station as JSON.")] = False,
) -> None:
    """A station's role, its rules, and what it reads and writes."""
    found = library_here().station(station).station
    content = found.to_plain() if as_json else without_defaults(found)
    if as_json:
        out_json(content)
        return
    width = min(terminal_width(), 80) - _OVER
    out(yaml.safe_dump(content, width=width, allow_unicode=True, sort_keys=False).rstrip())


def validate_stations(
    names: Annotated[list[str] | None, Argument(metavar="STATION", help="Stations to check; else all.")] = None,
) -> None:
    """Check stations; every problem with file and line."""
    library = library_here()
    chosen = names or library.station_ids
    problems = problems_of(partial(library.station, name) for name in chosen)
    if problems:
        raise SpecError(problems, hint="fix the lines above, then: git swarm stations validate")
    out(f"{plural(len(chosen), 'station')} fine")
