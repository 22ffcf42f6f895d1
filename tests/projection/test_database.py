"""The projection: however it was brought up to date it is what a rebuild makes, and it answers whoever holds it."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from gitswarm.git.reader import open_reader
from gitswarm.ledger.finding import all_runs
from gitswarm.ledger.layout import RunLayout
from gitswarm.projection import database
from gitswarm.projection.database import FILE, Projection
from gitswarm.projection.rows import RunRows, run_rows
from gitswarm.projection.schema import TABLES, VIEWS
from tests.conftest import Project
from tests.documents import ROOT
from tests.projects import ask, new_project
from tests.verify.conftest import FLOW, SCRIPT
from tests.verify.forging import Forged, Run
from tests.waiting import wait_until

FAN = """\
id: fan
steps:
  - {id: a, station: code-implementer, routing: {kind: fork, fork_targets: [x, y]}}
  - {id: x, station: code-critic}
  - {id: y, station: code-implementer}
  - {id: b, station: code-implementer, routing: {kind: join, join_from: [x, y], join_strategy: all_complete}}
"""
COSTS = """\
steps:
  a: {write: {a.txt: "1"}, cost_usd: 0.25, tokens: {prompt: 5, completion: 1}}
  x: {cost_usd: null}
  y: {write: {y.txt: "1"}, cost_usd: 0.5, output: "ünïcode\\n{"}
  b: [{status: BLOCKED, blockers: [which?], cost_usd: 1}, {status: VERIFIED}]
"""
Rows = dict[str, list[tuple[object, ...]]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A run that waits for an answer, with steps in parallel, and a finished one with a loop."""
    project = new_project(tmp_path_factory.mktemp("projection"))
    project.commit({".swarm/flows/small.yaml": FLOW, ".swarm/flows/fan.yaml": FAN})
    project.start(SCRIPT, flow="small")
    project.start(COSTS, flow="fan", code=5)
    return project


@pytest.fixture
def copy(made: Project, tmp_path: Path) -> Iterator[Project]:
    """As it was made, at its own path."""
    saved = tmp_path / "saved"
    subprocess.run(["cp", "-a", made.root.parent, saved], check=True)
    yield made
    subprocess.run(["rm", "-rf", made.root.parent], check=True)
    saved.rename(made.root.parent)


def projection(project: Project) -> Projection:
    return Projection(open_reader(project.root, project.env))


def stored(path: Path) -> Rows:
    with duckdb.connect(str(path), read_only=True) as connection:
        return {table: sorted(connection.execute(f"from {table}").fetchall(), key=repr) for table in TABLES}


def refreshed(project: Project) -> Rows:
    own = projection(project)
    own.refresh()
    assert own.notes == []
    return stored(own.path)


def rebuilt(project: Project) -> Rows:
    path = project.root.parent / "rebuilt.duckdb"
    projection(project).rebuild(path)
    return stored(path)


def answer(project: Project, query: str, *arguments: str) -> list[list[object]]:
    return [list(row.values()) for row in project.json("db", "query", query, *arguments)]


def test_rebuilt_twice_it_is_the_same_and_has_every_row(made: Project) -> None:
    rows = rebuilt(made)
    assert rows == rebuilt(made)
    assert {table: len(found) > 0 for table, found in rows.items()} == dict.fromkeys(TABLES, True) | {
        "extra_costs": False
    }


def test_events_are_those_that_the_command_shows(made: Project) -> None:
    lines = [line for run in runs(made) for line in made.swarm("events", run, "--json").stdout.splitlines()]
    shown = [[event[name] for name in ("run_id", "kind", "ts", "payload")] for event in map(json.loads, lines)]
    found = answer(made, "select run_id, kind, ts, payload from events")
    assert sorted(map(repr, shown)) == sorted(map(repr, found))


def runs(project: Project) -> list[str]:
    return [str(each["run_id"]) for each in project.json("list")]


def act(project: Project, chance: random.Random) -> str:
    """Something that moves refs; what cannot be done now is refused, and that is fine."""
    run = chance.choice([str(each["run_id"]) for each in project.json("list", "--all")] or ["none"])
    script = project.script(chance.choice((SCRIPT, COSTS)))
    flow = "fan" if "which?" in Path(script).read_text(encoding="utf-8") else "small"
    step = str(chance.randint(1, 4))
    lines = (
        f"start {flow} --script {script} --until {'x' if flow == 'fan' else 'critique'}",
        f"resume {run} -m this",
        f"resume {run} --until critique",
        f"rollback {step} --run {run}",
        f"rollback --undo --run {run}",
        f"fork {step} --run {run}",
        "gc --archive 0s",
        f"discard {run}",
        f"discard --restore {run}",
    )
    line = chance.choices(lines, weights=(2, 4, 4, 4, 2, 3, 1, 1, 3))[0]
    return f"{line}: {ask(project, *line.split()).code}"


STORY = (
    *("rollback critique@1 --run SMALL", "resume SMALL", "rollback --undo --run SMALL", "resume FAN -m this"),
    *("rollback 1 --run FAN", "fork 1 --run FAN --until x", "gc --archive 0s", "discard --restore FAN SMALL"),
    *("discard --force SMALL", "resume FAN --until x", "discard --force FAN"),
)


def test_a_refresh_after_each_command_leads_to_what_a_rebuild_makes(copy: Project) -> None:
    fan, small = runs(copy)
    refreshed(copy)
    for line in STORY:
        done = ask(copy, *line.replace("FAN", fan).replace("SMALL", small).split())
        assert (done.code, refreshed(copy)) == (0, rebuilt(copy)), (line, done.stderr)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_a_refresh_leads_to_what_a_rebuild_makes(copy: Project, seed: int) -> None:
    chance, done = random.Random(seed), []
    refreshed(copy)
    for _turn in range(40):
        done.append(act(copy, chance))
        assert refreshed(copy) == rebuilt(copy), done


def test_a_step_that_is_added_has_only_its_own_files_read(copy: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    refreshed(copy)
    loaded: list[int] = []

    def counted(*arguments: Any) -> RunRows:
        rows = run_rows(*arguments)
        loaded.append(len(rows.lines["steps"]))
        return rows

    monkeypatch.setattr(database, "run_rows", counted)
    copy.swarm("resume", runs(copy)[0], "-m", "this")
    assert (refreshed(copy), loaded) == (rebuilt(copy), [1, 5, 6])


def test_a_rollback_leaves_the_step_and_its_cost_and_says_that_it_does_not_count(copy: Project) -> None:
    before = answer(copy, "select sum(cost_usd), count(*) from costs")
    copy.swarm("rollback", "critique@1", "--run", runs(copy)[1])
    assert answer(copy, "select sum(cost_usd), count(*) from costs") == before
    aside = answer(copy, "select step, iteration from steps where not on_branch order by started_at")
    assert aside == [["write", 2], ["critique", 2], ["check", 1], ["done", 1]]


def test_costs_are_what_cost_says_and_an_unknown_one_is_counted_beside_the_sum(made: Project) -> None:
    query = "select sum(cost_usd), count(*) - count(cost_usd), sum(tokens) from costs where flow = 'fan'"
    assert answer(made, query) == [[1.75, 1, 6]]
    told = made.json("cost", runs(made)[0])["total"]
    assert (told["cost_usd"], told["tokens"]) == (None, 6)
    by_station = "select known_usd, unknown_costs from cost_by_station where station = 'code-critic' and model <> ''"
    assert answer(made, by_station) == [[0.0, 1]]


def test_a_cost_that_is_unknown_in_the_first_25000_lines_does_not_make_the_sum_unknown(project: Project) -> None:
    lines = [
        b'{"run_id":"r","kind":"navigator","committed":true,"cost_usd":%s}'
        % (b"0.5" if number >= 25_000 else b"null")
        for number in range(30_000)
    ]
    own = projection(project)
    own.rebuild()
    with duckdb.connect(str(own.path)) as connection:
        own._load(connection, [RunRows(is_whole=True, lines={"extra_costs": lines})])
        (found,) = connection.execute("select sum(cost_usd), count(*) - count(cost_usd) from costs").fetchall()
    assert tuple(map(float, found)) == (2500.0, 25_000.0)


def test_archived_runs_are_in_all_answers(copy: Project) -> None:
    query = "select run_id, count(*), sum(tokens) from steps group by all order by run_id"
    before = answer(copy, query)
    copy.swarm("stop", runs(copy)[0])
    copy.swarm("gc", "--archive", "0s")
    own = projection(copy)
    own.rebuild()
    assert answer(copy, query) == before
    assert all_runs(own._repository) == [RunLayout(run) for run in runs(copy)]
    assert answer(copy, "select count(*) from runs where archived") == [
        [len(copy.json("list", "--all")) - len(runs(copy))]
    ]


def test_another_process_asks_while_a_run_writes(copy: Project) -> None:
    go = copy.root.parent / "go"
    waiting = f"{{run: ['until [ -e {go} ]; do sleep 0.02; done'], tokens: {{prompt: 7, completion: 0}}}}"
    script = copy.script(f"steps: {{critique: {waiting}}}")
    query = (
        "select distinct committed from events where run_id not in (select run_id from runs where state <> 'open')"
    )

    def seen() -> list[bool]:
        done = copy.swarm_process("db", "query", query, "--live", "--json")
        assert done.stderr == ""
        return sorted(row["committed"] for row in json.loads(done.stdout))

    argv = copy.argv("start", "small", "--script", script)
    with subprocess.Popen(argv, cwd=copy.root, env=dict(copy.env), stdout=-3, stderr=-3) as process:
        wait_until(lambda: seen() == [False, True], "a step is committed, and the next one writes")
        go.touch()
        wait_until(lambda: seen() is not None and process.poll() is not None, "the end of the run")
    assert seen() == []
    assert refreshed(copy) == rebuilt(copy)


def test_open_journals_are_cut_at_their_last_whole_line(copy: Project) -> None:
    run = runs(copy)[0]
    folder = copy.root / ".git/swarm/journal" / run
    folder.mkdir(parents=True, exist_ok=True)
    line = f'{{"run_id":"{run}","seq":1,"ts":"2026-11-23T01:02:03.004Z","kind":"usage","payload":%s}}\n'
    used = line % '{"tokens":{"total":9},"cost_usd":null}'
    (folder / "fan.b@9.jsonl").write_text(used + used[:40], encoding="utf-8")
    query = "select run_id, commit, kind from events where not committed"
    projection(copy).rebuild()
    assert (answer(copy, query), answer(copy, "from extra_costs")) == ([], [])
    assert answer(copy, query, "--live") == [[run, None, "usage"]]
    cost = "select step, tokens, cost_usd from extra_costs where not committed"
    assert answer(copy, cost, "--live") == [["b", 9, None]]
    (folder / "fan.b@9.jsonl").write_text(f"{used}no event\n{{}}\n", encoding="utf-8")
    assert answer(copy, query, "--live") == [[run, None, "usage"]]


def test_a_run_that_cannot_be_read_does_not_keep_the_others_from_live_answers(copy: Project) -> None:
    count = answer(copy, "select count(*) from runs", "--live")
    copy.git("branch", "shadow/run-20260101-000000-aaaaaa", "main")
    assert answer(copy, "select count(*) from runs", "--live") == count


def test_while_another_process_has_the_file_memory_answers(copy: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_WAIT_S", 0.2)
    count = answer(copy, "select count(*) from events")
    path = copy.root / ".git/swarm" / FILE
    code = f"import duckdb; c = duckdb.connect({str(path)!r}); print(1, flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        done = ask(copy, "db", "query", "select count(*) from events", "--json")
        spilled = ask(copy, "db", "query", "select current_setting('temp_directory') as place", "--json")
        refused = ask(copy, "db", "refresh")
        holder.communicate(b"\n")
    assert (done.code, str(count[0][0]) in done.stdout) == (0, True)
    assert json.loads(spilled.stdout) == [{"place": ""}], "DuckDB's own choice is the checkout"
    assert done.stderr.startswith(f"answered from memory, not from {path}: another process has it open")
    assert (refused.code, refused.stderr.splitlines()[0]) == (1, f"git-swarm: another process has {path} open")


KILLED = """\
import os, signal, sys
from gitswarm.git.reader import open_reader
from gitswarm.projection.database import Projection
from pathlib import Path
own = Projection(open_reader(Path.cwd(), os.environ))
name, then = sys.argv[1:]
inner = getattr(own, name)
def killed(*arguments):
    inner(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(own, name, killed)
getattr(own, then)()
"""


@pytest.mark.parametrize("moment", ["_fill rebuild", "_load rebuild", "_load refresh", "_read refresh"])
def test_a_kill_leaves_a_file_that_answers(copy: Project, moment: str) -> None:
    count = "select count(*) from steps"
    before = answer(copy, count)
    path = copy.root / ".git/swarm" / FILE
    content = path.read_bytes()
    copy.swarm("resume", runs(copy)[0], "-m", "this")
    done = subprocess.run(
        [sys.executable, "-c", KILLED, *moment.split()], cwd=copy.root, env=dict(copy.env), check=False
    )
    assert done.returncode == -9
    assert "rebuild" not in moment or path.read_bytes() == content
    assert answer(copy, count) == [[int(str(before[0][0])) + 1]]
    assert refreshed(copy) == rebuilt(copy)
    projection(copy).rebuild()
    assert not list(path.parent.glob(f"{FILE}.*"))


def test_the_file_can_be_deleted_or_be_something_else(copy: Project) -> None:
    path = projection(copy).path
    for content in (None, b"", b"something else" * 1000):
        if content is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(content)
        assert refreshed(copy) == rebuilt(copy)
    with duckdb.connect(str(path)) as connection:
        connection.execute("update source set format = 0")
        connection.execute("delete from steps")
    assert refreshed(copy) == rebuilt(copy)


@pytest.mark.usefixtures("written_at_once")
def test_a_bad_line_is_named_with_run_commit_and_number(copy: Project) -> None:
    run = Run(copy, runs(copy)[1])
    renamed = run.rewrite(_torn)
    commit = list(renamed.values())[-2]
    done = ask(run.project, "db", "query", "from events")
    assert (done.code, done.stderr.splitlines()[0].split(" is not ")[0]) == (
        1,
        f"git-swarm: {run.run}: line 2 of {commit[:12]}:{run.layout.base}/small/events/done@1.jsonl",
    )


def _torn(forged: Forged) -> None:
    if forged.name == "small/done@1":
        content = forged.files["small/events/done@1.jsonl"] or b""
        first, second, *rest = content.splitlines(keepends=True)
        forged.files["small/events/done@1.jsonl"] = b"".join([first, second[:20] + b"\n", *rest])


def test_a_run_that_cannot_be_read_is_named_and_the_others_answer(copy: Project) -> None:
    bad, good = runs(copy)
    copy.git("update-ref", f"refs/heads/shadow/{bad}", "main")
    done = ask(copy, "db", "query", "select run_id from runs", "--json")
    assert (done.code, good in done.stdout, bad in done.stdout) == (0, True, False)


def test_the_page_names_every_column_and_its_queries_are_answered(made: Project) -> None:
    page = (ROOT / "docs/db.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `(\w+)` \| .* \| (run_id.*) \|$", page, re.MULTILINE)
    assert {table: columns.split(", ") for table, columns in named} == {
        table: list(columns) for table, columns in TABLES.items()
    }
    assert all(f"| `{view}` |" in page for view in VIEWS)
    examples = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    assert len(examples) > 4
    for query in [*examples, *(f"from {view}" for view in VIEWS)]:
        made.json("db", "query", query)


def test_a_ref_that_is_not_utf_8_stops_no_answer(copy: Project) -> None:
    tip = copy.git("rev-parse", f"shadow/{runs(copy)[0]}")
    folder = copy.root / ".git/refs/swarm" / runs(copy)[0]
    (folder / os.fsdecode(b"x\xff")).write_text(f"{tip}\n", encoding="utf-8")
    assert answer(copy, "select count(*) from runs") == [[2]]


def test_a_file_of_somebody_else_is_not_replaced(made: Project, tmp_path: Path) -> None:
    notes, other = tmp_path / "notes.txt", tmp_path / "runs.duckdb"
    notes.write_text("mine\n")
    assert ask(made, "db", "rebuild", "--out", str(notes)).stderr == (
        f"git-swarm: {notes} is no projection\nhint: git swarm db rebuild --out FILE   (a new one)\n"
    )
    assert notes.read_text() == "mine\n"
    duckdb.connect(str(other)).close()
    assert ask(made, "db", "rebuild", "--out", str(other)).code == 2
    other.unlink()
    for _twice in range(2):
        made.swarm("db", "rebuild", "--out", str(other))
    assert stored(other)["runs"]


def test_where_nothing_can_be_written_another_file_is_proposed(made: Project) -> None:
    done = ask(made, "db", "rebuild", "--out", str(made.root / "none" / "x.duckdb"))
    assert (done.code, done.stderr.splitlines()[-1]) == (1, "hint: git swarm db rebuild --out FILE")


def test_a_query_changes_nothing_and_reads_no_other_file(made: Project) -> None:
    for query in (
        "delete from runs",
        "select * from read_text('README.md')",
        "copy runs to 'x.csv'",
        "attach 'x.db'",
        "-- ?",
    ):
        done = ask(made, "db", "query", query)
        assert (done.code, "hint: git swarm db query" in done.stderr) == (2, True), query
    assert ask(made, "db", "query", "from nowhere").stderr.startswith(
        "git-swarm: Catalog Error: Table with name nowhere"
    )


def test_without_duckdb_the_error_says_what_to_install(made: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    done = ask(made, "db", "query", "from runs")
    assert (done.code, done.stderr) == (
        1,
        "git-swarm: this needs DuckDB, which is not installed\nhint: pip install 'git-swarm[analytics]'\n",
    )


def test_counts_that_an_agent_made_up_stop_no_answer(project: Project) -> None:
    """Each of the tests has at most nine digits; their sum needs more than 32 bits. Tokens have no limit."""
    most = 999_999_999
    line = f"===== {most} failed, {most} passed, {most} skipped in 1.00s ====="
    flow = "id: many\nsteps: [{id: work, station: fixer}, {id: again, station: fixer}, {id: dear, station: fixer},"
    flow += " {id: check, engine: command, command: test}]\n"
    half = {"tokens": {"prompt": 2**62}, "cost_usd": 1.5}
    script = project.script(
        json.dumps({"steps": {"work": half, "again": half, "dear": {"tokens": {"prompt": 2**63}, "cost_usd": 1e300}}})
    )
    told = {"check.sh": f"echo '{line}'; exit 1\n", ".swarm/config.yaml": "commands: {test: sh check.sh}\n"}
    project.commit({".swarm/flows/many.yaml": flow, **told})
    ask(project, "start", "many", "--allow-stub", "--script", script)
    tests = "select tests_total, tests_failed from evidence where tests_total is not null"
    assert answer(project, tests) == [[3 * most, most]]
    steps = answer(project, "select tokens, cost_usd from steps where station = 'fixer' order by number")
    assert steps == [[2**62, 1.5], [2**62, 1.5], [None, None]]
    by_station = "select tokens, known_usd, unknown_costs from cost_by_station where station = 'fixer'"
    assert answer(project, by_station) == [[2**63, 3.0, 1]]
    assert ask(project, "stats").code == 0


def test_columns_of_the_same_name_are_all_answered(made: Project) -> None:
    done = ask(made, "db", "query", "select 1 as n, 2 as n, 3 as n_1, 4 as n", "--json")
    assert json.loads(done.stdout) == [{"n": 1, "n_2": 2, "n_1": 3, "n_3": 4}]
