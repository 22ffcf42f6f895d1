"""The real Codex keeps the contract of engines."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from gitswarm.engines.registry import adapter_of
from gitswarm.testing import EngineContract, EngineFixture, Orders
from tests.claude.test_contract import following
from tests.codex.stage import DIRECT, FETCHED, KEY
from tests.loopback.api import ApiRequest, Reply
from tests.loopback.replies import failing
from tests.loopback.server import Loopback


class TestCodex(EngineContract):
    adapter = adapter_of("codex")
    mode = "cli"

    @pytest.fixture(autouse=True)
    def _provider(self, loopback: Loopback) -> None:
        self.loopback = loopback

    def stage(self, orders: Orders, folder: Path) -> EngineFixture:
        model = following(orders)

        def answer(asked: ApiRequest) -> Reply:
            # A shell of codex is not its child: it cannot be killed from there.
            dies = orders.fault == "dies" and asked.turn == len(orders.writes)
            return failing(400) if dies else model(asked)

        scenario = f"c{zlib.crc32(str(folder).encode()):x}"
        env = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{self.loopback.play(scenario, answer)}/v1"}
        return EngineFixture(env, {"attempts": 1, "cli": str(FETCHED)}, model=DIRECT)
