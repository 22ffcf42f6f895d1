"""`resume`, `skip`, `rollback`, `fork`, `stop`, `pause`: what a person does with a run between its steps."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import Annotated

from gitswarm.cli.arguments import Argument, Option
from gitswarm.cli.console import err, hanging, out, out_json, out_lines, plural, readable
from gitswarm.cli.invocation import now, repository_here
from gitswarm.cli.run_execution import (
    AcceptOption,
    FeedbackOption,
    HubFlag,
    MaxCostOption,
    MaxTimeOption,
    MaxTokensOption,
    accept_of,
    budget_of_options,
    config_of_run,
    continue_run,
    feedback_of,
    quiet_context,
)
from gitswarm.cli.runs import JsonFlag, RunArgument, RunOption, status_word
from gitswarm.errors import NoSuchModeError, NotFoundError, RunHeldError, UsageError
from gitswarm.git.locks import Locks
from gitswarm.git.owners import Owner, starting_of
from gitswarm.git.remote import configured_hub, remote_of
from gitswarm.git.repository import Repository
from gitswarm.ledger.approval import LandedAs, newest_landing
from gitswarm.ledger.finding import find_run, find_step
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.lease import find_on_hub, is_shared
from gitswarm.ledger.overview import overview
from gitswarm.ledger.reading import run_spec
from gitswarm.ledger.rescue import rescue_branch
from gitswarm.ledger.state import RunState, replay
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.execution import RunStatus
from gitswarm.records.json_value import JsonValue
from gitswarm.records.text import did_you_mean
from gitswarm.runner.begin import ForkOptions, create_run, plan_fork
from gitswarm.runner.human_steps import ResumeOptions
from gitswarm.runner.open_run import end_unowned, open_run
from gitswarm.runner.run_engines import LOCAL, OWN
from gitswarm.runner.run_processes import Request, RequestKind, Requests, interrupt, refuse_agent
from gitswarm.runner.specs import read_frozen
from gitswarm.runner.undo.rollback import RollbackPlan, plan_rollback, roll_back, undo_rollback
from gitswarm.settings import CommandLine, freeze_settings
from gitswarm.specs.sidequest import NODE_PREFIX

NowFlag = Annotated[bool, Option("--now", help="Now, in the middle of the step; its work is kept.")]
OnHubFlag = Annotated[bool, Option("--hub", help="A run of the hub, whichever machine executes it.")]
UntilOption = Annotated[str | None, Option(metavar="STEP", help="Stop after this step.")]
AllowOption = Annotated[
    list[str] | None,
    Option(
        "--allow", metavar="PATH[=WHY]", help="What was found in this file is not a secret, for the rest of this run."
    ),
]
JsonLines = Annotated[bool, Option("--json", help="Events as JSON lines on stdout.")]


def resume(
    run: Annotated[str | None, Argument(help="The run; else the one of this worktree, or the newest.")] = None,
    message: Annotated[str, Option("-m", "--message", help="Your answer; the next step gets it.")] = "",
    adopt: Annotated[bool, Option("--adopt", help="Commit your edits in the worktree as a step of the run.")] = False,
    approve: Annotated[bool, Option("--approve", help="Execute what the navigator proposed, then continue.")] = False,
    accept: AcceptOption = None,
    allow: AllowOption = None,
    feedback: FeedbackOption = None,
    max_cost: MaxCostOption = None,
    max_tokens: MaxTokensOption = None,
    max_time: MaxTimeOption = None,
    until: UntilOption = None,
    hub: HubFlag = None,
    as_json: JsonLines = False,
) -> None:
    """Continue a run from its tip, whatever ended it."""
    repository = repository_here()
    budget = budget_of_options(max_cost, max_tokens, max_time)
    decisions = {"adopt": adopt, "approve": approve, "accept": accept, "allow": allow, "max-cost": max_cost}
    for name, value in (*decisions.items(), ("max-tokens", max_tokens), ("max-time", max_time)):
        if value:
            refuse_agent(os.environ, f"resume --{name}", repository.common_dir)
    layout = _find_shared(repository, run) if hub else _find(repository, run)
    options = ResumeOptions(
        message,
        adopt=adopt,
        approve=approve,
        accept=accept_of(accept),
        allow=_allowed(allow or ()),
        feedback=feedback_of(feedback),
        budget=budget,
    )
    _continue(repository, layout, options, until=until, as_json=as_json, hub=hub)


def skip(
    step: Annotated[str, Argument(metavar="STEP", help="The step that is next.")],
    run: RunOption = None,
    message: Annotated[str, Option("-m", "--message", help="Why it is not needed.")] = "",
    until: UntilOption = None,
    hub: HubFlag = None,
    as_json: JsonLines = False,
) -> None:
    """Skip the next step, and continue after it."""
    repository = repository_here()
    refuse_agent(os.environ, "skip", repository.common_dir)
    layout = find_run(repository, run)
    _continue(repository, layout, ResumeOptions(message, skip=step), until=until, as_json=as_json, hub=hub)


def _continue(
    repository: Repository,
    layout: RunLayout,
    options: ResumeOptions,
    *,
    until: str | None,
    as_json: bool,
    hub: bool | None,
) -> None:
    """
    :param hub: on the hub, whoever executes the run; False: here alone; None: on the hub, where the run is shared.
    """
    leased = None
    if hub or (hub is None and is_shared(repository, layout)):
        from gitswarm.cli.exchange import take_current_here, take_over_here  # noqa: PLC0415 - few runs are on a hub

        leased = (take_over_here if hub else take_current_here)(repository, layout)
    try:
        _refuse_unknown_step(repository, replay(repository, layout), until)
        continue_run(repository, layout, options, until=until, as_json=as_json, leased=leased)
    finally:
        if leased is not None:
            leased.let_go()


def _refuse_unknown_step(repository: Repository, state: RunState, until: str | None) -> None:
    """
    :raises NotFoundError: no step of the run can be called so: the run would not stop there.
    """
    if until is None:
        return
    specs = read_frozen(repository, state.layout, repository.objects.commit(state.run_commit).tree)
    flow_id, _slash, step = until.rpartition("/")
    flows = [flow for flow in specs.flows.values() if flow_id in ("", flow.id)]
    known = [each.id for flow in flows for each in flow.steps]
    quests = [name for quest in specs.sidequests.values() for name in quest.step_names]
    if not flows or not (step in (*known, *quests) or step.startswith(NODE_PREFIX)):
        flow = run_spec(repository, state).flows[0]
        what = f"{state.layout.run_id} has no step '{until}'{did_you_mean(step, known)}"
        raise NotFoundError(what, hint=f"git swarm flows show {flow}")


def _allowed(given: Sequence[str]) -> dict[str, str]:
    """Path → why, which may be left out."""
    pairs = (each.partition("=") for each in given)
    return {path.strip(): why.strip() for path, _equals, why in pairs if path.strip()}


def _find_shared(repository: Repository, run: str | None) -> RunLayout:
    """On the hub; one that was never pushed here."""
    remote = remote_of(repository, configured_hub(repository), os.environ)
    try:
        return find_on_hub(repository, remote, run)
    except NotFoundError:
        return _find(repository, run)


def _find(repository: Repository, run: str | None) -> RunLayout:
    """A run by name; one whose branch somebody deleted or renamed gets it back first."""
    if run is not None:
        rescued = rescue_branch(repository, run)
        if rescued is not None:
            err(f"{rescued.branch.removeprefix('refs/heads/')} was gone: restored from the run's notes")
            return rescued
    return find_run(repository, run)


START = ("0", "start")
INTERRUPT_WAIT_S = 20.0


def rollback(
    step: Annotated[
        str | None, Argument(metavar="STEP", help="The step that becomes the last one; 0: before the first.")
    ] = None,
    run: RunOption = None,
    undo: Annotated[bool, Option("--undo", help="Undo the last rollback.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would be undone and what is kept.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Return branch and worktree to the state after a step; nothing is lost."""
    repository = repository_here()
    layout = find_run(repository, run)
    if undo == (step is not None):
        raise UsageError("give a step, or --undo", hint=f"git swarm log {layout.run_id}")
    if undo and dry_run:
        again = f"git swarm rollback --undo --run {layout.run_id}   (a rollback undoes that again)"
        raise UsageError("--dry-run is for a step: --undo has none", hint=again)
    with open_run(repository, layout, quiet_context(repository, layout)) as opened:
        if undo:
            back = undo_rollback(opened.session, opened.state)
            if as_json:
                out_json({"run_id": layout.run_id, "steps": len(back.state.steps), "kept": back.kept})
                return
            out(f"{layout.run_id} is as it was before the rollback: {plural(back.state.executed, 'step')}")
            out(f"kept       {back.kept}")
            return
        target = _target(repository, opened.state, step)
        plan = plan_rollback(opened.session, opened.state, target)
        landed = newest_landing(repository, opened.state)
        is_nothing = plan.is_nothing and opened.state.end is RunStatus.SUCCEEDED
        if is_nothing and not as_json:
            out(f"{layout.run_id} is at {plan.target_name} already: nothing to undo")
            return
        if not as_json:
            _show_plan(plan, layout, dry_run=dry_run)
            _show_landed(landed)
        done = None if dry_run or is_nothing else roll_back(opened.session, opened.state, plan)
        if as_json:
            out_json(_plain(plan, layout, done.kept if done else None, dry_run=dry_run))
        elif done is not None:
            out(f"kept       {done.kept}")
            out(f"undo       git swarm rollback --undo --run {layout.run_id}")
            out(f"next       git swarm resume {layout.run_id}")


def fork(
    step: Annotated[str, Argument(metavar="STEP", help="The last step that the new run shares; 0: none.")],
    run: RunOption = None,
    again: Annotated[bool, Option("--again", help="STEP itself is executed once more, and not shared.")] = False,
    engine: Annotated[str | None, Option(help="Another engine for the new run.")] = None,
    mode: Annotated[str | None, Option(help="stub, or a mode of the engine.")] = None,
    until: UntilOption = None,
    as_json: JsonLines = False,
) -> None:
    """A new run with the same history up to a step; the old one stays as it is."""
    repository = repository_here()
    layout = find_run(repository, run)
    state = replay(repository, layout)
    _refuse_unknown_step(repository, state, until)
    at = _target(repository, state, step)
    if again and at is not None:
        if (engine or mode) and at.engine in (LOCAL.engine, OWN.engine):
            same = f"git swarm fork {step} --run {layout.run_id}"
            why = f"no agent executes {at.name}: another engine changes nothing about it"
            raise UsageError(why, hint=f"{same}   (--engine and --mode without --again: of the steps behind it)")
        at = state.steps[at.number - 2] if at.number > 1 else None
    engines = None
    if engine is not None or mode is not None:
        config = config_of_run(repository, layout)
        same = run_spec(repository, state).settings.default_engine.engine
        engines = freeze_settings(config, os.environ, CommandLine(engine=engine or same, mode=mode), scripted=False)
    new = plan_fork(repository, state, at, ForkOptions(engines, now(), os.urandom(2)))
    context = quiet_context(repository, layout)
    try:
        with create_run(repository, new, context) as (_session, created):
            fresh = created.layout
    except NoSuchModeError as error:
        same = f"git swarm fork {step}{' --again' * again}{f' --engine {engine}' if engine else ''}"
        raise UsageError(error.message, hint=f"{same} --run {layout.run_id} --mode {error.mode}") from error
    where = f"after {at.name}" if at is not None else "at the base"
    err(f"{fresh.run_id} forked {where} of {layout.run_id}")
    err(f"side by side: git swarm compare {layout.run_id} {fresh.run_id}")
    continue_run(repository, fresh, ResumeOptions(), until=until, as_json=as_json)


def stop(run: RunArgument = None, at_once: NowFlag = False, hub: OnHubFlag = False) -> None:
    """Stop a run after its current step."""
    _request(run, "stop", at_once=at_once, hub=hub)


def pause(run: RunArgument = None, at_once: NowFlag = False, hub: OnHubFlag = False) -> None:
    """Pause a run after its current step."""
    _request(run, "pause", at_once=at_once, hub=hub)


def _target(repository: Repository, state: RunState, step: str | None) -> StepRecord | None:
    names = {record.step for record in state.steps}
    if step in START and step not in names:
        return None
    return find_step(repository, state, step)


def _show_plan(plan: RollbackPlan, layout: RunLayout, *, dry_run: bool) -> None:
    out(f"{layout.run_id} {'would be' if dry_run else 'is'} rolled back to {plan.target_name}")
    for record in plan.undone:
        out_lines(hanging(f"{'undone':<10} ", f"{record.name}: {next(iter(record.summary.splitlines()), '')}"))
    for name in plan.files:
        out(f"{'changes':<10} {name}")
    for name in plan.dirty:
        out(f"{'set aside':<10} {name} (not committed)")
    for name in plan.overwritten:
        out(f"{'set aside':<10} {name} (ignored, and tracked there)")
    out(f"{'kept':<10} files that git ignores stay in the worktree")


def _show_landed(landed: LandedAs | None) -> None:
    if landed is not None:
        target = landed.target.removeprefix("refs/heads/")
        out_lines(hanging("landed     ", f"on {target} as {landed.commit[:12]}: that stays there"))
        out(f"{'':<10} git revert {landed.commit[:12]}   (on {target}, reverts it)")


def _plain(plan: RollbackPlan, layout: RunLayout, kept: str | None, *, dry_run: bool) -> dict[str, JsonValue]:
    """
    :param kept: the ref that holds what went; None: nothing was done.
    """
    return {
        "run_id": layout.run_id,
        "dry_run": dry_run,
        "target": plan.target_name,
        "commit": plan.target,
        "undone": [{"n": each.number, "step": each.name, "commit": each.commit} for each in plan.undone],
        "files": list(plan.files),
        "set_aside": [*plan.dirty, *plan.overwritten],
        "kept": kept,
    }


def _state_words(state: RunState) -> str:
    """`is already paused at step 7`, for a run that has ended."""
    end = status_word(state.end or RunStatus.INTERRUPTED)
    at = f" at step {state.executed}" if state.executed and state.end in (RunStatus.PAUSED, RunStatus.STOPPED) else ""
    return f"is already {end}{at}" if at else f"has already ended, {end}"


def _owner(repository: Repository, layout: RunLayout, locks: Locks) -> Owner | None:
    """The process that executes a run; one that is about to, as after `start --detach`, is waited for."""
    while (owner := locks.owner(layout.run_id)) is None and starting_of(repository.common_dir, layout.run_id):
        time.sleep(0.05)
    return owner


def _end(repository: Repository, layout: RunLayout, request: Request) -> None:
    """Ends a run that no process executes, and says how it stands.

    :raises RunHeldError: a process has just begun to.
    """
    before = replay(repository, layout)
    if before.end is None:
        from gitswarm.runner.hub.transfer import refuse_elsewhere  # noqa: PLC0415 - few runs are on a hub

        refuse_elsewhere(repository, os.environ, layout, request.kind)
    state = end_unowned(repository, layout, quiet_context(repository, layout), request)
    if before.end is None:
        out(f"{layout.run_id} {state.end}")
    else:
        out_lines(readable("", f"{layout.run_id} {_state_words(before)}: no process executes it", sys.stdout))


def _request(run: str | None, kind: RequestKind, *, at_once: bool, hub: bool) -> None:
    if hub:
        from gitswarm.cli.exchange import ask_over_hub  # noqa: PLC0415 - few runs are on a hub

        ask_over_hub(run, kind, at_once=at_once)
        return
    repository = repository_here()
    layout = find_run(repository, run)
    locks = Locks(repository.common_dir)
    owner = _owner(repository, layout, locks)
    request = Request(kind=kind, reason="asked by hand")
    if owner is None:
        try:
            _end(repository, layout, request)
        except RunHeldError:  # it was resumed at this moment
            owner = locks.owner(layout.run_id)
            if owner is None:
                raise
        else:
            return
    Requests(repository, layout).put(request)
    if not at_once:
        out(f"{layout.run_id} will {kind} after its current step (process {owner.pid})")
        return
    if not interrupt(owner):
        raise UsageError(
            f"{layout.run_id} runs on {owner.host}: --now works only there",
            hint=f"git swarm {kind} {layout.run_id}",
        )
    deadline = time.monotonic() + INTERRUPT_WAIT_S
    while locks.owner(layout.run_id) is not None and time.monotonic() < deadline:
        time.sleep(0.05)
    out(f"{layout.run_id} {status_word(overview(repository, layout).state)}")
