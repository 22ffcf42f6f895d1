"""One conversation of Gemini CLI: a process for each prompt, one after the other, in a home of their own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.containment import Containment
from gitswarm.engines.agent_process import AgentProcess, agent_process
from gitswarm.engines.gemini.listening import GeminiGate, Listener, ended
from gitswarm.engines.gemini.settings_home import SettingsHome, arguments, as_prompt
from gitswarm.engines.hook_server import open_door
from gitswarm.engines.recorder import Recorder
from gitswarm.records.budget import time_words
from gitswarm.records.receipt import EngineOutcome, Tokens
from gitswarm.records.safety import Decide

Price = Callable[[tuple[int, int]], float | None]
"""US dollars for tokens in and out; None: not known."""


class PromptLimits(Struct, frozen=True):
    """`deadline`: on the monotonic clock. `set_by`: the limit of the budget that it is, as people call it; "": none.
    `tokens`, `cost_usd`: of the whole conversation."""

    deadline: float
    set_by: str = ""
    tokens: int | None = None
    cost_usd: float | None = None


class Prompted(Struct, frozen=True):
    """What a process is told. `tools`: as stations call them; none: it only answers. `max_turns` -1: no limit."""

    text: str
    tools: tuple[str, ...] = ()
    max_turns: int = -1


class AskedPlace(Struct, frozen=True):
    """Where a session works; its containment is not opened for it yet."""

    worktree: Path
    containment: Containment
    ended: threading.Event


class GeminiSession(Struct):
    """`home`: of the process that is next or at work. `env`: the agent's, with what the caller set for Gemini.
    `model` None: the CLI's own choice. `used`: tokens in and out of what is over. `last`: what the last process said
    last. `answered_by`: the model, as the provider calls it."""

    home: SettingsHome
    place: AskedPlace
    env: Mapping[str, str]
    decide: Decide
    recorder: Recorder
    price: Price
    system: str
    model: str | None
    conversation: str | None = None
    used: tuple[int, int] = (0, 0)
    last: str = ""
    answered_by: str | None = None

    def prompted(self, prompt: Prompted, limits: PromptLimits) -> EngineOutcome:
        """One process, to its end.

        :raises StepEndedError: nobody waits for it any more.
        """
        if self.conversation is not None:
            folder = self.home.folder.with_name(f"{int(self.home.folder.name) + 1}")
            folder.mkdir()
            self.home = self.home.continued(folder)
        env = self.home.environment(self.env)
        opened = self.home.contained(self.place.containment, env)
        gate, before = GeminiGate(self.decide), self.home.used()
        listener = Listener(self.recorder, gate)
        argv = arguments(self.home.program, self.model, self.conversation)
        with open_door(self.home.folder, gate) as socket:
            self.home.write(self.system, prompt.tools, prompt.max_turns, socket, opened.depth)
            try:
                with agent_process(argv, replace(self.place, containment=opened), env, limits.deadline) as agent:
                    agent.say_all(as_prompt(prompt.text, self.place.worktree))
                    outcome = self._heard(agent, listener, limits, before)
            except OSError as error:
                return EngineOutcome(kind="engine_missing", detail=f"cannot start {argv[0]}: {error.strerror}")
            finally:
                listener.close()
                earlier, self.used = self.used, self._so_far(listener, before)
        if self.used != earlier:
            self._tell()
        self.conversation = listener.session or self.conversation
        self.last, self.answered_by = listener.text, listener.model or self.answered_by
        return outcome

    def _heard(
        self, agent: AgentProcess, listener: Listener, limits: PromptLimits, before: tuple[int, int]
    ) -> EngineOutcome:
        seen, began = self.used, time.monotonic()
        try:
            for line in agent.lines():
                listener.hear(line)
                if listener.unjudged is not None:
                    return ended(listener, None, "")
                if listener.is_between_answers:
                    now = self._so_far(listener, before)
                    if now != seen:
                        seen = now
                        self._tell(now)
                    over = self._too_much(now, limits)
                    if over is not None and not listener.is_over:
                        return EngineOutcome(kind="budget", detail=over)
        except TimeoutError:
            took = time_words(limits.deadline - began)
            if limits.set_by:
                return EngineOutcome(kind="budget", detail=f"ended after {took} by {limits.set_by}")
            return EngineOutcome(kind="killed", detail=f"no end after {limits.deadline - began:.0f} s: it was ended")
        return ended(listener, agent.exit_code, agent.complaints)

    def _so_far(self, listener: Listener, before: tuple[int, int]) -> tuple[int, int]:
        now = self.home.used()
        sent, made = listener.tokens or (now[0] - before[0], now[1] - before[1])
        return self.used[0] + sent, self.used[1] + made

    def _tell(self, used: tuple[int, int] | None = None) -> None:
        used = used or self.used
        self.recorder.used(Tokens.of(*used), self.price(used))

    def _too_much(self, used: tuple[int, int], limits: PromptLimits) -> str | None:
        if limits.tokens is not None and sum(used) >= limits.tokens:
            return f"{sum(used):,} tokens used of {limits.tokens:,} that were left"
        cost = self.price(used)
        if limits.cost_usd is not None and cost is not None and cost >= limits.cost_usd:
            return f"${cost:.2f} used of ${limits.cost_usd:.2f} that were left"
        return None
