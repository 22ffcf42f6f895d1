"""Holds one session in a process of its own, to be killed: `python -m tests.claude.owner STAGE MODE MOMENT`."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from gitswarm.records.safety import Allow, Verdict
from tests.claude.stage import Given, engine_of, quick, request_for


def main(folder: Path, mode: str, moment: str) -> None:
    """
    :param folder: of the stage, whose environment this process has.
    """

    def decide(_tool: str, _given: Given) -> Verdict:
        sys.stdout.write("deciding\n")
        sys.stdout.flush()
        if moment == "deciding":
            threading.Event().wait()
        return Allow()

    request = request_for(folder, dict(os.environ), mode=mode, decide=decide)
    engine_of(mode, quick(decision_s=3600)).run(request, lambda _event: None)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
