"""Verifies a whole run: its commits one after the other, oldest first, each by every check.

It also says relative to which commit the run is sound: git's own ids carry the trust from there to the first byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, field

from gitswarm.errors import CorruptError, SwarmError
from gitswarm.git.repository import Repository
from gitswarm.ledger.approval import ApprovalKind
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.merging import Landing
from gitswarm.ledger.message import Kind, parse_message
from gitswarm.ledger.rescue import find_orphaned_commits
from gitswarm.ledger.verify.chain import (
    Chain,
    ChainCounts,
    StepKey,
    check_numbers,
    check_replay,
    check_start,
    executed_chain,
    walk,
)
from gitswarm.ledger.verify.commit_reader import CHECKS, ChainCommit, Check, Link, LinkReader, Mismatch, Report
from gitswarm.ledger.verify.commit_record import check_events, check_trailers
from gitswarm.ledger.verify.run_files import CommitFiles, FileReader, check_paths, check_payloads
from gitswarm.ledger.verify.run_refs import (
    RunNotes,
    Statement,
    check_approvals,
    check_copied_notes,
    check_decision,
    check_landings,
    check_notes,
    check_ref,
    interrupted,
    landings_anywhere,
    missing_notes,
    noted,
    read_notes,
    remote_tips,
    sibling_commits,
    statements,
)


def verify_run(repository: Repository, layout: RunLayout, trusted: str | None = None) -> Report:
    """
    :param trusted: id of a commit that the run is known to have had; None: what remotes and branches say.
    :raises CorruptError: the ref of the branch, or of the base, is damaged.
    """
    objects = repository.sealed_objects()
    tip = repository.refs.read(layout.branch) or ""
    base = repository.refs.read(layout.base_ref)
    chain = walk(objects, layout, tip, base)
    run = _Verification(repository, layout, LinkReader(objects), chain)
    run.findings += chain.findings
    run.counts["chain"] += len(chain.commits)
    run.findings += run.check_refs(tip, base)
    chain = run.chain = executed_chain(objects, chain)
    run.findings += chain.findings if chain.copies else ()
    run.read_siblings()
    run.check_chain()
    run.check_siblings()
    landed = run.check_landings()
    run.findings += run.check_known(trusted)
    run.findings += run.reader.findings
    run.counts["objects"] = objects.seen
    approved = [each.about for each in reversed(run.statements) if each.kind is ApprovalKind.APPROVES]
    witnesses = (trusted, *(each.approved for each in landed), *remote_tips(repository.refs, layout), *approved)
    on_chain = set(chain.ids)
    return Report(
        run_id=layout.run_id,
        tip=tip,
        trusted=next((commit for commit in witnesses if commit in on_chain), None),
        commits=len(chain.commits) + len(run.siblings),
        findings=tuple(_in_order(run.findings, [*chain.ids, *run.siblings])),
        checks={check: run.counts[check] for check in CHECKS},
    )


class _Verification(Struct):
    """A verification, as far as it has come.

    `siblings`: commits of parallel steps that are not on the branch, by id; `notes`, and `begun`, the files of the
    `run` commit, by id of the run; `statements`: about the code; `counts`: how often each check was made.
    """

    repository: Repository
    layout: RunLayout
    reader: LinkReader
    chain: Chain
    siblings: dict[str, Link] = field(default_factory=dict)
    notes: dict[str, RunNotes] = field(default_factory=dict)
    begun: dict[str, CommitFiles] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    findings: list[Mismatch] = field(default_factory=list)
    counts: Counter[Check] = field(default_factory=Counter)

    def add(self, check: Check, found: Iterable[Mismatch]) -> None:
        self.counts[check] += 1
        self.findings += found

    def check_refs(self, tip: str, base: str | None) -> Iterator[Mismatch]:
        """The refs of a run against its commits."""
        layout, chain, refs = self.layout, self.chain, self.repository.refs
        if base is None:
            message = f"{layout.base_ref} is missing; the first commit knows it"
            yield Mismatch(check="chain", message=message, severity="warning")
        elif chain.base is not None and chain.base != base:
            message = f"{layout.base_ref} points here, the run began on {chain.base}"
            yield Mismatch(commit=base, check="chain", message=message)
        own = next((item.id for item in reversed(chain.commits) if item.layout == layout), None)
        known = {item.id for item in chain.commits}
        if own is None or chain.findings or not (noted(refs, self.reader, layout.events_notes) or {}).keys() - known:
            return
        try:
            found = find_orphaned_commits(self.repository, layout, own)
        except (SwarmError, KeyError, ValueError):
            return  # something cannot be read, which is a finding of its own
        if found is None or found.newest == refs.read(layout.next_ref):
            return
        if refs.read(layout.branch) == tip:  # else it moves at this very moment
            message = f"the run had this commit; the branch is at {tip} instead, and nothing was set aside"
            yield Mismatch(commit=found.newest, check="chain", message=message)

    def read_siblings(self) -> None:
        """The commits of parallel steps: those that the refs hold, and those that the chain names."""
        held = dict.fromkeys(sibling_commits(self.repository.refs, self.layout), self.layout)
        for item in self.chain.commits:
            named = item.trailers.get("Swarm-Fork-Commit")
            if named is not None and named not in held and self.reader.objects.has(named):
                held[named] = item.layout
        for commit_id, layout in held.items():
            try:
                commit = self.reader.objects.commit(commit_id)
            except (CorruptError, ValueError) as error:
                self.findings.append(Mismatch(commit=commit_id, check="objects", message=str(error)))
                continue
            message = parse_message(commit.message)
            if message is None or message.trailers.get("Swarm-Run") != layout.run_id:
                continue  # a person may have put it there
            link = self.reader.read(ChainCommit(layout, commit, message), parallel=True)
            if link is not None:
                self.siblings[commit_id] = link

    def check_chain(self) -> None:
        """Every commit on the chain, with what came before it."""
        counts, earlier = ChainCounts(), set[str]()
        gaps = self._gaps()
        for item in self.chain.commits:
            link = self.reader.read(item)
            if link is None:
                continue
            files = self._check_commit(link)
            is_own = link.layout == self.layout
            self.add("numbers", check_numbers(link, files, counts, gaps if is_own else None))
            if link.execution is not None and "Swarm-Fork" in link.trailers:
                self.add("forks", check_start(link, earlier))
            if link.replays is not None:
                found = check_replay(link, self.siblings.get(link.replays))
                self.add("forks", (finding for finding in found if is_own or finding.severity == "error"))
            if is_own:
                self.statements += statements(link)
            counts = counts.after(link)
            earlier |= {link.id, self.chain.copies.get(link.id, link.id)}

    def check_siblings(self) -> None:
        """Checks the commits of parallel steps like those on the chain; but they may have started from what was
        rolled back."""
        for link in self.siblings.values():
            self._check_commit(link)
            start = link.trailers.get("Swarm-Fork")
            if start != link.parent:
                self.add("forks", [link.finding("forks", f"its parent is not the fork {start}")])

    def check_landings(self) -> Sequence[Landing]:
        layout, base = self.layout, self.chain.base
        if base is None:
            return ()
        self.add("approval", check_approvals(self.statements, self.reader.objects, self.chain.bases))
        copies = self.chain.copies
        current = [
            each for each in self.statements if each.kind is not ApprovalKind.APPROVES or each.link.id not in copies
        ]
        try:
            self.findings += check_ref(current, layout, self.repository.refs.read(layout.approval_ref))
        except CorruptError as error:
            self.findings.append(Mismatch(check="approval", path=layout.approval_ref, message=error.message))
        begun = self.begun.get(layout.run_id)
        spec = begun.spec if begun is not None else None
        target = spec.settings.deploy.target or spec.base_ref if spec is not None else None
        branch = target if target is None or target.startswith("refs/") else f"refs/heads/{target}"
        try:
            found = landings_anywhere(self.repository, layout, branch, base)
        except SwarmError as error:
            self.findings.append(Mismatch(check="approval", message=error.message, severity="warning"))
            return ()
        if found:
            self.add("approval", check_landings(self.repository, layout, found, self.statements, self.chain))
        return found

    def check_known(self, trusted: str | None) -> Iterator[Mismatch]:
        """What others say that the run had is on its branch: who asks, and remotes when they were asked last."""
        chain = self.chain.ids
        if trusted is not None and trusted not in chain:
            yield Mismatch(commit=trusted, check="chain", message="the trusted tip is not on the branch")
        message = "a remote had the run's branch here; it is no longer on the branch, and nothing was set aside"
        for commit in remote_tips(self.repository.refs, self.layout):
            if commit not in chain and commit not in self._kept():
                yield Mismatch(commit=commit, check="chain", message=message)

    def _kept(self) -> set[str]:
        """Commits that were set aside: what a rollback took off the branch."""
        objects, refs = self.reader.objects, self.repository.refs
        known = set(self.chain.ids)
        found: set[str] = set()
        for name in refs.list(self.layout.rollback_prefix):
            cursor = refs.read(name)
            while cursor is not None and cursor not in known and cursor not in found:
                found.add(cursor)
                try:
                    parents = objects.commit(cursor).parents
                except CorruptError:
                    break
                cursor = parents[0] if parents else None
        return found

    def _check_commit(self, link: Link) -> CommitFiles:
        """Everything about a commit that needs no other one."""
        reader = FileReader(link)
        files = reader.read()
        if link.kind is Kind.RUN:
            self.begun[link.layout.run_id] = files
        self.add("schemas", [*reader.findings, *check_payloads(link, files)])
        self.add("trailers", check_trailers(link, files))
        self.add("events", check_events(link, files))
        notes = self._notes(link.layout)
        self.add("notes", check_notes(link, notes))
        self.findings += check_decision(link, files, notes)
        begun = self.begun.get(link.layout.run_id)
        if begun is not None:
            self.add("paths", check_paths(link, files, begun))
        return files

    def _notes(self, layout: RunLayout) -> RunNotes:
        if layout.run_id not in self.notes:
            notes = self.notes[layout.run_id] = read_notes(self.repository.refs, self.reader, layout)
            # A run that this one was forked from need not be here any more; one that just begins has no notes yet.
            if layout == self.layout and len(self.chain.own) > 1:
                self.findings += missing_notes(layout, notes)
                self.findings += check_copied_notes(self.chain, notes)
        return self.notes[layout.run_id]

    def _gaps(self) -> dict[StepKey, int]:
        """Highest iterations of executions without a commit on the branch."""
        highest = interrupted(self.repository.refs, self.reader.objects, self.layout)
        for link in self.siblings.values():
            if link.execution is not None and link.layout == self.layout:
                key = (link.execution.flow, link.execution.step)
                highest[key] = max(highest.get(key, 0), link.execution.iteration)
        return highest


def _in_order(findings: Sequence[Mismatch], commits: Sequence[str]) -> list[Mismatch]:
    """The findings in the order of their commits on the chain, then those about none of them; each once."""
    place = {commit: index for index, commit in enumerate(commits)}
    return sorted(dict.fromkeys(findings), key=lambda finding: place.get(finding.commit or "", len(place)))
