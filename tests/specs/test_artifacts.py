"""Names of artifacts: which of them lie in RUN_BASE, and which are code."""

from __future__ import annotations

from gitswarm.specs.station import CodePattern, RunArtifact, parse_artifact
from tests.tables import table


@table(
    ("name", "flow", "meant"),
    [
        ("notes.md", "build", RunArtifact("build/notes.md")),
        ("build_receipt.json", "gate", RunArtifact("gate/build_receipt.json")),
        ("plan/adr.md", "build", RunArtifact("plan/adr.md")),
        ("build/evidence/run_tests.json", "build", RunArtifact("build/evidence/run_tests.json")),
        ("hello/notes.md", "hello", RunArtifact("hello/notes.md")),
        ("hello/notes.md", "build", CodePattern("hello/notes.md")),
        ("src/**", "build", CodePattern("src/**")),
        ("build/**", "build", CodePattern("build/**")),
        ("*.py", "build", CodePattern("*.py")),
        ("test_?.py", "build", CodePattern("test_?.py")),
        ("docs/x.md", "build", CodePattern("docs/x.md")),
        ("./README.md", "build", CodePattern("README.md")),
        ("./plan/adr.md", "build", CodePattern("plan/adr.md")),
    ],
)
def test_a_name_is_an_artifact_of_the_run_or_code(name: str, flow: str, meant: RunArtifact | CodePattern) -> None:
    assert parse_artifact(name, flow) == meant
