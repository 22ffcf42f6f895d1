"""The manual page, made of what commands declare; docs/generate.py writes it."""
# ruff: noqa: INP001

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence

from gitswarm.cli.app import command_function
from gitswarm.cli.arguments import Argument, Option, Parameter, parameters
from gitswarm.cli.candidates import config_keys
from gitswarm.cli.command_table import ROOT, Command, Group
from gitswarm.cli.help_pages import EXAMPLES, GROUPS
from gitswarm.engines.names import BUILT_IN
from gitswarm.engines.registry import adapter_of

_CODES = (
    ("0", "fine"),
    ("1", "an error, with a hint; findings of verify, doctor, flows validate"),
    ("2", "the command line is wrong"),
    ("3", "a bug in git-swarm; the log is named"),
    ("4", "the run failed, or is not proven"),
    ("5", "the run is paused"),
    ("75", "somebody else executes the run: another clone took it over on the hub"),
    ("130", "interrupted"),
)
_FILES = (
    (".swarm/config.yaml", "the team's configuration, of the commit that a run starts from"),
    (".swarm/flows/, .swarm/flows/stations/", "flows and stations of the project"),
    ("refs/heads/shadow/RUN", "the branch of a run: a commit for each step"),
    ("refs/notes/swarm/RUN/events, routing", "notes on its commits: events, decisions"),
    ("refs/swarm/RUN/lease", "on the hub: who executes a run"),
    ("refs/swarm/archive", "runs that gc has archived"),
    ("../REPOSITORY.swarm/RUN", "the worktree of a run, unless worktree.dir says another place"),
)
_ENVIRONMENT = (
    ("SWARM_STUB_SCRIPT", "a script for the stub, as --script"),
    ("NO_COLOR, COLUMNS, GIT_PAGER", "as for git"),
)


def man_page() -> str:
    lines = [
        '.\\" Made by make docs: change help texts, not this file.',
        '.TH GIT-SWARM 1 "" "git-swarm" "Git Manual"',
        ".nh",
        ".ad l",
        ".SH NAME",
        "git\\-swarm \\- run agents through a software flow, a commit per step",
        ".SH SYNOPSIS",
        ".B git swarm",
        "COMMAND [OPTIONS] [ARGUMENTS]",
        ".SH DESCRIPTION",
        _text(ROOT.help),
        ".PP",
        "RUN is an id or a part of it; without one it is the run of the current worktree, else the newest.",
        "STEP is the name of a step, FLOW/STEP, STEP@2 (its second iteration), 7 (the seventh step), or a commit.",
        "Results go to standard output, progress to standard error.",
    ]
    for title, names in GROUPS.items():
        lines += [f'.SH "{title.upper()}"']
        for name in names.split():
            entry = ROOT.entries[name]
            lines += list(_group(name, entry) if isinstance(entry, Group) else _command(name, entry))
    lines += [
        ".SH CONFIGURATION",
        "Keys, as",
        ".B git swarm config",
        "lists them with their values. In .swarm/config.yaml for everybody,",
        "in git config with swarm. before them for yourself.",
        ".PP",
        _text(", ".join(config_keys())),
        ".SH ENVIRONMENT",
        *_table([*(each for name in BUILT_IN for each in adapter_of(name).variables.items()), *_ENVIRONMENT]),
        ".SH FILES",
        *_table(_FILES),
        '.SH "EXIT STATUS"',
        *_table(_CODES),
        '.SH "SEE ALSO"',
        "git(1), git\\-worktree(1), git\\-notes(1), git\\-config(1)",
    ]
    return "\n".join(lines) + "\n"


def _group(name: str, group: Group) -> Iterator[str]:
    for each, entry in group.entries.items():
        yield from _command(f"{name} {each}", entry) if isinstance(entry, Command) else ()


def _command(name: str, command: Command) -> Iterator[str]:
    function = command_function(command)
    declared = list(parameters(function))
    arguments = " ".join(_argument(each) for each in declared if isinstance(each.marker, Argument))
    yield f'.SS "git swarm {_text(name)} [OPTIONS] {_text(arguments)}"'
    for paragraph in (inspect.getdoc(function) or "").split("\n\n"):
        if not paragraph.lstrip().startswith(":"):
            yield _text(" ".join(paragraph.split()))
            yield ".PP"
    yield from _table((_named(each), each.marker.help) for each in declared)
    lines = EXAMPLES.get(name, ())
    if lines:
        yield ".PP"
        yield ".nf"
        yield from (f"    {_text(line)}" for line in lines)
        yield ".fi"


def _argument(parameter: Parameter) -> str:
    name = f"{parameter.marker.metavar or parameter.name.upper()}{'...' if parameter.takes_all else ''}"
    return name if parameter.is_required else f"[{name}]"


def _named(parameter: Parameter) -> str:
    if not isinstance(parameter.marker, Option):
        return _argument(parameter).strip("[]")
    value = "" if parameter.is_flag else f" {parameter.marker.metavar or 'VALUE'}"
    return f"{', '.join(parameter.names)}{value}"


def _table(rows: Iterator[tuple[str, str]] | Sequence[tuple[str, str]]) -> Iterator[str]:
    for name, text in rows:
        yield ".TP"
        yield f".B {_text(name)}"
        yield _text(text)


def _text(text: str) -> str:
    """For roff: what it would take for its own is meant as it stands."""
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "").replace('"', "\\(dq")
    plain = plain.replace("…", "...")
    plain = "".join(letter if letter.isascii() else f"\\[u{ord(letter):04X}]" for letter in plain)
    return f"\\&{plain}" if plain[:1] in (".", "'") else plain
