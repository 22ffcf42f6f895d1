"""`git replace` shows people other objects than those that land: git-swarm looks past it."""

from __future__ import annotations

from tests.conftest import Project
from tests.landing.common import ready

HONEST = "print('new')"


def test_what_is_shown_and_lands_is_what_the_run_made(project: Project) -> None:
    run = ready(project)
    made = project.git("rev-parse", f"shadow/{run.id}:src/new.py")
    other = project.git("hash-object", "-w", "--stdin", stdin="print('harmless')\n")
    project.git("replace", made, other)
    assert f"+{HONEST}" in project.swarm("diff", run.id).stdout
    run.landed()
    assert (project.root / "src/new.py").read_text(encoding="utf-8") == f"{HONEST}\n"
    assert project.git("--no-replace-objects", "status", "--porcelain") == ""
