"""`doctor`: whether everything that git-swarm needs is there, and what is not as it should be."""

from __future__ import annotations

import os
from typing import Annotated

from gitswarm.cli.arguments import Option
from gitswarm.cli.console import complain, hanging, next_lines, out, out_json, out_lines, plural
from gitswarm.cli.here import readable_config, repository_here, surroundings
from gitswarm.cli.opened import JsonFlag
from gitswarm.errors import NotARepositoryError
from gitswarm.runner.diagnosis import Diagnosis, examine_machine, examine_repository, repair
from gitswarm.runner.run_processes import refuse_agent
from gitswarm.runner.run_session import SilentObserver
from gitswarm.settings import CommandLine, Config, freeze_settings, load_config

_SIGNS = {"ok": "ok", "note": "-", "problem": "!"}


def doctor(
    fix: Annotated[bool, Option("--fix", help="Repair what can be repaired safely.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Check sandbox, network, guard, engines and leftovers, and name the command that repairs each problem."""
    try:
        repository = repository_here()
    except NotARepositoryError:
        found = _machine(load_config(None, {}))
        found.append(Diagnosis("repository", "note", "none here: its checks were skipped"))
    else:
        config, unreadable = readable_config(repository)
        found = [Diagnosis("config", "problem", what, hint) for what, hint in unreadable]
        found += [*_machine(config), *examine_repository(repository)]
        if fix:
            refuse_agent(os.environ, "doctor --fix", repository.common_dir)
    fixed = repair(found) if fix else set()
    wrong = [each for each in found if each.level == "problem" and each not in fixed]
    if as_json:
        out_json({"sound": not wrong, "findings": [each.to_json(fixed=each in fixed) for each in found]})
    else:
        for each in found:
            _show(each, is_fixed=each in fixed)
        if wrong:
            can = sum(each.repair is not None for each in wrong)
            hint = f"git swarm doctor --fix   (repairs {can} of them)" if can else "see the lines that begin with '!'"
            complain(plural(len(wrong), "problem"), hint)
        else:
            out("no problems found")
    if wrong:
        raise SystemExit(1)


def _machine(config: Config) -> list[Diagnosis]:
    settings = freeze_settings(config, os.environ, CommandLine(), scripted=False)
    return list(examine_machine(settings, surroundings(config, SilentObserver())))


def _show(finding: Diagnosis, *, is_fixed: bool) -> None:
    sign = "fixed" if is_fixed else _SIGNS[finding.level]
    out_lines(hanging(f"{sign:<7}{finding.check:<11} ", finding.message))
    if finding.hint and not is_fixed:
        out_lines(next_lines(" " * 19, finding.hint))
