"""`wisdom list|show`: what runs learned, and what they propose to change."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator
from typing import Annotated

from gitswarm.cli.arguments import Argument, Option
from gitswarm.cli.console import advise, hanging, labelled, out, out_bytes, out_json, out_lines, plural
from gitswarm.cli.runs import JsonFlag, reader_here
from gitswarm.errors import SwarmError
from gitswarm.ledger.scent_trail import (
    EditedFile,
    Misfit,
    Offer,
    edited_files,
    find_offer,
    offers,
    read_wisdom,
    scent_trail,
)
from gitswarm.records.json_value import JsonValue
from gitswarm.records.text import listed

ProposalArgument = Annotated[str, Argument(metavar="ID", help="As `wisdom list` says it: 4a1f0c/WP-001.")]
_DAY = 10


def list_wisdom(
    everything: Annotated[bool, Option("--all", help="Also proposals that were applied or dismissed.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Lessons over all runs, and the proposals that are open."""
    wisdom = read_wisdom(reader_here())
    lessons = scent_trail(wisdom.runs).lessons
    chosen = [each for each in offers(wisdom) if everything or each.settled is None]
    if as_json:
        out_json(
            {
                "lessons": [each.to_plain() for each in lessons],
                "proposals": [_plain(each) for each in chosen],
                "unreadable": list(wisdom.unreadable),
            }
        )
        return
    for lesson in lessons:
        about = f"{plural(lesson.runs, 'run')}, the newest {lesson.run}, {lesson.confidence} confidence"
        out_lines(labelled(lesson.kind, lesson.lesson, f"({about}; {listed(lesson.scope)})"))
    for offer in chosen:
        state = f" ({offer.settled.state})" if offer.settled is not None else ""
        out_lines(hanging(f"{offer.id}  ", f"{offer.proposal.title}{state}"))
    out_lines(f"unreadable {name}: not what git-swarm wrote there" for name in wisdom.unreadable)
    if chosen:
        out(f"look       git swarm wisdom show {chosen[0].id}")
    elif not lessons:
        out("no run has learned anything yet")
        advise("git swarm start wisdom -m 'the task'")


def show(
    proposal: ProposalArgument,
    only_diff: Annotated[bool, Option("--diff", help="Only the diff: pipe it into git apply.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """A proposal: why, and its change as a diff against HEAD."""
    repository = reader_here()
    wisdom = read_wisdom(repository)
    offer = find_offer(wisdom, proposal)
    tree = repository.objects.commit(repository.resolve("HEAD")).tree
    edited = edited_files(offer.proposal.edits, lambda path: repository.objects.file(tree, path))
    if as_json:
        misfit = f"{edited.path}: {edited.found}" if isinstance(edited, Misfit) else None
        diff = None if isinstance(edited, Misfit) else _diff(edited).decode(errors="replace")
        out_json({**_plain(offer), "diff": diff, "misfit": misfit})
        return
    if only_diff:
        if isinstance(edited, Misfit):
            raise SwarmError(f"{edited.path}: {edited.found}", hint=f"git swarm wisdom show {offer.id}")
        _out_diff(edited)
        return
    _show_offer(offer)
    if isinstance(edited, Misfit):
        out_lines(hanging("does not fit HEAD: ", f"{edited.path}: {edited.found}"))
        for edit in offer.proposal.edits:
            out(f"── {edit.path}: old text")
            out(edit.old or "(a new file)")
            out("── new text")
            out(edit.new)
    else:
        _out_diff(edited)
        if offer.settled is None or offer.settled.state == "dismissed":
            out(f"apply      git swarm wisdom apply {offer.id}")
    if offer.settled is None:
        out(f"dismiss    git swarm wisdom dismiss {offer.id} -m 'WHY'")


def _show_offer(offer: Offer) -> None:
    proposal, settled = offer.proposal, offer.settled
    out_lines(hanging(f"{offer.id}  ", proposal.title))
    out_lines(labelled("run", f"{offer.run.run_id}, {offer.run.date[:_DAY]}, {offer.run.outcome.replace('_', ' ')}"))
    out_lines(labelled("why", *proposal.why.split("\n\n")))
    for learning in offer.run.lessons:
        if learning.id in proposal.learnings:
            out_lines(labelled(learning.id, learning.lesson))
    if settled is not None:
        where = f" on {settled.branch} as {(settled.commit or '')[:12]}" if settled.branch else ""
        out_lines(labelled(settled.state, f"{settled.date[:_DAY]}{where}{': ' if settled.why else ''}{settled.why}"))


def _plain(offer: Offer) -> dict[str, JsonValue]:
    settled = offer.settled
    return {
        "id": offer.id,
        "run_id": offer.run.run_id,
        "date": offer.run.date,
        "proposal": offer.proposal.to_plain(),
        "state": settled.state if settled is not None else "open",
        "settled": settled.to_plain() if settled is not None else None,
    }


def _out_diff(files: list[EditedFile]) -> None:
    """Byte for byte into a pipe; on a terminal without what would steer it."""
    content = _diff(files)
    if sys.stdout.isatty():
        out(content.decode(errors="replace").removesuffix("\n"))
    else:
        out_bytes(content)


def _diff(files: list[EditedFile]) -> bytes:
    return b"".join(line for file in files for line in _file_diff(file))


def _file_diff(file: EditedFile) -> Iterator[bytes]:
    """The difference of one file as git writes it."""
    name = file.path.encode()
    yield b"diff --git a/%s b/%s\n" % (name, name)
    if file.old is None:
        yield b"new file mode 100644\n"
    before, after = ((content or b"").splitlines(keepends=True) for content in (file.old, file.new))
    origin = b"a/" + name if file.old is not None else b"/dev/null"
    for line in difflib.diff_bytes(difflib.unified_diff, before, after, origin, b"b/" + name, lineterm=b"\n"):
        yield line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n"
