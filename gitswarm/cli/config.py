"""`config`: what is configured and where, and other values for it."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

from msgspec.structs import asdict

from gitswarm.cli.arguments import Argument, Option
from gitswarm.cli.console import complain, err, next_lines, out, out_json, out_lines, readable, table
from gitswarm.cli.invocation import committed_config, read_text, repository_here, unset_hint
from gitswarm.cli.runs import JsonFlag, folder_here
from gitswarm.errors import NotFoundError, SpecError, SwarmError, UsageError
from gitswarm.git.repository import Repository
from gitswarm.records.execution import TEST
from gitswarm.runner.run_processes import refuse_agent
from gitswarm.settings import CONFIG_FILE, readable_parts
from gitswarm.settings_personal import EntryError
from gitswarm.settings_values import (
    Setting,
    find_key,
    set_personal,
    settings,
    unset_personal,
    with_team_value,
    without_secrets,
)

_PREFIX = "swarm."
_OVER_YOURS = {
    "team": "the team's value is at least as strict, and wins",
    "environment": "an environment variable wins",
}


def config(
    key: Annotated[str | None, Argument(metavar="KEY", help="A key of the list; without one, the list.")] = None,
    value: Annotated[str | None, Argument(metavar="VALUE", help="YAML on one line: cli, 5, '[a, b]'.")] = None,
    team: Annotated[bool, Option("--team", help=f"Write {CONFIG_FILE}, for the team, not git config.")] = False,
    everywhere: Annotated[bool, Option("--global", help="Write your global git config.")] = False,
    unset: Annotated[bool, Option("--unset", help="Remove the value.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show what is configured, or set a key: for yourself, or the team."""
    if (unset or team or everywhere) and (key is None or unset == (value is not None)):
        wanted = "--unset KEY" if unset else "KEY VALUE"
        raise UsageError(f"that needs {wanted}", hint=f"git swarm config {wanted}")
    if team and everywhere:
        raise UsageError("--team and --global are two places", hint="leave one of them out")
    repository = repository_here()
    if key is None:
        _list(repository, as_json=as_json)
        return
    path = find_key(key)
    if value is None and not unset:
        found = without_secrets(_of(path, repository))
        if as_json:
            out_json(asdict(found))
        else:
            out(_shown(found))
            _mention_detected(repository, path, found)
        return
    refuse_agent(os.environ, "config", repository.common_dir)
    if team:
        lines = _write_team(repository, path, value)
    else:
        lines = _write_personal(repository, path, value, ["--global"] if everywhere else [])
    if as_json:
        out_json(asdict(_now(path)))
    else:
        out_lines(lines)


def _mention_detected(repository: Repository, path: tuple[str, ...], found: Setting) -> None:
    """Which command is taken for the tests where none is configured."""
    head = repository.head() if path == ("commands", TEST) and found.value is None else None
    if head is not None:
        from gitswarm.runner.step.test_steps import detected_tests  # noqa: PLC0415 - for this key alone

        detected = detected_tests(repository.objects, head, os.environ)
        err(f"note: {detected.command} is taken: {detected.reason}" if detected else "note: none is found either")


def _of(path: tuple[str, ...], repository: Repository) -> Setting:
    """What a run started here would have; entries of other keys that cannot be read are left out.

    :raises SpecError: the entry of this key is one of them.
    """
    team, personal, wrong = readable_parts(committed_config(repository), repository.config(_PREFIX))
    key = ".".join(path)
    for each in wrong:
        if isinstance(each, EntryError) and f"{each.key}.".startswith(f"{key}."):
            raise SpecError(each.problems, hint=unset_hint(repository, each))
        complain(f"ignored: {each.message}", unset_hint(repository, each))
    return settings(team, personal, os.environ, path)[0]


def _list(repository: Repository, *, as_json: bool) -> None:
    committed = _committed_text(repository)
    team, personal, wrong = readable_parts(committed, repository.config(_PREFIX))
    for each in wrong:
        complain(f"ignored: {each.message}", unset_hint(repository, each))
    found = [without_secrets(each) for each in settings(team, personal, os.environ)]
    if as_json:
        out_json([asdict(each) for each in found])
        return
    table(["key", "value", "from"], [[each.key, _shown(each), each.origin] for each in found], stretch=1)
    path = repository.checkout / CONFIG_FILE if repository.checkout is not None else None
    if path is not None and path.is_file() and read_text(str(path)) != (committed or ""):
        err(f"note: {CONFIG_FILE} has changes that are not committed: no run sees them")


def _committed_text(repository: Repository) -> str | None:
    """The team's file in HEAD, with the line ends that `read_text` gives."""
    committed = committed_config(repository)
    return committed.replace("\r\n", "\n") if committed is not None else None


def _shown(found: Setting) -> str:
    return found.value if isinstance(found.value, str) else json.dumps(found.value, ensure_ascii=False)


def _write_personal(repository: Repository, path: tuple[str, ...], value: str | None, where: list[str]) -> list[str]:
    """The lines to print."""
    personal = repository.config(_PREFIX)
    try:
        change = (
            unset_personal(path, personal)
            if value is None
            else set_personal(path, value, committed_config(repository), personal)
        )
    except EntryError as error:
        raise SpecError(error.problems, hint=unset_hint(repository, error)) from error
    for name in change.removed:
        _forget(repository, name, where)
    if change.name:
        repository.git.output("config", *where, "--replace-all", change.name, change.value)
    now = _now(path)
    lines = readable(f"{now.key}: ", f"{_shown(now)} ({now.origin})", sys.stdout)
    if value is not None and "git config" not in now.origin:
        lines += readable("note: ", _OVER_YOURS.get(now.origin, "the value in effect is still the same"), sys.stdout)
    undo = " ".join(["git swarm config", *where, "--unset", now.key])
    return lines if value is None else [*lines, *next_lines("undo       ", undo)]


def _now(path: tuple[str, ...]) -> Setting:
    """The setting as it is after a change of git's configuration."""
    try:
        return without_secrets(_of(path, repository_here()))
    except NotFoundError:  # an entry of a mapping, which is gone
        return Setting(".".join(path), None, "default")


def _forget(repository: Repository, name: str, where: list[str]) -> None:
    """
    :raises SwarmError: another file than the one that is to be changed sets it.
    """
    if repository.git.run("config", *where, "--unset-all", name).returncode != 0:
        found = repository.git.run("config", "--show-origin", "--get", name).stdout.decode(errors="replace")
        file = found.partition("\t")[0].removeprefix("file:")
        other = "" if where else "--global "
        raise SwarmError(f"{name} is set in {file or 'another file'}", hint=f"git config {other}--unset {name}")


def _write_team(repository: Repository, path: tuple[str, ...], value: str | None) -> list[str]:
    """The lines to print.

    :raises SwarmError: we stand in a run's worktree, or in no working tree.
    """
    key = ".".join(path)
    if repository.checkout is None or (repository.checkout_git_dir / "swarm-branch").exists():
        raise SwarmError(
            f"{CONFIG_FILE} is written in a checkout of yours, not here",
            hint=f"cd {shlex.quote(str(repository.main_folder))} && git swarm config --team {key} VALUE",
        )
    file = repository.checkout / CONFIG_FILE
    if file.is_symlink() or (file.exists() and not file.is_file()):
        raise SwarmError(f"{CONFIG_FILE} is not a file of this checkout", hint=f"ls -l {shlex.quote(str(file))}")
    old = read_text(str(file)) if file.is_file() else None
    new = with_team_value(old, path, value)
    now = f"{key} {'is gone' if value is None else f'is {value}'}"
    if value is None and not new and committed_config(repository) is None:
        file.unlink(missing_ok=True)
    elif new != old:
        file.parent.mkdir(parents=True, exist_ok=True)
        newline = "\r\n" if file.is_file() and b"\r\n" in file.read_bytes() else "\n"
        staged = file.with_name(f".{file.name}.{os.getpid()}")
        staged.write_text(new, encoding="utf-8", newline=newline)
        staged.replace(file)
    if new == (_committed_text(repository) or ""):
        what = f"{now}, as in the last commit: nothing to commit" if new != old else f"nothing changed: {now} already"
        return readable(f"{CONFIG_FILE}: ", what, sys.stdout)
    shown = CONFIG_FILE if Path(folder_here()).resolve() == repository.checkout.resolve() else f":/{CONFIG_FILE}"
    what = f"{now}; it takes effect once it is committed" if new != old else f"{now} already, and not committed yet"
    return [
        *readable(f"{CONFIG_FILE}: ", what, sys.stdout),
        *next_lines("next       ", f"git add {shown} && git commit -m '{key}'"),
    ]
