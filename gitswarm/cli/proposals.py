"""`wisdom apply|dismiss`: what a person does with a proposal."""

from __future__ import annotations

import os
from typing import Annotated

from msgspec import Struct

from gitswarm.cli.arguments import Option
from gitswarm.cli.console import out
from gitswarm.cli.invocation import config_at, now, repository_here
from gitswarm.cli.lessons import ProposalArgument
from gitswarm.errors import SwarmError, UsageError
from gitswarm.git.repository import Repository
from gitswarm.ledger.scent_trail import Offer, WisdomStore, find_offer, read_wisdom
from gitswarm.records.guidance import Settled
from gitswarm.records.record import timestamp
from gitswarm.runner.operations.learning import apply_proposal
from gitswarm.runner.run_processes import refuse_agent
from gitswarm.safety.redact.redactor import Redactor


class _Opened(Struct, frozen=True):
    repository: Repository
    store: WisdomStore
    offer: Offer


def apply(
    proposal: ProposalArgument,
    branch: Annotated[
        str | None, Option(metavar="NAME", help="The branch to commit on; else a new branch wisdom/ID from HEAD.")
    ] = None,
) -> None:
    """Commit a proposal in your name on a branch; your checkout stays as it is."""
    opened = _open(proposal, "apply", "git show {0}")
    offer = opened.offer
    done = apply_proposal(opened.repository, os.environ, offer, branch)
    outcome = Settled(
        proposal=offer.proposal.id, state="applied", date=timestamp(now()), commit=done.commit, branch=done.branch
    )
    opened.store.settle(offer.run.run_id, outcome)
    out(f"{offer.id} is applied on {done.branch} as {done.commit[:12]}")
    out(f"look       git show {done.commit[:12]}")
    out(f"merge      git merge {done.branch}")


def dismiss(
    proposal: ProposalArgument,
    message: Annotated[str, Option("-m", "--message", help="Why it is not wanted; kept with it.")] = "",
) -> None:
    """Dismiss a proposal; -m says why."""
    if not message.strip():
        raise UsageError("say why", hint=f"git swarm wisdom dismiss {proposal} -m 'WHY'")
    opened = _open(proposal, "dismiss", "git revert {0}   (on a branch that has it)")
    offer = opened.offer
    outcome = Settled(proposal=offer.proposal.id, state="dismissed", date=timestamp(now()), why=message.strip())
    opened.store.settle(offer.run.run_id, outcome)
    out(f"{offer.id} is dismissed")


def _open(proposal: str, command: str, hint: str) -> _Opened:
    """
    :param hint: about the commit of a proposal that was applied.
    :raises SwarmError: it was.
    """
    repository = repository_here()
    offer = find_offer(read_wisdom(repository), proposal)
    refuse_agent(os.environ, f"wisdom {command}", repository.common_dir)
    if offer.settled is not None and offer.settled.state == "applied":
        commit = (offer.settled.commit or "")[:12]
        what = f"{offer.id} was applied on {offer.settled.branch} as {commit}"
        raise SwarmError(what, hint=hint.format(commit))
    tree = repository.objects.commit(repository.resolve("HEAD")).tree
    redactor = Redactor(config_at(repository, tree).secrets, os.environ)
    return _Opened(repository, WisdomStore(repository, now, redactor), offer)
