"""What is denied, and by which rule."""

from __future__ import annotations

from gitswarm.records.policy import Deny
from gitswarm.safety.policy.decide import decide
from gitswarm.safety.policy.scope import Scope
from tests.safety.policy.hostile import HOSTILE, READ_ONLY
from tests.tables import table


@table(("rule", "command"), [(rule, each) for rule, many in HOSTILE.items() for each in many])
def test_a_hostile_command_is_denied_by_its_rule(rule: str, command: str, writer: Scope) -> None:
    verdict = decide("Bash", {"command": command.replace("/home/dev", str(writer.home))}, writer)

    assert isinstance(verdict, Deny)
    assert verdict.rule == rule


@table("command", READ_ONLY)
def test_a_station_that_reads_code_does_not_change_it(command: str, reader: Scope) -> None:
    verdict = decide("Bash", {"command": command}, reader)

    assert isinstance(verdict, Deny)
    assert verdict.rule == "read-only"


@table("command", READ_ONLY)
def test_a_station_that_writes_code_may_change_it(command: str, writer: Scope) -> None:
    assert not isinstance(decide("Bash", {"command": command}, writer), Deny)
