"""The templates of the page."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from gitswarm.cli.console import duration, money
from gitswarm.cli.opened import step_outcome
from gitswarm.cli.run_words import age, mark, state_word, task_title, tests_cell, tests_word
from gitswarm.cli.status import open_question
from gitswarm.records.outcome import RunStatus
from gitswarm.records.run_spec import LandStrategy
from gitswarm.web.run_list import visible


def templates() -> Environment:
    found = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,  # whatever an agent wrote is text
        finalize=visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    words = (age, duration, mark, money, open_question, state_word, step_outcome, task_title, tests_cell, tests_word)
    found.globals.update({each.__name__: each for each in (*words, RunStatus)})
    found.globals.update(strategies=get_args(LandStrategy), frozen=False)
    return found
