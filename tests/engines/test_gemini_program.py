"""Whether there is a Gemini CLI that can be used, seen without starting it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gitswarm.engines.adapter import EngineSetup
from gitswarm.engines.base import EngineAccess
from gitswarm.engines.gemini import ADAPTER
from gitswarm.engines.gemini.gemini_cli import find_program


def installed(folder: Path, version: str, name: str = "@google/gemini-cli") -> Path:
    """As npm puts it there; node lies beside it."""
    package, bin_ = folder / "lib" / "node_modules" / name, folder / "bin"
    (package / "bundle").mkdir(parents=True)
    (package / "package.json").write_text(json.dumps({"name": name, "version": version}), encoding="utf-8")
    bin_.mkdir()
    for program in (package / "bundle" / "gemini.js", bin_ / "node"):
        program.touch(0o755)
    (bin_ / "gemini").symlink_to(package / "bundle" / "gemini.js")
    return bin_


def test_one_on_path_is_found_with_its_version(tmp_path: Path) -> None:
    folder = installed(tmp_path, "0.61.3")

    found = find_program(None, {"PATH": str(folder)})

    assert (found.path, found.version, found.problem) == (folder / "gemini", "0.61.3", None)


@pytest.mark.parametrize(
    ("version", "name", "problem"),
    [
        ("0.60.9", "@google/gemini-cli", "is gemini 0.60.9, and 0.61 or newer is needed"),
        ("9.0.0", "gemini", "is not Gemini CLI of npm"),
        ("none", "@google/gemini-cli", "is not Gemini CLI of npm"),
    ],
)
def test_another_program_or_an_old_one_is_a_problem(tmp_path: Path, version: str, name: str, problem: str) -> None:
    folder = installed(tmp_path, version, name)

    assert find_program(None, {"PATH": str(folder)}).problem == f"{folder / 'gemini'} {problem}"


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    folder = installed(tmp_path, "0.61.0")
    setup = EngineSetup("gemini", lambda: datetime.now(UTC), {}, EngineAccess())

    assert find_program(None, {"PATH": str(tmp_path)}).problem == "gemini is not installed"
    assert find_program("/nowhere/gemini", {}).problem == "there is no program at /nowhere/gemini"
    no_node = find_program(str(folder / "gemini"), {"PATH": str(tmp_path)})
    assert no_node.problem == "gemini needs node, which is not on PATH"
    no_key = ADAPTER.find("cli", setup, {"PATH": str(folder)})
    assert (no_key.problem, no_key.advice) == (
        "GEMINI_API_KEY is not set, and a login of Gemini CLI is not used",
        "export GEMINI_API_KEY=…",
    )
    assert ADAPTER.find("cli", setup, {"PATH": str(folder), "GEMINI_API_KEY": "k"}).problem is None
