"""Makes the commit that lands and its message: tested where it is new, with the user's own hooks and signature."""

from __future__ import annotations

import textwrap

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.engines.base import Emit, StepRequest, StepResult
from gitswarm.engines.command import CommandEngine
from gitswarm.errors import GitFailedError
from gitswarm.git.as_user import UTF_8, UsersGit, output_of
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.approval import LANDED, is_code
from gitswarm.ledger.message import CommitMessage
from gitswarm.ledger.state import RunState
from gitswarm.ledger.work import telling_steps
from gitswarm.records.execution import Result
from gitswarm.records.text import shorten
from gitswarm.runner.containing import contained, remove_copies
from gitswarm.runner.landing.landing_plan import LandingPlan, Refused, short, users_git, users_hooks
from gitswarm.runner.run_session import Session
from gitswarm.runner.run_worktree import temporary_worktree
from gitswarm.runner.step.request import command_order
from gitswarm.specs.flow import Step
from gitswarm.worktree.shadow import Shadow, find_shadow
from gitswarm.worktree.target_checkouts import commit_hooks

_WIDTH = 72
_MOST_CHARS = 2_000
"""Of one summary: a commit message is no report."""


def landed_message(state: RunState, text: str, approved: str) -> str:
    """
    :param text: what `landed_text` says, or a person.
    :param approved: the commit of the run that an approval is about.
    """
    run = state.layout.run_id
    return CommitMessage("", text, {"Swarm-Run": run, LANDED: f"{run} {approved}"}).render()


def landed_text(repository: RepositoryReader, state: RunState, task: str) -> str:
    """Subject and body of a landed commit: the task, what was changed and why."""
    records = telling_steps(repository, state)
    last = records[-1] if records else state.last_step
    subject = shorten(task, _WIDTH) or (shorten(f"{last.flow}: {last.summary}", _WIDTH) if last else "land a run")
    paragraphs = dict.fromkeys(_paragraphs(record.summary) for record in records)
    return "\n\n".join((subject, *(text for text in paragraphs if text and not subject.endswith(text))))


def _paragraphs(summary: str) -> str:
    """Wrapped as git's own messages are; lists stay lists."""
    paragraphs = summary.replace("\r", "").strip()[:_MOST_CHARS].split("\n\n")
    return "\n\n".join("\n".join(_wrapped(each)) for each in paragraphs if each.strip())


def _wrapped(paragraph: str) -> list[str]:
    lines: list[str] = []
    text: list[str] = []
    for line in [*paragraph.splitlines(), None]:
        is_item = line is not None and line.lstrip().startswith(("- ", "* "))
        if line is None or is_item:
            lines += textwrap.wrap(" ".join(text), _WIDTH, break_long_words=False, break_on_hyphens=False)
            text = []
        if line is not None and is_item:
            lines += textwrap.wrap(line.strip(), _WIDTH, subsequent_indent="  ", break_long_words=False)
        elif line is not None:
            text.append(line.strip())
    return lines


_TAIL_LINES = 20


class CommitSpec(Struct, frozen=True):
    """A commit to be made: whole tree, parents, message."""

    tree: str
    parents: tuple[str, ...]
    message: str


def shape_of(session: Session, state: RunState, plan: LandingPlan, tip: str, merged: str) -> CommitSpec:
    """The commit of a landing on `tip`; the `merged` tree has the target's `.swarm/runs`."""
    objects, approved = session.repository.objects, plan.approval.about
    text = plan.message or landed_text(session.repository, state, session.spec.task)
    message = landed_message(state, text, approved)
    if plan.strategy == "merge":
        return CommitSpec(merged, (tip, approved), message)
    if plan.strategy == "evidence":
        own = objects.entry(objects.commit(approved).tree, session.layout.base)
        return CommitSpec(objects.with_subtree(merged, session.layout.base, own), (tip,), message)
    return CommitSpec(merged, (tip,), message)


def needs_test(session: Session, plan: LandingPlan, merged: str) -> bool:
    """Whether the merged code is other than what was approved: nobody has tested that."""
    approved = session.repository.objects.commit(plan.approval.about).tree
    return not is_code(session.repository, merged, approved)


def make_commit(
    session: Session, shape: CommitSpec, request: StepRequest, emit: Emit, *, test: bool
) -> tuple[str | Refused, StepResult | None]:
    """The landed commit, on no branch yet, or why there is none; and what the project's tests said about the merged
    code, if they ran. Without tests, and without hooks of the user, no file is written out for it.

    :raises SetupFailedError: the place to test it in cannot be prepared.
    """
    hooks = commit_hooks(users_hooks(session), session.repository.objects, shape.tree)
    shadow = find_shadow(session.repository, session.layout.branch)
    if shadow is None or not (test or hooks):
        return _without_checkout(session, shape), None
    with temporary_worktree(session, shadow, shape.parents[0], shape.tree) as checkout:
        tested = _test(session, checkout, request, emit) if test else None
        if tested is not None and (tested.status is Result.FAILED or (tested.check and tested.check.passed is False)):
            return _failing(session, tested), tested
        made = _with_hooks(session, shape, checkout) if hooks else _without_checkout(session, shape)
    return made, tested


def _test(session: Session, checkout: Shadow, request: StepRequest, emit: Emit) -> StepResult:
    """The project's tests, as a command step of the run would find and execute them."""
    containment = contained(session, checkout, "landing")
    env = {**request.env, **containment.environment, "RUN_BASE": str(checkout.path / session.layout.base)}
    order = command_order(
        session, Step(id=request.execution.step, engine="command", command="test"), checkout.path, env
    )
    asked = replace(
        request,
        worktree=checkout.path,
        run_base=checkout.path / session.layout.base,
        env=env,
        command=order,
        containment=containment,
    )
    try:
        return CommandEngine(None, session.context.clock).run(asked, emit)
    finally:
        remove_copies(session, "landing")


def _failing(session: Session, tested: StepResult) -> Refused:
    run = session.layout.run_id
    what = tested.error or (tested.handoff.summary if tested.handoff else "the tests failed")
    return Refused(
        f"the tests fail on the code merged with the target: {what}",
        f"git swarm start {' '.join(session.spec.flows)} -m '…'   "
        f"(on the current target; or fix the target, then: git swarm land {run})",
        output=_tail(tested.report_text or tested.output),
    )


def _tail(text: str) -> str:
    return "\n".join(text.rstrip().splitlines()[-_TAIL_LINES:])


def _without_checkout(session: Session, shape: CommitSpec) -> str | Refused:
    users = users_git(session)
    try:
        sign = users.config("commit.gpgsign", "bool") == "true"
        return users.commit_tree(shape.tree, shape.parents, shape.message, sign=sign)
    except GitFailedError as error:
        hint = f"git swarm land {session.layout.run_id}   (when that is fixed)"
        return Refused("git could not make the commit in your name", hint, output=error.message)


def _with_hooks(session: Session, shape: CommitSpec, checkout: Shadow) -> str | Refused:
    """`git commit` of the user in a worktree that holds exactly what lands."""
    users = UsersGit(session.context.env, checkout.path, session.repository.git.before)
    folder = users_hooks(session)
    # husky and others make their folder for a checkout, not for every worktree.
    elsewhere = ("-c", f"core.hooksPath={folder.path}") if folder.missing_in(checkout.path) else ()
    if len(shape.parents) > 1:  # git has to be told of the second one
        (checkout.git_dir / "MERGE_HEAD").write_text(f"{shape.parents[1]}\n", encoding="ascii")
        # Else git leaves out a first parent that the second one descends from.
        (checkout.git_dir / "MERGE_MODE").write_text("no-ff", encoding="ascii")
    words = ("commit", "--quiet", "--allow-empty", "--cleanup=whitespace", "-F", "-")
    done = users.run(*UTF_8, *elsewhere, *words, stdin=shape.message.encode())
    run = session.layout.run_id
    if done.returncode != 0:
        hint = f"git swarm land {run}   (once that is fixed)"
        return Refused("your commit hooks refused the commit", hint, output=_tail(output_of(done)))
    commit = checkout.git.output("rev-parse", "HEAD").decode().strip()
    return _what_hooks_changed(session, shape, commit) or commit


def _what_hooks_changed(session: Session, shape: CommitSpec, commit: str) -> Refused | None:
    """A landed commit is what was approved, and says so."""
    repository = session.repository
    found = repository.objects.commit(commit)
    hint = "git config core.hooksPath   (see what they do; or land by hand)"
    if found.tree != shape.tree:
        paths = tuple(delta.path for delta in repository.diffs.between(shape.tree, found.tree))
        return Refused("your commit hooks changed files: that is not what was approved", hint, paths)
    if found.parents != shape.parents:
        return Refused("your commit hooks changed the parents of the commit", hint)
    wanted = shape.message.rpartition(f"{LANDED}: ")[2].strip()
    trailer = repository.git.output("log", "-1", f"--format=%(trailers:key={LANDED},valueonly)", commit)
    if trailer.decode(errors="replace").strip() != wanted:
        return Refused(f"your commit hooks removed the trailer {LANDED} from the message", hint)
    return None


def describe(plan: LandingPlan, commit: str, tested: StepResult | None) -> str:
    """What a step says about a landing."""
    tests = ""
    if tested is not None and tested.check is not None:
        passed = tested.check.passed
        tests = "; merged with it the tests passed" if passed else "; there were no tests for the merged code"
    return f"landed on {short(plan.target)} as {commit[:12]} ({plan.strategy}){tests}"
