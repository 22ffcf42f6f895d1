"""What counts as a handoff in a text."""

from __future__ import annotations

import json
import time

import pytest

from gitswarm.engines.handoff import read_last_message

SAID = json.dumps({"status": "VERIFIED", "summary": "half \udc00"})


@pytest.mark.parametrize(
    ("text", "before"),
    [
        (SAID, ""),
        (f"\n {SAID}\n", ""),
        (f"All done.\n\n```json\n{SAID}\n```\n", "All done."),
        (f"```\n{SAID}\n```", ""),
        (f"The fix:\n```python\nx = 1\n```\n\n```json\n{SAID}\n```", "The fix:\n```python\nx = 1\n```"),
    ],
)
def test_an_object_alone_or_in_a_block_at_the_end_is_one(text: str, before: str) -> None:
    last = read_last_message(text)

    assert last.handoff is not None
    assert (last.handoff.status.value, last.handoff.summary, last.text) == ("VERIFIED", "half \ufffd", before)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it is empty"),
        (f"Here it is: {SAID}", "it is not one JSON object alone"),
        (f"```json\n{SAID}\n```\nThat is all.", "it is not one JSON object alone"),
        (f"{SAID}\n{SAID}", "it is not one JSON object alone"),
        ("[" * 100_000, "it is not one JSON object alone"),
        ("[1]", "it has no status"),
        ('{"summary": "did it"}', "it has no status"),
        ('{"status": "VERIFIED", "concerns": [1]}', "it is not valid: concerns.0: expected a text: '1'"),
    ],
)
def test_anything_else_is_none_and_says_why(text: str, problem: str) -> None:
    last = read_last_message(text)

    assert (last.handoff, last.problem, last.text) == (None, problem, text)


def test_a_message_of_nothing_but_fences_is_read_in_a_second() -> None:
    started = time.process_time()
    assert read_last_message("```\n" * 100_000 + "x").handoff is None
    assert time.process_time() - started < 1
