"""Gemini CLI keeps the contract that engines of others have to keep."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from gitswarm.engines.registry import adapter_of
from gitswarm.records.json_value import JsonValue
from gitswarm.testing import EngineContract, EngineFixture, Orders
from tests.gemini.conftest import FETCHED, access
from tests.loopback.api import RESULT_TOOL, ApiRequest, Model, Reply, Text, Use, say, use
from tests.loopback.server import Loopback


def following(orders: Orders) -> Model:
    """A model that does as it was ordered, and hands over in its last message."""
    acts: list[Use] = [Use("Write", {"file_path": name, "content": text}) for name, text in orders.writes.items()]
    acts += [Use("Bash", {"command": line}) for line in orders.runs]
    used = orders.used or (100, 20, 0.0)
    cut = Reply((Text("what came cannot be read"),), cut=True)
    splendid: Mapping[str, JsonValue] = {"status": "SPLENDID"}
    endings = {
        "hangs": Reply(hang_s=300),
        "noise": cut,
        "dies": Reply((Use("Bash", {"command": "kill -9 $PPID"}),)),
        "silent": say("I have nothing to hand over."),
        "nonsense": use(RESULT_TOOL, **splendid),
        "": use(RESULT_TOOL, **orders.handoff),
    }

    def answer(asked: ApiRequest) -> Reply:
        if not asked.wants_result and asked.turn < len(acts):
            words = (Text(orders.says),) if orders.says and asked.turn == 0 else ()
            return Reply((*words, acts[asked.turn]), tokens_in=used[0], tokens_out=used[1])
        return endings[orders.fault or ""]

    return answer


class TestGemini(EngineContract):
    adapter = adapter_of("gemini")
    mode = "cli"

    @pytest.fixture(autouse=True)
    def _provider(self, loopback: Loopback) -> None:
        self.loopback = loopback

    def stage(self, orders: Orders, folder: Path) -> EngineFixture:
        url = self.loopback.play(f"c{zlib.crc32(str(folder).encode()):x}", following(orders))
        return EngineFixture(access(url), {"attempts": 1, "cli": str(FETCHED)})
