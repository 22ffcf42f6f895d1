"""The hash of a prompt: the same for the same inputs in another clone, under another path, for another user."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import Project
from tests.projects import ask, only_run

SCRIPT = """\
steps:
  critique_code:
    - {status: UNVERIFIED, concerns: ["CC-1: no error"], can_further_iteration_help: "yes"}
    - {status: VERIFIED}
  implement: {run: ["pwd > where.txt"], summary: "wrote $PWD", output: done}
  run_tests: {run: ["true"]}
  verify_tests: {run: ["true"]}
"""


def hashes(project: Project) -> dict[str, str]:
    answer = ask(project, "start", "build", "-m", "the task", "--script", project.script(SCRIPT))
    assert answer.code == 0, answer.stderr
    run = only_run(project)
    found = {}
    for entry in json.loads(ask(project, "log", run, "--json").stdout):
        path = f".swarm/runs/{run}/build/receipts/{entry['step']}-{entry['agent']}.json"
        receipt = json.loads(project.git("show", f"{entry['commit']}:{path}"))
        found[f"{entry['step']}@{entry['iteration']}"] = receipt["prompt_hash"]
    return found


def test_two_clones_of_two_users_are_told_the_same(project: Project, tmp_path: Path) -> None:
    home = tmp_path / "elsewhere" / "bob"
    home.mkdir(parents=True)
    (home / ".gitconfig").write_text("[user]\nname = Bob\nemail = bob@example.org\n", encoding="utf-8")
    other = Project(home / "deep" / "clone", {**project.env, "HOME": str(home), "XDG_STATE_HOME": str(home / "s")})
    other.root.parent.mkdir()
    project.git("clone", "-q", str(project.root), str(other.root))

    ours, theirs = hashes(project), hashes(other)

    assert ours == theirs
    assert {name for name, digest in ours.items() if not digest} == {"run_tests@1", "verify_tests@1"}
    told = [digest for digest in ours.values() if digest]
    assert len(set(told)) == len(told)
