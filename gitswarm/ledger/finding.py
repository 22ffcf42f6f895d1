"""Which run, step or file a text means, and which journals lie on disk: asked of what git and the file system alone
tell."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from gitswarm.errors import CorruptError, NotFoundError
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.archive import archived_runs, discarded_runs, read_archived
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.message import Kind
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.execution import BRANCH_PREFIX, RUN_ID, SHORT

START = "git swarm start build -m 'the task'"
ON_HUB = "git swarm list --hub"

_SHADOW = f"refs/heads/{BRANCH_PREFIX}"


def journal_folder(repository: RepositoryReader, layout: RunLayout) -> Path:
    return repository.swarm_dir / "journal" / layout.run_id


def all_runs(repository: RepositoryReader) -> list[RunLayout]:
    """Every run that has a branch here, newest created first."""
    names = [name.removeprefix(_SHADOW) for name in repository.refs.list(_SHADOW)]
    runs = [name for name in names if RUN_ID.fullmatch(name)]
    return [RunLayout(run_id) for run_id in sorted(runs, reverse=True)]


def newest_run(repository: RepositoryReader) -> str | None:
    return next((layout.run_id for layout in all_runs(repository)), None)


def names_hub(repository: RepositoryReader) -> bool:
    """Whether there may be runs elsewhere; nothing is asked of the hub."""
    return bool(repository.config("swarm.hub").get("swarm.hub"))


def find_run(repository: RepositoryReader, text: str | None) -> RunLayout:
    """The run that a person means: an id, a unique part of one; None: the one we stand in, else the newest.

    :raises NotFoundError: none, or several.
    """
    runs = all_runs(repository)
    if not text:
        here = repository.head_branch() if repository.checkout else None
        checked_out = [run for run in runs if run.branch == here]
        if checked_out or runs:
            return (checked_out or runs)[0]
        hint = f"{ON_HUB}   (then: git swarm resume RUN --hub)" if names_hub(repository) else START
        raise NotFoundError("there is no run in this repository yet", hint=hint)
    matches = matching_runs(runs, text)
    if len(matches) == 1:
        return matches[0]
    if not matches:
        return _archived(repository, text, text.removeprefix(BRANCH_PREFIX))
    some = ", ".join(run.run_id for run in matches[:4])
    raise NotFoundError(f"'{text}' matches {len(matches)} runs: {some}", hint="give more of the id")


def matching_runs(runs: list[RunLayout], text: str) -> list[RunLayout]:
    """The runs that an id, or a part of one, can mean: the best match."""
    wanted = text.removeprefix(BRANCH_PREFIX)
    exact = [run for run in runs if run.run_id == wanted]
    ends = [run for run in runs if len(wanted) >= SHORT and run.run_id.endswith(wanted)]
    return exact or ends or [run for run in runs if wanted in run.run_id]


def _archived(repository: RepositoryReader, text: str, wanted: str) -> RunLayout:
    """A run of the archive, which can be read like any other from here on."""
    found = [run for run in archived_runs(repository) if wanted in run.run_id]
    if len(found) == 1 and repository.is_for_reading:
        read_archived(repository, found[0])
        return found[0]
    if found:
        what = f"{found[0].run_id} is archived" if len(found) == 1 else f"'{text}' matches {len(found)} archived runs"
        raise NotFoundError(what, hint=f"git swarm discard --restore {found[0].run_id}")
    gone = [run.run_id for run in discarded_runs(repository) if wanted in run.run_id]
    if len(gone) == 1:
        raise NotFoundError(f"{gone[0]} was discarded", hint=f"git swarm discard --restore {gone[0]}")
    if gone:
        raise NotFoundError(f"'{text}' matches {len(gone)} discarded runs", hint="git swarm discard --restore")
    raise NotFoundError(f"no run matches '{text}'", hint=ON_HUB if names_hub(repository) else "git swarm list")


def find_step(repository: RepositoryReader, state: RunState, text: str | None) -> StepRecord:
    """The step that a person means: `step`, `flow/step`, `step@2`, `7`, `#7`, a commit; None: the last one.

    :raises NotFoundError: the run has no such step.
    """
    steps = state.steps
    if not steps:
        raise NotFoundError(f"{state.layout.run_id} has no step yet", hint=f"git swarm status {state.layout.run_id}")
    if text is None:
        return steps[-1]
    found = _by_name(steps, text) or _by_number(steps, text) or _by_commit(repository, steps, text)
    if found is None:
        runs = [run for run in all_runs(repository) if len(text) >= SHORT and text in run.run_id]
        if len(runs) == 1:
            raise NotFoundError(
                f"{state.layout.run_id} has no step '{text}': that is a run", hint=f"git swarm log {runs[0].run_id}"
            )
        raise NotFoundError(
            f"{state.layout.run_id} has no step '{text}' ({_suggestion(steps, text)})",
            hint=f"git swarm log {state.layout.run_id}",
        )
    return found


def _suggestion(steps: tuple[StepRecord, ...], text: str) -> str:
    """How many steps, or iterations of that one; the nearest name; else all names."""
    name = text.partition("@")[0]
    if text.removeprefix("#").isdigit():
        return "it has 1 step" if len(steps) == 1 else f"it has {len(steps)} steps"
    times = sum(is_named(name, record.flow, record.step, 0) for record in steps)
    if times:
        return f"{name} was executed {'once' if times == 1 else f'{times} times'}"
    from difflib import get_close_matches  # noqa: PLC0415 - 8 ms, and only for mistakes

    names = list(dict.fromkeys(record.step for record in steps))
    full = [record.execution.name for record in steps]
    near = get_close_matches(name, full if "/" in name else names, n=1)
    return f"did you mean '{near[0]}'?" if near else f"it has: {', '.join(names)}"


def is_named(text: str, flow: str, step: str, iteration: int) -> bool:
    """Whether a person who writes `step`, `flow/step`, `step@2` or `flow/step@2` means this execution."""
    name, at, number = text.partition("@")
    flow_part, slash, step_part = name.rpartition("/")
    return step_part == step and (not slash or flow_part == flow) and (not at or number.lstrip("0") == str(iteration))


def _by_name(steps: tuple[StepRecord, ...], text: str) -> StepRecord | None:
    matches = [record for record in steps if is_named(text, record.flow, record.step, record.execution.iteration)]
    return matches[-1] if matches else None


def _by_number(steps: tuple[StepRecord, ...], text: str) -> StepRecord | None:
    digits = text.removeprefix("#")
    if not re.fullmatch(r"[0-9]{1,6}", digits):
        return None
    return steps[int(digits) - 1] if 0 < int(digits) <= len(steps) else None


def _by_commit(repository: RepositoryReader, steps: tuple[StepRecord, ...], text: str) -> StepRecord | None:
    try:
        commit_id = repository.resolve(text)
    except NotFoundError:
        return None
    return next((record for record in steps if record.commit == commit_id), None)


T = TypeVar("T")


def parsed(parse: Callable[[bytes], T], content: bytes, layout: RunLayout, where: str) -> T:
    """What we wrote, read again.

    :raises CorruptError: it is not what we wrote: somebody made the commit anew.
    """
    try:
        return parse(content)
    except (ValueError, RecursionError) as error:  # what msgspec, json and a decoder raise alike
        raise CorruptError(
            f"{where} is not what git-swarm wrote there", hint=f"git swarm resume {layout.run_id}"
        ) from error


def events_path(layout: RunLayout, trailers: Mapping[str, str]) -> str:
    """Where a commit with these trailers keeps its events."""
    kind = trailers["Swarm-Kind"]
    if kind == Kind.RUN:
        return layout.run_events
    if kind == Kind.END:
        return layout.end_events(int(trailers["Swarm-Iteration"]))
    return (
        f"{layout.base}/{trailers['Swarm-Flow']}/events/{trailers['Swarm-Step']}@{trailers['Swarm-Iteration']}.jsonl"
    )


_NAME = re.compile(r"(?P<flow>[^.]+)\.(?P<step>[^@]+)@(?P<iteration>\d+)\.jsonl")


class JournalFile(Struct, frozen=True):
    """A journal found on disk: of a step that executes now, or whose owner died."""

    path: Path
    flow: str
    step: str
    iteration: int


def journal_files(folder: Path) -> list[JournalFile]:
    found: Iterable[Path] = sorted(folder.glob("*.jsonl")) if folder.is_dir() else ()
    journals = []
    for path in found:
        match = _NAME.fullmatch(path.name)
        if match and path.is_file():
            journals.append(JournalFile(path, match["flow"], match["step"], int(match["iteration"])))
    return journals


def whole_lines(path: Path, position: int) -> bytes:
    """What a journal has from there on, without a line that is not whole yet."""
    try:
        with path.open("rb") as file:
            file.seek(position)
            more = file.read()
    except FileNotFoundError:  # its step was committed just now
        return b""
    return more[: more.rfind(b"\n") + 1]
