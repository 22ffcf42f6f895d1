"""The page of all runs: a table, filtered by what the address says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from gitswarm.cli.runs import state_word, task_title
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.archive import archived_runs
from gitswarm.ledger.finding import all_runs
from gitswarm.ledger.kept_overviews import archived_overview, kept_overviews
from gitswarm.ledger.overview import RunOverview, overviews
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

    @property
    def is_narrow(self) -> bool:
        """Whether runs have to be read before it is known which are shown."""
        return bool(self.state or self.flow or self.text)

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
    problems = [
        (f"{layout.run_id} has no branch with its commits", f"git swarm resume {layout.run_id}")
        for layout in runs_without_branch(repository, reads_commits=False)
    ]
    live = all_runs(repository)
    shown = live if wanted.is_narrow else live[: wanted.most + 1]
    found = kept_overviews(repository, shown) if wanted.is_narrow else overviews(repository, shown)
    problems += [(error.message, error.hint) for error in found.unreadable]
    runs = [each for each in found.runs if wanted.takes(each)]
    old = list(_archived(repository, {each.run_id for each in live}, wanted)) if wanted.archived else []
    both = [*runs, *old]
    has_more = len(both) > wanted.most or len(shown) < len(live)
    return RunList(both[: wanted.most], {each.run_id for each in old}, problems, has_more)


def _archived(repository: RepositoryReader, live: set[str], wanted: Filter) -> Iterator[RunOverview]:
    for layout in archived_runs(repository):
        if layout.run_id not in live:
            found = archived_overview(repository, layout)
            if wanted.takes(found):
                yield found
