"""What the process stands in: folder, environment, clock."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gitswarm.cli.runs import folder_here
from gitswarm.errors import NotARepositoryError, NotFoundError, SpecError
from gitswarm.git.repository import Repository, open_repository
from gitswarm.resources import bundled

if TYPE_CHECKING:
    from gitswarm.runner.run_context import Observer, RunContext
    from gitswarm.settings import Config
    from gitswarm.specs.library import Library
    from gitswarm.worktree.shadow import Placement


def repository_here() -> Repository:
    """
    :raises NotARepositoryError: we stand in no repository, or in a folder that is gone or was thrown away.
    """
    return open_repository(folder_here(), os.environ)


def now() -> datetime:
    return datetime.now(UTC).astimezone()


def config_at(repository: Repository, tree: str) -> Config:
    """Configuration of the commit with this tree, with the person's over it."""
    return _loaded(repository, _config_in(repository, tree))


def _config_in(repository: Repository, tree: str) -> str | None:
    """The text of the team's file."""
    from gitswarm.settings import CONFIG_FILE

    content = repository.objects.file(tree, CONFIG_FILE)
    return content.decode(errors="replace") if content is not None else None


def _loaded(repository: Repository, team: str | None) -> Config:
    """
    :raises SpecError: it is wrong; an entry of git's configuration with the command that unsets it.
    """
    from gitswarm.settings import load_config, readable_parts
    from gitswarm.settings_personal import EntryError

    try:
        return load_config(team, repository.config("swarm."))
    except EntryError as error:
        _team, _entries, wrong = readable_parts(team, repository.config("swarm."))
        problems = [problem for each in wrong for problem in each.problems]
        hint = " && ".join(dict.fromkeys(unset_hint(repository, each) for each in wrong))
        raise SpecError(problems, hint=hint) from error


def unset_hint(repository: Repository, error: SpecError) -> str:
    """The hint of an error, for the file that sets the entry."""
    from gitswarm.settings_personal import EntryError

    if not isinstance(error, EntryError):
        return error.hint
    done = repository.git.run("config", "--show-scope", "--get", error.name)
    scope = done.stdout.decode(errors="replace").partition("\t")[0]
    if scope == "global":
        return error.hint.replace("config --unset", "config --global --unset", 1)
    return error.hint if scope in ("local", "") else f"git config --{scope} --unset-all {error.name}"


def readable_config(repository: Repository) -> tuple[Config, list[tuple[str, str]]]:
    """As `config_here`, without what cannot be read; and of that, what is wrong, and the command that removes it."""
    from gitswarm.settings import load_config, readable_parts

    team, entries, wrong = readable_parts(committed_config(repository), repository.config("swarm."))
    return load_config(team, entries), [(each.message, unset_hint(repository, each)) for each in wrong]


def committed_config(repository: Repository) -> str | None:
    """The text of the team's file in HEAD."""
    try:
        tree = repository.objects.commit(repository.resolve("HEAD")).tree
    except NotFoundError:  # no commit yet
        return None
    return _config_in(repository, tree)


def config_here() -> Config:
    """Configuration of a run that would be started here; outside of a repository what is built in."""
    from gitswarm.settings import load_config

    try:
        repository = repository_here()
    except NotARepositoryError:
        return load_config(None, {})
    return _loaded(repository, committed_config(repository))


def run_context(config: Config, observer: Observer) -> RunContext:
    """What this process was given, for a run with this configuration."""
    from gitswarm.runner.run_context import RunContext
    from gitswarm.settings import engine_access

    return RunContext(os.environ, now, placement(config), observer, access=engine_access(config, os.environ))


def placement(config: Config) -> Placement:
    from gitswarm.settings import worktree_folder
    from gitswarm.worktree.shadow import Placement

    home = Path(os.environ.get("HOME") or "/")
    state = os.environ.get("XDG_STATE_HOME")
    return Placement(worktree_folder(config, home), Path(state) if state else home / ".local" / "state")


def library_here() -> Library:
    """What is bundled, and what lies in the checkout that we stand in; outside of a repository only the bundled."""
    from gitswarm.specs.library import USER_FOLDERS, load_library

    user: dict[str, str] = {}
    try:
        checkout = repository_here().checkout
    except NotARepositoryError:
        checkout = None
    if checkout is not None:
        for path in sorted(path for folder in USER_FOLDERS for path in (checkout / folder).rglob("*")):
            if path.is_file():
                # What is no UTF-8 is found when that file is parsed, and spoils no other.
                user[path.relative_to(checkout).as_posix()] = read_text(str(path), errors="surrogateescape")
    return load_library(bundled("flows"), user, config_here().commands.tests)


def problems_of(checks: Iterable[Callable[[], object]]) -> list[str]:
    """What is wrong with specs, each problem once, in the order of the checks."""
    problems: list[str] = []
    for check in checks:
        try:
            check()
        except SpecError as error:
            problems.extend(error.problems)
    return list(dict.fromkeys(problems))


def read_text(path: str, again: str = "", errors: str = "strict") -> str:
    """
    :param errors: what becomes of bytes that are no UTF-8, as `bytes.decode` has it.
    :param again: the command to type with another file; "": a look at the folder.
    :raises NotFoundError: the file cannot be read.
    """
    try:
        return Path(path).read_text(encoding="utf-8", errors=errors)
    except FileNotFoundError as error:
        raise NotFoundError(
            _missing(Path(path)), hint=again or f"ls {shlex.quote(str(Path(path).parent))}"
        ) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        saved = f"iconv -f latin1 -t utf-8 {shlex.quote(path)}   (how it reads if it is Latin-1)"
        raise NotFoundError(f"{path}:{line}: not UTF-8 text", hint=saved) from error
    except OSError as error:
        raise NotFoundError(f"{path}: cannot be read: {error}", hint=f"ls -l {shlex.quote(path)}") from error


def _missing(path: Path) -> str:
    from gitswarm.records.text import nearest

    if not path.parent.is_dir():
        return f"there is no file {path}: its folder is not there"
    near = nearest(path.name, [each.name for each in path.parent.iterdir()])
    return f"there is no file {path}" + (f" (did you mean '{path.with_name(near)}'?)" if near else "")
