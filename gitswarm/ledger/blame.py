"""Which step wrote a line, by git's blame, on the branch of a run and on whatever it landed on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.errors import NotFoundError
from gitswarm.git.object_reader import Commit
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.approval import LANDED
from gitswarm.ledger.archive import read_if_archived
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.message import Kind, parse_message
from gitswarm.ledger.state import step_record
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.execution import RUN_ID

_LANDED = f"{LANDED}: "

_BLAME = ("-c", "core.quotePath=false", "blame", "--porcelain", "--no-textconv", "--ignore-revs-file=")


class Origin(Struct, frozen=True):
    """Where a line comes from. `commit`: who wrote it, by the history that was asked. `run`: None where no run
    did. `landing`: the commit that brought it to the target, where it was a landing. `step`: None where the run's
    own commits are not here, or where landing itself made the line."""

    line: int
    text: str
    commit: str
    run: str | None = None
    landing: str | None = None
    step: StepRecord | None = None


class _Blamed(Struct, frozen=True):
    line: int
    text: str
    commit: str
    path: str
    line_there: int


def origins(repository: RepositoryReader, revision: str, path: str, line: int | None = None) -> list[Origin]:
    """The origins of one line of a file, or of all.

    :param revision: a ref is that of `repository`: an archived run has one there, and none that git knows.
    :param path: from the top of the repository.
    :raises NotFoundError: there is no such file or line.
    """
    tip = repository.refs.read(revision) if revision.startswith("refs/") else None
    blamed = _blamed(repository, tip or revision, path, line)
    found: dict[tuple[str, str], Mapping[int, Origin]] = {}
    origins_found = []
    for each in blamed:
        plain = Origin(each.line, each.text, each.commit)
        commit = repository.objects.commit(each.commit)
        step = _step_of(commit)
        landed = _landed_of(commit)
        if step is not None:
            origins_found.append(replace(plain, run=step.execution.run_id, step=step))
        elif landed is not None:
            key = (each.commit, each.path)
            if key not in found:
                read_if_archived(repository, RunLayout(landed[0]))
                found[key] = _in_the_run(repository, commit, each.path, landed[1])
            within = found[key].get(each.line_there)
            step = within.step if within is not None else None
            origins_found.append(replace(plain, run=landed[0], landing=each.commit, step=step))
        else:
            origins_found.append(plain)
    return origins_found


def _step_of(commit: Commit) -> StepRecord | None:
    message = parse_message(commit.message)
    if message is None or message.trailers.get("Swarm-Kind") != Kind.STEP:
        return None
    run = message.trailers.get("Swarm-Run", "")
    try:
        return step_record(RunLayout(run), 0, commit, message) if RUN_ID.fullmatch(run) else None
    except (KeyError, ValueError, IndexError):
        return None  # a person's own


def _landed_of(commit: Commit) -> tuple[str, str] | None:
    """The run that a commit says it is a landing of, and the run's approved commit."""
    for line in commit.message.rstrip().rpartition("\n\n")[2].splitlines():
        run, _blank, approved = line.removeprefix(_LANDED).partition(" ")
        if line.startswith(_LANDED) and RUN_ID.fullmatch(run) and approved:
            return run, approved.strip()
    return None


def _in_the_run(repository: RepositoryReader, landing: Commit, path: str, approved: str) -> Mapping[int, Origin]:
    """Lines of a file, as the landing has them → who wrote them in the run; none where its commits are not here.

    The target may have had other lines around them: the two texts are matched line by line.
    """
    if repository.objects.peeled(approved) != approved:
        return {}
    trees = (landing.tree, repository.objects.commit(approved).tree)
    here, there = (repository.objects.file(tree, path) for tree in trees)
    if here is None or there is None:
        return {}
    found = origins(repository, approved, path)
    written = {each.line: each for each in found if each.step is not None and each.landing is None}
    matcher = SequenceMatcher(None, here.split(b"\n"), there.split(b"\n"), autojunk=False)
    return {
        block.a + offset + 1: written[block.b + offset + 1]
        for block in matcher.get_matching_blocks()
        for offset in range(block.size)
        if block.b + offset + 1 in written
    }


def _blamed(repository: RepositoryReader, revision: str, path: str, line: int | None) -> list[_Blamed]:
    span = ("-L", f"{line},{line}") if line is not None else ()
    done = repository.git.run(*_BLAME, *span, revision, "--", path)
    if done.returncode != 0:
        output = done.stderr.decode(errors="replace").strip().removeprefix("fatal: ")
        raise _missing(repository, revision, path, line, output)
    return list(_parsed(done.stdout.decode(errors="replace").split("\n")))


def _missing(repository: RepositoryReader, revision: str, path: str, line: int | None, output: str) -> NotFoundError:
    """What is not there: the file, or its line."""
    content = repository.objects.file(repository.objects.commit(revision).tree, path)
    if content is None:
        hint = f"git ls-tree -r --full-tree --name-only {revision[:12]}   (names the files)"
        return NotFoundError(f"there is no {path} in {revision[:12]}", hint=hint)
    count = len(content.splitlines())
    if line is None or line <= count:
        return NotFoundError(output, hint=f"git blame {revision[:12]} -- {path}")
    has = f"{path} has {count} line{'' if count == 1 else 's'} in {revision[:12]}"
    return NotFoundError(f"{has}, no line {line}", hint=f"git show {revision[:12]}:{path}")


def _parsed(lines: Sequence[str]) -> Iterator[_Blamed]:
    """Parses the porcelain format: numbers, headers the first time that a commit is named, the text after a tab."""
    paths: dict[str, str] = {}
    commit, there, here = "", 0, 0
    begun = False
    for line in lines:
        if not begun:
            if not line:
                continue
            commit, number, final, *_count = line.split(" ")
            there, here, begun = int(number), int(final), True
        elif line.startswith("\t"):
            yield _Blamed(here, line[1:], commit, paths.get(commit, ""), there)
            begun = False
        elif line.startswith("filename "):
            paths[commit] = _unquoted(line.removeprefix("filename "))


def _unquoted(path: str) -> str:
    """A name as git quotes it where it holds odd letters."""
    if not path.startswith('"'):
        return path
    return path[1:-1].encode().decode("unicode_escape").encode("latin-1", "replace").decode(errors="replace")
