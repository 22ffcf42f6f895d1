"""`record-event`: an outside program tells a run something."""

from __future__ import annotations

import os
import time
from typing import Annotated

from gitswarm.cli.arguments import Argument, Option
from gitswarm.cli.here import repository_here
from gitswarm.ledger.finding import find_run
from gitswarm.ledger.inbox import Inbox, InboxEvent
from gitswarm.ledger.reading import run_spec
from gitswarm.ledger.state import replay
from gitswarm.safety.redact.redactor import Redactor


def record_event(
    message: Annotated[str, Argument(help="What happened.")],
    source: Annotated[str, Option(help="Who says so.")] = "user",
    run: Annotated[str | None, Option("--run", metavar="RUN", help="The run; else as for `log`.")] = None,
) -> None:
    """Put an event into a run's history: it becomes part of the next step that is committed."""
    repository = repository_here()
    layout = find_run(repository, run)
    rules = run_spec(repository, replay(repository, layout)).settings.secrets
    scrub = Redactor(rules, os.environ).scrub
    event = InboxEvent(source=scrub(source), message=scrub(message))
    Inbox(repository.swarm_dir, layout.run_id).put(event, f"{time.time_ns():020d}-{os.getpid()}")
