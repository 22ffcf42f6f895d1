"""What every engine has to keep to, in each of its modes: a class of tests to derive from."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from msgspec.structs import fields

from gitswarm.engines.adapter import EngineAdapter, EngineSetup
from gitswarm.engines.base import Capabilities, Engine, SessionTerms, StepEndedError, StepRequest
from gitswarm.engines.names import STUB
from gitswarm.records.envelope import Envelope, Handoff
from gitswarm.records.event import EventKind, transcript_line
from gitswarm.records.execution import Execution, Result, Status
from gitswarm.records.json_schema import json_schema
from gitswarm.records.json_value import JsonValue
from gitswarm.records.receipt import Receipt
from gitswarm.records.safety import Allow, Deny, Rewrite, Verdict
from gitswarm.specs.compile import Prompt
from gitswarm.testing.orders import (
    MARK,
    SECRET,
    VERIFIED,
    EngineFixture,
    Fault,
    Given,
    Orders,
    Product,
    SeenStep,
    allow,
    living,
    watch,
)

BOUND_S = 60.0
"""No step of these takes longer on a busy machine."""
_FAILED = {"dies": ("killed", "api_error"), "noise": ("killed", "no_envelope", "api_error")}
_PROJECT = {
    ".swarm/flows/one.yaml": "id: one\nsteps: [{id: work, station: maker}]\n",
    ".swarm/flows/stations/maker.yaml": (
        "id: maker\ntitle: Maker\ncategory: implementation\nidentity: You make.\ninvariants: [It works.]\n"
    ),
}
"""A flow whose station promises no files."""
_LINE = 'echo ran > c.txt; echo "found $ACME_TOKEN"; exit 3'
_ORDINARY = Orders(
    {"a.txt": "one\n", "sub/b.txt": "zwei ✓\n"}, [_LINE], says=f"the token is {SECRET}", used=(1200, 300, 0.25)
)


class EngineContract:
    """Derive from it, say which engine in which mode, and how that is brought to follow orders:

        class TestNimble(EngineContract):
            adapter = ADAPTER
            mode = "cli"

            def stage(self, orders: Orders, folder: Path) -> EngineFixture: ...

    `lacks`: names of tests and of faults, each with the reason why this engine cannot pass it: with that it is
    skipped.
    """

    adapter: ClassVar[EngineAdapter]
    mode: ClassVar[str]
    lacks: ClassVar[Mapping[str, str]] = {}
    _seen: ClassVar[SeenStep]

    def stage(self, orders: Orders, folder: Path) -> EngineFixture:
        """
        :param folder: of this test; what is written into it is there while the engine works.
        """
        raise NotImplementedError

    # --- how an engine is reached

    @pytest.fixture(autouse=True)
    def _what_it_cannot(self, request: pytest.FixtureRequest) -> None:
        fault = request.node.callspec.params["fault"] if hasattr(request.node, "callspec") else ""
        reason = self.lacks.get(request.node.originalname) or self.lacks.get(fault)
        if reason is not None:
            pytest.skip(reason)

    @pytest.fixture
    def place(self, tmp_path: Path) -> Path:
        for name in ("worktree/base", "scratch", "home", "staged"):
            (tmp_path / name).mkdir(parents=True)
        return tmp_path

    def environment(self, place: Path) -> dict[str, str]:
        """The environment of processes; variables of what is staged replace these."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        home = str(place / "home")
        return {"HOME": home, "PATH": path, "LC_ALL": "C.UTF-8", "TMPDIR": str(place), "ACME_TOKEN": SECRET}

    def opened(self, staged: EngineFixture, env: Mapping[str, str]) -> Engine:
        if self.mode == STUB:
            return self.adapter.stub(staged.script, _now)
        section = self.adapter.configuration.from_plain({"mode": self.mode, **staged.section})
        choice = self.adapter.choose(section, self.mode, None, env)
        access = self.adapter.access(section, env)
        setup = EngineSetup(choice.provider, _now, self.adapter.frozen(section), access)
        return self.adapter.open(self.mode, setup)

    def perform(self, orders: Orders, place: Path, **more: Any) -> SeenStep:
        """A step by these orders. However it ends, no process is left of it.

        :param more: of the request; `ends_after` as in `watch`.
        """
        staged = self.stage(orders, place / "staged")
        mark = secrets.token_hex(8)
        env = {**self.environment(place), **staged.env, MARK: mark}
        ends_after = more.pop("ends_after", None)
        request = StepRequest(
            execution=Execution("run-20260101-000000-000000", "one", "work", 1, "maker"),
            executed=0,
            mode=self.mode,
            model=staged.model or self.adapter.stub_model,
            worktree=place / "worktree",
            run_base=place / "worktree" / "base",
            prompt=Prompt("You are an implementer.", "Do the work."),
            outputs=(),
            env=env,
            scratch=place / "scratch",
            **{
                "decide": allow,
                "terms": SessionTerms(output_schema=json_schema(Handoff)),
                "scrub": lambda text: text.replace(SECRET, "***"),
                **more,
            },
        )
        seen = watch(self.opened(staged, env), request, ends_after)
        assert seen.took_s < BOUND_S
        assert living(mark) == []
        return seen

    def ordinary(self, place: Path) -> SeenStep:
        """A step with calls, words and costs: once for all tests of a class that look at it."""
        cls = type(self)
        seen: SeenStep | None = vars(cls).get("_seen")
        if seen is None:
            seen = self.perform(_ORDINARY, place)
            assert str(place) not in repr(seen.done.transcript) + repr(seen.done.tool_calls)
            cls._seen = seen
        return seen

    # --- the border: one step

    def test_it_says_who_it_is(self, place: Path) -> None:
        engine = self.opened(self.stage(Orders(), place / "staged"), self.environment(place))

        assert (engine.engine_id, engine.mode) == (self.adapter.engine_id, self.mode)
        assert self.adapter.engine_id == f"{self.adapter.short_name}-step"
        if self.mode != STUB:
            assert engine.capabilities == self.adapter.modes[self.mode]
        assert [each.name for each in fields(engine.capabilities)] == [each.name for each in fields(Capabilities)]

    def test_files_are_written_and_calls_recorded(self, place: Path) -> None:
        seen = self.ordinary(place)

        assert seen.files == {"a.txt": "one\n", "sub/b.txt": "zwei ✓\n", "c.txt": "ran\n"}
        done = seen.done
        assert (done.step_id, done.status, done.error) == ("work", Result.SUCCEEDED, None)
        assert done.outcome is not None
        assert done.outcome.kind == "ok"
        assert done.handoff is not None
        assert (done.handoff.status, done.handoff.summary) == (Status.VERIFIED, VERIFIED["summary"])
        calls = [(call.tool_name, call.success, call.blocked) for call in done.tool_calls]
        assert calls == [("Write", True, False), ("Write", True, False), ("Bash", False, False)]

    def test_events_come_in_order_while_it_works(self, place: Path) -> None:
        seen = self.ordinary(place)

        kinds = [event.kind for event in seen.events if event.kind in (EventKind.TOOL_START, EventKind.TOOL_END)]
        assert kinds == [EventKind.TOOL_START, EventKind.TOOL_END] * 3
        started, ended = seen.events_of(EventKind.TOOL_START), seen.events_of(EventKind.TOOL_END)
        assert [each["tool"] for each in started] == [each["tool"] for each in ended] == ["Write", "Write", "Bash"]
        roles = [getattr(line, "role", getattr(line, "type", "")) for line in seen.done.transcript]
        assert roles[:2] == ["system", "user"]
        assert [each for each in roles if each.startswith("tool")] == ["tool_use", "tool_result"] * 3

    def test_the_policy_is_asked_before_each_call(self, place: Path) -> None:
        seen = self.ordinary(place)

        assert [(tool, "a.txt" in there, "c.txt" in there) for tool, _given, there in seen.asked] == [
            ("Write", False, False),
            ("Write", True, False),
            ("Bash", True, False),
        ]
        assert seen.asked[2][1]["command"] == _LINE

    def test_what_is_denied_is_not_carried_out(self, place: Path) -> None:
        def no_shell(tool: str, _given: Given) -> Verdict:
            return Deny("test-rule", "not in this test", "do something else") if tool == "Bash" else Allow()

        seen = self.perform(Orders({"a.txt": "one"}, ["touch b.txt"]), place, decide=no_shell)

        assert set(seen.files) == {"a.txt"}
        call = seen.done.tool_calls[1]
        assert (call.blocked, call.success) == (True, False)
        assert "test-rule" in (call.blocked_reason or "")
        assert seen.events_of(EventKind.TOOL_END)[1]["blocked"] is True

    def test_what_is_rewritten_is_carried_out_so(self, place: Path) -> None:
        def other_line(tool: str, given: Given) -> Verdict:
            return Rewrite({**given, "command": "touch safe.txt"}, "test-rule") if tool == "Bash" else Allow()

        seen = self.perform(Orders(runs=["touch b.txt"]), place, decide=other_line)

        assert set(seen.files) == {"safe.txt"}
        (call,) = seen.done.tool_calls
        assert call.input["command"] == "touch b.txt"
        assert (call.executed_input or {})["command"] == "touch safe.txt"

    @pytest.mark.parametrize("fault", ["dies", "noise"])
    def test_an_agent_that_breaks_hands_nothing_over(self, place: Path, fault: Fault) -> None:
        done = self.perform(Orders({"a.txt": "one"}, fault=fault), place).done

        assert done.handoff is None
        assert done.outcome is not None
        assert done.outcome.kind in _FAILED[fault]
        assert done.error or done.handoff_problem
        assert done.tool_calls[0].tool_name == "Write"

    @pytest.mark.parametrize("fault", ["silent", "nonsense"])
    def test_without_a_usable_handoff_it_says_why(self, place: Path, fault: Fault) -> None:
        done = self.perform(Orders({"a.txt": "one"}, fault=fault), place).done

        assert (done.status, done.handoff) == (Result.SUCCEEDED, None)
        assert done.handoff_problem
        assert done.outcome is not None
        assert done.outcome.kind == "no_envelope"

    def test_it_ends_when_its_time_is_over(self, place: Path) -> None:
        seen = self.perform(Orders(fault="hangs"), place, deadline=time.monotonic() + 1.5)

        assert seen.done.handoff is None
        assert seen.took_s < BOUND_S / 2
        assert seen.done.error or seen.done.handoff_problem

    def test_it_ends_when_nobody_waits_any_more(self, place: Path) -> None:
        seen = self.perform(Orders(fault="hangs"), place, ends_after=0.7)

        assert seen.result is None
        assert isinstance(seen.raised, StepEndedError)
        assert seen.took_s < BOUND_S / 2

    def test_what_it_used_is_told_and_returned(self, place: Path) -> None:
        seen = self.ordinary(place)

        last = seen.events_of(EventKind.USAGE)[-1]
        assert last["tokens"] == seen.done.tokens.to_plain()
        assert seen.done.tokens.total > 0
        assert seen.done.cost_usd is None or seen.done.cost_usd > 0

    def test_no_event_tells_a_secret(self, place: Path) -> None:
        seen = self.ordinary(place)

        assert SECRET not in repr(seen.events)
        assert SECRET not in repr([call.output for call in seen.done.tool_calls])

    # --- the product: a run

    def product(self, orders: Orders, place: Path) -> tuple[Product, tuple[str, ...]]:
        """A repository in which this engine is configured, and the options with which a run of it is started."""
        staged = self.stage(orders, place / "staged")
        root = place / "repository"
        root.mkdir()
        env = {
            **self.environment(place),
            "GIT_CONFIG_NOSYSTEM": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            **staged.env,
        }
        made = Product(root, env)
        made.git("init", "-q", "-b", "main")
        for name, value in (("user.name", "A"), ("user.email", "a@example.com"), ("swarm.policy.sandbox", "off")):
            made.git("config", name, value)
        section: dict[str, JsonValue] = {"mode": self.mode, **staged.section}
        written = {"engines": {"default": self.adapter.short_name, self.adapter.short_name: section}}
        (root / ".swarm" / "flows" / "stations").mkdir(parents=True)
        for name, text in {**_PROJECT, ".swarm/config.yaml": yaml.safe_dump(written)}.items():
            (root / name).write_text(text, encoding="utf-8")
        made.git("add", "-A")
        made.git("commit", "-qm", "a project")
        return made, self.script_options(staged, place)

    def script_options(self, staged: EngineFixture, place: Path) -> tuple[str, ...]:
        if staged.script is None:
            return ()
        path = place / "staged" / "script.yaml"
        path.write_text(yaml.safe_dump(staged.script.to_plain()), encoding="utf-8")
        return "--script", str(path)

    def test_a_run_of_it_is_what_the_contracts_say(self, place: Path) -> None:
        orders = Orders({"a.txt": "one\n"}, [f"echo {SECRET}"], says=f"with {SECRET}", used=(1200, 300, 0.25))
        made, options = self.product(orders, place)

        events = [json.loads(line) for line in made.swarm("start", "one", "-m", "x", *options, "--json").splitlines()]

        kinds = [event["kind"] for event in events]
        assert kinds[0] == "run_created"
        assert kinds[-1] == "run_completed"
        assert (
            kinds.index("step_start") < kinds.index("tool_start") < kinds.index("tool_end") < kinds.index("step_end")
        )
        (step,) = made.json("log")
        run = events[0]["run_id"]
        named = (step["engine"], step["mode"], step["result"], step["status"])
        assert named == (self.adapter.engine_id, self.mode, "succeeded", "VERIFIED")
        base = f"shadow/{run}:.swarm/runs/{run}/one"
        receipt = Receipt.from_json(made.git("show", f"{base}/receipts/work-maker.json"))
        assert (receipt.engine, receipt.mode) == (self.adapter.engine_id, self.mode)
        assert receipt.provider in self.adapter.providers
        assert receipt.tokens.total > 0
        envelope = Envelope.from_json(made.git("show", f"{base}/handoff/work.json"))
        assert (envelope.run_id, envelope.summary) == (run, VERIFIED["summary"])
        lines = made.git("show", f"{base}/{receipt.transcript_path}").splitlines()
        assert [transcript_line(line) for line in lines]
        assert made.git("show", f"shadow/{run}:a.txt") == "one\n"
        assert SECRET not in made.objects()
        made.swarm("verify")

    def test_a_run_that_was_killed_is_continued(self, place: Path) -> None:
        made, options = self.product(Orders({"a.txt": "one\n"}, fault="hangs"), place)
        process = made.begin("start", "one", "-m", "x", *options)
        with contextlib.closing(process.stdout), contextlib.closing(process.stderr):  # type: ignore[type-var]
            limit = time.monotonic() + BOUND_S
            while not any(place.glob("repository.swarm/*/a.txt")) and time.monotonic() < limit:
                assert process.poll() is None, process.stderr.read() if process.stderr else ""
                time.sleep(0.02)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        run = made.git("for-each-ref", "--format=%(refname:lstrip=3)", "refs/heads/shadow/").strip()
        made = Product(made.root, {**made.env, **self.restaged(Orders({"a.txt": "one\n"}), place)})

        made.swarm("resume")

        (step,) = made.json("log")
        assert (step["result"], step["status"], step["engine"]) == ("succeeded", "VERIFIED", self.adapter.engine_id)
        assert made.git("show", f"shadow/{run}:a.txt") == "one\n"
        assert re.fullmatch(r"run-\d{8}-\d{6}-[0-9a-f]{6}", run)

    def restaged(self, orders: Orders, place: Path) -> Mapping[str, str]:
        """Environment by which the rest of a run follows other orders."""
        return self.stage(orders, place / "staged").env


def _now() -> datetime:
    return datetime.now(UTC)
