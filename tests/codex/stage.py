"""Steps of Codex at the engine's own border: the real CLI, a scripted provider, a worktree of their own."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.engines.adapter import EngineSetup, Prices
from gitswarm.engines.base import EngineAccess, SessionTerms, StepRequest
from gitswarm.engines.codex import ADAPTER
from gitswarm.records.envelope import Handoff
from gitswarm.records.execution import Execution
from gitswarm.records.json_schema import json_schema
from gitswarm.specs.compile import Prompt
from gitswarm.testing.orders import MARK, SECRET, SeenStep, allow, living, watch
from tests.loopback.api import Model
from tests.loopback.responses import ApiRequest
from tests.loopback.server import Loopback

FETCHED = Path(sys.prefix) / "codex" / "node_modules" / ".bin" / "codex"
"""See tests/fetch_codex.sh."""
KEY = "sk-proj-planted-0123456789abcdefghij"
DIRECT = "gpt-5.5"
"""A model that calls its tools one by one; the others do it from a script of theirs."""
SCRIPTING = "gpt-6-sol"
SCHEMA: Mapping[str, Any] = json_schema(Handoff)


class Stage(Struct, frozen=True):
    loopback: Loopback
    folder: Path

    @property
    def worktree(self) -> Path:
        return self.folder / "worktree"

    @property
    def env(self) -> dict[str, str]:
        return {
            "HOME": str(self.folder / "home"),
            "PATH": os.environ["PATH"],
            "LC_ALL": "C.UTF-8",
            "TMPDIR": str(self.folder / "tmp"),
            "ACME_TOKEN": SECRET,
            "OPENAI_API_KEY": KEY,
        }

    @property
    def asked(self) -> Sequence[ApiRequest]:
        return [each for each in self.loopback.of(self.folder.name) if isinstance(each, ApiRequest)]

    def run(
        self,
        provider: Model,
        *,
        model: str = DIRECT,
        settings: Mapping[str, Any] | None = None,
        ends_after: float | None = None,
        prices: Prices = lambda _model: None,
        **more: Any,
    ) -> SeenStep:
        """A step. However it ends, no process and no file of a session is left of it.

        :param more: of the request.
        """
        for name in ("worktree", "home", "tmp", "scratch"):
            (self.folder / name).mkdir(exist_ok=True)
        url = f"{self.loopback.play(self.folder.name, provider)}/v1"
        mark = secrets.token_hex(8)
        env = {**self.env, "OPENAI_BASE_URL": url, MARK: mark}
        setup = EngineSetup(
            "openai", now, {"attempts": 1, **(settings or {})}, EngineAccess({}, str(FETCHED)), prices
        )
        request = StepRequest(
            execution=Execution("run-20260101-000000-000000", "one", "work", 1, "maker"),
            executed=0,
            mode="cli",
            worktree=self.worktree,
            run_base=self.worktree / "base",
            prompt=Prompt("You are an implementer.", "Do the work."),
            outputs=(),
            env=env,
            scratch=self.folder / "scratch",
            model=model,
            **{
                "decide": allow,
                "terms": SessionTerms(output_schema=SCHEMA),
                "scrub": lambda text: text.replace(SECRET, "***"),
                **more,
            },
        )
        engine = replace(ADAPTER.open("cli", setup), retry_wait_s=0.05)
        seen = watch(engine, request, ends_after)
        assert living(mark) == []
        assert list((self.folder / "scratch").iterdir()) == []
        return seen


def now() -> datetime:
    return datetime.now(UTC)
