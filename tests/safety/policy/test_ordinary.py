"""What agents have to type to do their work is allowed."""

from __future__ import annotations

from gitswarm.records.policy import Allow
from gitswarm.safety.policy.decide import decide
from gitswarm.safety.policy.scope import Scope
from tests.safety.policy.ordinary import ORDINARY
from tests.tables import table


@table("command", ORDINARY)
def test_an_ordinary_command_is_allowed(command: str, writer: Scope) -> None:
    assert decide("Bash", {"command": command}, writer) == Allow()
