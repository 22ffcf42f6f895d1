"""What runs learned and propose: added to the scent trail by a step (`wisdom`), applied on a branch by a person."""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from gitswarm.engines.base import Emit, StepRequest, StepResult
from gitswarm.errors import GitFailedError, SwarmError, UsageError
from gitswarm.git.as_user import UTF_8, UsersGit, output_of
from gitswarm.git.discovery import pointer
from gitswarm.git.locks import Locks
from gitswarm.git.objects import EXECUTABLE, FILE
from gitswarm.git.repository import Repository
from gitswarm.ledger.approval import last_landing
from gitswarm.ledger.message import SUBJECT_WIDTH, CommitMessage
from gitswarm.ledger.scent_trail import (
    WISDOM_REF,
    EditedFile,
    Misfit,
    Offer,
    WisdomStore,
    edited_files,
    scent_trail,
    wisdom_at,
)
from gitswarm.records.envelope import Handoff
from gitswarm.records.execution import BRANCH_PREFIX, Status
from gitswarm.records.guidance import Learnings, Proposals, RunWisdom
from gitswarm.records.json_value import JsonValue
from gitswarm.records.mistakes import MistakesError
from gitswarm.records.record import Record, timestamp
from gitswarm.records.text import shorten
from gitswarm.runner.step.operation import KernelStep, reported
from gitswarm.runner.stored import entry_at
from gitswarm.worktree.target_checkouts import HooksFolder, checkouts_of, commit_hooks, hooks_folder

LEARNINGS = "wisdom/learnings.json"
PROPOSALS = "wisdom/proposals.json"

RecordT = TypeVar("RecordT", bound=Record)


def write_trail(step: KernelStep, request: StepRequest, _emit: Emit) -> StepResult:
    """Adds what is valid of learnings and proposals; what is not is said, and nothing of it is kept."""
    problems: list[str] = []
    learnings = _read(step, LEARNINGS, Learnings, problems)
    proposals = _read(step, PROPOSALS, Proposals, problems)
    if learnings is None and proposals is None:
        report: dict[str, JsonValue] = {"written": False, "ref": WISDOM_REF, "commit": None}
        handoff = Handoff(status=Status.UNVERIFIED, summary="nothing to keep", concerns=tuple(problems))
        return reported(step, request, handoff, report)
    session = step.session
    entry = _entry(step, learnings or Learnings(), proposals or Proposals())
    store = WisdomStore(session.repository, session.context.clock, session.redactor)
    written = store.add(entry)
    runs = wisdom_at(session.repository, written.commit).runs
    lessons: list[JsonValue] = [each.to_plain() for each in scent_trail(runs).lessons]
    summary = f"{len(entry.lessons)} learned, {len(entry.offered)} proposed"
    if entry.stub:
        summary += f"; {' and '.join(entry.stub)}: a stub's placeholders, never shown to a model"
    report = {
        "written": True,
        "ref": WISDOM_REF,
        "commit": written.commit,
        "learnings": len(entry.learnings),
        "proposals": len(entry.proposals),
        "stub": list(entry.stub),
        "outcome": entry.outcome,
        "runs": len(runs),
        "lessons": lessons,
    }
    status = Status.UNVERIFIED if problems else Status.VERIFIED
    return reported(step, request, Handoff(status=status, summary=summary, concerns=tuple(problems)), report)


def _read(step: KernelStep, artifact: str, schema: type[RecordT], problems: list[str]) -> RecordT | None:
    """An artifact as the branch holds it; None, and a problem more: it is missing, or not valid."""
    content = step.text(artifact)
    if not content:
        problems.append(f"{artifact} is missing")
        return None
    try:
        return schema.from_json(content.encode())
    except MistakesError as error:
        problems.append(f"{artifact} is not kept, it is not valid: {error.mistakes[0].text}")
        return None


def _entry(step: KernelStep, learnings: Learnings, proposals: Proposals) -> RunWisdom:
    session, state = step.session, step.state
    landed = last_landing(session.repository, state) is not None
    return RunWisdom(
        run_id=step.run,
        date=timestamp(session.context.clock()),
        flows=session.spec.flows,
        base=state.base,
        outcome="landed" if landed else "unproven" if state.blocking else "not_landed",
        learnings=learnings.learnings,
        proposals=proposals.proposals,
        stub=(*(("learnings",) if learnings.stub else ()), *(("proposals",) if proposals.stub else ())),
    )


TRAILER = "Swarm-Proposal"
"""Of an applied proposal's commit: `<run id>/<proposal>`."""

_HEADS = "refs/heads/"


class Applied(Struct, frozen=True):
    """`branch`: as people name it."""

    commit: str
    branch: str


def apply_proposal(repository: Repository, env: Mapping[str, str], offer: Offer, branch: str | None) -> Applied:
    """
    :param env: the user's whole environment.
    :param branch: None: a new one, `wisdom/<id>`.
    :raises SwarmError: an edit does not fit, the branch cannot take it, or git or a hook refused; nothing has moved.
    """
    name = branch or f"wisdom/{offer.id}"
    full = _usable_branch(repository, name, offer)
    tip = repository.refs.read(full)
    key = f"{offer.run.run_id}/{offer.proposal.id}"
    if tip is not None and _is_applied(repository.objects.commit(tip).message, key):
        return Applied(tip, name)  # killed before that was recorded
    base = tip or _head(repository, offer)
    tree = _tree(repository, base, _fitting(repository, base, offer))
    commit = _Committing(repository, env, offer).commit(base, tree, _message(offer, key))
    repository.refs.swap(full, tip, commit, why=f"{offer.id} applied")
    return Applied(commit, name)


def _head(repository: Repository, offer: Offer) -> str:
    """
    :raises SwarmError: HEAD is a run's: a branch from there would take its evidence along.
    """
    here = repository.head_branch() or ""
    if here.startswith(_HEADS + BRANCH_PREFIX):
        hint = f"cd {shlex.quote(str(repository.main_folder))} && git swarm wisdom apply {offer.id}"
        raise SwarmError("you are in the worktree of a run", hint=hint)
    return repository.resolve("HEAD")


def _is_applied(message: str, key: str) -> bool:
    """Whether a message has the trailer, in its last paragraph: above it stands what an agent wrote."""
    return f"{TRAILER}: {key}" in message.rstrip().rpartition("\n\n")[2].splitlines()


def _usable_branch(repository: Repository, name: str, offer: Offer) -> str:
    """The full name of a branch that a commit can be put on.

    :raises SwarmError: it is none, somebody's checkout stands on it, or git has no room for its name.
    """
    full, hint = _HEADS + name, f"git swarm wisdom apply {offer.id} --branch NAME"
    valid = repository.git.run("check-ref-format", "--branch", name).returncode == 0
    if not valid or name.startswith(("refs/", "@{")) or f"{name}/".startswith(BRANCH_PREFIX):
        raise UsageError(f"'{name}' cannot be the name of a branch of yours", hint=hint)
    checkouts = checkouts_of(repository, full)
    if checkouts:
        what = f"{name} is checked out in {checkouts[0].path}, which would be behind its own branch"
        raise SwarmError(what, hint=f"git swarm wisdom apply {offer.id}   (on a branch of its own, to be merged)")
    above = [name[:at] for at, letter in enumerate(name) if letter == "/"]
    taken = [each for each in above if repository.refs.read(_HEADS + each) is not None]
    taken += [each.removeprefix(_HEADS) for each in repository.refs.list(f"{full}/")[:1]]
    if taken:
        raise SwarmError(f"git cannot keep {name} beside the branch {taken[0]}", hint=hint)
    return full


def _fitting(repository: Repository, base: str, offer: Offer) -> list[EditedFile]:
    tree = repository.objects.commit(base).tree
    for edit in offer.proposal.edits:
        found = entry_at(repository.objects, tree, edit.path)
        if found is not None and found[1] not in (FILE, EXECUTABLE):
            raise _misfit(offer, base, Misfit(edit.path, "is not an ordinary file there"))
    edited = edited_files(offer.proposal.edits, lambda path: repository.objects.file(tree, path))
    if isinstance(edited, Misfit):
        raise _misfit(offer, base, edited)
    return edited


def _misfit(offer: Offer, base: str, found: Misfit) -> SwarmError:
    return SwarmError(
        f"{offer.id} does not fit {base[:12]}: {found.path}: {found.found}",
        hint=f"git swarm wisdom show {offer.id}   (then by hand, or: git swarm wisdom dismiss {offer.id} -m 'WHY')",
    )


def _tree(repository: Repository, base: str, files: Sequence[EditedFile]) -> str:
    """The tree of `base` with these files. By an index of git, which refuses paths that no checkout may have."""
    tree = repository.objects.commit(base).tree
    entries = []
    for file in files:
        found = entry_at(repository.objects, tree, file.path)
        mode = found[1] if found is not None else FILE
        entries += ["--cacheinfo", f"{mode:o},{repository.objects.write_blob(file.new)},{file.path}"]
    with tempfile.TemporaryDirectory(prefix="git-swarm-") as folder:
        own = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        repository.git.output("read-tree", base, extra_env=own)
        repository.git.output("update-index", "--add", *entries, extra_env=own)
        return repository.git.output("write-tree", extra_env=own).decode().strip()


def _message(offer: Offer, key: str) -> str:
    proposal = offer.proposal
    whole = "" if shorten(proposal.title, SUBJECT_WIDTH) == proposal.title else f"{proposal.title}\n\n"
    return CommitMessage(proposal.title, f"{whole}{proposal.why}", {TRAILER: key}).render()


class _Committing(Struct, frozen=True):
    repository: Repository
    env: Mapping[str, str]
    offer: Offer

    def commit(self, base: str, tree: str, message: str) -> str:
        """The commit, on no branch yet; a checkout is made only for hooks to look at."""
        users = UsersGit(self.env, self.repository.main_folder, self.repository.git.before)
        configured = users.config("core.hooksPath", "path")
        hooks = hooks_folder(configured, self.repository.common_dir, self.repository.main_folder)
        if commit_hooks(hooks, self.repository.objects, tree):
            return self._with_hooks(hooks, base, tree, message)
        return users.commit_tree(tree, (base,), message, sign=users.config("commit.gpgsign", "bool") == "true")

    def _with_hooks(self, hooks: HooksFolder, base: str, tree: str, message: str) -> str:
        with _checkout(self.repository, base, tree) as path:
            elsewhere = ("-c", f"core.hooksPath={hooks.path}") if hooks.missing_in(path) else ()
            words = ("commit", "--quiet", "--cleanup=whitespace", "-F", "-")
            users = UsersGit(self.env, path, self.repository.git.before)
            done = users.run(*UTF_8, *elsewhere, *words, stdin=message.encode())
            if done.returncode != 0:
                raise SwarmError(
                    f"your commit hooks refused it:\n{output_of(done)}",
                    hint=f"git swarm wisdom show {self.offer.id} --diff | git apply   (then commit it yourself)",
                )
            head = users.run("rev-parse", "HEAD").stdout.decode().strip()
        if self.repository.objects.commit(head).parents != (base,):
            raise GitFailedError(
                "your commit hooks changed the parent of the commit", hint="git config core.hooksPath"
            )
        return head


@contextmanager
def _checkout(repository: Repository, base: str, tree: str) -> Iterator[Path]:
    """A linked worktree on `base` with the files and the index of `tree`; gone afterwards. One that a killed process
    left is git's own to prune, as its folder lies among temporary files."""
    locks = Locks(repository.common_dir)
    with tempfile.TemporaryDirectory(prefix="git-swarm-", ignore_cleanup_errors=True) as folder:
        path = Path(folder).resolve() / "wisdom"
        with locks.repository():
            repository.git.output("worktree", "add", "--detach", "--no-checkout", "--quiet", str(path), base)
        git_dir = pointer(path)
        if git_dir is None:
            raise GitFailedError(f"git made no worktree in {path}", hint="git worktree list")
        try:
            repository.git_in(git_dir, path).output("read-tree", "--reset", "-u", tree)
            yield path
        finally:
            with locks.repository():
                shutil.rmtree(git_dir, ignore_errors=True)
