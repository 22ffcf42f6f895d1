"""All flows and stations that can be used here: the bundled ones, with the user's over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Literal

from msgspec import Struct

from gitswarm.errors import NotFoundError, SpecError
from gitswarm.records.execution import OTHER_COMMANDS, TEST
from gitswarm.records.text import did_you_mean
from gitswarm.specs.flow import Flow
from gitswarm.specs.fragments import Fragments, StepTemplate
from gitswarm.specs.graph import KnownNames, flow_problems, id_problem
from gitswarm.specs.model_policy import ModelPolicy
from gitswarm.specs.sidequest import Sidequest
from gitswarm.specs.station import Station, fragment_problems, station_problems
from gitswarm.specs.yaml_source import RecordT, YamlSource, parse_yaml, utf8_problem, validate

Origin = Literal["bundled", "user"]
KNOWN_COMMANDS = (TEST, *OTHER_COMMANDS)
USER_FLOWS = ".swarm/flows"
USER_SIDEQUESTS = ".swarm/sidequests"
USER_FOLDERS = (USER_FLOWS, USER_SIDEQUESTS)
SUFFIXES = (".yaml", ".yml", ".json")
_SUFFIXES_OF = {"fragments": (".md",)}
_FOLDERS = ("stations", "templates", "sidequests", "fragments", "policy")
_LISTED_BY = {"flows": "git swarm flows list", "stations": "git swarm stations list"}


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


Files = Mapping[str, Mapping[str, SpecFile]]
"""Kind → id → file; fragments by path without suffix, relative to their folder."""


class Library:
    """What authors wrote, by id. Files are parsed when they are asked for, so one bad file spoils no other."""

    def __init__(self, files: Files, commands: Sequence[str] = KNOWN_COMMANDS) -> None:
        self._files = files
        self._commands = commands
        self.fragments = Fragments({name: file.text for name, file in files["fragments"].items()})

    @property
    def flow_ids(self) -> list[str]:
        return sorted(self._files["flows"])

    @property
    def station_ids(self) -> list[str]:
        return sorted(self._files["stations"])

    @property
    def template_ids(self) -> list[str]:
        return sorted(self._files["templates"])

    @property
    def sidequest_ids(self) -> list[str]:
        return sorted(self._files["sidequests"])

    @cache  # noqa: B019 - a library lives as long as a command
    def utility_flow_ids(self) -> tuple[str, ...]:
        """Flows that may be injected into any run.

        :raises SpecError: a file that says so is wrong otherwise.
        """
        marked = [flow_id for flow_id in self.flow_ids if "utility" in self._files["flows"][flow_id].text]
        return tuple(flow_id for flow_id in marked if self.flow(flow_id).flow.utility)

    @cache  # noqa: B019
    def flow(self, flow_id: str) -> LoadedFlow:
        """A flow that is sound in itself (its CEL conditions are routing's to check).

        :raises NotFoundError: no such flow.
        :raises SpecError: its file is wrong; every problem at once.
        """
        known = KnownNames(self.flow_ids, self.station_ids, self.template_ids, self._commands)
        try:
            file, source, flow = self._read("flows", flow_id, Flow)
            _refuse(flow_problems(flow_id, flow, source, known))
        except SpecError as error:
            raise SpecError(error.problems, hint=f"git swarm flows validate {flow_id}") from error
        return LoadedFlow(flow, source, file.origin)

    @cache  # noqa: B019
    def station(self, station_id: str) -> LoadedStation:
        """
        :raises NotFoundError: no such station.
        :raises SpecError: its file is wrong.
        """
        file, source, station = self._read("stations", station_id, Station)
        problems = station_problems(station, source, tuple(self.fragments.texts))
        _refuse((*id_problem(station_id, station.id, source), *problems))
        return LoadedStation(station, file.origin)

    @cache  # noqa: B019
    def template(self, template_id: str) -> StepTemplate:
        """
        :raises NotFoundError: no such step template.
        :raises SpecError: its file is wrong.
        """
        _file, source, template = self._read("templates", template_id, StepTemplate)
        problems = fragment_problems(template.fragments, source, tuple(self.fragments.texts))
        _refuse((*id_problem(template_id, template.id, source), *problems))
        return template

    @cache  # noqa: B019
    def sidequest(self, sidequest_id: str) -> Sidequest:
        """A sidequest whose stations exist (its CEL conditions are routing's to check).

        :raises NotFoundError: no such sidequest.
        :raises SpecError: its file is wrong.
        """
        _file, source, found = self._read("sidequests", sidequest_id, Sidequest)
        problems = list(id_problem(sidequest_id, found.id, source))
        for index, step in enumerate(found.steps):
            if step.station not in self._files["stations"]:
                what = f"unknown station '{step.station}'{did_you_mean(step.station, self.station_ids)}"
                problems.append(source.problem(("steps", index, "station"), what))
        _refuse(problems)
        return found

    @cache  # noqa: B019
    def policy(self) -> ModelPolicy:
        """
        :raises SpecError: the file of the model policy is wrong.
        """
        return self._read("policy", "models", ModelPolicy)[2]

    def _read(self, kind: str, name: str, model: type[RecordT]) -> tuple[SpecFile, YamlSource, RecordT]:
        source = self.source(kind, name)
        return self._files[kind][name], source, validate(source, model)

    def source(self, kind: str, name: str) -> YamlSource:
        """A file whose content nobody has looked at yet.

        :raises NotFoundError: there is none.
        :raises SpecError: it is not YAML.
        """
        file = self._files[kind].get(name)
        if file is None:
            near = did_you_mean(name, sorted(self._files[kind]))
            what = f"unknown {kind.removesuffix('s')} '{name}'{near}"
            raise NotFoundError(what, hint=_LISTED_BY.get(kind, "git swarm flows validate"))
        return parse_yaml(file.name, file.text)

    def location_of(self, text: str) -> str | None:
        """`file:line` where an author wrote this, a user's own file first."""
        kinds = ("flows", "stations", "templates", "fragments")
        files = [file for kind in kinds for file in self._files[kind].values() if text in file.text]
        for file in sorted(files, key=lambda file: file.origin == "bundled"):
            return f"{file.name}:{file.text[: file.text.index(text)].count(chr(10)) + 1}"
        return None


def load_library(bundled: Path, user_files: Mapping[str, str], suites: Iterable[str] = ()) -> Library:
    """
    :param bundled: the folder of bundled flows, with the other kinds in folders of it.
    :param user_files: text by path, for every file below `USER_FOLDERS`; they come before bundled ones.
    :param suites: names of `commands.tests` in the configuration: a step may name them as its command.
    :raises SpecError: two files of a user have one id, or a fragment is not UTF-8.
    """
    files = [*_bundled(bundled)]
    files += [SpecFile(name, text, "user") for name, text in sorted(user_files.items())]
    clashes: list[str] = []
    unreadable: list[str] = []
    found: dict[str, dict[str, SpecFile]] = {kind: {} for kind in ("flows", *_FOLDERS)}
    for file in files:
        name = file.name.removeprefix(f"{USER_FLOWS}/").replace(f"{USER_SIDEQUESTS}/", "sidequests/", 1)
        path = PurePosixPath(name)
        folder = path.parts[0] if len(path.parts) > 1 else ""
        at_its_place = folder in ("", *_FOLDERS) and (folder == "fragments" or len(path.parts) <= 2)
        if at_its_place and path.suffix in _SUFFIXES_OF.get(folder, SUFFIXES):
            kind, name = folder or "flows", path.relative_to(folder).with_suffix("").as_posix()
            other = found[kind].get(name)
            if other is not None and other.origin == file.origin:
                clashes.append(f"{file.name}: {other.name} has the same id")
            found[kind][name] = file
            problem = utf8_problem(file.name, file.text) if kind == "fragments" else None
            unreadable += [problem] if problem is not None else []
    _refuse(unreadable)
    if clashes:
        raise SpecError(clashes, hint="keep one of the two files")
    return Library(found, (*KNOWN_COMMANDS, *suites))


@cache
def _bundled(folder: Path) -> tuple[SpecFile, ...]:
    return tuple(
        SpecFile(path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8"), "bundled")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    )


def _refuse(problems: Iterable[str]) -> None:
    """
    :raises SpecError: there are any.
    """
    if found := list(problems):
        raise SpecError(found)
