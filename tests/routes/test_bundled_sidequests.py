"""The bundled sidequests, each called for by its real evidence."""

from __future__ import annotations

import pytest

from tests.conftest import Project
from tests.routed import CLEANUP, CRITIC, Case, checked, command, flow, step
from tests.routes.common import (
    BLOCKED,
    DOUBT,
    FAILING,
    LINE,
    STRAIGHT,
    back_from_tests,
    by_name,
    critic_loop,
    edits,
    exits,
    writes,
)
from tests.unseen import unseen_line

MEDDLES = {"run": [unseen_line("mkdir src/auth && echo 2 > src/auth/two.py")]}

SECURED = """
    f/a VERIFIED > detour:security-audit (deterministic)
      f/sq-security-audit-audit VERIFIED > advance:b (deterministic)
    f/b VERIFIED > advance:c (fast_path)
    f/c VERIFIED > terminate (fast_path)
"""
CHECKED = SECURED.replace("security-audit-audit", "contract-check-check").replace("security-audit", "contract-check")
DOCTORED = """
    f/a VERIFIED > advance:test (fast_path)
    f/test failed > detour:env-doctor (deterministic)
      f/sq-env-doctor-diagnose VERIFIED > repeat:test (deterministic)
    f/test@2 VERIFIED > advance:done (fast_path)
    f/done VERIFIED > terminate (fast_path)
"""
WITH_TESTS = flow("f", step("a"), command(), step("done", CLEANUP))
SAME_FAILURE = {"run": ["cat failing.txt; exit 1"]}
REPORT = {"failing.txt": FAILING}
BY_CRITIC = flow(
    "f",
    step("write"),
    command(),
    step("critique", CRITIC, kind="microloop", loop_target="write", max_iterations=4),
    step("done", CLEANUP),
)
UNSURE = {
    "envelope": {"status": "VERIFIED", "assumptions": [{"statement": "it is red", "confidence": "low"}]},
}

CASES = [
    Case(
        "security-audit once in a run",
        [LINE],
        {"a": writes("src/auth/login.py"), "b": writes("src/auth/logout.py")},
        SECURED.replace("c (fast_path)", "c (deterministic)"),
        bundled_sidequests=True,
    ),
    Case(
        "risk-review of a migration",
        [LINE],
        {"a": writes("shop/migrations/0002_prices.py")},
        SECURED.replace("security-audit-audit", "risk-review-weigh").replace("security-audit", "risk-review"),
        bundled_sidequests=True,
    ),
    Case(
        "policy-check of a licence",
        [LINE],
        {"a": writes("vendor/LICENSE.txt")},
        SECURED.replace("security-audit-audit", "policy-check-check").replace("security-audit", "policy-check"),
        bundled_sidequests=True,
    ),
    Case(
        "fuzz-triage of a crashing input",
        [LINE],
        {"a": writes("fuzz/artifacts/parse/crash-1f")},
        SECURED.replace("security-audit-audit", "fuzz-triage-triage").replace("security-audit", "fuzz-triage"),
        bundled_sidequests=True,
    ),
    Case(
        "security-audit comes before contract-check",
        [LINE],
        {"a": writes("src/api/auth/login.py")},
        SECURED,
        bundled_sidequests=True,
    ),
    Case(
        "contract-check at each change of an interface",
        [LINE],
        {"a": writes("src/api/one.py"), "b": writes("src/api/two.py")},
        """
        f/a VERIFIED > detour:contract-check (deterministic)
          f/sq-contract-check-check VERIFIED > advance:b (deterministic)
        f/b VERIFIED > detour:contract-check (deterministic)
          f/sq-contract-check-check@2 VERIFIED > advance:c (deterministic)
        f/c VERIFIED > terminate (fast_path)
        """,
        bundled_sidequests=True,
    ),
    Case(
        "what a role that only reads code has changed is put back, and calls for nothing",
        [LINE],
        {"a": writes("src/api/one.py"), "sq-contract-check-check": [MEDDLES, {}]},
        """
        f/a VERIFIED > detour:contract-check (deterministic)
          f/sq-contract-check-check VERIFIED > advance:b (deterministic)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        bundled_sidequests=True,
    ),
    Case(
        "env-doctor when the command is not there",
        [WITH_TESTS],
        {"test": [{"run": ["no-such-program-here"]}, *exits(0)]},
        DOCTORED,
        bundled_sidequests=True,
        events="""
        stack_push frame=sidequest:env-doctor@2 depth=1 interrupted=f/test back_to=f/test
        routing_offroad candidate_id=detour:env-doctor from_step=test instead_of=terminate why_now=[WHEN]
        stack_pop frame=sidequest:env-doctor@2 depth=0
        """.replace(
            "WHEN",
            'receipt.status == "failed" && has(receipt.error) && receipt.error.matches('
            '"(?i)module|import|command not found|no such file|could not start"); '
            "evidence.tests.exit_code == 126 || evidence.tests.exit_code == 127",
        ),
    ),
    Case(
        "env-doctor when the command may not be executed",
        [WITH_TESTS],
        {"test": [{"run": ["./README.md"]}, *exits(0)]},
        DOCTORED,
        bundled_sidequests=True,
    ),
    Case(
        "env-doctor when a module is missing",
        [LINE],
        {"a": [{"fail": "ImportError: No module named shop"}, {}]},
        """
        f/a failed > detour:env-doctor (deterministic)
          f/sq-env-doctor-diagnose VERIFIED > repeat:a (deterministic)
        f/a@2 VERIFIED > advance:b (fast_path)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        bundled_sidequests=True,
    ),
    Case(
        "env-doctor gives up after three times",
        [WITH_TESTS],
        {"test": {"run": ["no-such-program-here"]}},
        """
        f/a VERIFIED > advance:test (fast_path)
        f/test failed > detour:env-doctor (deterministic)
          f/sq-env-doctor-diagnose VERIFIED > repeat:test (deterministic)
        f/test@2 failed > detour:env-doctor (deterministic)
          f/sq-env-doctor-diagnose@2 VERIFIED > repeat:test (deterministic)
        f/test@3 failed > detour:env-doctor (deterministic)
          f/sq-env-doctor-diagnose@3 VERIFIED > repeat:test (deterministic)
        f/test@4 failed > terminate (deterministic)
        -- failed > repeat:test (deterministic)
        f/test@5 failed > terminate (deterministic)
        """,
        end="failed",
        bundled_sidequests=True,
        then=[("resume",)],
    ),
    Case(
        "no doctor for another failure",
        [LINE],
        {"a": {"fail": "model overloaded"}},
        "f/a failed > terminate (deterministic)",
        end="failed",
        bundled_sidequests=True,
    ),
    Case(
        "test-triage when the same tests keep failing",
        [back_from_tests(5)],
        {"write": edits(5), "test": [SAME_FAILURE] * 3 + exits(0)},
        """
        f/write VERIFIED > advance:test (fast_path)
        f/test UNVERIFIED > branch:write (deterministic)
        f/write@2 VERIFIED > advance:test (fast_path)
        f/test@2 UNVERIFIED > branch:write (deterministic)
        f/write@3 VERIFIED > advance:test (fast_path)
        f/test@3 UNVERIFIED > detour:test-triage (deterministic)
          f/sq-test-triage-triage VERIFIED > branch:write (deterministic)
        f/write@4 VERIFIED > advance:test (fast_path)
        f/test@4 VERIFIED > branch:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        files=REPORT,
        bundled_sidequests=True,
    ),
    Case(
        "test-triage again and again, until the branch gives up",
        [back_from_tests(6)],
        {"write": edits(6), "test": SAME_FAILURE},
        """
        f/write VERIFIED > advance:test (fast_path)
        f/test UNVERIFIED > branch:write (deterministic)
        f/write@2 VERIFIED > advance:test (fast_path)
        f/test@2 UNVERIFIED > branch:write (deterministic)
        f/write@3 VERIFIED > advance:test (fast_path)
        f/test@3 UNVERIFIED > detour:test-triage (deterministic)
          f/sq-test-triage-triage VERIFIED > branch:write (deterministic)
        f/write@4 VERIFIED > advance:test (fast_path)
        f/test@4 UNVERIFIED > detour:test-triage (deterministic)
          f/sq-test-triage-triage@2 VERIFIED > branch:write (deterministic)
        f/write@5 VERIFIED > advance:test (fast_path)
        f/test@5 UNVERIFIED > detour:test-triage (deterministic)
          f/sq-test-triage-triage@3 VERIFIED > branch:write (deterministic)
        f/write@6 VERIFIED > advance:test (fast_path)
        f/test@6 UNVERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        files=REPORT,
        bundled_sidequests=True,
        end="unproven",
    ),
    Case(
        "context-refresh when a critic's loop leaves the same tests failing",
        [BY_CRITIC],
        {"write": edits(4), "test": SAME_FAILURE, "critique": [DOUBT, DOUBT, DOUBT, {}]},
        """
        f/write VERIFIED > advance:test (fast_path)
        f/test UNVERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@2 VERIFIED > advance:test (fast_path)
        f/test@2 UNVERIFIED > advance:critique (fast_path)
        f/critique@2 UNVERIFIED > loop:write:iter_3 (deterministic)
        f/write@3 VERIFIED > advance:test (fast_path)
        f/test@3 UNVERIFIED > advance:critique (fast_path)
        f/critique@3 UNVERIFIED > detour:context-refresh (deterministic)
          f/sq-context-refresh-reload VERIFIED > loop:write:iter_4 (deterministic)
        f/write@4 VERIFIED > advance:test (fast_path)
        f/test@4 UNVERIFIED > advance:critique (fast_path)
        f/critique@4 VERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        files=REPORT,
        bundled_sidequests=True,
        end="unproven",
    ),
    Case(
        "clarifier when somebody is not sure",
        [LINE],
        {"a": UNSURE},
        """
        f/a VERIFIED > detour:clarifier (deterministic)
          f/sq-clarifier-clarify VERIFIED > advance:b (deterministic)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        bundled_sidequests=True,
    ),
    Case(
        "clarifier, then context-refresh, when a loop brings nothing new",
        [critic_loop(10)],
        {"critique": [*[DOUBT] * 8, {}]},
        """
        f/write VERIFIED > advance:critique (fast_path)
        f/critique UNVERIFIED > loop:write:iter_2 (deterministic)
        f/write@2 VERIFIED > advance:critique (fast_path)
        f/critique@2 UNVERIFIED > loop:write:iter_3 (deterministic)
        f/write@3 VERIFIED > advance:critique (fast_path)
        f/critique@3 UNVERIFIED > detour:clarifier (deterministic)
          f/sq-clarifier-clarify VERIFIED > loop:write:iter_4 (deterministic)
        f/write@4 VERIFIED > advance:critique (fast_path)
        f/critique@4 UNVERIFIED > loop:write:iter_5 (deterministic)
        f/write@5 VERIFIED > advance:critique (fast_path)
        f/critique@5 UNVERIFIED > loop:write:iter_6 (deterministic)
        f/write@6 VERIFIED > advance:critique (fast_path)
        f/critique@6 UNVERIFIED > detour:clarifier (deterministic)
          f/sq-clarifier-clarify@2 VERIFIED > loop:write:iter_7 (deterministic)
        f/write@7 VERIFIED > advance:critique (fast_path)
        f/critique@7 UNVERIFIED > detour:clarifier (deterministic)
          f/sq-clarifier-clarify@3 VERIFIED > loop:write:iter_8 (deterministic)
        f/write@8 VERIFIED > advance:critique (fast_path)
        f/critique@8 UNVERIFIED > detour:context-refresh (deterministic)
          f/sq-context-refresh-reload VERIFIED > loop:write:iter_9 (deterministic)
        f/write@9 VERIFIED > advance:critique (fast_path)
        f/critique@9 VERIFIED > advance:done (deterministic)
        f/done VERIFIED > terminate (fast_path)
        """,
        bundled_sidequests=True,
    ),
    Case(
        "autopilot: a pause becomes a detour to the clarifier",
        [LINE],
        {"a": [BLOCKED, {}]},
        """
        f/a BLOCKED > detour:clarifier (deterministic)
          f/sq-clarifier-clarify VERIFIED > repeat:a (deterministic)
        f/a@2 VERIFIED > advance:b (fast_path)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        options=("--autopilot",),
        bundled_sidequests=True,
    ),
    Case(
        "autopilot: a pause after all when the clarifier did not help; another step may ask it again",
        [LINE],
        {"a": [BLOCKED, {}], "b": BLOCKED},
        """
        f/a BLOCKED > detour:clarifier (deterministic)
          f/sq-clarifier-clarify VERIFIED > repeat:a (deterministic)
        f/a@2 VERIFIED > advance:b (fast_path)
        f/b BLOCKED > detour:clarifier (deterministic)
          f/sq-clarifier-clarify@2 VERIFIED > repeat:b (deterministic)
        f/b@2 BLOCKED > pause (deterministic)
        """,
        end="paused",
        options=("--autopilot",),
        bundled_sidequests=True,
    ),
    Case(
        "autopilot: a clarifier that is BLOCKED itself has nobody to ask",
        [LINE],
        {"a": [BLOCKED, {}], "sq-clarifier-clarify": [BLOCKED, {}]},
        """
        f/a BLOCKED > detour:clarifier (deterministic)
          f/sq-clarifier-clarify BLOCKED > pause (deterministic)
        -- paused > repeat:sq-clarifier-clarify (deterministic)
          f/sq-clarifier-clarify@2 VERIFIED > repeat:a (deterministic)
        f/a@2 VERIFIED > advance:b (fast_path)
        f/b VERIFIED > advance:c (fast_path)
        f/c VERIFIED > terminate (fast_path)
        """,
        options=("--autopilot",),
        bundled_sidequests=True,
        then=[("resume", "-m", "red")],
    ),
]


@by_name(CASES)
def test_bundled(project: Project, case: Case) -> None:
    checked(project, case)


@pytest.mark.parametrize("path", ["src/security/keys.py", "credentials.txt", "conf/secrets.yaml"])
def test_a_path_calls_for_an_audit(project: Project, path: str) -> None:
    checked(project, Case("", [LINE], {"a": writes(path)}, SECURED, bundled_sidequests=True))


@pytest.mark.parametrize("path", ["schema.json", "lib/interfaces.py", "wire/shop.proto", "docs/openapi.yaml"])
def test_a_path_calls_for_a_check_of_the_contract(project: Project, path: str) -> None:
    checked(project, Case("", [LINE], {"a": writes(path)}, CHECKED, bundled_sidequests=True))


@pytest.mark.parametrize("path", ["src/author.py", "apis.md", "notes/auth"])
def test_a_path_that_only_looks_alike_calls_for_nothing(project: Project, path: str) -> None:
    checked(project, Case("", [LINE], {"a": writes(path)}, STRAIGHT, bundled_sidequests=True))
