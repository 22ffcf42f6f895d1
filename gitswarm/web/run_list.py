"""The page of all runs: a table, filtered by what the address says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from gitswarm.cli.runs import state_word, task_title
from gitswarm.errors import NotFoundError, SwarmError
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.archive import archived_runs
from gitswarm.ledger.finding import all_runs
from gitswarm.ledger.kept_overviews import archived_overview
from gitswarm.ledger.overview import RunOverview, overview
from gitswarm.ledger.rescue import runs_without_branch

_MOST = 50


class Filter(Struct, frozen=True):
    """What the address asks for; "" and False: everything. `most`: rows."""

    state: str = ""
    flow: str = ""
    text: str = ""
    archived: bool = False
    most: int = _MOST

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Filter:
        most = query.get("n", "")
        return cls(
            query.get("state", ""),
            query.get("flow", ""),
            query.get("q", "").strip(),
            query.get("archived") == "1",
            int(most) if most.isdecimal() and len(most) < 6 else _MOST,
        )

    def takes(self, found: RunOverview) -> bool:
        words = f"{found.run_id} {state_word(found)} {found.flow} {task_title(found)}".lower()
        return (
            self.state in ("", found.state.value, state_word(found))
            and self.flow in ("", found.flow)
            and self.text.lower() in words
        )


class RunList(Struct, frozen=True):
    """`problems`: runs that cannot be read, or have lost their branch, each with the next command."""

    runs: list[RunOverview] = field(default_factory=list)
    archived: set[str] = field(default_factory=set)
    problems: list[tuple[str, str]] = field(default_factory=list)
    has_more: bool = False


def run_list(repository: RepositoryReader, wanted: Filter) -> RunList:
    """Runs for the list, newest first, those of the archive behind the others."""
    runs: list[RunOverview] = []
    problems = [
        (f"{layout.run_id} has no branch with its commits", f"git swarm resume {layout.run_id}")
        for layout in runs_without_branch(repository, reads_commits=False)
    ]
    live = all_runs(repository)
    for layout in live:
        if len(runs) > wanted.most:
            break
        try:
            found = overview(repository, layout)
        except NotFoundError:
            continue  # deleted while we were reading
        except SwarmError as error:
            problems.append((error.message, error.hint))
            continue
        if wanted.takes(found):
            runs.append(found)
    old = list(_archived(repository, {each.run_id for each in live}, wanted)) if wanted.archived else []
    both = [*runs, *old]
    return RunList(both[: wanted.most], {each.run_id for each in old}, problems, len(both) > wanted.most)


def _archived(repository: RepositoryReader, live: set[str], wanted: Filter) -> Iterator[RunOverview]:
    for layout in archived_runs(repository):
        if layout.run_id not in live:
            found = archived_overview(repository, layout)
            if wanted.takes(found):
                yield found
