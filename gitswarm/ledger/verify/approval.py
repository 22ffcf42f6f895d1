"""What was said about a run's code on its chain: approved, rejected, void (docs/decisions/0006-safety.md)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from gitswarm.errors import GarbledError
from gitswarm.git.sealed import SealedObjects
from gitswarm.ledger.approval import ApprovalKind
from gitswarm.ledger.layout import HUMAN, KERNEL, RunLayout
from gitswarm.ledger.verify.finding import Mismatch
from gitswarm.ledger.verify.link import Link
from gitswarm.records.execution import RUNS_FOLDER


class Statement(Struct, frozen=True):
    """A commit that says `word` about the commit `about` and its code; of a VOIDS, `about` is the approval."""

    link: Link
    word: ApprovalKind
    about: str
    code: str


def statements(links: Iterable[Link]) -> list[Statement]:
    """Everything that was said, oldest first."""
    return [
        Statement(link, word, *_two(link.said[word])) for link in links for word in ApprovalKind if word in link.said
    ]


def code_tree(objects: SealedObjects, tree: str, base_tree: str) -> str:
    """Id of a tree of the run with `.swarm/runs` of what it branched off.

    :raises GarbledError: something of it cannot be read.
    """
    runs = objects.entry(base_tree, RUNS_FOLDER)
    return objects.with_folder(tree, RUNS_FOLDER, runs.id if runs and runs.is_folder else None)


def check_words(said: Iterable[Statement], objects: SealedObjects, bases: Mapping[str, str]) -> Iterator[Mismatch]:
    """Each is by somebody who may say it, about the commit that it stands on, and about the code that it has.

    :param bases: commit → what its code is a change of.
    """
    approvals: set[str] = set()
    for word in said:
        link = word.link
        if link.execution is None or link.execution.agent not in (HUMAN, KERNEL):
            yield link.finding("approval", f"{word.word} is said by {link.commit.author.name}")
        if word.word is ApprovalKind.VOIDS:
            if word.about not in approvals:
                yield link.finding("approval", f"Swarm-Voids names {word.about}, which approves nothing here")
            continue
        if word.word is ApprovalKind.APPROVES:
            approvals.add(link.id)
        if word.about != link.parent:
            yield link.finding("approval", f"{word.word} names {word.about}, it stands on {link.parent}")
        if word.word is ApprovalKind.REJECTS and link.said.get("Swarm-Status") != "BLOCKED":
            yield link.finding("approval", "it rejects, and its status is not BLOCKED")
        code = _code(objects, word.about, bases.get(link.id, ""))
        if code is not None and code != word.code:
            yield link.finding("approval", f"{word.word} names the code {word.code}, that commit has {code}")


def _code(objects: SealedObjects, commit: str, base: str) -> str | None:
    """None: it cannot be read, which is a finding elsewhere; or it is no commit at all."""
    try:
        return code_tree(objects, objects.commit(commit).tree, objects.commit(base).tree)
    except GarbledError:
        return None


def check_ref(said: Sequence[Statement], layout: RunLayout, found: str | None) -> Iterator[Mismatch]:
    """The ref is a view of the newest word.

    :param found: where it points.
    """
    last = said[-1] if said else None
    wanted = last.link.id if last and last.word is ApprovalKind.APPROVES else None
    if found == wanted:
        return
    if found is None:
        message = f"{layout.approval_ref} is missing; the chain has the approval"
        yield Mismatch(commit=wanted, check="approval", message=message, severity="warning")
    else:
        stands = f"the approval that stands is {wanted}" if wanted else "no approval stands"
        yield Mismatch(commit=found, check="approval", message=f"{layout.approval_ref} points here, but {stands}")


def _two(value: str) -> tuple[str, str]:
    first, _blank, second = value.partition(" ")
    return first, second
