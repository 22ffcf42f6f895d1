"""Buttons: each is one command of git-swarm, with what the form says as its words."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gitswarm.web.site import CommandAnswer, Site, word

Form = Mapping[str, str]


def _pause(site: Site, run: str, form: Form) -> CommandAnswer:
    return site.carry_out("pause", run, *_flag(form, "now"))


def _stop(site: Site, run: str, form: Form) -> CommandAnswer:
    return site.carry_out("stop", run, *_flag(form, "now"))


def _verify(site: Site, run: str, _form: Form) -> CommandAnswer:
    return site.carry_out("verify", run)


def _approve(site: Site, run: str, form: Form) -> CommandAnswer:
    return site.carry_out("approve", run, *_option(form, "message"), *_accepted(form))


def _reject(site: Site, run: str, form: Form) -> CommandAnswer:
    return site.carry_out("approve", run, "--reject", *_option(form, "message"))


def _land(site: Site, run: str, form: Form) -> CommandAnswer:
    words = (
        *_option(form, "message"),
        *_option(form, "strategy"),
        *_flag(form, "trust-hooks"),
        *_flag(form, "dry-run"),
    )
    return site.carry_out("land", run, *words)


def _resume(site: Site, run: str, form: Form) -> CommandAnswer:
    """Also the answer to a question."""
    words = (*_option(form, "message"), *_option(form, "max-cost"), *_accepted(form))
    return site.execute(run, "resume", run, *words, *_flag(form, "approve"), *_flag(form, "adopt"))


def _rollback(site: Site, run: str, form: Form) -> CommandAnswer:
    if form.get("undo"):
        return site.carry_out("rollback", "--undo", f"--run={run}")
    return site.carry_out("rollback", word(form.get("step", ""), "step"), f"--run={run}", *_flag(form, "dry-run"))


def _fork(site: Site, run: str, form: Form) -> CommandAnswer:
    step = word(form.get("step", ""), "step")
    return site.execute(run, "fork", step, f"--run={run}", *_option(form, "engine"))


ACTIONS: Mapping[str, Callable[[Site, str, Form], CommandAnswer]] = {
    "pause": _pause,
    "stop": _stop,
    "verify": _verify,
    "approve": _approve,
    "reject": _reject,
    "land": _land,
    "resume": _resume,
    "rollback": _rollback,
    "fork": _fork,
}


def start_run(site: Site, form: Form) -> CommandAnswer:
    """A run in the background."""
    flows = [word(each, "flow") for each in form.get("flow", "").split()]
    options = [each for name in ("message", "engine", "mode", "max-cost") for each in _option(form, name)]
    said = site.carry_out("start", *flows, "--detach", *options, *_flag(form, "economy"))
    run = said.text.partition(" ")[0] if said.is_done else None
    return CommandAnswer(said.line, said.is_done, said.text, run)


def _option(form: Form, name: str) -> list[str]:
    text = form.get(name, "").strip()
    return [f"--{name}={text}"] if text else []


def _flag(form: Form, name: str) -> list[str]:
    return [f"--{name}"] if form.get(name) else []


def _accepted(form: Form) -> list[str]:
    """Concerns that may stay, each with a field for the reason."""
    named = ((name.removeprefix("accept:"), why.strip()) for name, why in form.items() if name.startswith("accept:"))
    return [f"--accept={concern}={why}" for concern, why in named if why]
