"""`approve` and `land`: a person's approval of the code of a run, and its landing."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated, NoReturn

from msgspec.structs import replace

from gitswarm.cli.arguments import Option
from gitswarm.cli.console import advise, complain, err, out, out_json, out_lines
from gitswarm.cli.invocation import repository_here
from gitswarm.cli.run_execution import AcceptOption, accept_of, quiet_context
from gitswarm.cli.runs import JsonFlag, RunArgument
from gitswarm.errors import UsageError
from gitswarm.git.repository import Repository
from gitswarm.ledger.finding import find_run
from gitswarm.ledger.next_command import command_to_land
from gitswarm.ledger.state import RunState
from gitswarm.records.execution import RunStatus
from gitswarm.records.json_value import JsonValue
from gitswarm.records.run_spec import LandStrategy
from gitswarm.runner.human_steps import settled
from gitswarm.runner.landing.approve import Approval, approve_run, reject_run
from gitswarm.runner.landing.land_run import LandedRun, land_run, plan_land, push_target
from gitswarm.runner.landing.landed_commit import landed_text
from gitswarm.runner.landing.landing_plan import LandedBefore, LandingPlan, LandingRequest, Refused, short
from gitswarm.runner.open_run import open_run
from gitswarm.runner.run_processes import refuse_agent
from gitswarm.runner.run_session import Session


def edited(repository: Repository, text: str) -> str:
    """What the user makes of a text; empty where nothing is left.

    :raises UsageError: there is no editor, or it ended with an error.
    """
    editor = subprocess.run(["git", "var", "GIT_EDITOR"], capture_output=True, text=True, check=False).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "LAND_EDITMSG"
        file.write_text(f"{text}\n", encoding="utf-8")
        argv = ["sh", "-c", f'{editor or "false"} "$@"', editor, str(file)]
        done = subprocess.run(argv, cwd=repository.main_folder, check=False)
        if done.returncode != 0:
            raise UsageError(f"your editor failed: {editor or 'none is set'}", hint="git config core.editor")
        return file.read_text(encoding="utf-8", errors="replace").strip()


REFUSED = 1
_PATHS_SHOWN = 20


def approve(
    run: RunArgument = None,
    reject: Annotated[bool, Option("--reject", help="Reject the code; -m says why.")] = False,
    message: Annotated[str, Option("-m", "--message", help="A note that is kept with it.")] = "",
    accept: AcceptOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Approve or reject the current code of a run; only approved code lands."""
    if reject and not message.strip():
        raise UsageError("--reject needs a reason", hint="git swarm approve --reject -m 'why'")
    if reject and accept:
        raise UsageError("--accept is for an approval, not for --reject", hint="git swarm approve --reject -m 'why'")
    repository = repository_here()
    refuse_agent(os.environ, "approve", repository.common_dir)
    layout = find_run(repository, run)
    with open_run(repository, layout, quiet_context(repository, layout)) as opened:
        state = settled(opened.session, opened.state)
        approval = (
            reject_run(opened.session, state, message)
            if reject
            else approve_run(opened.session, state, message, accept_of(accept))
        )
    if isinstance(approval, Refused):
        _refuse(approval, as_json=as_json)
    if as_json:
        command = "" if reject else command_to_land(repository, approval.state)
        out_json(_plain_approval(layout.run_id, approval, "rejected" if reject else "approved", command))
    elif reject:
        _show_rejection(layout.run_id, approval)
    else:
        _show_approval(layout.run_id, approval, command_to_land(repository, approval.state))


def land(
    run: RunArgument = None,
    strategy: Annotated[
        LandStrategy | None,
        Option(help="squash: one commit; merge: shows the steps; evidence: has the evidence too."),
    ] = None,
    target: Annotated[str | None, Option(metavar="BRANCH", help="A branch other than the configured one.")] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would happen.")] = False,
    trust_hooks: Annotated[
        bool,
        Option(
            "--trust-hooks", help="Land although the run changed what your commit hooks do: you have read the change."
        ),
    ] = False,
    message: Annotated[
        str,
        Option(
            "-m",
            "--message",
            help="Message of the landed commit; else the summaries of the steps that made the change.",
        ),
    ] = "",
    edit: Annotated[bool, Option("--edit", "-e", help="Edit that message in your editor.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Bring the approved code of a run to its target branch."""
    repository = repository_here()
    refuse_agent(os.environ, "land", repository.common_dir)
    layout = find_run(repository, run)
    request = LandingRequest(strategy, target, trust_hooks, message.strip())
    with open_run(repository, layout, quiet_context(repository, layout)) as opened:
        state = settled(opened.session, opened.state)
        if dry_run:
            plan = plan_land(opened.session, state, request)
            if isinstance(plan, Refused):
                _refuse(plan, as_json=as_json)
            elif as_json:
                out_json(_plain_plan(layout.run_id, plan))
            else:
                _show_plan(layout.run_id, plan, request)
            return
        if edit:
            request = _edited(opened.session, state, request)
        done = land_run(opened.session, state, request)
        if isinstance(done, Refused):
            _refuse(done, as_json=as_json)
        pushed = _push(opened.session, done)
        if as_json:
            out_json(_plain_landing(layout.run_id, done, pushed))
        else:
            _show_landing(layout.run_id, done, pushed)
        if isinstance(pushed, Refused):
            _refuse(pushed)


def _edited(session: Session, state: RunState, request: LandingRequest) -> LandingRequest:
    """The request with what the user's editor made of the message; nothing is asked about a run that cannot land.

    :raises UsageError: the editor failed, or left nothing.
    """
    plan = plan_land(session, state, request)
    if not isinstance(plan, LandingPlan):
        return request
    text = request.message or landed_text(session.repository, state, session.spec.task)
    edit = edited(session.repository, text)
    if not edit:
        raise UsageError("nothing landed: the message is empty", hint=f"git swarm land {session.layout.run_id}")
    return replace(request, message=edit)


def _show_approval(run: str, approval: Approval, command: str) -> None:
    """
    :param command: the next one to type.
    """
    subject = approval.subject
    for caution in subject.cautions:
        out(f"{caution.name:<10} {caution.text}")
    out_lines(f"{'accepted' if each.blocking else 'open':<10} {each.id}: {each.fact}" for each in subject.concerns)
    _show_subject(run, approval, "approved")
    if command:
        out(f"next       {command}")


def _show_rejection(run: str, approval: Approval) -> None:
    _show_subject(run, approval, "rejected")
    command = f"git swarm resume {run}"
    if approval.state.end is RunStatus.SUCCEEDED:
        command = f"git swarm rollback STEP --run {run}   (then {command})"
    out(f"next       {command}")


def _show_subject(run: str, approval: Approval, what: str) -> None:
    subject = approval.subject
    out(f"{run} {what}" if approval.is_new else f"{run} was {what} already: its code is the same")
    out(f"changes    {subject.size} since {subject.base[:12]}")
    out(f"tests      {subject.tests}")
    out(f"code       {subject.code} in {subject.tip[:12]}")
    if subject.played:
        out("note       a stub or a script did this work, not a model")


def _plain_approval(run: str, approval: Approval, word: str, command: str) -> dict[str, JsonValue]:
    subject = approval.subject
    return {
        "run_id": run,
        "word": word,
        "is_new": approval.is_new,
        "commit": approval.commit,
        "about": subject.tip,
        "code": subject.code,
        "base": subject.base,
        "changes": subject.size,
        "tests": subject.tests,
        "cautions": [{"name": each.name, "text": each.text} for each in subject.cautions],
        "concerns": [{"id": each.id, "blocking": each.blocking, "fact": each.fact} for each in subject.concerns],
        "next": command or None,
    }


def _plain_plan(run: str, plan: LandingPlan | LandedBefore) -> dict[str, JsonValue]:
    if isinstance(plan, LandedBefore):
        return {"run_id": run, "dry_run": True, "would_land": False, "target": short(plan.target)}
    return {
        "run_id": run,
        "dry_run": True,
        "would_land": True,
        "target": short(plan.target),
        "strategy": str(plan.strategy),
        "approved": plan.approval.about,
    }


def _plain_landing(run: str, done: LandedRun, pushed: str | Refused | None) -> dict[str, JsonValue]:
    return {
        "run_id": run,
        "is_new": done.is_new,
        "commit": done.landed.commit,
        "target": short(done.landed.target),
        "reverted_by": done.reverted_by,
        "pushed_to": pushed if isinstance(pushed, str) else None,
    }


def _show_plan(run: str, plan: LandingPlan | LandedBefore, request: LandingRequest) -> None:
    if isinstance(plan, LandedBefore):
        _show_earlier(run, plan.landing.commit, plan.target, plan.landing.reverted_by)
    else:
        out(f"{run} would land on {short(plan.target)} ({plan.strategy})")
        out(f"approved   {plan.approval.about[:12]} by {plan.approval.by}")
        out(f"next       git swarm land {run} {_options(request)}".rstrip())


def _options(request: LandingRequest) -> str:
    """The options that were given, for the command that does what was shown."""
    words = ["--strategy", request.strategy] if request.strategy else []
    words += ["--target", short(request.target)] if request.target else []
    words += ["--trust-hooks"] if request.trust_hooks else []
    words += ["-m", request.message] if request.message else []
    return shlex.join(words)


def _show_landing(run: str, done: LandedRun, pushed: str | Refused | None) -> None:
    if not done.is_new:
        _show_earlier(run, done.landed.commit, done.landed.target, done.reverted_by)
    else:
        out(f"{run} {done.summary}")
        out(f"next       git show {done.landed.commit[:12]}")
    if isinstance(pushed, str):
        out(f"pushed     {short(done.landed.target)} to {pushed}")
    if done.is_new:
        out(f"tidy       git swarm discard {run}")


def _show_earlier(run: str, commit: str, target: str, reverted_by: str | None) -> None:
    out(f"{run} has landed on {short(target)} already, as {commit[:12]}")
    if reverted_by is not None:
        out(f"reverted   by {reverted_by[:12]}: it is not landed again automatically")
        out(f"again      git revert {reverted_by[:12]}   (on {short(target)})")


def _push(session: Session, done: LandedRun) -> str | Refused | None:
    """Where it was pushed, None: nowhere. Safe to repeat: what was not pushed the last time is now."""
    if not session.spec.settings.deploy.push or done.reverted_by is not None:
        return None
    return push_target(session, done.landed.target)


def _refuse(refused: Refused, *, as_json: bool = False) -> NoReturn:
    hint = refused.hint
    if as_json:
        paths: list[JsonValue] = list(refused.paths)
        out_json({"refused": refused.reason, "paths": paths, "output": refused.output, "hint": hint})
        raise SystemExit(REFUSED)
    complain(refused.reason)
    out_lines(f"  {path}" for path in refused.paths[:_PATHS_SHOWN])
    if len(refused.paths) > _PATHS_SHOWN:
        out(f"  and {len(refused.paths) - _PATHS_SHOWN} more")
    for line in refused.output.splitlines():
        err(f"  {line}")
    advise(hint)
    raise SystemExit(REFUSED)
