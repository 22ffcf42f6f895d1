"""SECURITY.md names a test or a file of attacks for each of its claims, and stays short."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_every_claim_names_a_test_that_is_there() -> None:
    rows = [
        line for line in TEXT.splitlines() if line.startswith("| ") and not line.startswith(("| attack", "| mist"))
    ]
    assert len(rows) > 20
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", row.rsplit("|", 2)[1])
        linked = re.findall(r"\((tests/safety/attacks/[\w-]+\.yaml)\)", row.rsplit("|", 2)[1])
        assert named or linked, row
        assert all((ROOT / file).is_file() for file in linked), row
        for file, test in named:
            assert f"\ndef {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file} has no {test}"


def test_it_can_be_read_in_one_go() -> None:
    assert len(TEXT.splitlines()) <= 80
