"""The questions that `git swarm stats` asks the projection."""

from __future__ import annotations

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
