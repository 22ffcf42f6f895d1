"""The tables and views of the projection, and the questions that `git swarm stats` asks it."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

_COLUMNS = {
    "source": "run_id VARCHAR NOT NULL; ref VARCHAR NOT NULL; tip VARCHAR; format BIGINT",
    "runs": """
        run_id VARCHAR NOT NULL; created_at TIMESTAMP; flows VARCHAR[]; task VARCHAR; state VARCHAR;
        rehearsal BOOLEAN; archived BOOLEAN; landed_as VARCHAR; forked BOOLEAN; base VARCHAR; tip VARCHAR""",
    "steps": """
        run_id VARCHAR NOT NULL; commit VARCHAR NOT NULL; executed_as VARCHAR; number INTEGER;
        on_branch BOOLEAN; flow VARCHAR; step VARCHAR; iteration INTEGER; station VARCHAR; engine VARCHAR;
        mode VARCHAR; provider VARCHAR; model VARCHAR; status VARCHAR; result VARCHAR; summary VARCHAR;
        started_at TIMESTAMP; duration_ms BIGINT; tokens BIGINT; cost_usd DECIMAL(18,6);
        interruptions VARCHAR[]; parallel BOOLEAN; by_command BOOLEAN""",
    "events": """
        run_id VARCHAR NOT NULL; commit VARCHAR; committed BOOLEAN NOT NULL; seq INTEGER NOT NULL;
        ts TIMESTAMP NOT NULL; kind VARCHAR NOT NULL; flow VARCHAR; step VARCHAR; iteration INTEGER;
        station VARCHAR; payload JSON NOT NULL""",
    "tool_calls": """
        run_id VARCHAR NOT NULL; commit VARCHAR NOT NULL; number INTEGER; tool VARCHAR; input JSON;
        source VARCHAR; agent VARCHAR; success BOOLEAN; blocked BOOLEAN; blocked_reason VARCHAR;
        output_chars BIGINT; duration_ms BIGINT""",
    "decisions": """
        run_id VARCHAR NOT NULL; after_commit VARCHAR NOT NULL; seq INTEGER; ts TIMESTAMP; holds BOOLEAN;
        flow VARCHAR; from_step VARCHAR; iteration INTEGER; decision VARCHAR; candidate_id VARCHAR;
        to_flow VARCHAR; to_step VARCHAR; routing_source VARCHAR; routing_mode VARCHAR; reason VARCHAR;
        why_now VARCHAR; candidates VARCHAR[]; evidence VARCHAR[]; stall_passes INTEGER; is_stalled BOOLEAN;
        elapsed_us BIGINT""",
    "evidence": """
        run_id VARCHAR NOT NULL; commit VARCHAR NOT NULL; recommendation VARCHAR; score DOUBLE;
        findings STRUCT(flag VARCHAR, claim VARCHAR, fact VARCHAR, severity VARCHAR)[]; about VARCHAR[];
        passed BOOLEAN; exit_code INTEGER; command VARCHAR; tests_total BIGINT; tests_failed BIGINT;
        coverage_percent DOUBLE; files_changed INTEGER; insertions BIGINT; deletions BIGINT;
        concerns_opened VARCHAR[]; concerns_closed VARCHAR[]""",
    "extra_costs": """
        run_id VARCHAR NOT NULL; kind VARCHAR NOT NULL; committed BOOLEAN NOT NULL; flow VARCHAR; step VARCHAR;
        iteration INTEGER; started_at TIMESTAMP; tokens BIGINT; cost_usd DECIMAL(18,6); kept BOOLEAN""",
}

TABLES: dict[str, dict[str, str]] = {
    table: {name: kind for name, _blank, kind in (each.strip().partition(" ") for each in columns.split(";"))}
    for table, columns in _COLUMNS.items()
}
"""Table → column → type. An unknown cost is NULL."""

_MOST = {"INTEGER": 2**31 - 1, "BIGINT": 2**63 - 1, "DECIMAL(18,6)": 10**12 - 1, "DOUBLE": sys.float_info.max}
_LIMITS = {
    table: {name: _MOST[kind] for name, kind in columns.items() if kind in _MOST} for table, columns in TABLES.items()
}

CHANGING = ("source", "runs", "decisions", "extra_costs")
"""Tables whose rows about a run are written anew whenever a ref of it moves; those of the others never change."""

_NAMED = {"run_id": "of_run", "flow": "flow_key", "step": "step_id", "station": "agent_key"}
"""Column of `events` → key of a line that `event_lines` makes."""

VIEWS: dict[str, str] = {
    "costs": """
        select run_id, 'step' as kind, true as committed, executed_as, on_branch, flow, step, iteration, station,
          engine, mode, model, started_at, duration_ms, tokens, cost_usd
        from steps
        union all by name
        select run_id, kind, committed, false as on_branch, flow, step, iteration, started_at, tokens, cost_usd
        from extra_costs""",
    "facts": """
        select run_id, commit, ts, flow, step, iteration, station, 'observation' as kind,
          unnest(from_json(payload->'facts', '["VARCHAR"]')) as statement, null::JSON as detail
        from events where kind = 'facts_updated'
        union all
        select run_id, commit, ts, flow, step, iteration, station,
          if(kind = 'assumption_recorded', 'assumption', 'decision'),
          coalesce(payload->>'statement', concat_ws(': ', payload->>'subject', payload->>'decision')), payload
        from events where kind in ('assumption_recorded', 'decision_recorded')""",
    "cost_by_station": """
        select coalesce(station, kind) as station, engine, mode, model, count(*) as executions,
          sum(duration_ms) as duration_ms, sum(tokens) as tokens, sum(cost_usd) as known_usd,
          count(*) - count(cost_usd) as unknown_costs
        from costs group by all order by known_usd desc nulls last, duration_ms desc nulls last, station, model""",
    "loops": """
        select run_id, flow, step, count(*) as executions, arg_min(status, number) as first_status,
          arg_max(status, number) as last_status
        from steps where on_branch and not by_command
        group by all having count(*) > 1 order by executions desc, run_id, flow, step""",
    "first_pass": """
        with first_executions as (
          select * from steps where not by_command and result <> 'skipped'
          qualify row_number() over (partition by run_id, flow, step order by started_at, iteration, commit) = 1)
        select flow, step, station, count(*) as entries,
          count(*) filter (status = 'VERIFIED' and result = 'succeeded') as verified,
          round(count(*) filter (status = 'VERIFIED' and result = 'succeeded') / count(*), 3) as rate
        from first_executions group by all order by rate, flow, step, station""",
    "detours": """
        select run_id, ts, flow, from_step, decision, candidate_id, to_flow, to_step, routing_source, why_now, reason,
          holds
        from decisions where decision in ('detour', 'inject_flow', 'inject_nodes') and elapsed_us is not null
        order by run_id, ts""",
    "stalls": """
        select run_id, ts, flow, from_step, stall_passes, decision, candidate_id, reason, holds
        from decisions where is_stalled and elapsed_us is not null order by run_id, ts""",
    "human_waits": """
        select run_id, ts as since, payload->>'reason' as reason, until,
          date_diff('millisecond', ts, until) as waited_ms
        from (
          select *, lead(if(kind = 'run_resumed', ts, null)) over (partition by run_id order by ts, seq) as until
          from events where kind in ('run_paused', 'run_resumed', 'run_stopped', 'run_completed'))
        where kind = 'run_paused' order by run_id, since""",
    "reward_hacking_flags": """
        select run_id, flow, step, iteration, station, model, commit, finding.flag as flag,
          finding.severity as severity, finding.claim as claim, finding.fact as fact, about
        from (select *, unnest(findings) as finding from evidence) join steps using (run_id, commit)
        order by run_id, number, flag""",
}
"""Name → query."""

FORMAT = zlib.crc32(repr((TABLES, VIEWS)).encode())
"""Of the file: one with other tables or views is made anew."""


SHARES: dict[str, tuple[str, str]] = {
    "first_pass": (
        "steps were VERIFIED by their first execution",
        "select sum(verified), sum(entries) from first_pass",
    ),
    "reliability": (
        "ended runs succeeded without a person's help",
        """select count(*) filter (state = 'succeeded' and run_id not in (select run_id from human_waits)
  and run_id not in (select run_id from steps where station = 'human' and not by_command)), count(*)
from runs where state <> 'open'""",
    ),
    "resumability": (
        "resumed runs continued",
        """select count(*) filter (exists (select * from events later where later.run_id = events.run_id
  and later.kind in ('step_end', 'run_completed') and later.ts >= events.ts)), count(*)
from events where kind = 'run_resumed'""",
    ),
    "crash_safety": (
        "executions that were cut off kept their journal",
        "select count(*) filter (kept), count(*) from extra_costs where kind = 'cut_off'",
    ),
    "auditability": (
        "decisions have a reason, their candidates, and the evidence of the step before",
        """select count(*) filter (reason <> '' and list_contains(candidates, candidate_id)
  and (from_step is null or exists (select * from steps join evidence using (run_id, commit)
    where run_id = made.run_id and step = from_step and steps.iteration = made.iteration))), count(*)
from decisions made where holds""",
    ),
    "cost_visibility": (
        "executions have a known cost",
        "select count(cost_usd), count(*) from costs",
    ),
}
"""Name → what a share is of, and the query for how many of how many. All but the first: the metrics of seed 004."""

_COST = """select coalesce({0}, kind) as {1}, count(*) as times, round(sum(duration_ms) / 1000, 1) as seconds,
  sum(tokens) as tokens, sum(cost_usd) as known_usd, count(*) - count(cost_usd) as unknown
from costs group by all order by known_usd desc nulls last, seconds desc nulls last, {1}"""

LISTS: dict[str, tuple[str, str]] = {
    "stations": ("cost and time by station", _COST.format("station", "station")),
    "engines": ("by engine", _COST.format("engine || '/' || mode", "engine")),
    "models": ("by model", _COST.format("model", "model")),
    "not_first_pass": (
        "steps that were not always VERIFIED at once",
        "select flow, step, entries, verified, rate, station from first_pass where verified < entries",
    ),
    "loops": (
        "steps that were executed again",
        """select flow, step, count(*) as runs, sum(executions)::BIGINT as executions, max(executions) as most
from loops group by all order by executions desc, flow, step""",
    ),
    "detours": (
        "detours",
        """select candidate_id, count(*) as times, count(distinct run_id) as runs, why_now
from detours where holds group by all order by times desc, candidate_id, why_now""",
    ),
    "stalls": (
        "loops that made no progress",
        """select flow, from_step, count(*) as times, max(stall_passes) as passes
from stalls where holds group by all order by times desc, flow, from_step""",
    ),
    "human_waits": (
        "waiting for people",
        """select run_id, count(*) as waits, count(*) - count(until) as still,
  round(sum(waited_ms) / 1000, 1) as seconds, max_by(reason, since) as reason
from human_waits group by run_id order by still desc, seconds desc nulls last, run_id""",
    ),
    "flags": (
        "reward hacking: claims that contradict the facts",
        """select flag, severity, station, count(*) as times, count(distinct run_id) as runs, model
from reward_hacking_flags group by all order by times desc, flag, station, model""",
    ),
}
"""Name → title and query."""


def tables_sql(prefix: str = "table ") -> Iterator[str]:
    for name, columns in TABLES.items():
        yield f"create {prefix}{name} ({', '.join(f'{column} {kind}' for column, kind in columns.items())})"


def fitting(table: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """A number that its column cannot hold, as an engine may have given it, is unknown."""
    limits = _LIMITS[table]

    def fits(name: str, value: object) -> bool:
        return name not in limits or not isinstance(value, int | float) or abs(value) <= limits[name]

    return {name: value if fits(name, value) else None for name, value in row.items()}


def views_sql(kind: str = "view") -> Iterator[str]:
    for name, query in VIEWS.items():
        yield f"create {kind} {name} as {query}"


def load_sql(table: str, prefix: str = "") -> str:
    """Adds the lines of a file, its one parameter. Types are given: a column that is null in the first 20,000 lines
    would be guessed, and its sum be NULL."""
    keys = _NAMED if table == "events" else {}
    columns = TABLES[table]
    types = ", ".join(f"{keys.get(name, name)}: '{kind.removesuffix(' NOT NULL')}'" for name, kind in columns.items())
    named = ", ".join(f"{keys.get(name, name)} as {name}" for name in columns)
    read = f"read_json(?, format = 'newline_delimited', columns = {{{types}}})"
    return f"insert into {prefix}{table} by name select {named} from {read}"
