"""`replay` and `export --script`: a recorded run gives the same code, status and route without what made it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gitswarm.cli.run_execution import StopFlag
from gitswarm.engines.stub import put_files
from gitswarm.records.record import without_defaults
from gitswarm.records.safety import SecretRules
from gitswarm.runner.recorded_script import to_yaml
from gitswarm.safety.redact.redactor import Redactor
from gitswarm.specs.script import LeftFile, Script, ScriptEntry
from gitswarm.specs.yaml_source import parse_yaml, validate
from tests.conftest import Project
from tests.forking import STATIONS, WRITERS
from tests.projects import ask
from tests.routed import MAKER, quest

FLOW = """\
id: f
steps:
  - {id: a, station: maker}
  - id: b
    station: reader
    routing: {kind: microloop, loop_target: a, max_iterations: 3}
  - {id: c, station: maker}
"""
TESTED = """\
id: f
steps:
  - {id: a, station: maker}
  - id: t
    engine: command
    command: {run: "sh check"}
    routing: {kind: branch, when: [{if: "evidence.tests.passed", next: c}], default: a, max_iterations: 3}
  - {id: c, station: maker}
"""
KNOWN = "token = ghp_" + "a1B2c3D4e" * 4 + "\n"
"""A secret that is in the project already: it may be committed, and stands in no stored script."""

BASE: Mapping[str, str | bytes] = {
    "old.txt": "old\n",
    "both.txt": "one\r\ntwo\r\n",
    "folder/in.txt": "in\n",
    "tool": "#!/bin/sh\n",
    "known": KNOWN,
    ".gitignore": "*.log\n",
    ".gitattributes": "*.crlf text eol=crlf\n",
}


@dataclass(frozen=True)
class Recorded:
    """A run to be recorded: its script, what a person types then, and the code that it ends with."""

    script: str
    left: Mapping[str, str]
    flow: str = FLOW
    then: Sequence[Sequence[str]] = ()
    by_hand: Mapping[str, str] = field(default_factory=dict)
    options: Sequence[str] = ()


CASES = {
    "a loop, edits, deletes": Recorded(
        r"""
        a:
          - {write: {old.txt: "new\n", x/y/z.txt: "z"}, delete: [both.txt]}
          - {run: ["rm -r folder", "printf more >> x/y/z.txt"]}
        b:
          - {status: UNVERIFIED, can_further_iteration_help: "yes", concerns: [folder is still there]}
          - {status: VERIFIED}
        """,
        {"old.txt": "new\n", "x/y/z.txt": "zmore", "both.txt": "", "folder/in.txt": ""},
    ),
    "names and contents of all kinds": Recorded(
        r"""
        a:
          run:
            - 'printf "größe\n" > "naïve ☃ 文.txt"; printf x > "-q \"\\ *"; printf x > "$(printf "e\314\201")"'
            - "printf '\\000\\377\\001' > bin.dat; printf 'a\\r\\nb\\033[0m' > odd.txt; : > empty"
            - "printf 'one\\r\\ntwo\\r\\n' > lines.crlf; echo noise > build.log"
            - "echo '*.u16 working-tree-encoding=UTF-16' >> .gitattributes; printf '\\376\\377\\000a' > wide.u16"
        """,
        {"naïve ☃ 文.txt": "größe\n", "empty": "", "build.log": ""},
    ),
    "links, modes, kinds that change": Recorded(
        r"""
        a: {run: ["ln -s nowhere dangling; ln -s folder way; chmod +x tool; rm old.txt; ln -s tool old.txt"]}
        c: {run: ["rm -r folder way; echo f > folder; mkdir way; echo x > way/x; chmod -x tool; rm old.txt"]}
        """,
        {"folder": "f\n", "way/x": "x\n", "old.txt": ""},
    ),
    "what no command gives twice": Recorded(
        r"""
        a: {run: ["head -c 9000 /dev/urandom > random", "date +%s%N > stamp", "false", "git push origin HEAD"]}
        c: {run: ["rm -f stamp", "head -c 20 /dev/urandom | base64 > text"]}
        """,
        {"stamp": ""},
    ),
    "a failing command, mended": Recorded(
        r"""
        a:
          - {write: {check: "exit 3\n"}}
          - {write: {check: "date +%N > stamp\n"}}
        """,
        {"check": "date +%N > stamp\n"},
        flow=TESTED,
    ),
    "a question, an answer, edits by hand, a skip": Recorded(
        r"""
        a:
          - {status: BLOCKED, blockers: ["which colour?"], write: {half.txt: "half\n"}}
          - {write: {colour.txt: "blue\n"}, delete: [half.txt]}
        c: {status: BLOCKED, blockers: [stuck]}
        """,
        {"colour.txt": "blue\n", "mine.txt": "mine\n", "half.txt": ""},
        then=[("resume", "-m", "blue"), ("resume", "--adopt"), ("skip", "c")],
        by_hand={"mine.txt": "mine\n"},
    ),
    "a fork": Recorded(
        r"""
        left: {run: ["date +%N > left.txt"], write: {same.txt: "l\n"}}
        right: {write: {same.txt: "r\n"}}
        both: {write: {both.txt: "joined\n"}}
        """,
        {"same.txt": "l\n", "both.txt": "joined\n"},
        flow=WRITERS.replace("id: fan", "id: f"),
    ),
    "a detour that a navigator chose": Recorded(
        r"""
        a: {status: PARTIAL, route: {chosen_candidate_id: "detour:look", reasoning: look, why_now:
            {trigger: "the map is old", relevance_to_charter: "the goal needs it"}}}
        sq-look-look: {write: {map.txt: "new\n"}}
        """,
        {"map.txt": "new\n"},
        options=("--routing", "authoritative"),
    ),
    "a failure, and the same step again": Recorded(
        r"""
        a: [{write: {half.txt: half}, fail: overloaded}, {write: {whole.txt: whole}, run: ["cp known copied"]}]
        """,
        {"copied": KNOWN, "whole.txt": "whole", "half.txt": ""},
        then=[("resume",)],
    ),
    "stopped, taken back, and continued": Recorded(
        r"""
        a: {write: {a.txt: a}}
        c: {write: {c.txt: c}}
        """,
        {"a.txt": "a", "c.txt": "c"},
        then=[("rollback", "a"), ("resume",)],
        options=("--until", "b"),
    ),
}


def record(project: Project, case: Recorded) -> str:
    stations = {f".swarm/flows/stations/{key}.yaml": text for key, text in STATIONS.items()}
    look = quest("look", {"kind": "condition", "if": "false"}, steps=[{"id": "look", "station": "maker"}])
    files = {".swarm/flows/f.yaml": case.flow, ".swarm/sidequests/look.yaml": json.dumps(look)}
    project.commit({**MAKER, **BASE, **stations, **files})
    lines = "".join(f"  {line}\n" for line in case.script.splitlines())
    answer = ask(project, "start", "f", "--script", project.script(f"steps:\n{lines}"), *case.options)
    assert answer.code in (0, 4, 5), answer.stderr
    run = str(project.json("list")[0]["run_id"])
    for words in case.then:
        if "--adopt" in words:
            for name, text in case.by_hand.items():
                (project.worktree(run) / name).write_text(text, encoding="utf-8")
        answer = ask(project, *words, *((run,) if words[0] == "resume" else ("--run", run)))
        assert answer.code in (0, 4, 5), answer.stderr
    return run


def trees(project: Project, run: str) -> list[tuple[Any, ...]]:
    """Of every step: its name, how it ended, where it led, and all its code, as git lists it."""
    names = ("flow", "step", "result", "status")
    return [
        (
            *(entry[name] for name in names),
            entry["routing"] and entry["routing"]["decision"],
            project.tree(entry["commit"]),
        )
        for entry in project.json("log", run)
    ]


def check_left(project: Project, run: str, left: Mapping[str, str]) -> None:
    """The recorded run did what the row is about."""
    listed = project.tree(f"shadow/{run}")
    for name, text in left.items():
        if name in listed:
            assert project.git("cat-file", "-p", listed[name].split()[2]) == text.rstrip("\n"), name
        else:
            assert text == "", name


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_recorded_run_is_replayed(project: Project, case: Recorded) -> None:
    run = record(project, case)
    check_left(project, run, case.left)
    said = ask(project, "replay", run, "--json")
    assert said.code == 0, said.stdout + said.stderr
    assert said.stderr.endswith(
        f"hint: git swarm status {run}   (without a RUN, commands mean the replay now: it is newer)\n"
    )
    told = json.loads(said.stdout)
    assert trees(project, told["replay"]) == trees(project, run)
    assert [step["recorded"] for step in told["steps"]] == [step["replayed"] for step in told["steps"]]


def test_an_exported_script_plays_the_same_in_another_clone(project: Project) -> None:
    case = CASES["names and contents of all kinds"]
    run, file = record(project, case), project.root.parent / "exported.yaml"
    said = project.swarm("export", run, str(file), "--script").stdout
    assert said == f"{run}: 3 steps in {file}\n"
    project.git("clone", "-q", str(project.root), "../other")
    other = Project(project.root.parent / "other", project.env)
    other.swarm("start", "f", "--script", str(file))
    assert other.tree(f"shadow/{other.json('list')[0]['run_id']}") == project.tree(f"shadow/{run}")
    assert ask(project, "export", run, str(file), "--script").code == 2  # it is there


def test_a_difference_is_shown_and_is_the_exit_code(project: Project) -> None:
    outside = project.root.parent / "home" / "words"
    outside.write_text("one", encoding="utf-8")
    run = record(project, Recorded(f"a: {{write: {{check: 'grep -q one {outside}'}}}}", {}, flow=TESTED))
    outside.write_text("two", encoding="utf-8")
    answer = ask(project, "replay", run)
    new = project.json("list")[0]["run_id"]
    assert (answer.code, answer.stdout.splitlines()) == (
        1,
        [
            "#  step  code tree   status    replay   route",
            f"1  f/a   {code(project, run, 0)}  VERIFIED  equal    advance:t",
            f"2  f/t   {code(project, run, 1)}  VERIFIED  differs  branch:c",
            "   status    UNVERIFIED in the replay",
            "   route     branch:a in the replay",
            "1 step not executed by the replay",
            f"{run} replayed as {new}: 2 steps of 3 differ",
        ],
    )
    status, listed = project.swarm("status", new).stdout, project.swarm("list").stdout.splitlines()
    assert f"\n  replay of {run}\n" in status
    assert [line.endswith(f"  replay of {run[-6:]}") for line in listed[1:]] == [True, False]
    assert [each["replay_of"] for each in project.json("list")] == [run, None]
    project.swarm("discard", new, "--force")


def code(project: Project, run: str, step: int) -> str:
    """Ten digits of the tree of all code after a step."""
    commit = project.json("log", run)[step]["commit"]
    project.git("read-tree", commit)
    project.git("rm", "-rq", "--cached", ".swarm/runs")
    tree = project.git("write-tree")
    project.git("read-tree", "HEAD")
    return tree[:10]


def test_what_was_stopped_before_it_was_executed_does_not_differ(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = record(project, CASES["a loop, edits, deletes"])
    flag = StopFlag()
    flag.is_set = True
    monkeypatch.setattr("gitswarm.cli.rehearsals.stop_signals", lambda _observer: nullcontext(flag))
    answer = ask(project, "replay", run)
    new = project.json("list")[0]["run_id"]
    assert (answer.code, answer.stdout.splitlines()[1:]) == (
        130,
        ["5 steps not executed by the replay", f"{run} replayed as {new}: stopped, 0 steps equal so far"],
    )


def test_a_replay_that_is_ended_by_a_signal_says_so(project: Project) -> None:
    outside = project.root.parent / "home" / "check"
    outside.write_text("true", encoding="utf-8")
    run = record(project, Recorded(f"a: {{write: {{check: 'sh {outside}'}}}}", {}, flow=TESTED))
    outside.write_text(f"kill -TERM {os.getpid()}; sleep 9", encoding="utf-8")
    answer = ask(project, "replay", run)
    assert (answer.code, answer.stdout.splitlines()[-1].partition(": ")[2]) == (130, "stopped, 1 step equal so far")


def test_what_acts_outside_of_a_run_is_not_played(project: Project) -> None:
    case = Recorded("a: {write: {old.txt: new}}", {}, options=("gate", "deploy", "--allow-stub", "--autopilot"))
    run = record(project, case)
    project.commit({"old.txt": "another\n"}, "the target moves: that would call for a reset")
    told = project.json("replay", run)
    assert (told["equal"], told["not_replayed"]) == (True, 7)
    assert told["ends_at"] == "deploy/execute_merge (land) acts outside of the run"
    assert [step["recorded"]["step"] for step in told["steps"]][-1] == "deploy/read_gate"
    receipt = project.json("show", "decide_merge", "--receipt", "--run", told["replay"])
    assert "placeholders" not in receipt  # what was recorded is none


def test_a_replay_reaches_no_forge_either_when_it_is_resumed(project: Project) -> None:
    project.commit({".swarm/config.yaml": "review: {forge: gh}\n"})
    run = record(project, CASES["a loop, edits, deletes"])
    played = [run, project.json("replay", run)["replay"]]
    specs = [json.loads(project.git("show", f"shadow/{name}:.swarm/runs/{name}/spec.json")) for name in played]
    assert [spec["settings"]["review"]["forge"] for spec in specs] == ["gh", "none"]


def test_an_exported_text_is_read_as_it_was() -> None:
    texts = [
        "no",
        "0x1",
        " a\n b\n\n",
        "a\rb",
        "\x85a",
        "a\u2028\n",
        "\ufeffx",
        "\x00\x1b\x7f\n",
        "- #: |\n\ttab ",
        "文😀",
    ]
    entries = tuple(ScriptEntry(output=text, files={f"x{text}": LeftFile(text=text)}) for text in texts)
    script = Script(steps={"f/a": entries})
    assert validate(parse_yaml("exported.yaml", to_yaml(script)), Script) == script


def test_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "worktree").mkdir()
    (tmp_path / "worktree" / "ignored").symlink_to(tmp_path / "outside")
    put_files(tmp_path / "worktree", {"ignored/x": LeftFile(text="x"), "ignored/gone": None})
    assert list((tmp_path / "outside").iterdir()) == []
    assert (tmp_path / "worktree" / "ignored" / "x").read_text(encoding="utf-8") == "x"


def test_content_in_base64_is_read_from_where_it_is_frozen() -> None:
    def frozen(content: bytes) -> bytes:
        file = LeftFile(base64=base64.b64encode(content).decode())
        return LeftFile.from_plain(redactor.scrub_json(without_defaults(file))).content

    redactor = Redactor(SecretRules(), {})
    picture = hashlib.sha256(b"picture").digest()
    assert (frozen(picture), frozen(KNOWN.encode())[:10]) == (picture, b"[REDACTED:")


def test_the_stub_fills_in_nothing_behind_a_link(project: Project) -> None:
    outside = project.root.parent / "outside"
    outside.mkdir()
    entry = {"files": {".swarm/runs": {"link": str(outside)}}}
    script = project.script(json.dumps({"steps": {"load_context": entry}}))
    ask(project, "start", "build", "--script", script, "--until", "load_context")
    assert list(outside.iterdir()) == []


def test_a_step_is_executed_again_by_another_engine(project: Project) -> None:
    run = record(project, CASES["a loop, edits, deletes"])
    project.swarm("fork", "a@1", "--run", run, "--again", "--engine", "gemini", "--mode", "stub", "--until", "a")
    fork = project.json("list")[0]["run_id"]
    told = project.json("compare", run, fork)["step"]
    names = ("step", "iteration", "engine", "mode", "status", "files", "tokens", "cost_usd")
    assert [[each[name] for name in names] for each in told] == [
        ["a", 1, "claude-step", "stub", "VERIFIED", 3, 0, 0.0],
        ["a", 1, "gemini-step", "stub", "VERIFIED", 3, 0, 0.0],
    ]
    shown = project.swarm("compare", run, fork).stdout.splitlines()
    heads = [line.split() for line in shown if line.startswith(" ")]
    assert heads == [[run[-6:], fork[-6:]]] * 2 or heads == [[run, fork]] * 2, shown
    assert [line.split() for line in shown if line.startswith("step ")] == [["step", "f/a", "f/a"]]
    # Of a fork, a fork is what makes it real.
    asked = project.swarm("fork", "a@1", "--run", run, "--engine", "gemini", "--mode", "stub", "--until", "b").stderr
    assert f"git swarm fork 1 --run {run} --engine gemini --mode cli" in " ".join(asked.split())
