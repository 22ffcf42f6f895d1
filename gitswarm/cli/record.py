"""`record-event`: an outside program tells a run something."""

from __future__ import annotations

import os
import time
from typing import Annotated

import typer

from gitswarm.cli.here import repository_here
from gitswarm.ledger.inbox import Inbox, InboxEvent
from gitswarm.ledger.reading import find_run


def record_event(
    message: Annotated[str, typer.Argument(help="What happened.")],
    source: Annotated[str, typer.Option(help="Who says so.")] = "user",
    run: Annotated[str | None, typer.Option("--run", metavar="RUN", help="The run; else as for `log`.")] = None,
) -> None:
    """Put an event into a run's history: it becomes part of the next step that is committed."""
    repository = repository_here()
    inbox = Inbox(repository.swarm_dir, find_run(repository, run).run_id)
    inbox.put(InboxEvent(source=source, message=message), f"{time.time_ns():020d}-{os.getpid()}")
