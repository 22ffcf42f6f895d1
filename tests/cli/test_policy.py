"""`policy explain` and `policy rules`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gitswarm.safety.policy import classes
from gitswarm.safety.policy.classes import CLASSES
from tests.conftest import Project
from tests.projects import ask
from tests.safety.policy.hostile import HOSTILE

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs" / "policy.md"


def test_a_denied_command_is_explained(project: Project) -> None:
    assert ask(project, "policy", "explain", "make && git push").stdout == (
        "deny git-push\n"
        "   reason    git push: sending commits anywhere is not allowed here\n"
        "   instead   leave your work in the worktree; Deploy lands it after approval\n"
    )


def test_an_allowed_command_is_one_word(project: Project) -> None:
    assert ask(project, "policy", "explain", "make test").stdout == "allow\n"


def test_a_rewrite_says_the_real_path(project: Project) -> None:
    path = "RUN_BASE/build/code_critique.md"

    said = ask(project, "policy", "explain", "--station", "code-critic", "--tool", "Write", path).stdout

    assert said.split()[0] == "rewrite"
    assert f"{project.root}/.swarm/runs/run/build/code_critique.md" in said.replace("\n             ", "")


def test_a_station_is_held_to_its_tools_and_rights(project: Project) -> None:
    said = ask(
        project, "policy", "explain", "--station", "code-critic", "--tool", "Write", "src/a.py", "--json"
    ).stdout

    assert json.loads(said)["rule"] == "read-only"


def test_json_is_one_document(project: Project) -> None:
    assert json.loads(ask(project, "policy", "explain", "--json", "ls").stdout) == {"verdict": "allow"}
    assert json.loads(ask(project, "policy", "explain", "--json", "sudo id").stdout) == {
        "verdict": "deny",
        "rule": "privileges",
        "reason": "sudo id: sudo and its relatives is not allowed here",
        "instead": "work as the user you are; name missing packages in the handoff",
    }


def test_configuration_and_aliases_of_the_checkout_count(project: Project) -> None:
    project.write({".swarm/config.yaml": "policy: {deny: [npm audit], protected_paths: ['infra/**']}\n"})
    project.git("config", "alias.ship", "!git push origin HEAD")
    project.git("config", "swarm.policy.deny", "[make release]")
    commands = ("npm audit fix", "make release", "touch infra/x", "git ship", "make test")

    said = [ask(project, "policy", "explain", command).stdout.splitlines()[0] for command in commands]

    assert said == ["deny user-rule", "deny user-rule", "deny protected-path", "deny git-push", "allow"]


def test_the_rules_are_listed(project: Project) -> None:
    said = json.loads(ask(project, "policy", "rules", "--json").stdout)

    assert said == [{"rule": each.rule, "stops": each.stops, "instead": each.instead} for each in CLASSES]
    assert [line.split()[0] for line in ask(project, "policy", "rules").stdout.splitlines() if line[:1] != " "] == [
        each.rule for each in CLASSES
    ]


def test_the_table_of_the_docs_is_that_of_the_rules() -> None:
    text = DOCS.read_text(encoding="utf-8").replace(r"\|", "\0")
    found = re.findall(r"^\| `([a-z-]+)` \| (.+?) \| (.+?) \|$", text, re.MULTILINE)
    rows = [tuple(cell.replace("\0", "|") for cell in row) for row in found]

    assert rows == [(each.rule, each.stops, each.instead) for each in CLASSES]


def test_every_rule_in_the_code_is_a_class() -> None:
    folder = Path(classes.__file__).parent
    code = "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py")))
    used = set(re.findall(r'\b(?:deny|Refused)\(\s*"([a-z-]+)"', code))

    assert used <= {each.rule for each in CLASSES}
    assert len(used) > 25


@pytest.mark.parametrize("rule", [each.rule for each in CLASSES])
def test_every_class_has_a_command_that_it_stops_and_says_what_to_do_instead(rule: str) -> None:
    each = next(each for each in CLASSES if each.rule == rule)

    assert rule in HOSTILE or rule in ("tool", "read-only")
    assert each.instead
