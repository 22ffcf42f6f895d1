"""Templates of the page, and the page of a run as one file: it fetches nothing and executes nothing, and what agents
wrote is text."""

from __future__ import annotations

import base64
import hashlib
import shlex
from pathlib import Path
from typing import get_args

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gitswarm.cli.console import duration, money
from gitswarm.cli.reports.gather import report_of
from gitswarm.cli.reports.page import page_of
from gitswarm.cli.runs import Opened, age, mark, state_word, step_outcome, task_title, tests_cell, tests_word
from gitswarm.cli.status import open_question
from gitswarm.records.execution import RunStatus
from gitswarm.records.run_spec import LandStrategy
from gitswarm.web.cut_diff import file_diffs, git_diff
from gitswarm.web.run_list import visible
from gitswarm.web.run_page import run_graph, run_page, step_detail

_HERE = Path(__file__).parent


def templates() -> Environment:
    found = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
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


def frozen_page(opened: Opened) -> str:
    """With the report's sections, the evidence of each step, and what the run changed."""
    style = (_HERE / "static" / "page.css").read_text(encoding="utf-8")
    page, state = run_page(opened, None), opened.state
    return (
        templates()
        .get_template("run.html")
        .render(
            frozen=True,
            style=Markup(style),  # our own file  # noqa: S704
            style_sum=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
            page=page,
            graphs=[(flow, run_graph(opened, flow, (), None)) for flow in page.flows],
            report=page_of(report_of(opened)),
            details=[step_detail(opened, str(record.number), "evidence") for record in state.steps],
            detail=None,
            step=None,
            changed=file_diffs(opened.repository, state.base, state.tip),
            command=shlex.join(["git", *git_diff(state.base[:12], state.tip[:12])]),
        )
    )
