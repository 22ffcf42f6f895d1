"""Paths that no agent changes without a person's word."""

from __future__ import annotations

from gitswarm.evidence.path_roles import protected_paths


def test_what_a_person_s_own_agents_read_is_protected_whichever_engine_the_run_asks() -> None:
    settings = (".claude/settings.json", ".codex/config.toml", ".gemini/settings.json", ".mcp.json")
    assert protected_paths((*settings, "src/.codex/x"), ()) == settings
