"""The published contract, kept by the stubs and by the engine of the example, which is installed from outside."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from gitswarm.engines.adapter import EngineAdapter
from gitswarm.engines.registry import adapter_of, distribution_of
from gitswarm.specs.script import Script
from gitswarm.testing import EngineContract, EngineFixture, Orders
from tests.engines.errand import EXAMPLE, with_errand

pytestmark = pytest.mark.processes


def script_of(orders: Orders, folder: Path) -> Script:
    """What a stub plays. An entry hangs before it does anything: after a file comes a line that takes long."""
    entry: dict[str, Any] = {"write": dict(orders.writes), "run": [*orders.runs], "output": orders.says or None}
    if orders.used is not None:
        entry |= {
            "tokens": dict(zip(("prompt", "completion"), orders.used, strict=False)),
            "cost_usd": orders.used[2],
        }
    match orders.fault:
        case "dies" | "noise":
            entry["fail"] = "model overloaded"
        case "nonsense":
            entry["envelope"] = {"status": "SPLENDID"}
        case "hangs" if orders.writes:
            entry["run"] = [f"until test -e {folder}/go; do sleep 0.02; done"]
        case "hangs":
            entry["hang"] = True
        case _:
            entry["envelope"] = dict(orders.handoff)
    return Script.from_plain({"steps": {"one/work": {name: said for name, said in entry.items() if said}}})


class StubContract(EngineContract):
    mode = "stub"
    lacks: ClassVar[Mapping[str, str]] = {"silent": "a script always hands something over"}

    def stage(self, orders: Orders, folder: Path) -> EngineFixture:
        return EngineFixture(script=script_of(orders, folder))

    def restaged(self, orders: Orders, place: Path) -> Mapping[str, str]:
        """The script is the run's: it hangs until this file is there."""
        (place / "staged" / "go").touch()
        return super().restaged(orders, place)


class TestStubOfClaude(StubContract):
    adapter = adapter_of("claude")


class TestStubOfGemini(StubContract):
    adapter = adapter_of("gemini")


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with with_errand(tmp_path_factory.mktemp("installed")) as folder:
        yield folder


class TestErrand(EngineContract):
    mode = "cli"

    @pytest.fixture(autouse=True)
    def _program(self, installed: Path) -> None:
        self.program = installed / "bin" / "errand"

    @property
    def adapter(self) -> EngineAdapter:  # type: ignore[override]
        return adapter_of("errand")

    def stage(self, orders: Orders, folder: Path) -> EngineFixture:
        lines: list[dict[str, Any]] = [
            {"write": {"file_path": name, "content": content}} for name, content in orders.writes.items()
        ]
        lines += [{"run": line} for line in orders.runs]
        lines += [{"say": orders.says}] if orders.says else []
        if orders.used is not None:
            lines.append({"used": dict(zip(("prompt", "completion", "cost_usd"), orders.used, strict=True))})
        endings: dict[str | None, list[dict[str, Any]]] = {
            "dies": [{"exit": 3}],
            "noise": [{"noise": "Segmentation fault {"}, {"exit": 1}],
            "silent": [],
            "nonsense": [{"hand_over": {"status": "SPLENDID"}}],
            "hangs": [{"sleep": 300}],
            None: [{"hand_over": dict(orders.handoff)}],
        }
        lines += endings[orders.fault]
        path = folder / "orders"
        path.write_text("".join(f"errand: {json.dumps(line)}\n" for line in lines), encoding="utf-8")
        return EngineFixture({"ERRAND_ORDERS": str(path)}, {"cli": str(self.program)})


def test_the_example_is_found_where_it_was_installed(installed: Path) -> None:
    adapter = adapter_of("errand")

    assert sys.modules[type(adapter).__module__].__file__ == str(installed / "errand_engine.py")
    assert distribution_of("errand") == "git-swarm-errand 0.1"
    assert len((EXAMPLE / "errand_engine.py").read_text("utf-8").splitlines()) < 180
