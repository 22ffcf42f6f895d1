"""Flows and stations for a run: checked when it is created, the fields of their conditions too; frozen in its first
commit, and read back from there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import TypeVar, Union, get_args, get_origin

from msgspec.structs import fields

from gitswarm.errors import SpecError
from gitswarm.git.repository import Repository
from gitswarm.ledger.finding import parsed
from gitswarm.ledger.layout import RESERVED_FLOW_IDS, RunLayout
from gitswarm.records.envelope import Envelope
from gitswarm.records.evidence import Evidence
from gitswarm.records.guidance import Instructions, ScentTrail
from gitswarm.records.lazy_re import lazy_re
from gitswarm.records.mistakes import Location
from gitswarm.records.receipt import Receipt
from gitswarm.records.record import Record
from gitswarm.records.text import did_you_mean
from gitswarm.records.worklists import Feedback
from gitswarm.routing.conditions import NAMES, bound_names, condition_problem
from gitswarm.routing.macro import DEPLOY, RESET
from gitswarm.routing.sidequests import pattern_problem
from gitswarm.runner.prompts import prompt_problems
from gitswarm.runner.run_session import FrozenSpecs
from gitswarm.specs.flow import Flow
from gitswarm.specs.fragments import DETOUR_TEMPLATE, Fragments, StepTemplate, template_id
from gitswarm.specs.graph import unreachable
from gitswarm.specs.library import USER_FOLDERS, Library, LoadedFlow
from gitswarm.specs.model_policy import ModelPolicy
from gitswarm.specs.script import Script
from gitswarm.specs.sidequest import NODE_PREFIX, PathTrigger, Sidequest
from gitswarm.specs.station import Station
from gitswarm.specs.yaml_source import YamlSource, parse_yaml, validate

_POLICY = "policy/models.json"
_SCRIPT = "script.json"
_INSTRUCTIONS = "instructions.json"
_TRAIL = "scent_trail.json"
_FEEDBACK = "feedback.json"
_OF_OUTPUTS = ("envelope", "evidence")
"""What the condition of an output may ask: the step is not committed yet."""

_LINE = lazy_re(r".*?:(\d+): ")

T = TypeVar("T")


def checked_flow(library: Library, flow_id: str) -> Flow:
    """A flow that can run: sound in itself, its stations sound, its conditions compile.

    :raises SpecError: with every problem, file and line.
    :raises NotFoundError: no such flow.
    """
    problems: list[str] = []
    try:
        problems += _condition_problems(library.source("flows", flow_id))
        loaded = library.flow(flow_id)
    except SpecError as error:
        hint = f"git swarm flows validate {flow_id}"
        raise SpecError(_in_order([*error.problems, *problems]), hint=hint) from error
    problems += [*_own_problems(loaded), *_station_problems(library, loaded.flow)]
    problems = problems or list(prompt_problems(library, loaded.flow))
    if problems:
        raise SpecError(problems, hint=f"git swarm flows validate {flow_id}")
    return loaded.flow


def _in_order(problems: list[str]) -> list[str]:
    """Problems of one file by line."""
    return sorted(problems, key=lambda each: int(found[1]) if (found := _LINE.match(each)) else 0)


def refuse_unreachable(library: Library, flow_id: str) -> None:
    """A run of the flow can be started all the same.

    :raises SpecError: steps that no other one leads to.
    """
    loaded = library.flow(flow_id)
    lost = unreachable(loaded.flow, list(_bounced_to(library)))
    problems = [
        loaded.source.problem(("steps", index, "id"), f"no step leads to '{step.id}'")
        for index, step in enumerate(loaded.flow.steps)
        if step.id in lost
    ]
    if problems:
        raise SpecError(problems, hint=f"git swarm flows graph {flow_id}")


def checked_sidequest(library: Library, sidequest_id: str) -> Sidequest:
    """A sidequest that can be taken: sound in itself, its conditions compile.

    :raises SpecError, NotFoundError: as `checked_flow`.
    """
    source = library.source("sidequests", sidequest_id)
    problems = list(_condition_problems(source))
    try:
        found = library.sidequest(sidequest_id)
    except SpecError as error:
        raise SpecError(_in_order([*error.problems, *problems]), hint=error.hint) from error
    for location, what in (*_pattern_problems(found), *_target_problems(library, found)):
        problems.append(source.problem(location, what))
    if problems:
        raise SpecError(problems, hint="git swarm flows validate")
    return found


def _condition_problems(source: YamlSource) -> Iterator[str]:
    """Also of a file that is wrong otherwise."""
    for location, expression in _conditions(source.data, ()):
        problem = _condition_problem(expression, _OF_OUTPUTS if location[-1] == "when" else NAMES)
        if problem:
            yield source.problem(location, problem)


def _conditions(value: object, location: Location) -> Iterator[tuple[Location, str]]:
    if isinstance(value, dict):
        for key, each in value.items():
            if key in ("if", "when") and isinstance(each, str):
                yield (*location, key), each
            else:
                yield from _conditions(each, (*location, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _conditions(each, (*location, index))


def _condition_problem(expression: str, names: Sequence[str]) -> str | None:
    problem = condition_problem(expression, names)
    if problem:
        return f"not a CEL expression: {expression!r}: {problem}"
    problem = field_problem(expression)
    return f"{expression!r}: {problem}" if problem else None


def _pattern_problems(quest: Sidequest) -> Iterator[tuple[Location, str]]:
    for index, trigger in enumerate(quest.triggers):
        for number, pattern in enumerate(trigger.patterns if isinstance(trigger, PathTrigger) else ()):
            problem = pattern_problem(pattern)
            if problem:
                yield ("triggers", index, "patterns", number), f"not a pattern of paths: {pattern!r}: {problem}"


def _target_problems(library: Library, quest: Sidequest) -> Iterator[tuple[Location, str]]:
    """A step to bounce to has to be in some flow; which one is interrupted shows in the run."""
    target = quest.returns.target
    if target is None:
        return
    known: set[str] = set()
    for flow_id in library.flow_ids:
        with contextlib.suppress(SpecError):  # told where that flow is looked at
            known |= {step.id for step in library.flow(flow_id).flow.steps}
    if target not in known:
        yield ("returns", "target"), f"no flow has a step '{target}'{did_you_mean(target, sorted(known))}"


def freeze(library: Library, flow_ids: tuple[str, ...]) -> FrozenSpecs:
    """Everything that a run of these flows can need, script, instructions and scent trail left out.

    :raises SpecError, NotFoundError: as `checked_flow`.
    """
    flows = {flow_id: checked_flow(library, flow_id) for flow_id in _reachable(library, flow_ids)}
    sidequests = {name: checked_sidequest(library, name) for name in library.sidequest_ids}
    steps = [step for flow in flows.values() for step in flow.steps] + [
        step for quest in sidequests.values() for step in quest.steps
    ]
    named = {step.station for step in steps if step.station}
    named.update(name for flow in flows.values() for name in flow.cross_cutting)
    stations = {name: library.station(name).station for name in sorted(named)}
    used = {template_id(flow, step) for flow in flows.values() for step in flow.steps if step.station is not None}
    templates = {name: library.template(name) for name in sorted({*used, DETOUR_TEMPLATE})}
    return FrozenSpecs(flows, stations, templates, library.fragments, library.policy(), sidequests, None)


def _reachable(library: Library, flow_ids: tuple[str, ...]) -> list[str]:
    """The flows that were asked for, those that follow on them, and those that may be injected into any run."""
    found: list[str] = []
    wanted = [*flow_ids, *library.utility_flow_ids()]
    wanted += [RESET] if DEPLOY in flow_ids else []  # what lands by itself may find its target elsewhere
    while wanted:
        flow_id = wanted.pop(0)
        if flow_id not in found:
            found.append(flow_id)
            flow = checked_flow(library, flow_id)
            wanted += [name for name in (flow.on_complete, flow.on_failure) if name is not None]
    return found


def frozen_files(layout: RunLayout, specs: FrozenSpecs) -> dict[str, bytes]:
    """The files of `specs/` in the run's first commit."""
    kinds: dict[str, Mapping[str, Record]] = {"flows": specs.flows, "stations": specs.stations}
    kinds |= {"sidequests": specs.sidequests, "templates": specs.templates}
    records: dict[str, Record] = {
        f"{kind}/{name}.json": each for kind, named in kinds.items() for name, each in named.items()
    }
    records[_POLICY] = specs.policy
    if specs.instructions.files:
        records[_INSTRUCTIONS] = specs.instructions
    if specs.trail.lessons:
        records[_TRAIL] = specs.trail
    if specs.feedback is not None:
        records[_FEEDBACK] = specs.feedback
    if specs.script is not None:
        records[_SCRIPT] = specs.script
    files = {f"fragments/{name}.md": text.encode() for name, text in specs.fragments.texts.items()}
    files |= {name: each.to_json() for name, each in records.items()}
    return {f"{layout.specs}/{name}": content for name, content in files.items()}


def read_frozen(repository: Repository, layout: RunLayout, tree: str) -> FrozenSpecs:
    """What `frozen_files` stored, from the tree of the run's first commit."""
    found = {
        path.removeprefix(f"{layout.specs}/"): repository.objects.read_blob(blob_id)
        for path, blob_id in repository.objects.files(tree, layout.specs)
    }

    def read(folder: str, parse: Callable[[bytes], T], suffix: str = ".json") -> dict[str, T]:
        prefix = f"{folder}/"
        return {
            name.removeprefix(prefix).removesuffix(suffix): parsed(parse, content, layout, f"{layout.specs}/{name}")
            for name, content in found.items()
            if name.startswith(prefix)
        }

    def read_file(name: str, parse: Callable[[bytes], T]) -> T | None:
        content = found.get(name)
        return parsed(parse, content, layout, f"{layout.specs}/{name}") if content is not None else None

    return FrozenSpecs(
        flows=read("flows", Flow.from_json),
        stations=read("stations", Station.from_json),
        templates=read("templates", StepTemplate.from_json),
        fragments=Fragments(read("fragments", bytes.decode, ".md")),
        policy=parsed(ModelPolicy.from_json, found.get(_POLICY, b""), layout, f"{layout.specs}/{_POLICY}"),
        sidequests=read("sidequests", Sidequest.from_json),
        script=read_file(_SCRIPT, Script.from_json),
        # None in a run of an earlier version, and where the project says nothing.
        instructions=read_file(_INSTRUCTIONS, Instructions.from_json) or Instructions(),
        trail=read_file(_TRAIL, ScentTrail.from_json) or ScentTrail(),
        feedback=read_file(_FEEDBACK, Feedback.from_json),
    )


def user_files(repository: Repository, tree: str) -> dict[str, str]:
    """Texts of flows and what belongs to them in a commit's tree, with a surrogate for each byte that is no UTF-8."""
    return {
        path: repository.objects.read_blob(blob_id).decode(errors="surrogateescape")
        for folder in USER_FOLDERS
        for path, blob_id in repository.objects.files(tree, folder)
    }


def parse_script(name: str, text: str, specs: FrozenSpecs) -> Script:
    """
    :raises SpecError: not a script, or it names a step that neither the flows nor the sidequests have.
    """
    source = parse_yaml(name, text)
    script = validate(source, Script)
    problems = list(_unknown_steps(source, script, specs))
    if problems:
        raise SpecError(problems, hint=f"git swarm flows show {next(iter(specs.flows))}")
    return script


def _unknown_steps(source: YamlSource, script: Script, specs: FrozenSpecs) -> Iterator[str]:
    """Injected nodes have names that nobody knows beforehand."""
    detour_steps = [name for quest in specs.sidequests.values() for name in quest.step_names]
    own = [(flow.id, step.id) for flow in specs.flows.values() for step in flow.steps]
    own += [(flow, name) for flow in specs.flows for name in detour_steps]
    full = {f"{flow}/{step}" for flow, step in own}
    plain = {step for _flow, step in own}
    for name in script.steps:
        if name not in plain and name not in full and not name.rpartition("/")[2].startswith(NODE_PREFIX):
            others = set() if name.startswith("sq-") else set(detour_steps)
            known = sorted(full if "/" in name else plain - others)
            near = did_you_mean(name, known)
            yield source.problem(("steps", name), f"no step '{name}' in {', '.join(specs.flows)}{near}")


def _own_problems(loaded: LoadedFlow) -> Iterator[str]:
    if loaded.flow.id in RESERVED_FLOW_IDS:
        yield loaded.source.problem(("id",), f"'{loaded.flow.id}' is a folder of every run: choose another id")


def _bounced_to(library: Library) -> Iterator[str]:
    """Steps that a sidequest may return to."""
    for sidequest_id in library.sidequest_ids:
        with contextlib.suppress(SpecError):  # told where that sidequest is looked at
            target = library.sidequest(sidequest_id).returns.target
            if target is not None:
                yield target


def _station_problems(library: Library, flow: Flow) -> Iterator[str]:
    for name in sorted({*flow.cross_cutting, *(step.station for step in flow.steps if step.station is not None)}):
        try:
            library.station(name)
        except SpecError as error:
            yield from error.problems


RUN_FIELDS = (
    *("run_id", "flow", "flows", "journey", "task", "steps_executed", "iteration", "tokens", "cost_usd"),
    *("routing_mode", "human", "depth", "sidequests", "stall", "verdict"),
)
STALL_FIELDS = ("passes", "is_stalled", "same_failure")

_RECORDS: dict[str, type[Record]] = {"receipt": Receipt, "envelope": Envelope, "evidence": Evidence}
_TEXT = lazy_re(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'')
_FIELDS = lazy_re(r"(?<![\w.])(receipt|envelope|evidence|run)((?:\s*\.\s*[A-Za-z_]\w*)+)(?!\w)(\s*\()?")


def field_problem(expression: str) -> str | None:
    """The first field that no step ever has, with the nearest of those that there are; None: there is none.

    Only chains of names count (`evidence.tests.passed`). Below a list or a mapping anything may stand.
    """
    bound = bound_names(expression)
    for found in _FIELDS.finditer(_TEXT.sub('""', expression)):
        names = [name.strip() for name in found[2].split(".")[1:]]
        problem = None if found[1] in bound else _unknown(found[1], names[:-1] if found[3] else names)
        if problem:
            return problem
    return None


def _unknown(root: str, names: list[str]) -> str | None:
    """
    :param names: the fields below `root`, the function that is called on the last of them left out.
    """
    model = _RECORDS.get(root)
    known: tuple[str, ...] = tuple(model.__struct_fields__) if model is not None else RUN_FIELDS
    where = root
    for name in names:
        if name not in known:
            return f"no field '{name}' in {where}{did_you_mean(name, list(known))}"
        where = f"{where}.{name}"
        model = _model(next(each.type for each in fields(model) if each.name == name)) if model is not None else None
        known = tuple(model.__struct_fields__) if model is not None else STALL_FIELDS if where == "run.stall" else ()
        if not known:
            return None
    return None


def _model(annotation: object) -> type[Record] | None:
    """The model of a field that holds one, or nothing."""
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    kinds = tuple(kind for kind in kinds if kind is not NoneType)
    only = kinds[0] if len(kinds) == 1 else None
    return only if isinstance(only, type) and issubclass(only, Record) else None
