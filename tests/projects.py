"""Projects for module-wide fixtures, and two cheap ways to ask about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests import conftest, in_process
from tests.conftest import Project


def new_project(folder: Path) -> Project:
    """As the fixture `project`, in a folder of one's own choice."""
    return conftest.new_project(folder / "repo", conftest.environment(folder / "home"))


def ask(project: Project, *arguments: str, cwd: Path | None = None) -> in_process.Answer:
    """A command line whose exit code the test looks at itself."""
    return in_process.call(arguments, cwd or project.root, project.env)


def only_run(project: Project) -> str:
    """The id of the one run that there is, through plain git."""
    (name,) = project.git("for-each-ref", "--format=%(refname:lstrip=3)", "refs/heads/shadow/").splitlines()
    return name


def evidence(project: Project, step: str) -> dict[str, Any]:
    """The newest evidence of a step (`flow/step`) of the one run that there is, through plain git."""
    name = only_run(project)
    flow, _slash, step_id = step.partition("/")
    path = f".swarm/runs/{name}/{flow}/evidence/{step_id}.json"
    found: dict[str, Any] = json.loads(project.git("show", f"shadow/{name}:{path}"))
    return found
