"""Runs of the product by real sessions, and of one script in each mode: by the stub, or through the real CLI."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import yaml

from gitswarm.ledger.reading import parse_note
from gitswarm.specs.script import Script
from tests.claude.stage import KEY
from tests.conftest import Project
from tests.loopback.api import Model
from tests.loopback.player import ScriptedModel
from tests.loopback.server import Loopback
from tests.projects import ask, new_project, only_run

STUB = "stub"

_TIMES = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "TIME"),
    (r'"(duration_ms|elapsed_us)": ?\d+', r'"\1": 0'),
)


@dataclass(frozen=True)
class Setting:
    """A project, and the options and environment by which the product plays a script in it."""

    project: Project
    options: tuple[str, ...]

    def start(self, flow: str, *options: str, code: int = 0) -> Played:
        self.project.swarm_process("start", flow, "-m", "the answer", *self.options, *options, code=code)
        return Played(self.project, only_run(self.project))


def setting(folder: Path, mode: str, script: str, files: Mapping[str, str], loopback: Loopback) -> Setting:
    """A new project with `files` committed, in which `mode` plays `script`.

    :param script: YAML, as the stub plays it.
    """
    folder.mkdir(exist_ok=True)
    project = new_project(folder)
    project.commit(files, "the flow")
    if mode == STUB:
        return Setting(project, ("--script", project.script(script)))
    return Setting(reaching(project, loopback, scripted(script)), ("--mode", mode))


def scripted(script: str, *, reads_first: bool = False) -> ScriptedModel:
    return ScriptedModel(Script.from_plain(yaml.safe_load(script)), reads_first=reads_first)


def reaching(project: Project, loopback: Loopback, model: Model) -> Project:
    """The same project with a key, and a provider whose scenario is named after the project's folder."""
    url = loopback.play(project.root.parent.name, model)
    return having(project, ANTHROPIC_BASE_URL=url, ANTHROPIC_API_KEY=KEY)


def having(project: Project, **env: str) -> Project:
    """The same with these variables; an empty value takes one away."""
    found = {**project.env, **env}
    return replace(project, env={name: value for name, value in found.items() if value})


def asked(project: Project, *words: str) -> Any:
    """What a reading command says with --json."""
    return json.loads(ask(project, *words, "--json").stdout)


@dataclass(frozen=True)
class Played:
    """A run, and what it stored once ids and times are replaced."""

    project: Project
    run: str

    @cached_property
    def commits(self) -> list[str]:
        """Of the run, oldest first."""
        return self.project.git("rev-list", "--reverse", "--first-parent", f"main..shadow/{self.run}").splitlines()

    def trees(self) -> list[dict[str, str]]:
        return [self.project.tree(commit) for commit in self.commits]

    def names(self) -> list[list[str]]:
        """Of every file in RUN_BASE, commit by commit."""
        base = f".swarm/runs/{self.run}"
        listings = (self.project.git("ls-tree", "-r", "--name-only", f"{commit}:{base}") for commit in self.commits)
        return [listing.splitlines() for listing in listings]

    def papers(self, kind: str) -> dict[str, Any]:
        """`flow/step@n` → what its commit holds in the folder `kind` (`receipts`, `handoff`, `evidence`)."""
        found = {}
        for entry, commit in self._steps():
            name = f"{entry['flow']}/{entry['step']}@{entry['iteration']}"
            found[name] = self.read(commit, _PAPERS[kind].format(**entry, llm=entry["engine"].removesuffix("-step")))
        return found

    def read(self, commit: str, path: str) -> Any:
        """A JSON file of RUN_BASE, or one of JSON lines."""
        text = self.normalised(self.project.git("show", f"{commit}:.swarm/runs/{self.run}/{path}"))
        return [json.loads(line) for line in text.splitlines()] if path.endswith(".jsonl") else json.loads(text)

    def _steps(self) -> Iterator[tuple[dict[str, Any], str]]:
        for entry in self._log:
            yield entry, entry["commit"]

    @cached_property
    def _log(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = asked(self.project, "log", self.run)
        return found

    def log(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.normalised(json.dumps(self._log)))
        return found

    def events(self) -> list[dict[str, Any]]:
        """As the notes of the commits have them, in the order of the commits."""
        lines = ask(self.project, "events", self.run, "--json").stdout.splitlines()
        return [json.loads(self.normalised(line)) for line in lines]

    def routing(self) -> list[Any]:
        """Lines of the routing notes, in the order of the commits."""
        ref = f"--ref=swarm/{self.run}/routing"
        noted = {line.split()[1] for line in self.project.git("notes", ref, "list").splitlines()}
        texts = (self.project.git("notes", ref, "show", commit) for commit in self.commits if commit in noted)
        found = (msgspec.json.encode(entry).decode() for text in texts for entry in parse_note(text.encode()))
        return [json.loads(self.normalised(line)) for line in found]

    @cached_property
    def _base(self) -> str:
        return self.project.git("rev-parse", "main")

    def normalised(self, text: str) -> str:
        text = text.replace(self.run, "RUN")
        for number, commit in enumerate(self.commits):
            text = text.replace(commit, f"COMMIT-{number}").replace(commit[:12], f"COMMIT-{number}")
        text = text.replace(self._base, "BASE")
        for pattern, word in _TIMES:
            text = re.sub(pattern, word, text)
        return text


_PAPERS = {
    "receipts": "{flow}/receipts/{step}-{agent}.json",
    "handoff": "{flow}/handoff/{step}.json",
    "evidence": "{flow}/evidence/{step}.json",
    "transcripts": "{flow}/llm/{step}-{agent}-{llm}.jsonl",
}


def without(value: Any, *names: str) -> Any:
    """The value with these keys left out wherever they stand."""
    if isinstance(value, Mapping):
        return {name: without(part, *names) for name, part in value.items() if name not in names}
    return (
        [without(part, *names) for part in value]
        if isinstance(value, Sequence) and not isinstance(value, str)
        else value
    )
