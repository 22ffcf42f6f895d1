"""The message of a landed commit: the task, what was changed and why, and where it came from."""

from __future__ import annotations

import textwrap

from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.landed import TRAILER
from gitswarm.ledger.message import CommitMessage
from gitswarm.ledger.state import RunState
from gitswarm.ledger.work import telling_steps
from gitswarm.records.text import shorten

_WIDTH = 72
_MOST_CHARS = 2_000
"""Of one summary: a commit message is no report."""


def landed_message(state: RunState, text: str, approved: str) -> str:
    """
    :param text: what `landed_text` says, or a person.
    :param approved: the commit of the run that an approval is about.
    """
    run = state.layout.run_id
    return CommitMessage("", text, {"Swarm-Run": run, TRAILER: f"{run} {approved}"}).render()


def landed_text(repository: RepositoryReader, state: RunState, task: str) -> str:
    """Subject and body: what those say who made the change."""
    records = telling_steps(repository, state)
    last = records[-1] if records else state.last_step
    subject = shorten(task, _WIDTH) or (shorten(f"{last.flow}: {last.summary}", _WIDTH) if last else "land a run")
    told = dict.fromkeys(_paragraphs(record.summary) for record in records)
    return "\n\n".join((subject, *(text for text in told if text and not subject.endswith(text))))


def _paragraphs(summary: str) -> str:
    """Wrapped as git's own messages are; lists stay lists."""
    paragraphs = summary.replace("\r", "").strip()[:_MOST_CHARS].split("\n\n")
    return "\n\n".join("\n".join(_wrapped(each)) for each in paragraphs if each.strip())


def _wrapped(paragraph: str) -> list[str]:
    lines: list[str] = []
    text: list[str] = []
    for line in [*paragraph.splitlines(), None]:
        is_item = line is not None and line.lstrip().startswith(("- ", "* "))
        if line is None or is_item:
            lines += textwrap.wrap(" ".join(text), _WIDTH, break_long_words=False, break_on_hyphens=False)
            text = []
        if line is not None and is_item:
            lines += textwrap.wrap(line.strip(), _WIDTH, subsequent_indent="  ", break_long_words=False)
        elif line is not None:
            text.append(line.strip())
    return lines
