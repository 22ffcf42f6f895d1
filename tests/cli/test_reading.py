"""What the reading commands show of one fixed run: whole outputs in 80 columns, and the shapes of `--json`."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import unicodedata
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from gitswarm.errors import NotFoundError
from gitswarm.git.repository import open_repository
from gitswarm.ledger.finding import find_run, find_step
from gitswarm.ledger.state import replay
from tests.cli.gated import GATE, gated, open_gate, open_nobody_s_gate, read_until, running, start
from tests.conftest import Project
from tests.projects import ask, new_project, only_run

SHORT = "id: short\ntitle: One step\nsteps:\n  - {id: look, station: fixer}\n"
FLOWS = {
    ".swarm/flows/hello.yaml": """\
id: hello
title: Say hello
steps:
  - id: write
    station: code-implementer
    objective: Write the greeting.
    teaching: {outputs: [notes.md]}
  - id: critique
    station: code-critic
    routing: {kind: microloop, loop_target: write, max_iterations: 3}
  - id: test
    engine: command
    command: test
    routing: {kind: branch, when: [{if: evidence.tests.passed, next: done}], default: write, max_iterations: 2}
  - id: done
    station: build-cleanup
""",
    ".swarm/flows/short.yaml": SHORT,
}

SCRIPT = """\
default: {status: VERIFIED, summary: fine}
steps:
  write:
    - write: {src/app.py: "print('hi')\\n", RUN_BASE/hello/notes.md: "# notes\\n"}
      summary: changed a[0] and [b], see [/c]
      tokens: {prompt: 1200, completion: 300}
      cost_usd: 0.01
    - write: {src/app.py: "print('hi!')\\n", src/logo.bin: "\\0"}
      delete: [README.md]
      summary: a second try with a summary that is much too long to stand in one line of a terminal
  critique:
    - status: UNVERIFIED
      can_further_iteration_help: yes
      summary: CC-1 has to be mended, and the greeting wants a mark that says how glad we are
      concerns: ["CC-1: [says] hi without an exclamation mark"]
    - {status: VERIFIED, summary: no findings}
  test:
    - {run: ["echo 1 failed; exit 1"]}
    - {run: ["echo 1 passed"]}
"""


@dataclass(frozen=True)
class Shelf:
    """A repository with two finished runs: `run` in many steps, then `newest` in one."""

    project: Project
    run: str
    newest: str
    commits: tuple[str, ...]
    base: str
    tip: str

    @property
    def worktree(self) -> Path:
        return self.project.root.parent / "repo.swarm" / self.run

    def shown(self, *arguments: str, cwd: Path | None = None) -> str:
        """What a command says on stdout, ids and times replaced."""
        answer = ask(self.project, *arguments, cwd=cwd)
        assert (answer.code, answer.stderr) == (0, "")
        return self.plain(answer.stdout)

    def plain(self, text: str) -> str:
        """Ids, times and places replaced by fixed ones of the same width; no blanks at the ends of lines."""
        known = {commit: str(number) for number, commit in enumerate(self.commits, start=1)}
        for commit, sign in {**known, self.base: "b", self.tip: "e"}.items():
            for length in (40, 12, 9, 8):
                text = re.sub(rf"\b{commit[:length]}\b", sign * length, text)
        text = text.replace(self.run, "run-20260101-000000-abcdef").replace(self.run[-6:], "abcdef")
        text = text.replace(str(self.project.root.parent), "/there")
        text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "2026-01-01T00:00:00.000Z", text)
        text = re.sub(r"^\d\d:\d\d:\d\d\.\d{3}", "00:00:00.000", text, flags=re.MULTILINE)
        text = re.sub(r"\b(\d+ms|\d+\.\ds)\b", "0ms", text)
        text = re.sub(r"duration_ms=\d+", "duration_ms=0", text)
        text = re.sub(r',(\s+)"elapsed_us":\s+\d+', "", text)
        return re.sub(r" +$", "", text, flags=re.MULTILINE)

    def json(self, *arguments: str) -> Any:
        return json.loads(self.shown(*arguments, "--json"))


def project_with_flows(folder: Path) -> Project:
    project = new_project(folder)
    project.commit(FLOWS, "flows")
    return project


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return make_shelf(tmp_path_factory.mktemp("shelf"))


def make_shelf(folder: Path) -> Shelf:
    project = project_with_flows(folder)
    project.swarm("start", "hello", "-m", "Say hi", "--script", project.script(SCRIPT))
    run = only_run(project)
    project.swarm("start", "short", "--script", project.script("{}"))
    newest = json.loads(ask(project, "list", "--json").stdout)[0]["run_id"]
    commits = tuple(entry["commit"] for entry in json.loads(ask(project, "log", run, "--json").stdout))
    tip = project.git("rev-parse", f"shadow/{run}")
    return Shelf(project, run, newest, commits, project.git("rev-parse", "main"), tip)


def columns(line: str) -> int:
    """How wide a terminal shows a line."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in line)


# --- log --------------------------------------------------------------------------------------------------------


LOG_KEYS = [
    *("n", "commit", "flow", "step", "iteration", "agent", "engine", "mode", "model", "result", "status"),
    *("summary", "started_at", "duration_ms", "tokens", "cost_usd", "routing"),
]


def test_log_json_has_exactly_the_promised_fields(shelf: Shelf) -> None:
    entries = shelf.json("log", shelf.run)
    assert {tuple(entry) for entry in entries} == {tuple(LOG_KEYS)}
    assert {tuple(entry["routing"]) for entry in entries} == {("decision", "to_step", "routing_source", "reason")}


def test_log_json_says_all_about_a_step(shelf: Shelf) -> None:
    entry = shelf.json("log", shelf.run)[0]
    assert type(entry.pop("duration_ms")) is int
    assert entry == {
        "n": 1,
        "commit": "1" * 40,
        "flow": "hello",
        "step": "write",
        "iteration": 1,
        "agent": "code-implementer",
        "engine": "claude-step",
        "mode": "stub",
        "model": "claude-stub",
        "result": "succeeded",
        "status": "VERIFIED",
        "summary": "changed a[0] and [b], see [/c]",
        "started_at": "2026-01-01T00:00:00.000Z",
        "tokens": 1500,
        "cost_usd": 0.01,
        "routing": {
            "decision": "advance",
            "to_step": "critique",
            "routing_source": "fast_path",
            "reason": "the only next step",
        },
    }


def test_log_json_has_every_step_and_where_it_led(shelf: Shelf) -> None:
    entries = shelf.json("log", shelf.run)
    assert [(e["n"], f"{e['step']}@{e['iteration']}", e["status"], e["routing"]["to_step"]) for e in entries] == [
        (1, "write@1", "VERIFIED", "critique"),
        (2, "critique@1", "UNVERIFIED", "write"),
        (3, "write@2", "VERIFIED", "critique"),
        (4, "critique@2", "VERIFIED", "test"),
        (5, "test@1", "UNVERIFIED", "write"),
        (6, "write@3", "VERIFIED", "critique"),
        (7, "critique@3", "VERIFIED", "test"),
        (8, "test@2", "VERIFIED", "done"),
        (9, "done@1", "VERIFIED", None),
    ]


# --- show -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "path"),
    [
        ("--receipt", "receipts/critique-code-critic.json"),
        ("--envelope", "handoff/critique.json"),
        ("--evidence", "evidence/critique.json"),
    ],
)
def test_show_gives_a_stored_file_byte_for_byte(shelf: Shelf, option: str, path: str) -> None:
    shown = ask(shelf.project, "show", "critique@2", option, "--run", shelf.run).stdout
    stored = shelf.project.git("show", f"{shelf.commits[3]}:.swarm/runs/{shelf.run}/hello/{path}")
    assert shown == stored + "\n"


def test_show_prompt(shelf: Shelf) -> None:
    shown = shelf.shown("show", "write@2", "--prompt", "--run", shelf.run)
    system, _line, user = shown.partition("── user\n")
    assert system.startswith("── system\n# Code Implementer\n\nYou are the engineer")
    beginning, _title, rest = user.partition("## Inputs\n")
    assert beginning == (
        "# Step write of flow hello\n\nWrite the greeting.\n\n## Task\n\nSay hi\n\n"
        "## The newest critique, by hello/critique: UNVERIFIED\n\n"
        "CC-1 has to be mended, and the greeting wants a mark that says how glad we are\n\n"
        "- CC-1: [says] hi without an exclamation mark\n\n"
        "### hello/code_critique.md\n\n"
        "# code_critique\n\nstub: true\n\nWritten by hello/critique in stub mode.\n\n"
    )
    assert rest.endswith(
        "## Handed over by earlier steps\n\n"
        "- hello/write (code-implementer): VERIFIED: changed a[0] and [b], see [/c]\n"
        "  - file: .swarm/runs/run-20260101-000000-abcdef/hello/impl_changes_summary.md\n"
        "  - file: .swarm/runs/run-20260101-000000-abcdef/hello/notes.md\n"
    )


def test_show_json_is_the_log_entry_with_all_that_is_stored(shelf: Shelf) -> None:
    shown = shelf.json("show", "critique@1", "--run", shelf.run)
    assert list(shown) == [*LOG_KEYS, "receipt", "envelope", "evidence", "output", "decisions"]
    assert {key: shown[key] for key in LOG_KEYS} == shelf.json("log", shelf.run)[1]
    assert [decision["candidate_id"] for decision in shown["decisions"]] == ["loop:write:iter_2"]


# --- transcript -------------------------------------------------------------------------------------------------


def test_a_whole_transcript(shelf: Shelf) -> None:
    assert shelf.shown("transcript", "test@1", "--full", "--run", shelf.run) == (
        "── 2026-01-01T00:00:00.000Z tool_use Bash\n"
        '{"command": "echo 1 failed; exit 1"}\n'
        "── 2026-01-01T00:00:00.000Z tool_result Bash\n"
        "1 failed\n"
        "── 2026-01-01T00:00:00.000Z assistant\n"
        "failed (exit code 1): echo 1 failed; exit 1\n"
    )


def test_transcript_json_is_a_list_of_its_lines(shelf: Shelf) -> None:
    lines = shelf.json("transcript", "test@2", "--run", shelf.run)
    time = "2026-01-01T00:00:00.000Z"
    assert lines == [
        {"timestamp": time, "type": "tool_use", "tool": "Bash", "input": {"command": "echo 1 passed"}},
        {"timestamp": time, "type": "tool_result", "tool": "Bash", "success": True, "output": "1 passed\n"},
        {"timestamp": time, "role": "assistant", "content": "passed: echo 1 passed"},
    ]


# --- diff -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "stat"),
    [
        pytest.param(
            ("{run}",),
            " README.md    |   1 -\n src/app.py   |   2 +-\n src/logo.bin | Bin 0 -> 1 bytes\n"
            " 3 files changed, 1 insertion(+), 2 deletions(-)\n",
            id="a run",
        ),
        pytest.param(
            ("write@1", "--run", "{run}"),
            " src/app.py | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)\n",
            id="a step",
        ),
        pytest.param(("critique", "--run", "{run}"), "", id="a step without a change"),
    ],
)
def test_diff_stat(shelf: Shelf, arguments: tuple[str, ...], stat: str) -> None:
    filled = (argument.replace("{run}", shelf.run) for argument in arguments)
    assert shelf.plain(shelf.project.swarm("diff", *filled, "--stat").stdout) == stat


def test_diff_is_git_s_own(shelf: Shelf) -> None:
    theirs = shelf.project.git("diff", shelf.base, f"shadow/{shelf.run}", "--", ":(top,exclude).swarm/runs")
    assert shelf.project.swarm("diff", shelf.run).stdout == theirs + "\n"


def test_diff_is_what_the_printed_line_shows(shelf: Shelf) -> None:
    status = ask(shelf.project, "status", shelf.run).stdout
    (line,) = re.findall(r"diff +(git diff (?:.*\\\n)?.*)", status)
    done = subprocess.run(
        ["sh", "-c", line], cwd=shelf.project.root, env=dict(shelf.project.env), capture_output=True, check=True
    )
    assert shelf.project.swarm("diff", shelf.run).stdout == done.stdout.decode()


def test_diff_evidence_has_the_run_s_files_too(shelf: Shelf) -> None:
    shown = shelf.plain(shelf.project.swarm("diff", "1", "--run", shelf.run, "--evidence").stdout)
    names = re.findall(r"^\+\+\+ b/(.*)$", shown, re.MULTILINE)
    base = ".swarm/runs/run-20260101-000000-abcdef/hello"
    assert names == [
        f"{base}/events/write@1.jsonl",
        f"{base}/evidence/write.json",
        f"{base}/handoff/write.json",
        f"{base}/impl_changes_summary.md",
        f"{base}/llm/write-code-implementer-claude.jsonl",
        f"{base}/notes.md",
        f"{base}/receipts/write-code-implementer.json",
        "src/app.py",
    ]


# --- status, list, path -----------------------------------------------------------------------------------------


STATUS: dict[str, Any] = {
    "run_id": "run-20260101-000000-abcdef",
    "state": "succeeded",
    "flow": "hello",
    "current_step": None,
    "next_step": None,
    "steps_completed": 4,
    "branch": "shadow/run-20260101-000000-abcdef",
    "base": "b" * 40,
    "tip": "e" * 40,
    "worktree": "/there/repo.swarm/run-20260101-000000-abcdef",
    "cost_usd": 0.01,
    "tokens": 1500,
    "last_error": None,
    "hint": "git swarm diff run-20260101-000000-abcdef",
    "stack": [],
    "approved": None,
    "rejected": None,
    "landed": None,
    "question": None,
    "open_concerns": [],
    "task": "Say hi",
    "tests": {
        "step": "hello/test",
        "passed": True,
        "current": True,
        "summary": "passed: echo 1 passed",
        "red_before": False,
    },
    "steps_executed": 9,
    "rehearsal": True,
    "sandbox": None,
    "budget": None,
    "conflict": None,
    "starting": False,
    "replay_of": None,
}


def test_status_json_has_exactly_the_promised_fields(shelf: Shelf) -> None:
    found = shelf.json("status", shelf.run)
    assert list(found.items()) == list(STATUS.items())


def test_list_json_is_a_list_of_these_newest_first(shelf: Shelf) -> None:
    newest, oldest = shelf.json("list")
    assert (newest["run_id"], list(newest)) == (shelf.newest, [*STATUS, "disk_bytes"])
    assert oldest.pop("disk_bytes") > 0
    assert oldest == STATUS


def test_list_without_runs_says_how_to_start_one(project: Project) -> None:
    done = ask(project, "list")
    assert (done.stdout, done.stderr) == ("no runs yet\n", "hint: git swarm start build -m 'the task'\n")


def test_list_json_without_runs_is_an_empty_list(project: Project) -> None:
    assert ask(project, "list", "--json").stdout == "[]\n"


def test_path(shelf: Shelf) -> None:
    assert shelf.shown("path", shelf.run) == "/there/repo.swarm/run-20260101-000000-abcdef\n"


# --- events -----------------------------------------------------------------------------------------------------


# The rest of a line that is too long for here stands below it.
EVENTS = """\
run_created     run  flows=["hello"], backend=claude-step, initiator=cli, stepwise=true
run_started     run  mode=stepwise, routing_enabled=true, routing_mode=assist, engine_mode=stub
route_decision  hello/write@1  to_step=write, reason=the flow starts here, routing_source=fast_path,
    decision=advance, candidate_id=advance:write
step_start      hello/write@1  role=Write the greeting., agents=["code-implementer"], step_index=1,
    engine=claude-step, mode=stub, commit_before=1111111
route_decision  hello/critique@1  from_step=write, to_step=critique, reason=the only next step,
    routing_source=fast_path, decision=advance, candidate_id=advance:critique
step_start      hello/critique@1  role=critique, agents=["code-critic"], step_index=2,
    engine=claude-step, mode=stub, commit_before=1111111
message         hello/critique@1  role=assistant,
    text=CC-1 has to be mended, and the greeting wants a mark that s…
file_changes    hello/critique@1  files=0, insertions=0, deletions=0
step_end        hello/critique@1  status=succeeded, duration_ms=0, engine=claude-step, tokens=0, cost_usd=0.0,
    handoff_status=UNVERIFIED
route_decision  hello/write@2  from_step=critique, to_step=write, reason=loop_iteration:1,
    loop_state={"iteration": 1, "max_iterations": 3}, routing_source=deterministic, decision=loop,
    candidate_id=loop:write:iter_2
step_start      hello/write@2  role=Write the greeting., agents=["code-implementer"], step_index=1,
    engine=claude-step, mode=stub, commit_before=1111111
tool_start      hello/write@2  tool=Write, input={"file_path": "src/app.py"}
tool_end        hello/write@2  tool=Write, success=true, output=13 bytes
route_decision  hello  from_step=done, reason=the flow is complete, routing_source=fast_path,
    decision=terminate, candidate_id=terminate
run_completed   hello  status=succeeded, steps_completed=4, total_steps_executed=9
"""


def test_events(shelf: Shelf) -> None:
    """Four at the start, nine about the first loop, the last two."""
    lines = re.sub(r"[0-9a-f]{40}", "1111111", shelf.shown("events", shelf.run)).splitlines()
    chosen = lines[:4] + lines[12:21] + lines[-2:]
    assert chosen == [f"00:00:00.000 {line}" for line in EVENTS.replace(",\n    ", ", ").splitlines()]


def test_events_json_is_one_document_per_line_with_its_run(shelf: Shelf) -> None:
    events = [json.loads(line) for line in ask(shelf.project, "events", shelf.run, "--json").stdout.splitlines()]
    assert {event["run_id"] for event in events} == {shelf.run}
    keys = {"run_id", "seq", "ts", "kind", "flow_key", "step_id", "iteration", "agent_key", "payload"}
    assert set().union(*events) == keys


def test_seq_counts_from_1_within_every_file(shelf: Shelf) -> None:
    events = [json.loads(line) for line in ask(shelf.project, "events", shelf.run, "--json").stdout.splitlines()]
    expected = 0
    place = None
    for event in events:
        here = (event.get("step_id"), event.get("iteration"), event["kind"] in ("run_created", "run_started"))
        expected = expected + 1 if here == place else 1
        place = here
        assert event["seq"] == expected


def test_following_a_finished_run_ends_at_once_with_the_same_events(shelf: Shelf) -> None:
    followed = shelf.project.swarm("events", shelf.run, "--follow", "--json").stdout
    assert followed == shelf.project.swarm("events", shelf.run, "--json").stdout


def test_following_a_live_run_ends_with_its_terminal_event(tmp_path: Path) -> None:
    project = gated(tmp_path, SHORT, {"look": {"run": [GATE]}})
    with running(project, *start(project, "short")) as run:
        read_until(run, "tool_start")
        with running(project, "events", "--follow", "--json") as following:
            seen = read_until(following, "tool_start")
            open_gate(project)
            seen += following.communicate(timeout=60)[0]
        assert run.wait(60) == 0
    assert (following.returncode, seen) == (0, ask(project, "events", "--json").stdout)


def test_following_a_run_that_is_killed_ends_with_a_hint(tmp_path: Path) -> None:
    project = gated(tmp_path, SHORT, {"look": {"run": [GATE]}})
    with running(project, *start(project, "short")) as run:
        run_id = json.loads(read_until(run, "tool_start").splitlines()[0])["run_id"]
        with running(project, "events", "--follow", "--json") as following:
            read_until(following, "tool_start")
            run.send_signal(signal.SIGKILL)
            _rest, said = following.communicate(timeout=60)
    open_nobody_s_gate(project)
    assert (following.returncode, said) == (
        0,
        f"hint: git swarm resume {run_id}   (no process executes this run now)\n",
    )


def test_following_a_resumed_run_shows_what_events_shows(tmp_path: Path) -> None:
    project = gated(tmp_path, SHORT, {"look": [{"fail": "overloaded"}, {"run": [GATE]}]})
    project.swarm(*start(project, "short"), code=4)
    with running(project, "resume", "--json") as run:
        read_until(run, "tool_start")
        with running(project, "events", "--follow", "--json") as following:
            seen = read_until(following, "tool_start")
            open_gate(project)
            seen += following.communicate(timeout=60)[0]
        assert run.wait(60) == 0
    assert seen == ask(project, "events", "--json").stdout


def test_a_live_run_is_running_its_step(tmp_path: Path) -> None:
    project = gated(tmp_path, SHORT, {"look": {"run": [GATE]}})
    with running(project, *start(project, "short")) as run:
        read_until(run, "tool_start")
        status = json.loads(ask(project, "status", "--json").stdout)
        open_gate(project)
        run.communicate(timeout=60)
    shown = {key: status[key] for key in ("state", "current_step", "steps_completed", "hint")}
    assert shown == {
        "state": "running",
        "current_step": "look",
        "steps_completed": 0,
        "hint": f"git swarm watch {status['run_id']}",
    }


# --- runs that did not go well ----------------------------------------------------------------------------------


def test_a_failed_run_says_what_failed_and_how_to_go_on(tmp_path: Path) -> None:
    project = project_with_flows(tmp_path)
    done = project.swarm("start", "short", "--script", project.script("default: {fail: model overloaded}"), code=4)
    run = only_run(project)
    assert re.sub(r"in [\d.]+m?s", "in 0ms", done.stdout) == (
        f"{run} failed: 1 step in 0ms, no changes, 0 tokens, $0.00\n"
        "because    short/look failed: model overloaded\n"
        f"next       git swarm log {run}\n"
        f"next       git swarm resume {run}\n"
    )
    status = json.loads(ask(project, "status", "--json").stdout)
    assert {key: status[key] for key in ("state", "next_step", "steps_completed", "last_error", "hint")} == {
        "state": "failed",
        "next_step": "look",
        "steps_completed": 0,
        "last_error": "model overloaded",
        "hint": f"git swarm resume {run}",
    }


def test_a_paused_run_waits_for_an_answer(tmp_path: Path) -> None:
    project = project_with_flows(tmp_path)
    script = project.script('default: {status: BLOCKED, blockers: ["which one?"]}')
    project.swarm("start", "short", "--script", script, code=5)
    status = json.loads(ask(project, "status", "--json").stdout)
    assert (status["state"], status["next_step"], status["last_error"]) == ("paused", "look", None)


# --- which run is meant -----------------------------------------------------------------------------------------


def run_for(shelf: Shelf, text: str | None, folder: Path | None = None) -> str:
    repository = open_repository(folder or shelf.project.root, shelf.project.env)
    return find_run(repository, text).run_id


def test_a_run_is_named_by_its_id_its_branch_or_a_part_of_it(shelf: Shelf) -> None:
    names = [shelf.run, f"shadow/{shelf.run}", shelf.run[-6:], shelf.run[-10:]]
    assert [run_for(shelf, name) for name in names] == [shelf.run] * 4


def test_without_a_name_it_is_the_newest_run(shelf: Shelf) -> None:
    assert run_for(shelf, None) == shelf.newest


def test_without_a_name_it_is_the_run_of_the_worktree_that_we_stand_in(shelf: Shelf) -> None:
    worktree = shelf.worktree
    assert [run_for(shelf, None, folder) for folder in (worktree, worktree / "src")] == [shelf.run] * 2


def test_a_command_in_a_worktree_is_about_its_run(shelf: Shelf) -> None:
    worktree = shelf.worktree
    assert shelf.shown("path", cwd=worktree / "src") == "/there/repo.swarm/run-20260101-000000-abcdef\n"


@pytest.mark.parametrize("text", ["run-", "-", "2"])
def test_a_part_of_both_runs_is_ambiguous(shelf: Shelf, text: str) -> None:
    with pytest.raises(NotFoundError, match="matches 2 runs"):
        run_for(shelf, text)


# --- which step is meant ----------------------------------------------------------------------------------------


def step_for(shelf: Shelf, text: str | None) -> int:
    """Number of the step that is meant."""
    repository = open_repository(shelf.project.root, shelf.project.env)
    state = replay(repository, find_run(repository, shelf.run))
    return find_step(repository, state, text).number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("write", 6),
        ("hello/write", 6),
        ("write@1", 1),
        ("hello/write@2", 3),
        ("done", 9),
        ("7", 7),
        ("#7", 7),
        ("1", 1),
        (None, 9),
    ],
)
def test_a_step_is_named_by_name_iteration_or_number(shelf: Shelf, text: str | None, number: int) -> None:
    assert step_for(shelf, text) == number


def test_a_step_is_named_by_its_commit(shelf: Shelf) -> None:
    branch = f"shadow/{shelf.run}"
    names = [shelf.commits[4], shelf.commits[4][:12], f"{branch}~5", f"{branch}^{{/^hello/test: failed}}"]
    assert [step_for(shelf, name) for name in names] == [5, 5, 5, 5]


@pytest.mark.parametrize("text", ["main", "shadow/{run}", "shadow/{run}~10", "short/write", "write@4", "0", "10"])
def test_what_is_no_step_of_the_run_is_refused(shelf: Shelf, text: str) -> None:
    with pytest.raises(NotFoundError, match="has no step"):
        step_for(shelf, text.replace("{run}", shelf.run))


@pytest.mark.parametrize("name", ["write", "7"])
def test_names_and_numbers_win_over_a_branch_of_the_same_name(shelf: Shelf, name: str) -> None:
    project = shelf.project
    project.git("branch", "--force", name, shelf.commits[0])
    try:
        assert step_for(shelf, name) == {"write": 6, "7": 7}[name]
    finally:
        project.git("branch", "-D", name)


def test_a_diff_of_a_step_against_itself_says_so(shelf: Shelf) -> None:
    newest = max(each["iteration"] for each in shelf.json("log", shelf.run) if each["step"] == "write")
    answer = ask(shelf.project, "diff", "write", f"write@{newest}", "--run", shelf.run)
    assert (answer.code, newest > 1, answer.stdout) == (0, True, "")
    assert answer.stderr == f"both are write@{newest}: there is no difference\n"


def test_an_id_in_the_place_of_a_step_is_told_apart(shelf: Shelf) -> None:
    answer = ask(shelf.project, "show", shelf.run[-6:])
    assert answer.stderr.endswith(f": that is a run\nhint: git swarm log {shelf.run}\n")


def test_a_step_name_wins_over_a_run_in_diff(shelf: Shelf) -> None:
    shown = shelf.project.swarm("diff", "write@1", "--stat", cwd=shelf.worktree).stdout
    assert shown.startswith(" src/app.py | 2 +-")


# --- plain git --------------------------------------------------------------------------------------------------


def test_plain_git_shows_the_run_in_80_columns(shelf: Shelf) -> None:
    shown = shelf.project.git(
        "log", "--format=%s %(trailers:key=Swarm-Status,valueonly)", f"shadow/{shelf.run}", "^main"
    )
    lines = [line for line in shown.splitlines() if line]
    assert [line for line in lines if columns(line) > 80] == []
    assert [re.sub(r"(a second try|CC-1 has to|failed)\b.*…", r"\1…", line) for line in lines] == [
        "run succeeded: the flow is complete ",
        "hello/done: fine VERIFIED",
        "hello/test: passed: echo 1 passed VERIFIED",
        "hello/critique: no findings VERIFIED",
        "hello/write: a second try… VERIFIED",
        "hello/test: failed (exit code 1): echo 1 failed; exit 1 UNVERIFIED",
        "hello/critique: no findings VERIFIED",
        "hello/write: a second try… VERIFIED",
        "hello/critique: CC-1 has to… UNVERIFIED",
        "hello/write: changed a[0] and [b], see [/c] VERIFIED",
        "run hello: Say hi ",
    ]


def test_plain_git_shows_a_summary_of_wide_letters_in_80_columns(tmp_path: Path) -> None:
    project = project_with_flows(tmp_path)
    summary = "すべての挨拶を新しい関数に移し、テストを書き直して、文書も更新しました。次は批評家の番です。"
    script = project.script(f"default: {{status: UNVERIFIED, summary: {summary}}}")
    project.swarm("start", "short", "--script", script)
    run = only_run(project)
    shown = project.git("log", "--format=%s %(trailers:key=Swarm-Status,valueonly)", f"shadow/{run}", "^main")
    assert [line for line in shown.splitlines() if columns(line) > 80] == []


NOTES = """\
swarm/run-20260101-000000-abcdef/routing):
    1. done -> end: terminate (fast_path): the flow is complete
      {"decision": "terminate", "to_step": null, "reason": "the flow is
      complete", "routing_source": "fast_path", "candidate_id": "terminate",
      "candidates": [{"candidate_id": "terminate", "action": "terminate",
      "target": null, "reason": "the flow is complete", "priority": 80,
      "source": "fast_path", "evidence_pointers": [], "is_default": true}],
      "loop_state": null, "explanation": {"conditions": [], "eliminated": []},
      "seq": 1, "ts": "2026-01-01T00:00:00.000Z", "flow_key": "hello",
      "from_step": "done", "iteration": 1, "routing_mode": "assist",
      "supersedes": null}
swarm/run-20260101-000000-abcdef/routing):
    1. test -> done: branch (deterministic): evidence.tests.passed
      {"decision": "branch", "to_step": "done", "reason":
      "evidence.tests.passed", "routing_source": "deterministic",
      "candidate_id": "branch:done", "candidates": [{"candidate_id":
      "branch:done", "action": "branch", "target": "done", "reason": "if
      evidence.tests.passed", "priority": 70, "source": "graph_edge",
      "evidence_pointers": ["evidence.tests"], "is_default": true},
      {"candidate_id": "advance:done", "action": "advance", "target": "done",
      "reason": "at its maximum of 2", "priority": 80, "source": "graph_edge",
      "evidence_pointers": ["envelope.status"], "is_default": false}],
      "loop_state": {"iteration": 2, "max_iterations": 2}, "explanation":
      {"conditions": [{"expression": "evidence.tests.passed", "target": "done",
      "value": true, "error": null}], "eliminated": [{"candidate_id":
      "advance:done", "reason": "not taken: evidence.tests.passed"},
      {"candidate_id": "branch:write", "reason": "at its maximum of 2"}]},
      "seq": 1, "ts": "2026-01-01T00:00:00.000Z", "flow_key": "hello",
      "from_step": "test", "iteration": 2, "routing_mode": "assist",
      "supersedes": null}
"""


def test_plain_git_shows_the_decisions_below_the_commits(shelf: Shelf) -> None:
    shown = shelf.plain(shelf.project.git("log", f"--notes=swarm/{shelf.run}/routing", "-3", f"shadow/{shelf.run}"))
    notes = [note.partition("\n\ncommit ")[0] for note in shown.split("Notes (")[1:]]
    assert "\n".join(notes) + "\n" == NOTES


def test_plain_git_shows_every_note_in_80_columns(shelf: Shelf) -> None:
    shown = shelf.project.git("log", f"--notes=swarm/{shelf.run}/routing", "--format=%s%n%N", f"shadow/{shelf.run}")
    indented = (f"    {line}" for line in shown.splitlines())
    assert [line for line in indented if columns(line) > 80] == []


def test_plain_git_shows_who_did_what(shelf: Shelf) -> None:
    shown = shelf.project.git("log", "-2", "--format=%an <%ae>, %cn <%ce>", f"shadow/{shelf.run}")
    assert shown.splitlines() == [
        "kernel <kernel@git-swarm.invalid>, Test User <user@example.org>",
        "build-cleanup <build-cleanup@git-swarm.invalid>, Test User <user@example.org>",
    ]


def test_the_trace_has_every_process_of_git_with_its_time(project: Project, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    traced = replace(project, env={**project.env, "GIT_SWARM_TRACE": str(trace)})

    traced.swarm("list")

    lines = trace.read_text(encoding="utf-8").splitlines()
    started = [line for line in lines if re.search(r" start (\S*/)?git ", line)]
    ended = [line for line in lines if " exit elapsed:" in line]
    assert started
    assert len(started) == len(ended)


def test_a_trace_without_an_absolute_path_is_refused(project: Project) -> None:
    answer = ask(replace(project, env={**project.env, "GIT_SWARM_TRACE": "1"}), "list")
    assert answer.code == 2
    assert answer.stderr == (
        'git-swarm: GIT_SWARM_TRACE=1: an absolute path is needed\nhint: GIT_SWARM_TRACE="$PWD/trace" git swarm …\n'
    )


@pytest.mark.parametrize("until", ["write", "critique", "test"])
def test_what_is_next_is_known_without_the_notes(project: Project, until: str) -> None:
    project.commit(dict(FLOWS))
    project.swarm("start", "hello", "--script", project.script(SCRIPT), "--until", until)
    (shown,) = project.json("list")
    for ref in project.git("for-each-ref", "--format=%(refname)", "refs/notes/swarm").split():
        project.git("update-ref", "-d", ref)
    del shown["disk_bytes"]
    assert project.json("status") == shown
