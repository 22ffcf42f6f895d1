"""The real Gemini CLI, a scripted provider that it asks, and a stage for its steps."""

from __future__ import annotations

import secrets
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from gitswarm.engines.adapter import EngineSetup
from gitswarm.engines.base import Engine, SessionTerms, StepRequest
from gitswarm.engines.registry import adapter_of
from gitswarm.records.execution import Execution
from gitswarm.specs.compile import Prompt
from gitswarm.testing.orders import MARK, SeenStep, allow, living, watch
from tests.claude.stage import SCHEMA
from tests.loopback.api import ApiRequest, Model
from tests.loopback.server import Loopback, serving

FETCHED = Path(sys.prefix) / "gemini" / "node_modules" / ".bin" / "gemini"
KEY = "AIzaSyPlanted0123456789abcdefghijklmnop"
PRICES = {"gemini-2.5-flash": (1.0, 10.0), "gemini-3-flash": (2.0, 20.0)}
BOUND_S = 60.0
"""No step in these tests takes longer on a busy machine."""
SAMPLE = (
    "test_it_says_who_it_is",
    "test_it_ends_when_nobody_waits_any_more",
    "test_a_run_of_it_is_what_the_contracts_say",
)
"""Of the contract: what is no soak. A process of Gemini CLI takes a second of the processor."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ours = [item for item in items if Path(__file__).parent in item.path.parents]
    for item in ours:
        if not FETCHED.exists() or shutil.which("node") is None:
            folder = FETCHED.parents[2]
            item.add_marker(pytest.mark.skip(f"there is no {FETCHED}: make {folder}/.fetched (needs node and npm)"))
        if item.path.name == "test_contract.py" and item.name.partition("[")[0] not in SAMPLE:
            item.add_marker(pytest.mark.soak)


@pytest.fixture(scope="module")
def loopback() -> Iterator[Loopback]:
    with serving() as running:
        yield running


def access(url: str) -> Mapping[str, str]:
    """Environment by which sessions reach the scripted provider."""
    return {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": url}


class Stage(Struct, frozen=True):
    """Where a step is executed: `folder` has its worktree, home and folders for temporary files."""

    loopback: Loopback
    folder: Path
    scenario: str
    ended: threading.Event

    @property
    def worktree(self) -> Path:
        return self.folder / "worktree"

    @property
    def env(self) -> dict[str, str]:
        """Whole, of the sessions."""
        return {
            "HOME": str(self.folder / "home"),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "TMPDIR": str(self.folder / "tmp"),
            "LC_ALL": "C.UTF-8",
            MARK: self.scenario,
        }

    @property
    def asked(self) -> list[ApiRequest]:
        """What the provider was asked."""
        return self.loopback.of(self.scenario)

    def engine(self, model: Model, **section: object) -> Engine:
        adapter = adapter_of("gemini")
        written = {"mode": "cli", "cli": str(FETCHED), "attempts": 1, **section}
        configured = adapter.configuration.from_plain(written)
        env = {**self.env, **access(self.loopback.play(self.scenario, model))}
        setup = EngineSetup("gemini", _now, adapter.frozen(configured), adapter.access(configured, env), PRICES.get)
        return adapter.open("cli", setup)

    def run(self, model: Model, /, *, prompt: str = "Do the work.", **more: Any) -> SeenStep:
        """However it ends, it does so in bounded time, and no process is left of it.

        :param more: of the request; `section`: of the configuration; `ends_after` as in `watch`.
        """
        engine, ends_after = self.engine(model, **more.pop("section", {})), more.pop("ends_after", None)
        request = StepRequest(
            execution=Execution("run-20260101-000000-000000", "one", "work", 1, "maker"),
            executed=0,
            mode="cli",
            worktree=self.worktree,
            run_base=self.worktree / "base",
            prompt=Prompt("You are an implementer.", prompt),
            outputs=(),
            scratch=self.folder / "scratch",
            ended=self.ended,
            **{
                "model": "gemini-2.5-flash",
                "env": self.env,
                "decide": allow,
                "terms": SessionTerms(output_schema=SCHEMA),
                **more,
            },
        )
        seen = watch(engine, request, ends_after)
        assert seen.took_s < BOUND_S
        assert living(self.scenario) == []
        return seen


def _now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def stage(loopback: Loopback, tmp_path: Path) -> Stage:
    for name in ("worktree/base", "scratch", "home", "tmp"):
        (tmp_path / name).mkdir(parents=True)
    return Stage(loopback, tmp_path, secrets.token_hex(4), threading.Event())
