"""What a commit's trailers say is what its receipt and its envelope say."""

from __future__ import annotations

from collections.abc import Iterator

from gitswarm.ledger.layout import AGENT_DOMAIN, KERNEL
from gitswarm.ledger.message import Kind
from gitswarm.ledger.verify.finding import Mismatch
from gitswarm.ledger.verify.link import Link
from gitswarm.ledger.verify.schemas import Papers
from gitswarm.records.envelope import Envelope
from gitswarm.records.evidence import concerns_trailer
from gitswarm.records.money import written
from gitswarm.records.outcome import Result
from gitswarm.records.receipt import Receipt


def check_trailers(link: Link, papers: Papers) -> Iterator[Mismatch]:
    """The message against the papers, and the author against the message."""
    yield from _differing(link, None, {"Swarm-Run": link.layout.run_id})
    yield from _author(link)
    if link.kind is not Kind.STEP or link.execution is None:
        if papers.spec is not None:
            yield from _spec(link, papers)
        return
    subject = f"{link.execution.flow}/{link.execution.step}: "
    if not link.message.subject.startswith(subject.rstrip()):
        yield link.finding("trailers", f"the subject does not begin with '{subject}'")
    if papers.receipt is not None:
        yield from _differing(link, link.execution.receipt, _of_receipt(papers.receipt))
        yield from _place(link, papers.receipt)
    if papers.evidence is not None:
        said, told = link.said.get("Swarm-Concerns", ""), concerns_trailer(papers.evidence)
        if said != told:
            yield link.finding(
                "trailers", f"Swarm-Concerns says {said}, the file says {told}", link.execution.evidence
            )
    if papers.envelope is not None:
        yield from _differing(link, link.execution.envelope, _of_envelope(papers.envelope))
        if _plain(papers.envelope.summary) != _plain(link.message.body):
            yield link.finding("trailers", "the message is not the summary of the envelope", link.execution.envelope)


def _of_receipt(receipt: Receipt) -> dict[str, str]:
    failed, skipped = receipt.status == "failed", receipt.skipped
    return {
        "Swarm-Run": receipt.run_id,
        "Swarm-Flow": receipt.flow_key,
        "Swarm-Step": receipt.step_id,
        "Swarm-Iteration": str(receipt.iteration),
        "Swarm-Agent": receipt.agent_key,
        "Swarm-Engine": f"{receipt.engine}/{receipt.mode}",
        "Swarm-Model": receipt.model,
        "Swarm-Result": Result.FAILED if failed else Result.SKIPPED if skipped else Result.SUCCEEDED,
        "Swarm-Tokens": str(receipt.tokens.total),
        "Swarm-Cost-USD": written(receipt.cost_usd),
    }


def _of_envelope(envelope: Envelope) -> dict[str, str]:
    return {
        "Swarm-Run": envelope.run_id,
        "Swarm-Flow": envelope.flow_key,
        "Swarm-Step": envelope.step_id,
        "Swarm-Iteration": str(envelope.iteration),
        "Swarm-Agent": envelope.agent_key,
        "Swarm-Status": envelope.status,
    }


def _differing(link: Link, path: str | None, expected: dict[str, str]) -> Iterator[Mismatch]:
    """Trailers that say something else than `path` does; a trailer is on one line whatever its value was."""
    for name, value in expected.items():
        said = link.said.get(name, "nothing")
        if said != " ".join(value.split()):
            where = "the file" if path else "the run"
            yield link.finding("trailers", f"{name} says {said}, {where} says {value}", path)


def _place(link: Link, receipt: Receipt) -> Iterator[Mismatch]:
    """The receipt names the commit that the step started from, and its transcript."""
    # One that a person skipped did not start beside the others.
    start = link.said.get("Swarm-Fork") if link.beside or link.replays else link.parent
    if link.execution is None:
        return
    if receipt.commit_before != start:
        message = f"commit_before is {receipt.commit_before}, the step started from {start}"
        yield link.finding("trailers", message, link.execution.receipt)
    if receipt.transcript_path != link.execution.transcript_in_flow(receipt.engine):
        yield link.finding("trailers", f"transcript_path is {receipt.transcript_path}", link.execution.receipt)


def _spec(link: Link, papers: Papers) -> Iterator[Mismatch]:
    spec, path = papers.spec, link.layout.spec
    if spec is None:
        return
    if spec.run_id != link.layout.run_id:
        yield link.finding("trailers", f"run_id is {spec.run_id}", path)
    if "Swarm-Forked-From" not in link.said and spec.base != link.parent:
        yield link.finding("trailers", f"base is {spec.base}, the run branches off {link.parent}", path)
    missing = [flow for flow in spec.flows if flow not in (papers.flows or {})]
    if missing:
        yield link.finding("schemas", f"no frozen flow {', '.join(missing)}", link.layout.specs)


def _author(link: Link) -> Iterator[Mismatch]:
    agent = link.execution.agent if link.execution else KERNEL
    author = link.commit.author
    if (author.name, author.email) != (agent, f"{agent}@{AGENT_DOMAIN}"):
        yield link.finding("chain", f"the author is {author.name} <{author.email}>, not {agent}")


def _plain(text: str) -> str:
    """As a commit message can hold it."""
    return text.strip().replace("\0", "").encode(errors="replace").decode()
