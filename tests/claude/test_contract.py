"""Both transports of Claude keep the contract that engines of others have to keep."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from gitswarm.engines.registry import adapter_of
from gitswarm.records.json_value import JsonValue
from gitswarm.testing import EngineContract, EngineFixture, Orders
from tests.claude.stage import KEY
from tests.loopback.api import ApiRequest, Model, Reply, Text, Use, say, use
from tests.loopback.server import Loopback


def following(orders: Orders) -> Model:
    """A model that does as it was ordered."""
    acts: list[Use] = [Use("Write", {"file_path": name, "content": text}) for name, text in orders.writes.items()]
    acts += [Use("Bash", {"command": line}) for line in orders.runs]
    used = orders.used or (100, 20, 0.0)

    cut = Reply((Text("what came cannot be read"),), cut=True)
    endings = {
        "hangs": Reply(hang_s=300),
        "noise": cut,
        "dies": Reply((Use("Bash", {"command": "kill -9 $PPID"}),)),
    }
    handoff: Mapping[str, JsonValue] = {"status": "SPLENDID"} if orders.fault == "nonsense" else orders.handoff
    nothing = {"silent": say("I have nothing to hand over."), "noise": cut}
    results = nothing.get(orders.fault or "") or use("StructuredOutput", **handoff)

    def answer(asked: ApiRequest) -> Reply:
        if asked.wants_result:
            return results
        if asked.turn < len(acts):
            return Reply((acts[asked.turn],), tokens_in=used[0], tokens_out=used[1])
        return endings.get(orders.fault or "") or say(orders.says or "done")

    return answer


class ClaudeContract(EngineContract):
    adapter = adapter_of("claude")

    @pytest.fixture(autouse=True)
    def _provider(self, loopback: Loopback) -> None:
        self.loopback = loopback

    def stage(self, orders: Orders, folder: Path) -> EngineFixture:
        scenario = f"c{zlib.crc32(str(folder).encode()):x}"
        url = self.loopback.play(scenario, following(orders))
        env = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": url, "CLAUDE_CODE_MAX_RETRIES": "0"}
        return EngineFixture(env, {"attempts": 1})


class TestCli(ClaudeContract):
    mode = "cli"


@pytest.mark.soak
class TestSdk(ClaudeContract):
    """What differs between the transports is compared whole in test_parity.py."""

    mode = "sdk"
