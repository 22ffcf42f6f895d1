"""A stored run as a script for the stub: what each step left, said and was answered, without a model.

The commits are the truth of the code: an entry holds the files that its step's commit changed, not the tool calls
that led there. What an agent claimed comes from the handoff, a navigator's choice from the routing note.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from msgspec import Struct, field

from gitswarm.evidence.observed_command import EDITING_TOOLS
from gitswarm.git.object_reader import DIRECTORY, EMPTY_TREE, GITLINK
from gitswarm.git.repository import Repository
from gitswarm.git.scratch import in_worktree_form
from gitswarm.ledger.layout import KERNEL, RunLayout
from gitswarm.ledger.reading import StepFiles, decisions, step_files
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import StepRecord
from gitswarm.records.envelope import Handoff
from gitswarm.records.execution import RUNS_FOLDER, Result
from gitswarm.records.json_value import JsonValue
from gitswarm.records.receipt import EngineOutcome, Receipt
from gitswarm.records.record import without_defaults
from gitswarm.records.routing import Action, NavigatorUse, RoutingSignal
from gitswarm.runner.run_session import FrozenSpecs
from gitswarm.runner.specs import read_frozen
from gitswarm.specs.script import LeftFile, Script
from gitswarm.specs.station import declared_artifacts, promised_artifacts

_LINK, _EXECUTABLE = 0o120000, 0o100755
_RUN_BASE = "RUN_BASE/"
_BREAKS = frozenset("\r\x85\u2028\u2029\ufeff")
"""What one reader of YAML takes for the end of a line, and another one does not."""


class RecordedScript(Struct, frozen=True):
    """`left_out`: what no script can say, one line each."""

    script: Script
    left_out: tuple[str, ...] = ()


class _RecordedRun(Struct, frozen=True):
    repository: Repository
    specs: FrozenSpecs
    left_out: list[str] = field(default_factory=list)


def recorded_script(repository: Repository, state: RunState) -> RecordedScript:
    """The script of all steps on the run's branch, in the order of its flow; a fork's also of shared ones."""
    tree = repository.objects.commit(state.run_commit).tree
    run = _RecordedRun(repository, read_frozen(repository, state.layout, tree))
    steps: dict[str, list[dict[str, object]]] = {}
    for stored in step_files(repository, state):
        record = stored.record
        is_skip = record.by_human and record.result is Result.SKIPPED
        if record.by_command or (record.engine == KERNEL and not is_skip):
            continue
        name = record.execution.name
        steps.setdefault(name, []).append(_entry(run, stored))
    return RecordedScript(Script.from_plain({"steps": steps}), tuple(run.left_out))


def _entry(run: _RecordedRun, stored: StepFiles) -> dict[str, object]:
    record = stored.record
    if record.by_human:
        return {"summary": record.summary}
    played = run.specs.script.entry(record.flow, record.step, record.executions - 1) if run.specs.script else None
    again = {"run": played.run} if played is not None and played.run and record.engine == "command" else {}
    receipt = Receipt.from_plain(stored.receipt)
    if record.result is Result.FAILED:
        error, route = receipt.error or record.summary, _answer(run.repository, record)
        return {**again, "fail": error, **({"route": route} if route else {})}
    files = dict(left_files(run.repository, record, run.left_out))
    if record.engine == "command":
        return {**again, **({"files": files} if files else {})}
    artifacts, promised = _artifacts(run, record, receipt)
    files |= artifacts
    entry: dict[str, object] = {"envelope": _claimed(stored), "files": files, "output": _last_words(run, record)}
    entry["leaves_out"] = tuple(
        name for name in promised if f"{_RUN_BASE}{name}" not in files and name not in (receipt.placeholders or ())
    )
    if receipt.outcome is not None and receipt.outcome.resets_at is not None:
        entry["outcome"] = EngineOutcome(kind=receipt.outcome.kind, resets_at=receipt.outcome.resets_at)
    entry["route"] = _answer(run.repository, record)
    return {name: value for name, value in entry.items() if value}


def left_files(
    repository: Repository, record: StepRecord, left_out: list[str]
) -> Iterator[tuple[str, LeftFile | None]]:
    """The code files that a step changed, by path; None: it deleted them.

    :param left_out: gets a line for what is no file, or has a name that no script can spell.
    """
    objects, commit = repository.objects, record.sibling or record.commit  # not as a join merged it
    before = objects.commit(objects.commit(commit).parents[0]).tree
    changed = list(_changed(repository, before, objects.commit(commit).tree))
    files = [path for path, new in changed if new is not None and new[1] != GITLINK]
    converted = in_worktree_form(repository.git, commit, files)
    for path, new in changed:
        shown = path.encode(errors="replace").decode()
        if shown != path or (new is not None and new[1] == GITLINK):
            what = "a submodule" if shown == path else "its name is not UTF-8"
            left_out.append(f"{record.execution.name}: {shown}: {what}")
            continue
        yield path, _file(repository, new, converted.get(path)) if new is not None else None


def _changed(
    repository: Repository, old: str, new: str, folder: str = ""
) -> Iterator[tuple[str, tuple[str, int] | None]]:
    """Paths that differ between two trees, with what the new one has there; `.swarm/runs` left out."""
    before, after = repository.objects.entries(old), repository.objects.entries(new)
    for name in sorted({*before, *after}):
        one, other, path = before.get(name), after.get(name), f"{folder}{name}"
        if one == other or path == RUNS_FOLDER:
            continue
        inner = [each[0] if each is not None and each[1] == DIRECTORY else None for each in (one, other)]
        if any(inner):
            yield from _changed(repository, inner[0] or EMPTY_TREE, inner[1] or EMPTY_TREE, f"{path}/")
        if other is not None and inner[1] is None:
            yield path, other
        elif one is not None and inner[0] is None:
            yield path, None


def _file(repository: Repository, entry: tuple[str, int], converted: bytes | None = None) -> LeftFile:
    content, mode = converted or repository.objects.read_blob(entry[0]), entry[1]
    if mode == _LINK:
        return LeftFile(link=content.decode(errors="replace"))
    try:
        text = None if b"\0" in content else content.decode()
    except UnicodeDecodeError:
        text = None
    coded = base64.b64encode(content).decode() if text is None else None
    return LeftFile(text=text, base64=coded, executable=mode == _EXECUTABLE)


def _artifacts(
    run: _RecordedRun, record: StepRecord, receipt: Receipt
) -> tuple[dict[str, LeftFile], tuple[str, ...]]:
    """The declared files of RUN_BASE that the step wrote, also as they were; and what it promises."""
    objects, flow = run.repository.objects, run.specs.flows[record.flow]
    station = run.specs.stations.get(receipt.station or "")
    step = flow.step(record.step) if flow.has_step(record.step) else None
    commit = record.sibling or record.commit
    before, after = (objects.commit(each).tree for each in (objects.commit(commit).parents[0], commit))
    calls = (call for call in receipt.tool_calls if call.tool_name in EDITING_TOOLS and call.success)
    named = [str(call.input.get("file_path", "")) for call in calls]
    found = {}
    for name in declared_artifacts(flow, step, station):
        path = f"{RUNS_FOLDER}/{record.execution.run_id}/{name}"
        entry = objects.entry(after, path)
        if entry is None or not (entry != objects.entry(before, path) or any(each.endswith(name) for each in named)):
            continue
        found[f"{_RUN_BASE}{name}"] = _file(run.repository, (entry, 0))
    return found, promised_artifacts(flow, station, step)


def _claimed(stored: StepFiles) -> dict[str, JsonValue]:
    """The handoff as the agent gave it. What it was capped to is found again, but for a secret: that is not here."""
    envelope = stored.envelope
    if envelope is None:
        return {}
    said = without_defaults(envelope)
    claim: dict[str, JsonValue] = {name: said[name] for name in Handoff.__struct_fields__ if name in said}
    is_secret = stored.evidence is not None and bool(stored.evidence.secrets)
    claim["status"] = (envelope.status if is_secret else envelope.claimed_status or envelope.status).value
    base = f"{RUNS_FOLDER}/{envelope.run_id}/"
    if envelope.artifacts:
        claim["artifacts"] = [name.removeprefix(base) for name in envelope.artifacts]
    return claim


def _last_words(run: _RecordedRun, record: StepRecord) -> str | None:
    """What the agent said last, as its transcript has it."""
    content = run.repository.objects.file(record.tree, record.execution.transcript(record.engine)) or b""
    lines = (json.loads(line) for line in content.splitlines() if line.strip())
    messages = [line["content"] for line in lines if line.get("role") == "assistant"]
    return messages[-1] if messages and messages[-1] != record.summary else None


def _answer(repository: Repository, record: StepRecord) -> Mapping[str, JsonValue] | str | None:
    """What the navigator answered after the step; None: it was not asked, or had nothing to say."""
    taken = decisions(repository, RunLayout(record.execution.run_id), record.commit)
    decision = next((each for each in reversed(taken) if each.explanation.navigator is not None), None)
    if decision is None:
        return None
    use = decision.explanation.navigator or NavigatorUse()
    new = decision.stack[-1].nodes if decision.stack and decision.decision is Action.INJECT_NODES else ()
    if use.chosen is None and decision.proposal is None and not new:
        return use.problem or use.reasoning
    signal = RoutingSignal(
        chosen_candidate_id=use.chosen,
        reasoning=use.reasoning,
        why_now=decision.why_now or (decision.proposal.why_now if decision.proposal is not None else None),
        skip_justification=decision.skip_justification,
        offroad_rule=decision.offroad_rule,
        extend_graph=decision.proposal.nodes if decision.proposal is not None else (),
        inject_nodes=new if decision.proposal is None else (),
    )
    answer: dict[str, JsonValue] = without_defaults(signal)
    return answer


def to_yaml(script: Script) -> str:
    """The script as `start --script` reads it."""
    plain: Any = script.to_plain()
    for entry in (entry for entries in plain["steps"].values() for entry in entries):
        for name, file in entry.get("files", {}).items():
            if file is not None and set(file) == {"text"}:
                entry["files"][name] = file["text"]
    return yaml.dump(plain, Dumper=_Blocks, allow_unicode=True, width=sys.maxsize, sort_keys=False)


class _Blocks(yaml.SafeDumper):
    """Texts of several lines as they stand, where YAML can."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if _BREAKS.intersection(text) else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Blocks.add_representer(str, _text)
