"""Which program is asked, and what is said where there is none. No session, so no program has to be fetched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gitswarm.engines.adapter import EngineSetup, Program
from gitswarm.engines.base import EngineAccess
from gitswarm.engines.codex import ADAPTER
from gitswarm.engines.codex.engine import strict_schema
from tests.codex.stage import SCHEMA, now

KEYED = {"OPENAI_API_KEY": "sk-x"}


def found(cli: Path | None, env: Mapping[str, str]) -> Program:
    setup = EngineSetup("openai", now, {}, EngineAccess({}, str(cli) if cli else None))
    return ADAPTER.find("cli", setup, {"PATH": "/usr/bin:/bin", **env})


def program(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("says", "env", "told"),
    [
        ("codex-cli 0.169.3", KEYED, ""),
        ("codex-cli 1.0.0-alpha.2", KEYED, ""),
        ("codex-cli 0.98.0", KEYED, "codex 0.98.0 is too old: 0.169.0 is needed: npm install -g @openai/codex"),
        ("hello", KEYED, "{} does not say which version of codex it is: npm install -g @openai/codex"),
        ("codex-cli 0.169.3", {}, "codex has no OPENAI_API_KEY: export OPENAI_API_KEY=…"),
    ],
)
def test_what_is_wrong_with_a_program_is_said(tmp_path: Path, says: str, env: dict[str, str], told: str) -> None:
    path = program(tmp_path / "codex", says)
    assert found(path, env).message == told.format(path)


def test_where_there_is_none_it_is_said_how_to_get_one(tmp_path: Path) -> None:
    assert (
        found(None, KEYED | {"PATH": str(tmp_path)}).message == "codex is not installed: npm install -g @openai/codex"
    )
    assert found(tmp_path / "x", KEYED).problem == f"there is no program at {tmp_path / 'x'}"


@pytest.mark.parametrize("at", ["@openai/codex/node_modules", "."])
def test_the_script_of_npm_stands_for_the_binary_beside_it(tmp_path: Path, at: str) -> None:
    script = program(tmp_path / "lib/@openai/codex/bin/codex.js", "not me")
    binary = program(tmp_path / "lib" / at / "@openai/codex-linux-x64/vendor/any/bin/codex", "codex-cli 0.169.0")
    link = tmp_path / "codex"
    link.symlink_to(script)

    assert found(link, KEYED).path == binary.resolve()


def objects(schema: Any) -> list[dict[str, Any]]:
    below = [each for value in schema.values() for each in (value if isinstance(value, list) else [value])]
    inner = [each for value in below if isinstance(value, dict) for each in objects(value)]
    return [schema, *inner] if schema.get("type") == "object" else inner


def test_the_schema_of_the_handoff_is_one_that_the_api_takes() -> None:
    strict = strict_schema(SCHEMA)

    assert len(objects(strict)) == len(objects(SCHEMA))
    for each in objects(strict):
        assert each["required"] == list(each["properties"])
        assert each["additionalProperties"] is False
    assert "default" not in repr(strict)
    assert strict["properties"]["status"] == {"$ref": "#/$defs/Status"}
