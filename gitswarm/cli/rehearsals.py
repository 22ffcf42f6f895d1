"""Runs without a model. `demo`: a small project with an open acceptance criterion, and flows on it with a scripted
stub: `build`, or all of them up to a landed commit. `replay`: a recorded run once more, compared step by step."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import yaml
from msgspec import to_builtins
from msgspec.structs import astuple, replace

from gitswarm.cli.arguments import Argument, Option
from gitswarm.cli.console import INTERRUPTED, advise, err, out, out_json, plural, table
from gitswarm.cli.invocation import now, repository_here, run_context
from gitswarm.cli.run_execution import (
    apply_durability,
    config_of_run,
    explain_rehearsal,
    finish,
    stop_signals,
    watching,
)
from gitswarm.cli.runs import JsonFlag, RunArgument
from gitswarm.cli.start import RunOptions, execute
from gitswarm.errors import SwarmError
from gitswarm.git.merge import create_repository
from gitswarm.git.object_reader import Person
from gitswarm.git.repository import Repository, open_repository
from gitswarm.ledger.finding import find_run
from gitswarm.ledger.layout import RunLayout
from gitswarm.ledger.state import replay as read_run
from gitswarm.records.execution import RunStatus
from gitswarm.records.json_value import JsonValue
from gitswarm.routing.macro import ALL
from gitswarm.runner.replaying import ComparedStep, Recording, compare_steps, plan_replay, play
from gitswarm.runner.run_processes import refuse_agent
from gitswarm.settings import CONFIG_FILE, CommandLine

_SOURCE = Path(__file__).with_name("demo_project")
_SCRIPT = ".swarm/script.yaml"
_AUTHOR = Person("git-swarm demo", "demo@git-swarm.invalid")


def demo(
    folder: Annotated[
        Path | None,
        Argument(metavar="FOLDER", help="Where to make it: new or empty. Else a temporary folder."),
    ] = None,
    *,
    every: Annotated[
        bool, Option("--all", help="All flows, to a landed commit; then again with one dishonest step.")
    ] = False,
) -> None:
    """Make a small Python project and run the flow `build` on it, scripted, so that no model is needed."""
    _refuse_without_pytest()
    project = _empty_folder(folder)
    err(f"demo project {project}")
    _write_project(project)
    create_repository(project, os.environ, _AUTHOR, "slugline: titles into slugs")
    repository = open_repository(project, os.environ)
    if every:
        _run_all(repository, project)
        return
    done = execute(repository, _options(project))
    if done.state.end is not RunStatus.SUCCEEDED:
        out(f"folder     {project}")
        finish(repository, done, as_json=False)
    _show_commands(project, done.state.layout)
    explain_rehearsal(repository, done.state)


def _refuse_without_pytest() -> None:
    if importlib.util.find_spec("pytest") is None:
        raise SwarmError(
            f"the demo really runs tests, and {sys.executable} has no pytest",
            hint=f"{shlex.quote(sys.executable)} -m pip install pytest",
        )


def _empty_folder(named: Path | None) -> Path:
    """The folder of the project, absolute. A temporary one holds the run's worktree too."""
    try:
        project = named.resolve() if named else Path(tempfile.mkdtemp(prefix="git-swarm-demo-")) / "slugline"
        project.mkdir(parents=True, exist_ok=True)
        is_empty = next(project.iterdir(), None) is None
    except OSError as error:
        raise SwarmError(f"no folder for the demo: {error}", hint="git swarm demo SOME_NEW_FOLDER") from error
    if not is_empty:
        raise SwarmError(
            f"{project} is not empty, and the demo makes a project of its own",
            hint="git swarm demo   (in a temporary folder; or name a new one)",
        )
    return project


def _write_project(project: Path) -> None:
    """The project's files, its test command pinned to the interpreter that is known to have pytest."""
    python = shlex.quote(sys.executable)
    files: dict[str, str] = yaml.safe_load(_text("project.yaml"))
    config = {"commands": {"test": f"{python} -m pytest -q"}}
    files[CONFIG_FILE] = yaml.safe_dump(config, allow_unicode=True, width=sys.maxsize)
    files[_SCRIPT] = _text("script.yaml").replace("@PYTHON@", python)
    for name, content in files.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def _text(name: str) -> str:
    return (_SOURCE / name).read_text(encoding="utf-8")


def _run_all(repository: Repository, project: Path) -> None:
    """An honest run, which lands; and from the same commit one with a step that lies, which does not."""
    base = repository.resolve("HEAD")
    options = replace(_options(project), flows=ALL, allow_stub=True, autopilot=True)
    runs = (("honest", "HEAD", ("all.yaml",)), ("dishonest", base, ("all.yaml", "lie.yaml")))
    for name, start, extra in runs:
        script = project / ".swarm" / f"{name}.yaml"
        script.write_text(_with(_text("script.yaml"), *map(_text, extra)), encoding="utf-8")
        err(f"\n{name} agents")
        before = repository.resolve("HEAD")
        state = execute(repository, replace(options, script=str(script), base=start)).state
        script.unlink()
        tip = repository.resolve("HEAD")
        landed = f"landed as {tip[:12]}" if tip != before else "nothing landed"
        out(f"{name:<10} {state.layout.run_id} {state.end}, {landed}")
    out(f"folder     {project}")
    swarm = _our_name()
    out("look around:")
    out(f"  cd {shlex.quote(str(project))}")
    out(f"  {swarm} list")
    out(f"  {swarm} status")
    out("  git log -1")


def _with(script: str, *extra: str) -> str:
    """A script with steps of others over its own, files one by one."""
    whole = yaml.safe_load(script.replace("@PYTHON@", shlex.quote(sys.executable)))
    for text in extra:
        for name, entry in yaml.safe_load(text).items():
            before = whole["steps"].get(name, {})
            written = {**before.get("write", {}), **entry.get("write", {})}
            whole["steps"][name] = {**before, **entry, **({"write": written} if written else {})}
    return yaml.safe_dump(whole, allow_unicode=True, width=sys.maxsize)


def _options(project: Path) -> RunOptions:
    return RunOptions(
        flows=("build",),
        task=(project / "ISSUE.md").read_text(encoding="utf-8"),
        base="HEAD",
        engines=CommandLine(),
        script=str(project / _SCRIPT),
        allow_stub=False,
    )


def _show_commands(project: Path, layout: RunLayout) -> None:
    """Where everything is, and five commands that can be copied as they stand."""
    branch = layout.branch.removeprefix("refs/heads/")
    swarm = _our_name()
    out(f"folder     {project}")
    out(f"branch     {branch}")
    out("look around:")
    out(f"  cd {shlex.quote(str(project))}")
    out(f"  {swarm} log")
    out(f"  {swarm} show critique_code@1")
    out(f"  {swarm} diff")
    out(f"  git log --oneline --notes='swarm/*/routing' {branch}")


def _our_name() -> str:
    """How a shell starts this installation: git finds `git swarm` only if git-swarm is on PATH."""
    if shutil.which("git-swarm"):
        return "git swarm"
    program = shutil.which("git-swarm", path=str(Path(sys.executable).parent))
    return shlex.quote(program) if program else f"{shlex.quote(sys.executable)} -m gitswarm"


_DIFFERS = 1
_FIELDS = ("step", "code tree", "status", "route")


def replay(run: RunArgument = None, as_json: JsonFlag = False) -> None:
    """Execute a recorded run once more without a model, and compare code, status and route of each step."""
    repository = repository_here()
    refuse_agent(os.environ, "replay", repository.common_dir)
    layout = find_run(repository, run)
    config = config_of_run(repository, layout)
    apply_durability(repository, config)
    recording = plan_replay(repository, read_run(repository, layout), now(), os.urandom(2))
    for line in recording.left_out:
        err(f"left out   {line}")
    with watching(repository, as_json=False) as observer, stop_signals(observer) as stop:
        context = replace(run_context(config, observer), stop_requested=stop.is_over)
        played = play(repository, recording, context)
    found = compare_steps(repository, recording, played)
    equal = all(step.equal for step in found)
    if as_json:
        out_json(_plain(recording, found))
    else:
        _show(recording, found, is_stopped=stop.is_over())
    newer = "(without a RUN, commands mean the replay now: it is newer)"
    advise(f"git swarm status {recording.state.layout.run_id}   {newer}" if equal else _inspecting(recording, found))
    if stop.is_over():
        raise SystemExit(INTERRUPTED)
    raise SystemExit(0 if equal else _DIFFERS)


def _show(recording: Recording, found: Sequence[ComparedStep], *, is_stopped: bool) -> None:
    """What was recorded, and below it what of it the replay has otherwise."""
    rows, below = [], {}
    times: Counter[str] = Counter()
    for index, step in enumerate(step for step in found if step.replayed is not None):
        one = step.recorded or step.replayed
        if one is not None:
            mark = "equal" if step.equal else "differs"
            times[one.step] += 1
            name = one.step + (f"@{times[one.step]}" if times[one.step] > 1 else "")
            rows.append((str(step.n), name, one.tree[:10], one.status, mark, one.route))
            below[index] = _differences(step)
    table(("#", "step", "code tree", "status", "replay", "route"), rows, below=below)
    if len(rows) < len(found):
        out(f"{plural(len(found) - len(rows), 'step')} not executed by the replay")
    run, fresh = recording.state.layout.run_id, recording.new.spec.run_id
    differ = sum(1 for step in found if not step.equal and not (is_stopped and step.replayed is None))
    total = len(rows) if is_stopped else len(found)
    word = f"{plural(differ, 'step')} of {total} differ" if differ else f"{plural(total, 'step')} equal"
    if is_stopped:
        word = f"stopped, {word} so far"
    out(f"{run} replayed as {fresh}: {word}")
    if recording.ends_at:
        out(f"{len(recording.state.own_steps) - recording.until} not replayed: {recording.ends_at}")


def _differences(step: ComparedStep) -> list[str]:
    if step.equal or step.replayed is None:
        return []
    if step.recorded is None:
        return ["   only executed by the replay"]
    if step.replayed.step != step.recorded.step:
        return [f"   {step.replayed.step} in the replay"]
    pairs = zip(_FIELDS, astuple(step.recorded), astuple(step.replayed), strict=True)
    return [f"   {name:<9} {now[:60]} in the replay" for name, before, now in pairs if before != now]


def _inspecting(recording: Recording, found: Sequence[ComparedStep]) -> str:
    """The command that shows the first difference."""
    first = next(step for step in found if not step.equal)
    fresh = recording.new.spec.run_id
    if first.replayed is None:
        return f"git swarm status {fresh}"
    return f"git swarm show {first.n} --run {fresh}   (code: git swarm diff {recording.state.layout.run_id} {fresh})"


def _plain(recording: Recording, found: Sequence[ComparedStep]) -> dict[str, JsonValue]:
    return {
        "run_id": recording.state.layout.run_id,
        "replay": recording.new.spec.run_id,
        "base": recording.new.spec.base,
        "equal": all(step.equal for step in found),
        "steps": [{**to_builtins(step), "equal": step.equal} for step in found],
        "not_replayed": len(recording.state.own_steps) - recording.until,
        "ends_at": recording.ends_at,
        "left_out": list(recording.left_out),
    }
