"""A transcript for reading: what is folded, and that nothing of it steers the terminal."""

from __future__ import annotations

from typing import Any, cast

import pytest

from gitswarm.cli.transcript import _folded, folded_lines, placed
from gitswarm.records.text import columns


def at(seconds: float, **said: Any) -> dict[str, Any]:
    return {"timestamp": f"2026-01-01T00:00:{seconds:06.3f}Z", **said}


def used(tool: str, **given: Any) -> dict[str, Any]:
    return at(1.2, type="tool_use", tool=tool, input=given)


def returned(output: str, *, success: bool = True) -> dict[str, Any]:
    return at(2, type="tool_result", tool="Bash", success=success, output=output)


def folded(*lines: dict[str, Any]) -> list[str]:
    return list(folded_lines([at(0, role="assistant", content="begin"), *lines], "WHOLE", "PROMPT"))[1:]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (used("Edit", file_path="src/x.py", old_string="a\nb\n", new_string="a\nc\nd\ne\n"), "Edit src/x.py (+3 -1)"),
        (used("Write", file_path="$WORKTREE/a.txt", content="1\n2\n"), "Write a.txt (+2 -0)"),
        (used("Write", file_path="a.txt"), "Write a.txt"),
        (
            used("MultiEdit", file_path="a", edits=[{"old_string": "x", "new_string": "y"}] * 2),
            "MultiEdit a (+2 -2)",
        ),
        (used("Bash", command="make test\nmake lint", description="d"), "Bash make test …"),
        (used("Grep", pattern="def f", path="src"), "Grep src"),
        (used("Task", subagent_type="x", description="look"), "Task look"),
        (used("Other", first=[1], second="b"), "Other [1]"),
        (used("None"), "None"),
        ({**used("Read", file_path="a"), "agent": "Explore"}, "Read (Explore) a"),
        (at(1.2, type="retry", attempt=2, of=3, wait_s=4.0, reason="529"), "retry 2 of 3 in 4 s: 529"),
    ],
)
def test_a_line(line: dict[str, Any], told: str) -> None:
    assert folded(line) == [f"+1.2s   {told}"]


def test_an_output_has_five_lines_at_most() -> None:
    lines = [f"line {number}" for number in range(1, 21)]
    assert folded(returned("\n".join(lines))) == [
        *(f"          {text}" for text in ("line 1", "line 2", "… 16 more lines", "line 19", "line 20")),
        "        whole: WHOLE",
    ]
    assert folded(returned("\n".join(lines[:5]))) == [f"          {line}" for line in lines[:5]]


def test_a_failed_call_is_marked() -> None:
    assert folded(returned("no", success=False)) == ["        ✗ no"]
    assert folded(returned("", success=False)) == ["        ✗ no output"]
    assert folded(returned("")) == []


def test_the_prompt_is_one_line() -> None:
    said = [
        at(0, role="system", content="a\nb"),
        at(0, role="user", content="c"),
        at(0.5, role="assistant", content="d"),
    ]
    assert list(folded_lines(said, "WHOLE", "PROMPT")) == ["+0ms    prompt, 3 lines: PROMPT", "+500ms  d"]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_nothing_is_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    long = "word " * 100
    lines = folded(
        at(1, role="assistant", content=f"{long}\n  {long}"),
        used("Bash", command=long),
        returned(f"{'x' * 500}\n    {'字' * 300}\n\ttab"),
    )
    assert max(map(columns, lines)) <= width
    assert lines[-1] == "        whole: WHOLE"


def test_what_is_no_transcript_is_shown_all_the_same() -> None:
    odd: list[dict[str, Any]] = [
        {"timestamp": None, "type": "tool_use"},
        {"type": "tool_result", "output": None},
        {"role": "assistant"},
    ]
    assert next(folded_lines(odd, "WHOLE", "PROMPT")).strip() == "None"
    assert list(folded_lines([], "WHOLE", "PROMPT")) == []


def test_a_step_of_which_there_is_only_a_prompt_is_named() -> None:
    prompt = [placed(at(0, role=role, content="a\nb"), "build", "implement", 2) for role in ("system", "user")]
    assert list(_folded(cast("Any", None), prompt)) == ["── build/implement@2", "+0ms    prompt, 4 lines"]
