"""The file that `fleet run --issues` takes: a task per line, or a JSON object per line, also mixed."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from gitswarm.cli.invocation import read_text
from gitswarm.cli.run_execution import budget_of_options
from gitswarm.cli.start import RunOptions, first_step_name
from gitswarm.errors import SpecError, UsageError
from gitswarm.records.routing import RoutingMode
from gitswarm.records.text import shorten
from gitswarm.routing.macro import ALL, sequence_problem
from gitswarm.settings import CommandLine

_TITLE = 60
_Amount = str | int | float | None


class StartOptions(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What can stand in a line, named as the options of `start`: None, or false, is what the command line says.
    `priority`: entries with a higher one are begun first."""

    task: Annotated[str, Meta(min_length=1)] | None = None
    flow: str | None = None
    base: str | None = None
    engine: str | None = None
    mode: str | None = None
    model: str | None = None
    economy: bool = False
    script: str | None = None
    allow_stub: bool = False
    routing: RoutingMode | None = None
    autopilot: bool = False
    first: str | None = field(default=None, name="from")
    max_cost: _Amount = None
    max_tokens: _Amount = None
    max_time: _Amount = None
    priority: int = 0

    def over(self, usual: StartOptions) -> StartOptions:
        """These, and where they say nothing the usual ones."""
        return msgspec.convert({**msgspec.to_builtins(usual), **msgspec.to_builtins(self)}, StartOptions)

    def run_options(self) -> RunOptions:
        """
        :raises UsageError: flows or limits that cannot be.
        """
        words = (self.flow or "").split()
        if not words:
            raise UsageError("no flow is named", hint="flow: build")
        flows = ALL if words == ["all"] else tuple(words)
        problem = sequence_problem(flows)
        if problem is not None:
            raise UsageError(problem.what, hint=f"flow: {' '.join(problem.better)}")
        limits = (None if each is None else str(each) for each in (self.max_cost, self.max_tokens, self.max_time))
        return RunOptions(
            flows=flows,
            task=self.task or "",
            base=self.base or "HEAD",
            engines=CommandLine(self.engine, self.mode, self.model, self.economy),
            script=self.script,
            allow_stub=self.allow_stub,
            routing=self.routing,
            autopilot=self.autopilot,
            first=first_step_name(self.first, flows[0]),
            budget=budget_of_options(*limits),
        )


class FleetEntry(Struct, frozen=True):
    """`name`: the same whenever the same file is read again. `location`: file and line."""

    name: str
    location: str
    options: StartOptions

    @property
    def title(self) -> str:
        return shorten(self.options.task or "", _TITLE)


def read_entries(path: str, usual: StartOptions) -> list[FleetEntry]:
    """The entries of a file. An empty line is none, nor is one that begins with `#`.

    :raises SpecError: lines that are no entries, all of them.
    :raises NotFoundError: the file cannot be read.
    """
    problems: list[str] = []
    found = list(_entries(path, usual, problems))
    if not found and not problems:
        problems.append(f"{path}: no entries")
    if problems:
        keys = ", ".join(each.encode_name for each in msgspec.structs.fields(StartOptions))
        hint = f"""a task per line, or: {{"task": "…", "flow": "build"}}   (keys: {keys})"""
        raise SpecError(problems, hint=hint)
    return found


def _entries(path: str, usual: StartOptions, problems: list[str]) -> Iterator[FleetEntry]:
    seen = Counter[str]()
    for number, line in enumerate(read_text(path, "git swarm fleet run --issues FILE").split("\n"), 1):
        text, location = line.strip(), f"{path}:{number}"
        if not text or text.startswith("#"):
            continue
        try:
            said = _parsed(text)
            whole = said.over(usual)
            whole.run_options()
        except (msgspec.ValidationError, msgspec.DecodeError, UsageError) as error:
            problems.append(f"{location}: {error}")
            continue
        # What is said for all entries but the flow does not make another entry of one, nor does its priority: it is
        # how, not what.
        what = json.dumps({**msgspec.to_builtins(replace(said, priority=0)), "flow": whole.flow}, sort_keys=True)
        seen[what] += 1
        name = hashlib.sha256(f"{seen[what]} {what}".encode()).hexdigest()[:16]
        yield FleetEntry(name, location, whole)


def _parsed(text: str) -> StartOptions:
    if not text.startswith("{"):
        return StartOptions(task=text)
    said = msgspec.json.decode(text, type=StartOptions)
    if said.task is None:
        raise UsageError("an entry has no `task`")
    return said
