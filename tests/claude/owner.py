"""Holds one session in a process of its own, to be killed: `python -m tests.claude.owner ROOM MODE MOMENT`."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from gitswarm.records.policy import Allow, Verdict
from tests.claude.sessions import Given, Room
from tests.loopback.server import Loopback


def main(folder: Path, mode: str, moment: str) -> None:
    room = Room.of(folder, Loopback(0))
    room.env["ANTHROPIC_BASE_URL"] = os.environ["URL"]

    def decide(_tool: str, _given: Given) -> Verdict:
        sys.stdout.write("deciding\n")
        sys.stdout.flush()
        if moment == "deciding":
            threading.Event().wait()
        return Allow()

    room.run(room.engine(mode, decision_s=3600), room.request(decide))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
