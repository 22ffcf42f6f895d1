"""The projection: a DuckDB file that is made from git, brought up to date before each answer, and never precious.

While one process writes such a file, no other one can read it: nobody holds it open for longer than an answer takes.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout
from msgspec import Struct

from gitswarm.errors import NotFoundError, StorageError, SwarmError, UsageError
from gitswarm.git.owners import locks_folder
from gitswarm.git.reader import RepositoryReader
from gitswarm.projection.rows import Known, RunRows, RunSource, first_fault, live_rows, run_rows, sources
from gitswarm.projection.schema import CHANGING, FORMAT, TABLES, load_sql, tables_sql, views_sql

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FILE = "projection.duckdb"
EXTRA = "pip install 'git-swarm[analytics]'"
_WAIT_S = 2.0
_POLL_S = 0.05
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "memory_limit": "1GB",
    "threads": 2,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


class _BusyError(SwarmError):
    def __init__(self, path: Path) -> None:
        super().__init__(f"another process has {path} open", hint="git swarm db rebuild --out FILE   (or later)")


class QueryResult(Struct, frozen=True):
    """`columns`: names and types."""

    columns: list[tuple[str, str]]
    rows: list[tuple[object, ...]]

    @property
    def names(self) -> list[str]:
        return [name for name, _kind in self.columns]


Ask = Callable[[str], QueryResult]
"""Raises UsageError where DuckDB refuses a query."""


class Projection:
    """That of one repository.

    `notes`: what is to be told about the answers, with hints: they come from memory, a run was left out.
    """

    def __init__(self, repository: RepositoryReader) -> None:
        """
        :raises SwarmError: DuckDB is not installed.
        """
        try:
            import duckdb  # noqa: PLC0415 - an extra, and half a second
        except ModuleNotFoundError as error:
            raise SwarmError("this needs DuckDB, which is not installed", hint=EXTRA) from error
        self._duckdb = duckdb
        self._repository = repository
        self.path = repository.swarm_dir / FILE
        self.notes: list[tuple[str, str]] = []

    def rebuild(self, path: Path | None = None) -> None:
        """Makes the file from nothing, under another name first: after a crash it is the old one or the new one.

        :param path: another place for it.
        :raises UsageError: something else is there.
        :raises SwarmError: a run stored something that cannot be read; the disk is full.
        """
        if path is not None and path.exists() and not self._is_projection(path):
            raise UsageError(f"{path} is no projection", hint="git swarm db rebuild --out FILE   (a new one)")
        with self._writing():
            self._make(path or self.path)

    def _is_projection(self, path: Path) -> bool:
        try:
            with closing(self._connect(path, read_only=True)) as connection:
                connection.execute("select format from source")
        except self._duckdb.Error:
            return False
        return True

    def refresh(self) -> None:
        """Brings the file up to date; makes it where there is none.

        :raises SwarmError: as `rebuild`; another process has it open.
        """
        with self._writing():
            self._bring_up_to_date()

    @contextmanager
    def opened(self, runs: Iterable[str] | None = None, *, live: bool = False) -> Iterator[Ask]:
        """The database for questions: as git is now, and closed to everything else.

        :param runs: only their rows; None: all.
        :param live: also what is in open journals, with `committed` false.
        """
        with closing(self._for_reading()) as connection:
            self._narrow(connection, runs, live=live)
            connection.execute("set enable_external_access = false")
            connection.execute("set lock_configuration = true")
            yield partial(self._ask, connection)

    def _ask(self, connection: DuckDBPyConnection, query: str) -> QueryResult:
        try:
            connection.execute(query)
            rows = connection.fetchall()  # refuses what is no query, as an empty line
            described = connection.description or ()
            names = _distinct([name for name, *_rest in described])
            return QueryResult([(name, str(each[1])) for name, each in zip(names, described, strict=True)], rows)
        except self._duckdb.Error as error:
            raise UsageError(
                str(error), hint='git swarm db query "show tables"   (columns: "describe steps")'
            ) from error

    def _for_reading(self) -> DuckDBPyConnection:
        """The file; memory, filled from git, while another process has that or where it cannot be written."""
        end = time.monotonic() + _WAIT_S
        while True:
            try:
                with self._lock(end - time.monotonic()):
                    self._bring_up_to_date()
                return self._connect(self.path, read_only=True)
            except _BusyError:
                if time.monotonic() > end:
                    self._from_memory("another process has it open")
                    break
                time.sleep(_POLL_S)
            except (OSError, self._duckdb.IOException) as error:
                self._from_memory(str(error))
                break
        connection = self._connect(":memory:")
        connection.execute("set temp_directory = ''")  # by itself it would be in the checkout
        self._fill(connection)
        return connection

    def _from_memory(self, why: str) -> None:
        self.notes.append((f"answered from memory, not from {self.path}: {why}", ""))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """
        :raises StorageError: the file cannot be written.
        """
        try:
            with self._lock(_WAIT_S):
                yield
        except (OSError, self._duckdb.IOException) as error:
            raise StorageError(str(error), hint="git swarm db rebuild --out FILE") from error

    @contextmanager
    def _lock(self, wait_s: float) -> Iterator[None]:
        """A lock for one writer at a time.

        :raises _BusyError: another process has it for longer.
        """
        folder = locks_folder(self._repository.common_dir)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(folder / "projection.lock", timeout=max(wait_s, 0), poll_interval=_POLL_S):
                yield
        except Timeout as error:
            raise _BusyError(self.path) from error

    def _bring_up_to_date(self) -> None:
        now = sources(self._repository)
        known = self._known()
        if known is None:
            self._make(self.path)
        elif known != {run_id: source.refs for run_id, source in now.items()}:
            with closing(self._connect(self.path)) as connection:
                self._read(connection, now, known)

    def _known(self) -> dict[str, tuple[tuple[str, str | None], ...]] | None:
        """What the file was made from; None: there is none that this version can use."""
        if not self.path.exists():
            return None
        query = "select run_id, ref, tip, format from source order by run_id, ref"
        try:
            with closing(self._connect(self.path, read_only=True)) as connection:
                rows = connection.execute(query).fetchall()
        except self._duckdb.Error:
            return None  # not one of DuckDB's, of a later version of it, or another one's
        found: dict[str, tuple[tuple[str, str | None], ...]] = {}
        for run_id, ref, tip, _format in rows:
            found[run_id] = (*found.get(run_id, ()), (ref, tip))
        return found if found and {row[3] for row in rows} == {FORMAT} else None

    def _make(self, path: Path) -> None:
        new = path.with_name(f"{path.name}.new")
        _unlink(new)
        with closing(self._connect(new)) as connection:
            self._fill(connection)
        # A log that belongs to the old file must not be taken for one of the new.
        path.with_name(f"{path.name}.wal").unlink(missing_ok=True)
        new.replace(path)

    def _fill(self, connection: DuckDBPyConnection) -> None:
        for statement in (*tables_sql(), *views_sql()):
            connection.execute(statement)
        self._read(connection, sources(self._repository), {})

    def _read(
        self, connection: DuckDBPyConnection, now: Mapping[str, RunSource], known: Mapping[str, object]
    ) -> None:
        """Rows of the runs whose refs moved, in one transaction."""
        connection.begin()
        for run_id in known.keys() - now.keys():
            _delete(connection, run_id, TABLES)
        changed = {run_id: source for run_id, source in now.items() if known.get(run_id) != source.refs}
        read: list[RunSource] = []
        try:
            self._load(connection, self._changes(connection, changed, known, read))
        except self._duckdb.Error as error:
            connection.rollback()
            faults = filter(None, (first_fault(self._repository, source) for source in read))
            raise next(faults, SwarmError(str(error), hint="git swarm verify")) from error
        connection.commit()

    def _changes(
        self,
        connection: DuckDBPyConnection,
        changed: Mapping[str, RunSource],
        known: Mapping[str, object],
        read: list[RunSource],
    ) -> Iterator[RunRows]:
        """What is new of each run; what it replaces is deleted.

        :param read: gets the runs that could be read.
        """
        for run_id, source in changed.items():
            rows: RunRows | None = None
            commits = _known_commits(connection, run_id) if run_id in known else {}
            try:
                rows = run_rows(self._repository, source, commits)
            except NotFoundError:
                pass  # deleted while we were reading
            except SwarmError as error:
                self.notes.append((f"unreadable: {error.message}", error.hint))
            if run_id in known:
                _delete(connection, run_id, TABLES if rows is None or rows.is_whole else CHANGING)
            if rows is not None:
                read.append(source)
                yield rows

    def _load(self, connection: DuckDBPyConnection, runs: Iterable[RunRows], prefix: str = "") -> None:
        """
        :param prefix: of the names of the tables.
        """
        with tempfile.TemporaryDirectory(prefix="git-swarm-") as folder:
            paths = {table: Path(folder, f"{table}.jsonl") for table in TABLES}
            with ExitStack() as stack:
                files = {table: stack.enter_context(path.open("wb")) for table, path in paths.items()}
                for rows in runs:
                    for table, lines in rows.lines.items():
                        files[table].writelines(line + b"\n" for line in lines)
            for table, path in paths.items():
                connection.execute(load_sql(table, prefix), [str(path)])

    def _narrow(self, connection: DuckDBPyConnection, runs: Iterable[str] | None, *, live: bool) -> None:
        """Temporary views in front of the tables, of the same names."""
        if runs is None and not live:
            return
        wanted = None if runs is None else list(runs)
        (catalog,) = connection.execute("select current_database()").fetchone() or ("",)
        for statement in tables_sql("temp table open_") if live else ():
            connection.execute(statement)
        if live:
            self._load(connection, self._open_journals(), "open_")
        connection.execute("create temp table wanted (run_id VARCHAR)")
        if wanted:
            connection.execute("insert into wanted select unnest(?)", [wanted])
        chosen = "" if wanted is None else " where run_id in (from wanted)"
        for table in TABLES:
            of_journals = f" union all select * from open_{table}" if live else ""
            both = f"select * from {catalog}.main.{table}{of_journals}"
            connection.execute(f"create temp view {table} as select * from ({both}){chosen}")
        for statement in views_sql("temp view"):
            connection.execute(statement)

    def _open_journals(self) -> Iterator[RunRows]:
        """Of every run that can be read: `_changes` has said what is wrong with the others."""
        for source in sources(self._repository).values():
            if not source.archived:
                with suppress(SwarmError):
                    yield live_rows(self._repository, source.layout)

    def _connect(self, path: Path | str, *, read_only: bool = False) -> DuckDBPyConnection:
        """
        :raises _BusyError: another process has the file open.
        """
        try:
            return self._duckdb.connect(str(path), read_only=read_only, config=_SETTINGS)
        except self._duckdb.IOException as error:
            if "Could not set lock" in str(error):
                raise _BusyError(Path(path)) from error
            raise


def _distinct(names: Sequence[str]) -> list[str]:
    """The second `n` is `n_1`, as DuckDB itself calls it in a subquery."""
    found: list[str] = []
    for name in names:
        candidates = chain((name,), (f"{name}_{number}" for number in count(1)))
        found.append(next(each for each in candidates if each not in found and (each == name or each not in names)))
    return found


def _delete(connection: DuckDBPyConnection, run_id: str, tables: Iterable[str]) -> None:
    for table in tables:
        connection.execute(f"delete from {table} where run_id = ?", [run_id])


def _known_commits(connection: DuckDBPyConnection, run_id: str) -> Known:
    rows = connection.execute(
        "select commit, max(number) from (select commit, number from steps where run_id = $1 union all"
        " select commit, null from events where run_id = $1) group by commit",
        [run_id],
    )
    return dict(rows.fetchall())


def _unlink(path: Path) -> None:
    for each in (path, path.with_name(f"{path.name}.wal")):
        each.unlink(missing_ok=True)
