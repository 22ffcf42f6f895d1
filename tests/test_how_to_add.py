"""What CONTRIBUTING.md says under "How to add" is enough: each is added once, where no other test does it.

An engine is added in tests/engines/test_contract.py, out of examples/.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from gitswarm.cli.command_table import ROOT, Command
from gitswarm.cli.runs import RunArgument
from gitswarm.records.safety import SecretRules
from gitswarm.safety.redact import rule
from gitswarm.safety.redact.redactor import Redactor
from tests.conftest import Project
from tests.projects import ask
from tests.routed import flow, quest, step

GUIDE = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
PRODUCT = Path(__file__).parent.parent / "gitswarm"


def row(subject: str) -> str:
    (found,) = re.findall(rf"(?m)^\| {subject} \|.*$", GUIDE)
    return str(found)


def test_a_command(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.start("{}", flow="signal")
    module = ModuleType("gitswarm.cli.greet")

    def greet(run: RunArgument = None) -> None:
        """Greet a run."""
        sys.stdout.write(f"hello {run}\n")

    module.greet = greet  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "gitswarm.cli.greet", module)
    monkeypatch.setitem(ROOT.entries, "greet", Command("greet:greet", "Greet a run.", words="run"))
    assert project.swarm("greet", "7").stdout == "hello 7\n"
    assert "Greet a run." in project.swarm("greet", "-h").stdout
    answer = ask(project, "greet", "--nonsense")
    assert (answer.code, "no such option" in answer.stderr) == (2, True)


def test_a_redaction_rule(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of git-swarm's own, as a line of own.rules; a team's is tests/test_guarantee_7_secrets.py's."""
    secret = "acme_" + "x9Y8z7" * 4
    assert "own.rules" in row("a redaction rule")
    for name in ("own", "betterleaks"):
        text = (rule._FOLDER / f"{name}.rules").read_text("utf-8")
        line = "acme-key  acme_  acme_[A-Za-z0-9]{24}\n" if name == "own" else ""
        (tmp_path / f"{name}.rules").write_text(text + line, encoding="utf-8")
    monkeypatch.setattr(rule, "_FOLDER", tmp_path)
    rule.shapes.cache_clear()
    try:
        assert Redactor(SecretRules(), {}).scrub(f"a {secret} b") == "a [REDACTED:acme-key] b"
    finally:
        rule.shapes.cache_clear()


def test_a_sidequest(project: Project) -> None:
    found = quest("greeting", {"kind": "paths", "patterns": ["hello.txt"]})
    files = {
        ".swarm/flows/sidequests/greeting.yaml": yaml.safe_dump(found),
        ".swarm/flows/one.yaml": yaml.safe_dump(flow("one", step("write"), step("close"))),
    }
    project.commit(files)
    project.start("steps: {write: {write: {hello.txt: hi}}}", flow="one")
    assert [each["step"] for each in project.json("log")] == ["write", "sq-greeting-look", "close"]


def test_a_routing_kind_is_known_to_these_files() -> None:
    """Wherever one kind of a flow's graph is told from another."""
    kinds = re.compile(
        r"from gitswarm\.specs\.flow import (?:\([^)]*|[^\n]*)\b(?:Microloop|Branch|Fork|Join|Terminal)\b"
    )
    using = {path for path in PRODUCT.rglob("*.py") if kinds.search(path.read_text(encoding="utf-8"))}
    told = row("a routing kind")
    assert [
        str(path.relative_to(PRODUCT)) for path in sorted(using) if f"{path.parent.name}/{path.name}" not in told
    ] == []
