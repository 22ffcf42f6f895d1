"""The page of a run as one file: it fetches nothing and executes nothing, and what agents wrote is text."""

from __future__ import annotations

import base64
import hashlib
import shlex
from pathlib import Path

from markupsafe import Markup

from gitswarm.cli.opened import Opened
from gitswarm.cli.reports.gather import report_of
from gitswarm.cli.reports.page import page_of
from gitswarm.web.cut_diff import file_diffs, git_diff
from gitswarm.web.run_page import run_graph, run_page, step_detail
from gitswarm.web.templating import templates


def frozen_page(opened: Opened) -> str:
    """With the report's sections, the evidence of each step, and what the run changed."""
    style = (Path(__file__).parent / "static" / "page.css").read_text(encoding="utf-8")
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
