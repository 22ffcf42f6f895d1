"""`policy explain` and `policy rules`."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from gitswarm.safety.policy import table
from gitswarm.safety.policy.table import CLASSES
from tests.conftest import Project
from tests.projects import ask

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs" / "policy.md"


def test_a_denied_command_is_explained(project: Project) -> None:
    assert ask(project, "policy", "explain", "make && git push").stdout == (
        "deny git-push\n"
        "   reason    git push: sending commits anywhere is not allowed here\n"
        "   instead   leave your work in the worktree; Deploy lands it after approval\n"
    )


def test_an_allowed_command_is_one_word(project: Project) -> None:
    assert ask(project, "policy", "explain", "git status").stdout == "allow\n"


def test_what_only_the_sandbox_stops_is_said_to_be_contained(project: Project) -> None:
    assert ask(project, "policy", "explain", "make test").stdout == (
        "allow contained\n   reason    what it does when it runs is not read; only a sandbox limits it\n"
    )


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
    assert json.loads(ask(project, "policy", "explain", "--json", "ls").stdout) == {
        "verdict": "allow",
        "contained": False,
    }
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
    commands = ("npm audit fix", "make release", "echo > infra/x", "git ship", "make test")

    said = [ask(project, "policy", "explain", command).stdout.splitlines()[0] for command in commands]

    assert said == ["deny user-rule", "deny user-rule", "deny protected-path", "deny git-push", "allow contained"]


def test_the_rules_are_listed(project: Project) -> None:
    said = json.loads(ask(project, "policy", "rules", "--json").stdout)

    assert said == [{"rule": each.rule, "stops": each.stops, "instead": each.instead} for each in CLASSES]
    assert [line.split()[0] for line in ask(project, "policy", "rules").stdout.splitlines() if line[:1] != " "] == [
        each.rule for each in CLASSES
    ]


def _rows(heading: str) -> list[list[str]]:
    """Of the table below a heading of the docs, without its head."""
    section = DOCS.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip().replace(r"\|", "|") for cell in row] for row in rows[2:]]


def _words(cell: str) -> list[str]:
    """`git push` as it stands, `--tool Write ../x` as options and their value."""
    text = cell.strip("`")
    return shlex.split(text) if text.startswith("--") else [text]


def test_the_table_of_the_docs_is_that_of_the_rules() -> None:
    rows = [(rule.strip("`"), stops, instead) for rule, stops, instead, _example in _rows("What is refused")]

    assert rows == [(each.rule, each.stops, each.instead) for each in CLASSES]


def test_every_row_of_the_docs_is_answered_as_it_says(project: Project) -> None:
    config = re.search(r"```yaml\n(policy:.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert config is not None
    project.write({".swarm/config.yaml": config[1]})
    refused = [(example, f"deny {rule.strip('`')}") for rule, _, _, example in _rows("What is refused")]
    contained = [(example, "allow contained") for example, _why in _rows("What only the sandbox stops")]

    said = {
        example: ask(project, "policy", "explain", *_words(example)).stdout.splitlines()[0]
        for example, _wanted in refused + contained
    }

    assert said == dict(refused + contained)
    assert len(contained) >= 10


def test_every_rule_in_the_code_is_a_class() -> None:
    folder = Path(table.__file__).parent
    code = "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py")))
    used = set(re.findall(r'\bdeny\(\s*"([a-z-]+)"', code))

    assert used <= {each.rule for each in CLASSES}
    assert set(table.REFUSED.values()) <= {each.rule for each in CLASSES}
