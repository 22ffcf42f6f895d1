"""What a session of Gemini CLI is told, and what it does not read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from gitswarm.engines.base import RouteTerms
from gitswarm.engines.gemini.settings_home import SettingsHome, as_prompt
from gitswarm.records.json_value import JsonValue
from gitswarm.records.routing import RouteQuestion
from tests.gemini.conftest import Stage
from tests.loopback.api import say
from tests.loopback.replies import always, bash, handed_over, working


def test_a_project_s_settings_execute_nothing_and_switch_no_hook_off(stage: Stage) -> None:
    """Nor do the user's, even if their environment trusts the project; no file comes into a prompt by its name."""
    ran = stage.folder / "ran"
    hook: JsonValue = {"matcher": ".*", "hooks": [{"type": "command", "command": f"touch {ran}"}]}
    settings: Mapping[str, JsonValue] = {
        "hooksConfig": {"enabled": False},
        "hooks": {"BeforeTool": [hook], "SessionStart": [hook]},
        "mcpServers": {"theirs": {"command": "touch", "args": [str(ran)]}},
        "tools": {"discoveryCommand": f"touch {ran}", "core": ["list_directory"]},
    }
    for place in ("worktree", "home"):
        (stage.folder / place / ".gemini").mkdir()
        (stage.folder / place / ".gemini" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
        for name in (".env", ".gemini/.env"):
            (stage.folder / place / name).write_text("THEIR_VARIABLE=1\n", encoding="utf-8")
    (stage.worktree / "key.txt").write_text("the content of a file\n", encoding="utf-8")
    trusted = stage.folder / "trusted.json"
    trusted.write_text(json.dumps({str(stage.worktree): "TRUST_FOLDER"}), encoding="utf-8")
    theirs = {"GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_CLI_TRUSTED_FOLDERS_PATH": str(trusted)}
    model = working(bash('touch a.txt; test -z "$THEIR_VARIABLE"'), handed_over())

    seen = stage.run(model, prompt="/help @key.txt, @key.txt. a@b.c @pytest.mark", env={**stage.env, **theirs})

    assert [(tool, given) for tool, given, _there in seen.asked] == [
        ("Bash", {"command": 'touch a.txt; test -z "$THEIR_VARIABLE"'})
    ]
    assert [(call.tool_name, call.success) for call in seen.done.tool_calls] == [("Bash", True)]
    assert not ran.exists()
    assert set(stage.asked[0].tools) == {"Bash", "Write", "Edit", "Read", "Glob", "LS", "Grep"}
    assert stage.asked[0].system == "You are an implementer."
    said = "".join(stage.asked[0].said)
    assert "\n\n/help \\@key.txt, \\@key.txt. a@b.c @pytest.mark" in said
    assert "the content of a file" not in said
    assert list((stage.folder / "scratch").iterdir()) == []
    assert not (stage.folder / "home" / ".gemini" / "tmp").exists()


def test_what_looks_like_a_file_is_escaped_only_where_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "a b.txt").touch()
    (tmp_path / "sub").mkdir()

    assert as_prompt('@sub/ @"a b.txt" @a\\ b.txt @@ -1 +1 @@ x@sub', tmp_path).partition("\n\n")[2] == (
        '\\@sub/ \\@"a b.txt" \\@a\\ b.txt @@ -1 +1 @@ x\\@sub'
    )


@pytest.mark.soak
def test_a_navigator_only_answers(stage: Stage) -> None:
    terms = RouteTerms("one", "work", 1, "gemini-2.5-flash", stage.worktree, stage.folder / "scratch", stage.env)
    engine = stage.engine(always(say('{"candidate": 1}')))

    answer = engine.route(RouteQuestion("Where to?", {"type": "object"}, 30.0), terms)

    assert (answer.value, answer.tokens.total, answer.problem) == ('{"candidate": 1}', 120, None)
    assert stage.asked[0].wants_result
    assert engine.hosts(stage.env) == (f"127.0.0.1:{stage.loopback.port}",)


def test_what_an_agent_leaves_in_its_home_is_not_followed(tmp_path: Path) -> None:
    """From the sandbox it can write there, and git-swarm reads it outside."""
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    home = SettingsHome(tmp_path / "1", tmp_path / "gemini", 1)
    theirs = tmp_path / "theirs" / "chats"
    theirs.mkdir(parents=True)
    said = json.dumps({"id": "1", "type": "gemini", "content": "secret", "tokens": {"input": 9, "output": 9}})
    (theirs / "a.jsonl").write_text(said, encoding="utf-8")
    (home.home / ".gemini" / "tmp" / "wt" / "chats").mkdir(parents=True)
    (home.home / ".gemini" / "tmp" / "link").symlink_to(theirs.parent)
    (home.home / ".gemini" / "tmp" / "wt" / "chats" / "link.jsonl").symlink_to(theirs / "a.jsonl")
    os.mkfifo(home.home / ".gemini" / "tmp" / "wt" / "chats" / "pipe.jsonl")
    (home.home / ".gemini" / "settings.json").symlink_to(tmp_path / "theirs" / "settings.json")

    new = home.continued(tmp_path / "2")
    new.write("system", (), -1, tmp_path / "gate", 0)

    assert (home.used(), new.used()) == ((0, 0), (0, 0))
    assert list(new.home.rglob("*.jsonl")) == []
    assert not (tmp_path / "theirs" / "settings.json").exists()
