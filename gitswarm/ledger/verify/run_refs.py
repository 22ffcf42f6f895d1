"""What other refs than the branch say of a run: notes, parallel and interrupted steps, remotes, approvals
(docs/decisions/0006-safety.md), landings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct

from gitswarm.errors import CorruptError, SwarmError
from gitswarm.git.merge import merging_repository
from gitswarm.git.refs import Refs
from gitswarm.git.repository import Repository
from gitswarm.git.sealed import SealedObjects
from gitswarm.ledger.approval import LANDED, ApprovalKind
from gitswarm.ledger.layout import HUMAN, KERNEL, RunLayout
from gitswarm.ledger.merging import Landing, common_bases, landings, merged_code, recorded_landings
from gitswarm.ledger.verify.chain import Chain, StepKey
from gitswarm.ledger.verify.commit_reader import Link, LinkReader, Mismatch
from gitswarm.ledger.verify.run_notes import RunNotes
from gitswarm.records.execution import BRANCH_PREFIX, RUNS_FOLDER
from gitswarm.records.routing import Decision

_ID = re.compile(r"[0-9a-f]{40}")
_GITHUB = "noreply@github.com"


def read_notes(refs: Refs, reader: LinkReader, layout: RunLayout) -> RunNotes:
    """Today's notes of a run; what cannot be read of them is a finding of the reader."""
    events, routing = (noted(refs, reader, ref) for ref in (layout.events_notes, layout.routing_notes))
    notes = {}
    for commit, blob_id in (routing or {}).items():
        where = partial(_unreadable_note, layout.routing_notes, commit)
        if (note := reader.note(blob_id, where)) is not None:
            notes[commit] = note
    entries = (entry for note in notes.values() for entry in note.entries)
    forks = tuple(entry for entry in entries if isinstance(entry, Decision) and entry.fork is not None)
    return RunNotes(events, notes if routing is not None else None, forks)


def _unreadable_note(ref: str, commit: str, message: str) -> Mismatch:
    return Mismatch(commit=commit, check="notes", path=ref, message=message)


def noted(refs: Refs, reader: LinkReader, ref: str) -> dict[str, str] | None:
    """Commit → id of its note; None: there is no such ref."""
    try:
        tip = refs.read(ref)
        if tip is None:
            return None
        files = reader.objects.files(reader.objects.commit(tip).tree)
        found = ((path.replace("/", ""), entry.id) for path, entry in files)
        return {name: blob_id for name, blob_id in found if _ID.fullmatch(name)}
    except CorruptError as error:
        reader.findings.append(Mismatch(check="notes", path=ref, message=error.message))
        return {}


def sibling_commits(refs: Refs, layout: RunLayout) -> list[str]:
    """Commits of parallel steps, in the order of their refs."""
    found = (_read(refs, name) for name in refs.list(layout.fork_prefix))
    return list(dict.fromkeys(commit for commit in found if commit is not None))


def interrupted(refs: Refs, objects: SealedObjects, layout: RunLayout) -> dict[StepKey, int]:
    """Highest iteration per flow and step of executions that were cut off, as what was kept of them says."""
    highest: dict[StepKey, int] = {}
    for name in refs.list(layout.rollback_prefix):
        lines = _message_lines(refs, objects, name)
        flow, step, iteration = (lines.get(f"Swarm-{what}", "") for what in ("Flow", "Step", "Iteration"))
        if iteration.isdecimal():
            highest[flow, step] = max(highest.get((flow, step), 0), int(iteration))
    return highest


def _message_lines(refs: Refs, objects: SealedObjects, name: str) -> dict[str, str]:
    commit = _read(refs, name)
    try:
        message = objects.commit(commit).message if commit else ""
    except CorruptError:
        return {}
    pairs = (line.partition(": ") for line in message.split("\n"))
    return {key: value for key, colon, value in pairs if colon}


def remote_tips(refs: Refs, layout: RunLayout) -> Iterator[str]:
    """Where remotes had the run's branch when they were asked last."""
    suffix = layout.branch.removeprefix("refs/heads")
    for name in refs.list("refs/remotes/"):
        if name.endswith(suffix) and (commit := _read(refs, name)) is not None:
            yield commit


def _read(refs: Refs, name: str) -> str | None:
    """None also for a ref that is damaged: git itself says so everywhere."""
    try:
        return refs.read(name)
    except CorruptError:
        return None


class Statement(Struct, frozen=True):
    """A commit that approves, rejects or voids (`kind`) the commit `about` and its code; of a void, `about` is the
    approval."""

    link: Link
    kind: ApprovalKind
    about: str
    code: str


def statements(link: Link) -> list[Statement]:
    values = ((kind, link.trailers[kind].partition(" ")) for kind in ApprovalKind if kind in link.trailers)
    return [Statement(link, kind, about, code) for kind, (about, _blank, code) in values]


def code_tree(objects: SealedObjects, tree: str, base_tree: str) -> str:
    """Id of a tree of the run with `.swarm/runs` of what it branched off.

    :raises CorruptError: something of it cannot be read.
    """
    runs = objects.entry(base_tree, RUNS_FOLDER)
    return objects.with_folder(tree, RUNS_FOLDER, runs.id if runs and runs.is_folder else None)


def check_approvals(
    found: Iterable[Statement], objects: SealedObjects, bases: Mapping[str, str]
) -> Iterator[Mismatch]:
    """Each approval, rejection or void is by somebody who may say it, about its own parent and the code of that.

    :param bases: commit → what its code is a change of.
    """
    approvals: set[str] = set()
    for each in found:
        link = each.link
        if link.execution is None or link.execution.agent not in (HUMAN, KERNEL):
            yield link.finding("approval", f"{each.kind} is said by {link.commit.author.name}")
        if each.kind is ApprovalKind.VOIDS:
            if each.about not in approvals:
                yield link.finding("approval", f"Swarm-Voids names {each.about}, which approves nothing here")
            continue
        if each.kind is ApprovalKind.APPROVES:
            approvals.add(link.id)
        if each.about != link.parent:
            yield link.finding("approval", f"{each.kind} names {each.about}, it stands on {link.parent}")
        if each.kind is ApprovalKind.REJECTS and link.trailers.get("Swarm-Status") != "BLOCKED":
            yield link.finding("approval", "it rejects, and its status is not BLOCKED")
        code = _code(objects, each.about, bases.get(link.id, ""))
        if code is not None and code != each.code:
            yield link.finding("approval", f"{each.kind} names the code {each.code}, that commit has {code}")


def _code(objects: SealedObjects, commit: str, base: str) -> str | None:
    """None: it cannot be read, which is a finding elsewhere; or it is no commit at all."""
    try:
        return code_tree(objects, objects.commit(commit).tree, objects.commit(base).tree)
    except CorruptError:
        return None


def check_ref(standing: Sequence[Statement], layout: RunLayout, found: str | None) -> Iterator[Mismatch]:
    """The ref is a view of the newest statement.

    :param found: where it points.
    """
    last = standing[-1] if standing else None
    wanted = last.link.id if last and last.kind is ApprovalKind.APPROVES else None
    if found == wanted:
        return
    if found is None:
        message = f"{layout.approval_ref} is missing; the chain has the approval"
        yield Mismatch(commit=wanted, check="approval", message=message, severity="warning")
    else:
        stands = f"the approval that stands is {wanted}" if wanted else "no approval stands"
        yield Mismatch(commit=found, check="approval", message=f"{layout.approval_ref} points here, but {stands}")


def landings_anywhere(repository: Repository, layout: RunLayout, branch: str | None, base: str) -> list[Landing]:
    """Landings of a run, newest first.

    :param branch: where to look, a full name; None, or one that is not here: on every local branch.
    :param base: where the run branched off; before that there can be none.
    :raises GitFailedError: git could not look.
    """
    exists = branch is not None and repository.refs.read(branch) is not None
    where = [branch] if branch is not None and exists else [f"--exclude={BRANCH_PREFIX}*", "--branches"]
    return recorded_landings(repository, where, layout.run_id, base)


def check_landings(
    repository: Repository, layout: RunLayout, found: Sequence[Landing], made: Iterable[Statement], chain: Chain
) -> Iterator[Mismatch]:
    """Each landing names an approved commit of the chain, and has the code that merging it makes."""
    approved = {statement.about for statement in made if statement.kind is ApprovalKind.APPROVES}
    for landing in found:
        if landing.approved not in chain.ids:
            is_kept = _is_kept(repository, layout, landing.approved)
            what = "was rolled back since" if is_kept else "is not on the run's branch"
            finding = _finding(landing, f"{LANDED} names {landing.approved}, which {what}")
            yield finding.model_copy(update={"severity": "warning"}) if is_kept else finding
            continue
        if landing.approved not in approved:
            yield _finding(landing, f"{LANDED} names {landing.approved}, which nobody approved")
        yield from _tree(repository, layout, landing, chain.base or "")


def _is_kept(repository: Repository, layout: RunLayout, commit: str) -> bool:
    """Whether a rollback has set a commit aside."""
    kept = repository.refs.list(layout.rollback_prefix)
    return any(repository.git.run("merge-base", "--is-ancestor", commit, name).returncode == 0 for name in kept)


def _tree(repository: Repository, layout: RunLayout, landing: Landing, base: str) -> Iterator[Mismatch]:
    if not landing.before:
        yield _not_computable(landing, "the commit before it is not here")
        return
    try:
        with merging_repository(repository) as scratch:
            expected = _expected(scratch, layout, landing, base)
            actual = scratch.objects.commit(landing.commit).tree
    except SwarmError as error:
        yield _not_computable(landing, error.message)
        return
    if isinstance(expected, str):
        yield _not_computable(landing, expected)
    elif actual in expected:
        return
    elif landing.committer == _GITHUB:
        yield _not_computable(landing, "it was merged on GitHub")
    else:
        yield _finding(landing, f"its tree is not what merging {landing.approved} into the branch makes")


def _not_computable(landing: Landing, why: str) -> Mismatch:
    found = _finding(landing, f"its tree cannot be recomputed: {why}")
    return found.model_copy(update={"severity": "warning"})


def _expected(scratch: Repository, layout: RunLayout, landing: Landing, base: str) -> tuple[str, str] | str:
    """The merged tree, and the same with the run's evidence; or why they cannot be computed."""
    objects = scratch.objects
    earlier = landings(scratch, landing.before, layout.run_id, base)
    bases = common_bases(scratch, landing.approved, earlier, landing.before)
    if len(bases) != 1:
        return f"the run and the branch parted at {len(bases)} commits"
    merged = merged_code(scratch, landing.approved, landing.before, bases)
    if merged.conflicts:
        return "its code and the branch conflict"
    evidence = objects.entry(objects.commit(landing.approved).tree, layout.base)
    return merged.tree, objects.with_subtree(merged.tree, layout.base, evidence)


def _finding(landing: Landing, message: str) -> Mismatch:
    return Mismatch(commit=landing.commit, check="approval", message=message)
