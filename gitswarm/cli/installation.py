"""`init`: what stands between a run and the outside, put in place and taken away again. `doctor`: what is wrong here.
`engines`: which there are, whether they work here, and what each can do."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from msgspec.structs import asdict

from gitswarm.cli.arguments import Option
from gitswarm.cli.console import complain, fact, hanging, next_lines, out, out_json, out_lines, plural, readable
from gitswarm.cli.invocation import config_here, library_here, readable_config, repository_here, run_context
from gitswarm.cli.runs import JsonFlag
from gitswarm.cli.terminal import text_width
from gitswarm.engines.names import short_of
from gitswarm.engines.registry import adapters, broken_engines, distribution_of
from gitswarm.errors import NotARepositoryError, SwarmError
from gitswarm.git.repository import Repository
from gitswarm.records.run_spec import FrozenSettings
from gitswarm.runner.diagnosis import Diagnosis, examine_machine, examine_repository, repair
from gitswarm.runner.initialise import Initialised, InitOptions, initialise, undo_init
from gitswarm.runner.run_context import Observer
from gitswarm.runner.run_engines import EngineHere, OfferedModel, survey_engines, survey_models
from gitswarm.runner.run_processes import refuse_agent
from gitswarm.safety.guard import Change, FileState, is_guard
from gitswarm.settings import CONFIG_FILE, CommandLine, Config, freeze_settings, load_config

CONFIG_TEXT = """\
# Team settings of git-swarm: commit this file.
# All keys: git swarm config
# git swarm config --team KEY VALUE writes it.
# git swarm config KEY VALUE is for you alone.

# commands: {test: "make test"}  # null: detected
# worktree: {copy: [.env], setup: "npm ci"}
# policy: {deny: [], protected_paths: []}
# hub: null  # or the remote for unfinished runs
# deploy: {strategy: squash}  # or merge, or evidence
"""


def init(
    undo: Annotated[bool, Option("--undo", help="Remove everything that it added.")] = False,
) -> None:
    """Install the push guard: no commit of a run is pushed before it has landed.

    Prints every line that it adds.
    """
    repository = repository_here()
    refuse_agent(os.environ, "init", repository.common_dir)
    if undo:
        _undo(repository)
        return
    done = initialise(repository, _requested(repository))
    for change in done.changes:
        _show_change(repository, change)
    if done.dispatching:
        folder = _name(repository, done.dispatching[-1].path.parent)
        more = f"the push guard, and {plural(len(done.dispatching) - 1, 'file')} that call your own hooks"
        out_lines(readable(f"+ {folder}  ", more, sys.stdout))
    _show_worktrees(repository, done)
    if not done.changes and not done.dispatching:
        out("nothing to add: everything is in place")
    out("undo       git swarm init --undo")
    out("decisions  git log --notes='swarm/*/routing' shadow/RUN")


def _requested(repository: Repository) -> InitOptions:
    """A run's own worktree gets no file: it would become part of the next step."""
    checkout = repository.checkout
    if checkout is None or (repository.checkout_git_dir / "swarm-branch").exists():
        return InitOptions()
    path = checkout / CONFIG_FILE
    if not path.is_file():
        return InitOptions(config=(path, CONFIG_TEXT))
    return InitOptions(hub=load_config(path.read_text(encoding="utf-8", errors="replace"), {}).hub)


def _show_change(repository: Repository, change: Change) -> None:
    name = _name(repository, change.path)
    for entry in change.removed:
        out(f"- {name}  {entry.key} = {entry.value}")
    for entry in change.added:
        out(f"+ {name}  {entry.key} = {entry.value}")
    if change.is_configuration or change.after is None:
        return
    if is_guard(change.after):
        out(f"+ {name}  the push guard, {_length(change.after)}")
    elif change.after.is_link:
        out(f"+ {name} -> {os.fsdecode(change.after.bytes)}")
    elif change.path.is_relative_to(repository.common_dir):
        out(f"+ {name}  {_length(change.after)}")
    else:
        out(f"+ {name}")
        out_lines(f"    {line}".rstrip() for line in change.after.bytes.decode().splitlines())


def _show_worktrees(repository: Repository, done: Initialised) -> None:
    for path in done.blocked:
        out_lines(fact("closed", f"{_name(repository, path)}: it cannot push"))
    for url in done.open:
        out_lines(fact("still open", f"{url}: your configuration rewrites exactly this pushurl (url.*.insteadOf)"))


def _undo(repository: Repository) -> None:
    undone = undo_init(repository)
    if undone is None:
        out("nothing to undo: git swarm init was not done here")
        return
    for path in undone.restored:
        out_lines(fact("restored", _name(repository, path)))
    for path in undone.ours_removed:
        what = "changed since by another tool: only our lines were removed"
        out_lines(fact("changed", f"{_name(repository, path)}: {what}"))
    for path in undone.theirs:
        name = _name(repository, path)
        out_lines(fact("stays", f"{name}: it is part of the project by now (git rm {name})"))
    for path, reason in undone.left:
        out_lines(fact("left", f"{_name(repository, path)}: {reason}"))
    if undone.left:
        raise SwarmError("not everything could be undone", hint="see the lines that begin with 'left'")


def _length(state: FileState) -> str:
    return plural(len(state.bytes.splitlines()), "line")


def _name(repository: Repository, path: Path) -> str:
    """The shortest path that can be read from the folder that people call the repository."""
    return os.path.relpath(path, repository.main_folder)


_SIGNS = {"ok": "ok", "note": "-", "problem": "!"}


def doctor(
    fix: Annotated[bool, Option("--fix", help="Repair what can be repaired safely.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Find what is wrong here, and name the command that repairs it: sandbox, guard, engines, leftovers."""
    try:
        repository = repository_here()
    except NotARepositoryError:
        config = load_config(None, {})
        found = list(_machine(_frozen(config), config))
        found.append(Diagnosis("repository", "note", "none here: its checks were skipped"))
    else:
        config, unreadable = readable_config(repository)
        found = [Diagnosis("config", "problem", what, hint) for what, hint in unreadable]
        settings = _frozen(config)
        found += [*_machine(settings, config), *examine_repository(repository, settings, os.environ)]
        if fix:
            refuse_agent(os.environ, "doctor --fix", repository.common_dir)
    fixed = repair(found) if fix else set()
    wrong = [each for each in found if each.level == "problem" and each not in fixed]
    if as_json:
        out_json({"sound": not wrong, "findings": [each.to_json(fixed=each in fixed) for each in found]})
    else:
        for each in found:
            _show_finding(each, is_fixed=each in fixed)
        if wrong:
            can = sum(each.repair is not None for each in wrong)
            hint = f"git swarm doctor --fix   (repairs {can} of them)" if can else "see the lines that begin with '!'"
            complain(plural(len(wrong), "problem"), hint)
        else:
            out("no problems found")
    if wrong:
        raise SystemExit(1)


def _frozen(config: Config) -> FrozenSettings:
    return freeze_settings(config, os.environ, CommandLine(), scripted=False)


def _machine(settings: FrozenSettings, config: Config) -> Iterator[Diagnosis]:
    return examine_machine(settings, run_context(config, Observer()))


def _show_finding(finding: Diagnosis, *, is_fixed: bool) -> None:
    sign = "fixed" if is_fixed else _SIGNS[finding.level]
    out_lines(hanging(f"{sign:<7}{finding.check:<11} ", finding.message))
    if finding.hint and not is_fixed:
        out_lines(next_lines(" " * 19, finding.hint))


_GAP = "  "


def engines(
    verbose: Annotated[
        bool, Option("-v", "--verbose", help="Also where each comes from, and what it needs.")
    ] = False,
    models: Annotated[
        bool, Option("--models", help="Ask the provider for its models: one request, with the key of sessions.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Engines and their modes, and whether they work here; what each can do."""
    config = config_here()
    settings = _frozen(config)
    context = run_context(config, Observer())
    if models:
        offered = list(survey_models(settings, library_here().policy(), context))
        if as_json:
            out_json([each.to_json() for each in offered])
        else:
            out_lines(_models(offered))
        return
    found = list(survey_engines(settings, context))
    for broken in broken_engines():
        complain(broken.message, broken.hint)
    if as_json:
        out_json([each.to_json() for each in found])
        return
    out_lines([*_usability(found), "", *capability_matrix(found)])
    if verbose:
        out_lines(_origins(found))


def _models(offered: Sequence[OfferedModel]) -> Iterator[str]:
    """A line per model. Its price is that of a million tokens, in and out."""
    prices = [f"${each.price[0]:g} ${each.price[1]:g}" if each.price else "$?" for each in offered]
    rows = [("engine", "model", "offered", "price")]
    rows += [
        (each.engine, each.model, "yes" if each.offered else "no", price)
        for each, price in zip(offered, prices, strict=True)
    ]
    named = ["models.yaml", *(", ".join(each.named) or "-" for each in offered)]
    for line, names in zip(_aligned(rows), named, strict=True):
        yield from hanging(f"{line}{_GAP}", names)


def _origins(found: Sequence[EngineHere]) -> Iterator[str]:
    """What each engine says about itself."""
    for adapter in adapters():
        name = adapter.short_name
        logins = [each.login for each in found if each.engine == adapter.engine_id and each.login]
        prices = [f"{model} ${paid[0]:g} in, ${paid[1]:g} out" for model, paid in sorted(adapter.prices.items())]
        yield ""
        yield f"{adapter.engine_id}, {name} for short"
        for what, value in (
            ("from", distribution_of(name)),
            ("tested with", ", ".join(f"{program} {version}" for program, version in adapter.tested.items())),
            ("providers", ", ".join(adapter.providers)),
            ("login", ", ".join(dict.fromkeys(logins))),
            ("prices", "; ".join([*prices, "of models.yaml, else unknown"])),
            ("keys", ", ".join(f"engines.{name}.{key}" for key in adapter.configuration.__struct_fields__)),
            ("environment", "; ".join(f"{each}: {does}" for each, does in adapter.variables.items())),
        ):
            yield from hanging(f"  {what:<13}", value) if value else ()


def _usability(found: Sequence[EngineHere]) -> Iterator[str]:
    rows = [("engine", "mode", "here", "configured")]
    rows += [
        (each.engine, each.mode, "no" if each.problem else "yes", "yes" if each.is_configured else "-")
        for each in found
    ]
    first, *others = _aligned(rows)
    yield f"{first}{_GAP}by"
    for line, each in zip(others, found, strict=True):
        yield from hanging(f"{line}{_GAP}", _by(each))


def _by(each: EngineHere) -> str:
    """What it works with, or what is wrong and what to do about it."""
    if each.problem is not None:
        return each.problem
    program = each.program
    if program.path is None:
        return "git-swarm itself"
    library = f"{program.library}, " if program.library else ""
    login = f"; {each.login}" if each.login else ""
    return f"{library}{short_of(each.engine)} {program.version}, {program.path}{login}"


def capability_matrix(found: Sequence[EngineHere]) -> Iterator[str]:
    """A line per capability, a column per engine and mode; several times where they are wider than a terminal."""
    names = list(asdict(found[0].capabilities))
    first = max(map(len, names))
    wide = [max(len(each.engine), len(each.mode)) for each in found]
    while found:
        fitting = 1
        while fitting < len(found) and first + sum(len(_GAP) + each for each in wide[: fitting + 1]) <= text_width():
            fitting += 1
        columns = [asdict(each.capabilities) for each in found[:fitting]]
        rows = [("", *(each.engine for each in found[:fitting])), ("can", *(each.mode for each in found[:fitting]))]
        rows += [(name, *(_cell(each[name]) for each in columns)) for name in names]
        yield from (line.rstrip() for line in _aligned(rows))
        found, wide = found[fitting:], wide[fitting:]
        yield from [""] if found else []


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "-"
    return f"{value:,}" if value else "-"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [_GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
