"""What agents may type and what not: two files of lines, each with what becomes of it."""

from __future__ import annotations

import json
from pathlib import Path
from time import process_time
from typing import Any

from gitswarm.records.safety import Allow, Deny
from gitswarm.safety.policy.decide import decide
from gitswarm.safety.policy.paths import Scope
from tests.tables import table

_FOLDER = Path(__file__).parent


def rows(name: str) -> list[Any]:
    """hostile.jsonl: `is` denied (`rule`), contained (`not`: what must not have happened in a sandbox), out_of_scope
    (`why`) or allowed; a `line` of the shell, or a `tool` with its `input`. projects.jsonl: project, line, and the
    rule where it is meant to be refused.
    """
    return [json.loads(line) for line in (_FOLDER / name).read_text(encoding="utf-8").splitlines()]


def verdict(row: dict[str, Any], scope: Scope) -> str:
    """`contained`, `allow`, `rewrite`, or the rule of a deny."""
    places = {"/home/dev": str(scope.home), "WORKTREE": str(scope.worktree), "HOME/": f"{scope.home}/"}
    given = json.dumps(row.get("input") or {"command": row["line"]})
    for name, place in places.items() if "tool" in row else [("/home/dev", str(scope.home))]:
        given = given.replace(name, place)
    said = decide(row.get("tool", "Bash"), json.loads(given), scope)
    if isinstance(said, Deny):
        return said.rule
    return "contained" if isinstance(said, Allow) and said.contained else type(said).__name__.lower()


@table("row", rows("hostile.jsonl"))
def test_a_line_is_denied_or_contained_as_its_label_says(row: dict[str, Any], writer: Scope, reader: Scope) -> None:
    said = verdict(row, reader if row.get("role") == "reader" else writer)
    match row["is"]:
        case "denied":
            assert said == row["rule"]
        case "contained":
            assert said == "contained"
        case "out_of_scope" | "allowed":
            assert said in ("allow", "contained")


@table("row", [row for row in rows("hostile.jsonl") if row.get("role") == "reader"])
def test_what_a_reader_may_not_a_writer_may(row: dict[str, Any], writer: Scope) -> None:
    assert verdict(row, writer) in ("allow", "contained")


def test_real_projects_are_hindered_where_it_is_meant_and_hardly_elsewhere(writer: Scope) -> None:
    lines = rows("projects.jsonl")
    said = {(line, verdict({"line": line}, writer)) for _, line, *_ in lines}
    refused = {each for each in said if each[1] not in ("allow", "contained")}
    meant = {(line, rule) for _, line, *rules in lines for rule in rules}

    assert len(lines) == 500
    assert len({project for project, *_ in lines}) == 20
    assert meant - refused == set()
    assert len(refused - meant) <= 0.005 * len(lines), refused - meant


def test_a_line_is_decided_in_two_milliseconds(writer: Scope) -> None:
    lines = [line for _, line, *_ in rows("projects.jsonl")]
    verdict({"line": "rm x"}, writer)
    begin = process_time()
    for line in lines:
        verdict({"line": line}, writer)

    assert (process_time() - begin) / len(lines) < 0.002
