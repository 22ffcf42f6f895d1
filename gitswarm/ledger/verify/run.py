"""Verifies a whole run: its commits one after the other, oldest first, each by every check.

It also says relative to which commit the run is sound: git's own ids carry the trust from there to the first
byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct, field

from gitswarm.errors import GarbledError, SwarmError
from gitswarm.git.repository import Repository
from gitswarm.ledger.approval import ApprovalKind
from gitswarm.ledger.landed import Landing
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.message import Kind, parse_message
from gitswarm.ledger.rescue import strayed
from gitswarm.ledger.verify.chain import (
    Chain,
    ChainCounts,
    StepKey,
    check_copied_notes,
    check_numbers,
    check_replay,
    check_start,
    executed_chain,
    walk,
)
from gitswarm.ledger.verify.commit_record import check_events, check_trailers
from gitswarm.ledger.verify.notes import RunNotes, check_decision, check_notes, missing_notes
from gitswarm.ledger.verify.reader import CHECKS, Check, Link, LinkReader, Mismatch, Report
from gitswarm.ledger.verify.run_files import Frozen, PaperReader, Papers, check_paths, event_problems
from gitswarm.ledger.verify.stored import (
    Statement,
    check_landings,
    check_ref,
    check_words,
    hub_tips,
    interrupted,
    landings_anywhere,
    read_notes,
    sibling_commits,
    statements,
)
from gitswarm.records.run_spec import RunSpec


class Witnesses(Struct, frozen=True):
    """Commits that others say the run had. `asked`: a person; `landed`: target branches; `hubs`: remotes, when they
    were asked last; `approved`: the chain itself."""

    asked: str | None
    landed: Sequence[str]
    hubs: Sequence[str]
    approved: Sequence[str]


def trusted_commit(witnesses: Witnesses, chain: Sequence[str]) -> str | None:
    """The commit to rely on; None: nobody but the branch itself knows the run."""
    said = (*((witnesses.asked,) if witnesses.asked else ()), *witnesses.landed, *witnesses.hubs, *witnesses.approved)
    return next((commit for commit in said if commit in chain), None)


def check_trust(witnesses: Witnesses, chain: Sequence[str], kept: Callable[[], Iterable[str]]) -> list[Mismatch]:
    """
    :param kept: commits that the run had and knows of, but off its branch.
    """
    findings = []
    if witnesses.asked is not None and witnesses.asked not in chain:
        findings.append(
            Mismatch(commit=witnesses.asked, check="chain", message="the trusted tip is not on the branch")
        )
    for commit in witnesses.hubs:
        if commit not in chain and commit not in kept():
            message = "a remote had the run's branch here; it is no longer on the branch, and nothing was set aside"
            findings.append(Mismatch(commit=commit, check="chain", message=message))
    return findings


class _Look(Struct):
    """One look at a run, as far as it has come.

    `siblings`: commits beside the branch, by id; `notes`, and `begun`, the files of the `run` commit, by id of the
    run; `said`: about the code; `made`: how often each check was made.
    """

    repository: Repository
    layout: RunLayout
    reader: LinkReader
    chain: Chain
    siblings: dict[str, Link] = field(default_factory=dict)
    notes: dict[str, RunNotes] = field(default_factory=dict)
    begun: dict[str, Papers] = field(default_factory=dict)
    said: list[Statement] = field(default_factory=list)
    findings: list[Mismatch] = field(default_factory=list)
    made: Counter[Check] = field(default_factory=Counter)

    def ask(self, check: Check, found: Iterable[Mismatch]) -> None:
        self.made[check] += 1
        self.findings += found

    @property
    def spec(self) -> RunSpec | None:
        begun = self.begun.get(self.layout.run_id)
        return begun.spec if begun else None


def verify_run(repository: Repository, layout: RunLayout, trusted: str | None = None) -> Report:
    """
    :param trusted: id of a commit that the run is known to have had; None: what remotes and branches say.
    :raises GarbledError: the ref of the branch, or of the base, is damaged.
    """
    objects = repository.sealed_objects()
    tip = repository.refs.read(layout.branch) or ""
    base = repository.refs.read(layout.base_ref)
    chain = walk(objects, layout, tip, base)
    look = _Look(repository, layout, LinkReader(objects), chain)
    look.findings += chain.findings
    look.made["chain"] += len(chain.commits)
    look.findings += _refs(look, tip, base)
    chain = look.chain = executed_chain(objects, chain)
    look.findings += chain.findings if chain.copies else ()
    _read_beside(look)
    _look_along(look)
    _look_beside(look)
    landed = _look_at_landings(look)
    witnesses = Witnesses(
        trusted,
        [landing.approved for landing in landed],
        list(hub_tips(repository.refs, layout)),
        [said.about for said in reversed(look.said) if said.word is ApprovalKind.APPROVES],
    )
    look.findings += check_trust(witnesses, chain.ids, lambda: _kept(look))
    look.findings += look.reader.findings
    look.made["objects"] = objects.seen
    return Report(
        run_id=layout.run_id,
        tip=tip,
        trusted=trusted_commit(witnesses, chain.ids),
        commits=len(chain.commits) + len(look.siblings),
        findings=tuple(_in_order(look.findings, [*chain.ids, *look.siblings])),
        checks={check: look.made[check] for check in CHECKS},
    )


def _refs(look: _Look, tip: str, base: str | None) -> Iterator[Mismatch]:
    """The refs of a run against its commits."""
    layout, chain = look.layout, look.chain
    if base is None:
        message = f"{layout.base_ref} is missing; the first commit knows it"
        yield Mismatch(check="chain", message=message, severity="warning")
    elif chain.base is not None and chain.base != base:
        yield Mismatch(
            commit=base, check="chain", message=f"{layout.base_ref} points here, the run began on {chain.base}"
        )
    own = next((item.commit.id for item in reversed(chain.commits) if item.layout == layout), None)
    if own is None or look.chain.findings:
        return
    try:
        found = strayed(look.repository, layout, own)
    except (SwarmError, KeyError, ValueError):
        return  # something cannot be read, which is said where it is looked for
    if found is None or found.newest == look.repository.refs.read(layout.next_ref):
        return
    if look.repository.refs.read(layout.branch) == tip:  # else it goes on at this very moment
        message = f"the run had this commit; the branch is at {tip} instead, and nothing was set aside"
        yield Mismatch(commit=found.newest, check="chain", message=message)


def _read_beside(look: _Look) -> None:
    """The commits of steps that were executed beside others: those that the refs hold, and those that the chain
    names."""
    held = dict.fromkeys(sibling_commits(look.repository.refs, look.layout), look.layout)
    for item in look.chain.commits:
        named = item.message.trailers.get("Swarm-Fork-Commit")
        if named is not None and named not in held and look.reader.objects.has(named):
            held[named] = item.layout
    for commit_id, layout in held.items():
        try:
            commit = look.reader.objects.commit(commit_id)
        except (GarbledError, ValueError) as error:
            look.findings.append(Mismatch(commit=commit_id, check="objects", message=str(error)))
            continue
        message = parse_message(commit.message)
        if message is None or message.trailers.get("Swarm-Run") != layout.run_id:
            continue  # a person may have put it there
        link = look.reader.read(layout, commit, message, beside=True)
        if link is not None:
            look.siblings[commit_id] = link


def _look_along(look: _Look) -> None:
    """Every commit on the chain, with what came before it."""
    progress, earlier = ChainCounts(), set[str]()
    gaps = _gaps(look)
    for item in look.chain.commits:
        link = look.reader.read(item.layout, item.commit, item.message)
        if link is None:
            continue
        papers = _look_at(look, link)
        is_own = link.layout == look.layout
        look.ask("numbers", check_numbers(link, papers, progress, gaps if is_own else None))
        if link.execution is not None and "Swarm-Fork" in link.said:
            look.ask("forks", check_start(link, earlier))
        if link.replays is not None:
            found = check_replay(link, look.siblings.get(link.replays))
            look.ask("forks", (finding for finding in found if is_own or finding.severity == "error"))
        if is_own:
            look.said += statements([link])
        progress = progress.after(link)
        earlier |= {link.id, look.chain.copies.get(link.id, link.id)}


def _look_beside(look: _Look) -> None:
    """The commits beside the branch, by the same measure; they may have started from what was rolled back."""
    for link in look.siblings.values():
        _look_at(look, link)
        if link.said.get("Swarm-Fork") != link.parent:
            look.ask("forks", [link.finding("forks", f"its parent is not the fork {link.said.get('Swarm-Fork')}")])


def _look_at(look: _Look, link: Link) -> Papers:
    """Everything about a commit that needs no other one."""
    reader = PaperReader(link)
    papers = reader.read()
    if link.kind is Kind.RUN:
        look.begun[link.layout.run_id] = papers
    look.ask("schemas", [*reader.findings, *event_problems(link, papers)])
    look.ask("trailers", check_trailers(link, papers))
    look.ask("events", check_events(link, papers))
    notes = _notes(look, link.layout)
    look.ask("notes", check_notes(link, notes))
    look.findings += check_decision(link, papers, notes)
    begun = look.begun.get(link.layout.run_id)
    if begun is not None and begun.flows is not None and begun.stations is not None:
        look.ask("paths", check_paths(link, papers, Frozen(begun.flows, begun.stations)))
    return papers


def _notes(look: _Look, layout: RunLayout) -> RunNotes:
    if layout.run_id not in look.notes:
        notes = look.notes[layout.run_id] = read_notes(look.repository.refs, look.reader, layout)
        # A run that this one was forked from need not be here any more; one that just begins has no notes yet.
        if layout == look.layout and len(look.chain.own) > 1:
            look.findings += missing_notes(layout, notes)
            look.findings += check_copied_notes(look.chain, notes)
    return look.notes[layout.run_id]


def _gaps(look: _Look) -> dict[StepKey, int]:
    """Highest iterations of executions that came to no commit on the branch."""
    highest = interrupted(look.repository.refs, look.reader.objects, look.layout)
    for link in look.siblings.values():
        if link.execution is not None and link.layout == look.layout:
            key = (link.execution.flow, link.execution.step)
            highest[key] = max(highest.get(key, 0), link.execution.iteration)
    return highest


def _look_at_landings(look: _Look) -> Sequence[Landing]:
    layout, base = look.layout, look.chain.base
    if base is None:
        return ()
    look.ask("approval", check_words(look.said, look.reader.objects, look.chain.bases))
    standing = [
        said for said in look.said if said.word is not ApprovalKind.APPROVES or said.link.id not in look.chain.copies
    ]
    try:
        look.findings += check_ref(standing, layout, look.repository.refs.read(layout.approval_ref))
    except GarbledError as error:
        look.findings.append(Mismatch(check="approval", path=layout.approval_ref, message=error.message))
    target = look.spec.settings.deploy.target or look.spec.base_ref if look.spec else None
    branch = target if target is None or target.startswith("refs/") else f"refs/heads/{target}"
    try:
        found = landings_anywhere(look.repository, layout, branch, base)
    except SwarmError as error:
        look.findings.append(Mismatch(check="approval", message=error.message, severity="warning"))
        return ()
    if found:
        look.ask("approval", check_landings(look.repository, layout, found, look.said, look.chain))
    return found


def _kept(look: _Look) -> set[str]:
    """Commits that were set aside: what a rollback took off the branch."""
    objects, refs = look.reader.objects, look.repository.refs
    found: set[str] = set()
    known = set(look.chain.ids)
    for name in refs.list(look.layout.rollback_prefix):
        cursor = refs.read(name)
        while cursor is not None and cursor not in known:
            known.add(cursor)
            found.add(cursor)
            try:
                parents = objects.commit(cursor).parents
            except GarbledError:
                break
            cursor = parents[0] if parents else None
    return found


def _in_order(findings: Sequence[Mismatch], commits: Sequence[str]) -> list[Mismatch]:
    """As the commits lie on the chain, then those about none of them; each once."""
    place = {commit: index for index, commit in enumerate(commits)}
    unique = {finding.model_dump_json(): finding for finding in findings}
    return sorted(unique.values(), key=lambda finding: place.get(finding.commit or "", len(place)))
