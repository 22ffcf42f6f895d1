"""All flows and stations that can be used here: the bundled ones, with the user's over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Literal

from msgspec import Struct

from gitswarm.errors import NotFoundError, SpecError
from gitswarm.records.command_names import OTHER_COMMANDS, TEST
from gitswarm.specs.flow import Flow
from gitswarm.specs.fragments import Fragments, StepTemplate
from gitswarm.specs.model_policy import ModelPolicy
from gitswarm.specs.sidequest import Sidequest
from gitswarm.specs.soundness import KnownNames, flow_problems
from gitswarm.specs.station import Station
from gitswarm.specs.yaml_source import Location, YamlSource, did_you_mean, parse_yaml, validate

Origin = Literal["bundled", "user"]
KNOWN_COMMANDS = (TEST, *OTHER_COMMANDS)
USER_FLOWS = ".swarm/flows"
USER_SIDEQUESTS = ".swarm/sidequests"
USER_FOLDERS = (USER_FLOWS, USER_SIDEQUESTS)
SUFFIXES = (".yaml", ".yml", ".json")
_SUFFIXES_OF = {"fragments": (".md",)}
_FOLDERS = ("stations", "templates", "sidequests", "fragments", "policy")


class SpecFile(Struct, frozen=True):
    """One file as its author knows it."""

    name: str
    text: str
    origin: Origin


class LoadedFlow(Struct, frozen=True):
    flow: Flow
    source: YamlSource
    origin: Origin


class LoadedStation(Struct, frozen=True):
    station: Station
    origin: Origin


class SpecFiles(Struct, frozen=True):
    """Files by id; fragments by path without suffix, relative to their folder."""

    flows: Mapping[str, SpecFile]
    stations: Mapping[str, SpecFile]
    templates: Mapping[str, SpecFile]
    sidequests: Mapping[str, SpecFile]
    fragments: Mapping[str, SpecFile]
    policy: SpecFile


class Library:
    """What authors wrote, by id. Files are parsed when they are asked for, so one bad file spoils no other."""

    def __init__(self, files: SpecFiles, commands: Sequence[str] = KNOWN_COMMANDS) -> None:
        self._commands = commands
        self._flows = files.flows
        self._stations = files.stations
        self._templates = files.templates
        self._sidequests = files.sidequests
        self._policy = files.policy
        self._fragments = files.fragments
        self.fragments = Fragments({name: file.text for name, file in files.fragments.items()})

    @property
    def flow_ids(self) -> list[str]:
        return sorted(self._flows)

    @cache  # noqa: B019
    def utility_flow_ids(self) -> tuple[str, ...]:
        """Flows that may be injected into any run.

        :raises SpecError: a file that says so is wrong otherwise.
        """
        marked = [flow_id for flow_id in self.flow_ids if "utility" in self._flows[flow_id].text]
        return tuple(flow_id for flow_id in marked if self.flow(flow_id).flow.utility)

    @property
    def station_ids(self) -> list[str]:
        return sorted(self._stations)

    @cache  # noqa: B019 - a library lives as long as a command
    def flow(self, flow_id: str) -> LoadedFlow:
        """A flow that is sound in itself (its CEL conditions are routing's to check).

        :raises NotFoundError: no such flow.
        :raises SpecError: its file is wrong; every problem at once.
        """
        file = self._flows.get(flow_id)
        if file is None:
            raise NotFoundError(
                f"unknown flow '{flow_id}'{did_you_mean(flow_id, self.flow_ids)}",
                hint="git swarm flows list",
            )
        hint = f"git swarm flows validate {flow_id}"
        try:
            source = parse_yaml(file.name, file.text)
            flow = validate(source, Flow)
        except SpecError as error:
            raise SpecError(error.problems, hint=hint) from error
        problems = list(flow_problems(flow_id, flow, source, self._names()))
        if problems:
            raise SpecError(problems, hint=hint)
        return LoadedFlow(flow, source, file.origin)

    @cache  # noqa: B019
    def station(self, station_id: str) -> LoadedStation:
        """
        :raises NotFoundError: no such station.
        :raises SpecError: its file is wrong.
        """
        file = self._stations.get(station_id)
        if file is None:
            raise NotFoundError(
                f"unknown station '{station_id}'{did_you_mean(station_id, self.station_ids)}",
                hint="git swarm stations list",
            )
        source = parse_yaml(file.name, file.text)
        station = validate(source, Station)
        if station.id != station_id:
            raise SpecError([source.problem(("id",), f"id '{station.id}' in a file named '{station_id}'")])
        return LoadedStation(station, file.origin)

    @cache  # noqa: B019
    def template(self, template_id: str) -> StepTemplate:
        """
        :raises NotFoundError: no such step template.
        :raises SpecError: its file is wrong.
        """
        file = self._templates.get(template_id)
        if file is None:
            near = did_you_mean(template_id, sorted(self._templates))
            raise NotFoundError(f"unknown template '{template_id}'{near}", hint="git swarm flows validate")
        source = parse_yaml(file.name, file.text)
        template = validate(source, StepTemplate)
        if template.id != template_id:
            raise SpecError([source.problem(("id",), f"id '{template.id}' in a file named '{template_id}'")])
        return template

    @property
    def sidequest_ids(self) -> list[str]:
        return sorted(self._sidequests)

    @cache  # noqa: B019
    def sidequest(self, sidequest_id: str) -> Sidequest:
        """A sidequest whose stations exist (its CEL conditions are routing's to check).

        :raises NotFoundError: no such sidequest.
        :raises SpecError: its file is wrong.
        """
        file = self._sidequests.get(sidequest_id)
        if file is None:
            near = did_you_mean(sidequest_id, self.sidequest_ids)
            raise NotFoundError(f"unknown sidequest '{sidequest_id}'{near}", hint="git swarm flows validate")
        source = parse_yaml(file.name, file.text)
        found = validate(source, Sidequest)
        problems = []
        if found.id != sidequest_id:
            problems.append(source.problem(("id",), f"id '{found.id}' in a file named '{sidequest_id}'"))
        for index, step in enumerate(found.steps):
            if step.station not in self._stations:
                near = did_you_mean(step.station, self.station_ids)
                what = f"unknown station '{step.station}'{near}"
                problems.append(source.problem(("steps", index, "station"), what))
        if problems:
            raise SpecError(problems)
        return found

    def sidequest_problem(self, sidequest_id: str, location: Location, what: str) -> str:
        """A problem at a place of a sidequest's file."""
        file = self._sidequests[sidequest_id]
        return parse_yaml(file.name, file.text).problem(location, what)

    @cache  # noqa: B019
    def policy(self) -> ModelPolicy:
        """
        :raises SpecError: the file of the model policy is wrong.
        """
        return validate(parse_yaml(self._policy.name, self._policy.text), ModelPolicy)

    @property
    def template_ids(self) -> list[str]:
        return sorted(self._templates)

    def _names(self) -> KnownNames:
        return KnownNames(tuple(self.flow_ids), tuple(self.station_ids), tuple(self.template_ids), self._commands)

    def place_of(self, text: str) -> str | None:
        """`file:line` where an author wrote this, a user's own file first."""
        kinds = (self._flows, self._stations, self._templates, self._fragments)
        files = [file for kind in kinds for file in kind.values() if text in file.text]
        for file in sorted(files, key=lambda file: file.origin == "bundled"):
            return f"{file.name}:{file.text[: file.text.index(text)].count(chr(10)) + 1}"
        return None


def load_library(bundled: Path, user_files: Mapping[str, str], suites: Iterable[str] = ()) -> Library:
    """
    :param bundled: the folder of bundled flows, with the other kinds in folders of it.
    :param user_files: text by path, for every file below `USER_FOLDERS`; they come before bundled ones.
    :param suites: names of `commands.tests` in the configuration: a step may name them as its command.
    :raises SpecError: two files of a user have one id.
    """
    files = [
        SpecFile(path.relative_to(bundled).as_posix(), path.read_text(encoding="utf-8"), "bundled")
        for path in sorted(bundled.rglob("*"))
        if path.is_file()
    ]
    files += [SpecFile(name, text, "user") for name, text in sorted(user_files.items())]
    clashes: list[str] = []
    found: dict[str, dict[str, SpecFile]] = {kind: {} for kind in ("", *_FOLDERS)}
    for file in files:
        name = file.name.removeprefix(f"{USER_FLOWS}/").replace(f"{USER_SIDEQUESTS}/", "sidequests/", 1)
        path = PurePosixPath(name)
        kind = path.parts[0] if len(path.parts) > 1 else ""
        at_its_place = kind == "fragments" or len(path.parts) <= 2
        if kind in found and at_its_place and path.suffix in _SUFFIXES_OF.get(kind, SUFFIXES):
            name = path.relative_to(kind).with_suffix("").as_posix()
            other = found[kind].get(name)
            if other is not None and other.origin == file.origin:
                clashes.append(f"{file.name}: {other.name} has the same id")
            found[kind][name] = file
    if clashes:
        raise SpecError(clashes, hint="keep one of the two files")
    return Library(
        SpecFiles(
            flows=found[""],
            stations=found["stations"],
            templates=found["templates"],
            sidequests=found["sidequests"],
            fragments=found["fragments"],
            policy=found["policy"]["models"],
        ),
        (*KNOWN_COMMANDS, *suites),
    )
