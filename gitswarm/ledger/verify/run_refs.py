"""What other refs than the branch say of a run: notes, against what the commits sealed of them and against the trees;
parallel and interrupted steps, remotes, approvals (docs/decisions/0006-safety.md), landings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.errors import CorruptError, SwarmError
from gitswarm.git.merge import merging_repository
from gitswarm.git.refs import Refs
from gitswarm.git.repository import Repository
from gitswarm.git.sealed import SealedObjects
from gitswarm.ledger.approval import LANDED, ApprovalKind
from gitswarm.ledger.layout import HUMAN, KERNEL, RunLayout
from gitswarm.ledger.merging import Landing, common_bases, is_in, landings, merged_code, recorded_landings
from gitswarm.ledger.message import Kind
from gitswarm.ledger.reading import Entry, RoutingNote
from gitswarm.ledger.verify.chain import Chain, StepKey
from gitswarm.ledger.verify.commit_reader import Link, LinkReader, Mismatch, Seal
from gitswarm.ledger.verify.run_files import CommitFiles
from gitswarm.records.event import EventKind
from gitswarm.records.execution import BRANCH_PREFIX, RUNS_FOLDER
from gitswarm.records.json_value import JsonValue
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


def check_ref(statements: Sequence[Statement], layout: RunLayout, found: str | None) -> Iterator[Mismatch]:
    """The ref is a view of the newest statement.

    :param found: where it points.
    """
    last = statements[-1] if statements else None
    wanted = last.link.id if last and last.kind is ApprovalKind.APPROVES else None
    if found == wanted:
        return
    if found is None:
        message = f"{layout.approval_ref} is missing; the chain has the approval"
        yield Mismatch(commit=wanted, check="approval", message=message, severity="warning")
    else:
        current = f"the approval that stands is {wanted}" if wanted else "no approval stands"
        yield Mismatch(commit=found, check="approval", message=f"{layout.approval_ref} points here, but {current}")


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
            yield replace(finding, severity="warning") if is_kept else finding
            continue
        if landing.approved not in approved:
            yield _finding(landing, f"{LANDED} names {landing.approved}, which nobody approved")
        yield from _tree(repository, layout, landing, chain.base or "")


def _is_kept(repository: Repository, layout: RunLayout, commit: str) -> bool:
    """Whether a rollback has set a commit aside."""
    return any(is_in(repository, commit, name) for name in repository.refs.list(layout.rollback_prefix))


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
    return replace(found, severity="warning")


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


class RunNotes(Struct, frozen=True):
    """The notes of a run as they are today. `events`: commit → blob id; `routing`: commit → note, of those that can
    be read; None: there is no such ref here. `forks`: every decision in them that is about a fork."""

    events: Mapping[str, str] | None
    routing: Mapping[str, RoutingNote] | None
    forks: tuple[Decision, ...] = ()


def missing_notes(layout: RunLayout, today: RunNotes) -> Iterator[Mismatch]:
    """Refs that are not here at all."""
    for ref, tip in ((layout.events_notes, today.events), (layout.routing_notes, today.routing)):
        if tip is None:
            message = f"{ref} is missing: the run's notes cannot be compared"
            yield Mismatch(check="notes", message=message, severity="warning")


def check_notes(link: Link, today: RunNotes) -> Iterator[Mismatch]:
    """The events note is the file in the tree; the parent's notes begin with what this commit sealed of them."""
    if today.events is not None and not link.parallel:
        yield from _events(link, today.events.get(link.id))
    if today.routing is not None and not link.parallel and link.id in today.routing:
        yield from _routing(link, today.routing[link.id])
    if link.kind is not Kind.RUN:
        yield from _sealed(link, link.seal, today.routing)


def _sealed(link: Link, seal: Seal | None, today: Mapping[str, RoutingNote] | None) -> Iterator[Mismatch]:
    if seal is None:
        if link.parent_events is not None:
            yield link.finding("notes", "Swarm-Prev-Notes is missing")
        return
    if link.parent_events is not None and seal.events_id != link.parent_events:
        yield link.finding("notes", "Swarm-Prev-Notes names other events than the parent's tree has")
    if seal.routing_id is None and link.trailers.get("Swarm-By") != "command":
        # A command that a person typed out of band may stand on an end, after which nothing was decided.
        yield link.finding("notes", "Swarm-Prev-Notes names no decision that led here")
    elif seal.routing is not None and today is not None:
        found = today.get(link.parent or "")
        if found is None:
            message = f"the routing note of {link.parent} is missing; git cat-file -p {seal.routing_id} has it"
            yield link.warning("notes", message)
        elif not found.content.startswith(seal.routing.content):
            message = f"the routing note of {link.parent} is not what it was when this was committed"
            yield link.finding("notes", message)


def _events(link: Link, note: str | None) -> Iterator[Mismatch]:
    if note is None and link.own_events is not None:
        yield link.warning("notes", "the events note is missing; the tree has what it said", link.events)
    elif note != link.own_events:
        yield link.finding("notes", "the events note is not the file in the tree", link.events)


def _routing(link: Link, note: RoutingNote) -> Iterator[Mismatch]:
    if note.is_corrupt:
        yield link.finding("notes", "its routing note has a line that is not a decision")
    elif any(entry.seq != number for number, entry in enumerate(note.entries, start=1)):
        yield link.finding("notes", "the decisions in its routing note do not count from 1 without gaps")
    elif not note.holds_only_entries:
        yield link.warning("notes", "its routing note has more than its decisions: somebody added to it")


def check_decision(link: Link, files: CommitFiles, today: RunNotes) -> Iterator[Mismatch]:
    """The decision that the events begin with is the last one that the parent's note had then; of a
    parallel step, one about that fork."""
    first = files.events[0] if files.events else None
    if link.kind is Kind.RUN or first is None or first.kind is not EventKind.ROUTE_DECISION:
        return
    start = link.trailers.get("Swarm-Fork")
    known: Sequence[Entry]
    if start is not None and today.routing is not None:
        known = [decision for decision in today.forks if decision.fork and decision.fork.commit == start]
    elif start is None and link.seal is not None and link.seal.routing is not None:
        known = link.seal.routing.entries[-1:]
    else:
        return
    if not any(isinstance(each, Decision) and _is_logged_as(each, first.payload) for each in known):
        yield link.finding("events", "the decision that led there is not the one in the routing note", link.events)


def _is_logged_as(decision: Decision, payload: Mapping[str, JsonValue]) -> bool:
    """Each target of a fork logs it as the decision that leads there."""
    logged = decision.audit_fields()
    targets = [decision.to_step, *(decision.fork.pending if decision.fork else ())]
    return any({**logged, "to_step": target} == payload for target in targets)


def check_copied_notes(chain: Chain, notes: RunNotes) -> Iterator[Mismatch]:
    """A copy has the notes of its commit; what was decided after it may follow."""
    for item in chain.commits:
        executed, copy = item.id, chain.copies.get(item.id)
        if copy is None:
            continue
        events = {(notes.events or {}).get(name) for name in (executed, copy)} - {None}
        if len(events) > 1:
            yield item.finding("notes", f"the events note of its copy {copy[:12]} is another one")
        made, own = ((notes.routing or {}).get(name) for name in (copy, executed))
        if own is not None and not (made is not None and made.content.startswith(own.content)):
            yield item.finding("notes", f"the routing note of its copy {copy[:12]} begins otherwise")
