"""What `engines` sees of Claude's login: from variables and files alone, without a request, and without a secret."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from gitswarm.engines.adapter import EngineSetup
from gitswarm.engines.claude import ADAPTER
from tests.cli.test_engines import program, with_program
from tests.conftest import Project
from tests.tables import table

NOW = datetime(2026, 11, 23, tzinfo=UTC)
SECRET = "planted-0123456789abcdef"  # noqa: S105 - of these tests
HOUR_MS = 3_600_000
MOMENT_MS = int(NOW.timestamp()) * 1000
HELPER = {".claude/settings.json": {"apiKeyHelper": f"echo {SECRET}"}}
NONE = "" if sys.platform == "darwin" else "no login found: export ANTHROPIC_API_KEY=…, or log in with `claude`"
EXPIRED = "the login in HOME/.claude, which expired at 2026-11-22T23:00:00.000Z"


def login(expires_ms: object, **more: str) -> Mapping[str, object]:
    return {".claude/.credentials.json": {"claudeAiOauth": {"accessToken": SECRET, "expiresAt": expires_ms, **more}}}


@table(
    ("env", "files", "settings", "told"),
    [
        ({"ANTHROPIC_API_KEY": SECRET}, login(0), {}, "ANTHROPIC_API_KEY"),
        ({"ANTHROPIC_API_KEY": SECRET, "ANTHROPIC_AUTH_TOKEN": SECRET}, {}, {}, "ANTHROPIC_AUTH_TOKEN"),
        ({"CLAUDE_CODE_OAUTH_TOKEN": SECRET}, login(0), {}, "CLAUDE_CODE_OAUTH_TOKEN"),
        ({"CLAUDE_CODE_USE_BEDROCK": "1", "ANTHROPIC_API_KEY": SECRET}, {}, {}, "CLAUDE_CODE_USE_BEDROCK"),
        ({}, login(MOMENT_MS + HOUR_MS), {}, "the login in HOME/.claude, valid until 2026-11-23T01:00:00.000Z"),
        (
            {},
            login(MOMENT_MS - HOUR_MS, refreshToken=SECRET),
            {},
            f"{EXPIRED}: start `claude` once, which renews it",
        ),
        (
            {},
            login(MOMENT_MS - HOUR_MS),
            {},
            f"{EXPIRED}: log in with `claude`",
        ),
        ({}, login("soon"), {}, "the login in HOME/.claude"),
        ({}, login(1e300), {}, "the login in HOME/.claude"),
        ({}, HELPER, {"setting_sources": ["user"]}, "apiKeyHelper in HOME/.claude/settings.json"),
        (
            {},
            HELPER,
            {},
            "no login found: apiKeyHelper in HOME/.claude/settings.json needs engines.claude.setting_sources: [user]",
        ),
        (
            {},
            {".claude.json": {"primaryApiKey": SECRET}},
            {},
            "the key in HOME/.claude.json",
        ),
        ({}, {".claude/.credentials.json": [1]}, {}, NONE),
    ],
)
def test_what_is_seen_of_a_login(
    tmp_path: Path, env: Mapping[str, str], files: Mapping[str, object], settings: Mapping[str, list[str]], told: str
) -> None:
    home = Path(tempfile.mkdtemp(dir=tmp_path))
    for name, content in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content), encoding="utf-8")
    setup = EngineSetup("anthropic", lambda: NOW, dict(settings))  # type: ignore[arg-type]
    assert ADAPTER.login(setup, {"HOME": str(home), **env}) == told.replace("HOME", str(home))


def test_the_table_tells_the_login_and_no_secret(project: Project, tmp_path: Path) -> None:
    here = with_program(project, program(tmp_path, "9.9.9"))
    folder = Path(here.env["HOME"]) / ".claude"
    folder.mkdir(parents=True)
    (folder / ".credentials.json").write_text(
        json.dumps({"claudeAiOauth": {"accessToken": SECRET}}), encoding="utf-8"
    )

    told = here.swarm("engines", "-v").stdout + here.swarm("engines", "--json").stdout

    words = "".join(told.split())  # long paths are broken
    assert words.count(f"claude9.9.9,{tmp_path}/claude;theloginin{folder}") == 2
    assert words.count(f'"login":"theloginin{folder}"') == 2
    assert SECRET not in told
