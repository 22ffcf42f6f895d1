"""`resume` and `skip`: continue a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated

from gitswarm.cli.arguments import Argument, Option
from gitswarm.cli.console import err
from gitswarm.cli.exchange import take_over_here
from gitswarm.cli.executing import (
    AcceptOption,
    FeedbackOption,
    HubFlag,
    MaxCostOption,
    MaxTimeOption,
    MaxTokensOption,
    accept_of,
    continue_run,
    feedback_of,
    said_budget,
)
from gitswarm.cli.here import repository_here
from gitswarm.cli.opened import RunOption
from gitswarm.errors import NotFoundError
from gitswarm.git.remote import configured_hub, remote_of
from gitswarm.git.repository import Repository
from gitswarm.ledger.finding import find_run
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.lease import find_on_hub
from gitswarm.ledger.rescue import rescue_branch
from gitswarm.runner.human_steps import ResumeOptions
from gitswarm.runner.run_processes import refuse_agent

UntilOption = Annotated[str | None, Option(metavar="STEP", help="Stop after this step.")]
AllowOption = Annotated[
    list[str] | None,
    Option(
        "--allow", metavar="PATH[=WHY]", help="What was found in this file is not a secret, for the rest of this run."
    ),
]
JsonLines = Annotated[bool, Option("--json", help="Events as JSON lines on stdout.")]


def resume(
    run: Annotated[str | None, Argument(help="The run; else the one of this worktree, or the newest.")] = None,
    message: Annotated[str, Option("-m", "--message", help="Your answer; the next step gets it.")] = "",
    adopt: Annotated[bool, Option("--adopt", help="Commit your edits in the worktree as a step of the run.")] = False,
    approve: Annotated[bool, Option("--approve", help="Execute what the navigator proposed, then continue.")] = False,
    accept: AcceptOption = None,
    allow: AllowOption = None,
    feedback: FeedbackOption = None,
    max_cost: MaxCostOption = None,
    max_tokens: MaxTokensOption = None,
    max_time: MaxTimeOption = None,
    until: UntilOption = None,
    hub: HubFlag = False,
    as_json: JsonLines = False,
) -> None:
    """Continue a run from its tip, whatever ended it."""
    repository = repository_here()
    budget = said_budget(max_cost, max_tokens, max_time)
    decisions = {"adopt": adopt, "approve": approve, "accept": accept, "allow": allow, "max-cost": max_cost}
    for name, value in (*decisions.items(), ("max-tokens", max_tokens), ("max-time", max_time)):
        if value:
            refuse_agent(os.environ, f"resume --{name}", repository.common_dir)
    layout = _find_shared(repository, run) if hub else _find(repository, run)
    options = ResumeOptions(
        message,
        adopt=adopt,
        approve=approve,
        accept=accept_of(accept),
        allow=_allowed(allow or ()),
        feedback=feedback_of(feedback),
        budget=budget,
    )
    leased = take_over_here(repository, layout) if hub else None
    try:
        continue_run(repository, layout, options, until=until, as_json=as_json, leased=leased)
    finally:
        if leased is not None:
            leased.let_go()


def skip(
    step: Annotated[str, Argument(metavar="STEP", help="The step that is next.")],
    run: RunOption = None,
    message: Annotated[str, Option("-m", "--message", help="Why it is not needed.")] = "",
    until: UntilOption = None,
    as_json: JsonLines = False,
) -> None:
    """Skip the next step, and continue after it."""
    repository = repository_here()
    refuse_agent(os.environ, "skip", repository.common_dir)
    layout = find_run(repository, run)
    continue_run(repository, layout, ResumeOptions(message, skip=step), until=until, as_json=as_json)


def _allowed(given: Sequence[str]) -> dict[str, str]:
    """Path → why, which may be left out."""
    pairs = (each.partition("=") for each in given)
    return {path.strip(): why.strip() for path, _equals, why in pairs if path.strip()}


def _find_shared(repository: Repository, run: str | None) -> RunLayout:
    """On the hub; one that was never pushed here."""
    remote = remote_of(repository, configured_hub(repository), os.environ)
    try:
        return find_on_hub(repository, remote, run)
    except NotFoundError:
        return _find(repository, run)


def _find(repository: Repository, run: str | None) -> RunLayout:
    """A run by name; one whose branch somebody deleted or renamed gets it back first."""
    if run is not None:
        rescued = rescue_branch(repository, run)
        if rescued is not None:
            err(f"{rescued.branch.removeprefix('refs/heads/')} was gone: restored from the run's notes")
            return rescued
    return find_run(repository, run)
