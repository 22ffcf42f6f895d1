"""Which tests are unit tests, and which modules are begun first. A pytest plugin."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

_UNIT = ("engines", "evidence", "ledger", "routing", "safety/policy", "safety/redact", "specs")
"""Folders of tests about values; what wants a repository there is none of them."""

_LONG = (
    "test_model",
    "claude/test_faults",
    "claude/test_policy_gate",
    "fleet/test_fleet_kills",
    "test_guarantee_1_kill",
    "test_guarantee_9_crowd",
    "test_forks_kill",
    "landing/test_killed",
    "claude/test_parity",
    "test_random_routes",
    "claude/test_processes",
    "days/test_bad_day",
)
"""Modules of more than 20 seconds, the longest first: one that is begun last leaves the other workers idle."""

SAMPLED = {
    "proven/test_dishonest::test_a_dishonest_agent_is_held_back": 4,
    "proven/test_dishonest::test_what_only_a_person_can_judge_is_shown_where_he_decides": 3,
    "proven/test_honest::test_an_honest_agent_is_not_held_back": 4,
    "proven/test_criteria_judged::test_story": 3,
    "test_every_key::test_another_value_shows_in_a_run": 4,
    "test_claims::test_every_lie_is_found_and_no_honest_session_is_flagged": 3,
    "test_staging_content::test_a_step_commits_what_git_would": 2,
    "test_staging_repository::test_a_step_commits_what_git_would": 2,
    "test_own_calls::test_the_repository_is_what_it_was_and_the_code_is_whole": 2,
    "cli/test_ctrl_c::test_one_keypress_lets_the_step_end": 3,
    "operations/test_forge::test_the_checks_of_what_landed": 2,
    "replay/test_recorded::test_a_recorded_run_is_replayed": 2,
    "routes/test_bundled_sidequests::test_bundled": 3,
    "routes/test_detours::test_nested": 3,
    "routes/test_gate::test_verdict": 3,
    "routes/test_kinds::test_microloop": 3,
    "routes/test_returns::test_in_the_middle": 3,
    "routes/test_stall::test_critic": 3,
    "safety/guard/test_init_hooks::test_a_run_is_blocked_in_any_layout": 2,
    "safety/guard/test_pushes::test_pre_push_blocks": 3,
    "safety/guard/test_pushes::test_pre_push_lets_through": 3,
    "safety/guard/test_surroundings::test_the_environment_does_not_change_the_answer": 3,
    "verify/test_clean::test_forks_verify_clean": 2,
    "verify/test_tampering::test_what_contradicts_the_rest_of_the_run_is_found": 2,
}
"""Tables whose rows are whole runs or repositories: of so many rows one runs by default, the others in the soak."""

_REPOSITORIES = frozenset({"project", "env", "processes"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    _leave_rows_to_the_soak(items, here)
    for item in items:
        folder = item.path.parent.relative_to(here).as_posix()
        if folder in _UNIT and not _starts_processes(item):
            item.add_marker(pytest.mark.unit)
    items.sort(key=lambda item: _turn(item.path.relative_to(here).with_suffix("").as_posix()))


def _leave_rows_to_the_soak(items: Sequence[pytest.Item], here: Path) -> None:
    rows: dict[str, list[pytest.Item]] = {}
    for item in items:
        module = item.path.relative_to(here).with_suffix("").as_posix()
        if item.get_closest_marker("soak") is None:
            rows.setdefault(f"{module}::{getattr(item, 'originalname', item.name)}", []).append(item)
    for table, every in SAMPLED.items():
        for number, item in enumerate(rows.get(table, ())):
            if number % every:
                item.add_marker(pytest.mark.soak)


def _turn(module: str) -> int:
    return _LONG.index(module) if module in _LONG else len(_LONG)


def _starts_processes(item: pytest.Item) -> bool:
    return item.get_closest_marker("processes") is not None or not _REPOSITORIES.isdisjoint(_fixtures(item))


def _fixtures(item: pytest.Item) -> list[str]:
    return item.fixturenames if isinstance(item, pytest.Function) else []
