"""`report`: the page that a reviewer reads first."""

from __future__ import annotations

from typing import Annotated

from msgspec import to_builtins

from gitswarm.cli.arguments import Option
from gitswarm.cli.console import out_json, out_verbatim
from gitswarm.cli.opened import RunArgument, open_run
from gitswarm.cli.reports.gather import report_of
from gitswarm.cli.reports.markdown import markdown_of
from gitswarm.cli.reports.page import page_of
from gitswarm.errors import UsageError
from gitswarm.web.installed import need

FORMATS = ("md", "html", "json")


def report(
    run: RunArgument = None,
    shape: Annotated[
        str,
        Option(
            "--format",
            metavar="FORMAT",
            help="md fits a pull request, html is one file (extra web), json for programs.",
        ),
    ] = "md",
) -> None:
    """A run on one page, for its reviewer: what is proven, where to look, what it cost."""
    if shape not in FORMATS:
        raise UsageError(f"--format {shape}: {', '.join(FORMATS)}", hint="git swarm report --format md")
    if shape == "html":
        need("--format html", "jinja2")
    opened = open_run(run)
    if shape == "json":
        out_json(to_builtins(report_of(opened)))
    elif shape == "html":
        from gitswarm.web.frozen import frozen_page  # noqa: PLC0415 - of the extra

        out_verbatim(frozen_page(opened).rstrip("\n"))
    else:
        out_verbatim(markdown_of(page_of(report_of(opened))).rstrip("\n"))
