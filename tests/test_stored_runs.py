"""Runs that an earlier version stored are read, verified and resumed as that version did it; what people see of them
(`graph`, `--routing`, the summary) is as today's version words it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.corpus.ask import Corpus, answers, resumed

FOLDER = Path(__file__).parent / "corpus"
FORMAT_1: dict[str, Any] = json.loads(gzip.decompress((FOLDER / "format-1.json.gz").read_bytes()))


BLOCKED = "run-20261122-045756-8e0625"
"""It pauses, and the next command tells where the answer goes."""

TAKEN_BACK = "run-20261122-045822-594965"
"""A run with a step that was taken back. Its $0.02 are in the totals of later versions, and not in the answers."""


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return _unpacked(tmp_path_factory.mktemp("stored") / "format-1")


def _unpacked(folder: Path) -> Corpus:
    return Corpus.unpacked((FOLDER / "format-1.tar.gz").read_bytes(), folder)


def test_the_stored_runs_are_those_that_answers_are_known_of(stored: Corpus) -> None:
    assert stored.runs() == sorted(FORMAT_1)


@pytest.mark.parametrize("run", sorted(FORMAT_1))
def test_a_stored_run_reads_and_verifies_as_it_did(stored: Corpus, run: str) -> None:
    expected = {name: said for name, said in FORMAT_1[run].items() if name != "resumed"}
    if run == TAKEN_BACK:
        expected["status"] = expected["status"].replace('"cost_usd": 0.01,', '"cost_usd": 0.03,')
    if run == BLOCKED:
        expected["status"] = expected["status"].replace(f'resume {run}"', f"resume {run} -m 'ANSWER'\"")
    found = answers(stored, run)
    status = json.loads(found["status"])
    for name in (
        "task",
        "tests",
        "steps_executed",
        "rehearsal",
        "conflict",
        "starting",
        "replay_of",
    ):  # what later versions say beside it
        del status[name]
    assert (status.pop("question") is None, status.pop("open_concerns")) == (status["state"] != "paused", [])
    assert (status.pop("sandbox"), status.pop("budget")) == (None, None)
    assert {**found, "status": json.dumps(status, indent=2, ensure_ascii=False) + "\n"} == expected


@pytest.mark.parametrize("run", sorted(FORMAT_1))
def test_a_stored_run_is_resumed_to_the_same_end(tmp_path: Path, run: str) -> None:
    expected = FORMAT_1[run]["resumed"]
    assert resumed(_unpacked(tmp_path / "copy"), run) == expected
