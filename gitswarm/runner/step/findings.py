"""What speaks against a step's work, and which earlier concerns it settles (docs/evidence.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gitswarm.evidence.comparison import Comparison
from gitswarm.evidence.declarations import TextChange, is_test_file
from gitswarm.evidence.path_roles import is_written_by, protected_paths
from gitswarm.evidence.suspicious_code import find_suspicious_code
from gitswarm.evidence.test_changes import judge_change
from gitswarm.evidence.verdict import any_means
from gitswarm.ledger.layout import HUMAN, KERNEL
from gitswarm.ledger.state import RunState
from gitswarm.ledger.steps import OpenConcern, is_about
from gitswarm.records.evidence import AcceptedConcern, Concern, Evidence, ProofFinding, concern_id
from gitswarm.records.execution import RUNS_FOLDER, Result
from gitswarm.records.text import listed
from gitswarm.runner.run_session import Session
from gitswarm.runner.step.kept_promises import (
    artifact_findings,
    content_after,
    left_open,
    met_commands,
    says_something,
    step_concern,
    unmet_commands,
)
from gitswarm.runner.step.plan import StepOutcome, StepPlan
from gitswarm.runner.step.read_artifacts import artifact_problems, dropped_criteria, owes_criteria
from gitswarm.runner.step.test_steps import is_test_step
from gitswarm.runner.stored import evidence_of, stored_concern, text_changes

_BY_TEXT = ("tests_deleted", "tests_weakened")
"""Found in the text of a change; looked for again from the tree before it, so that a repeat does not hide it."""

_RED = frozenset({"tests_red", "tests_not_run", "command_red"})
_DEFINED = re.compile(r"^[ \t]*(?:(?:async )?def |class )?(\w+)(?=\(|:| *=[^=])", re.MULTILINE)


class Judgement(Struct, frozen=True):
    """`opened`: new concerns; `closed`: ids of the earlier ones that this execution settles; `own`: every blocking
    finding about this step that is open afterwards."""

    opened: tuple[Concern, ...] = ()
    closed: tuple[str, ...] = ()
    own: tuple[Concern, ...] = ()


def find_concerns(
    session: Session, plan: StepPlan, outcome: StepOutcome, compared: Comparison | None = None
) -> Judgement:
    """
    :param outcome: with all that is known of the change in its evidence.
    :param compared: of a test step: its tests with those of the run's base.
    """
    before = plan.before
    if not before.is_judged or outcome.is_failed:
        return Judgement()
    known = {concern.id: stored_concern(session, concern) for concern in before.concerns}
    found = _found(session, plan, outcome, compared)
    judged = (
        {f"criterion:{each.id}" for each in outcome.criteria} if not _is_red(session, plan, outcome, compared) else ()
    )
    accepted = plan.out_of_band.accepted if plan.out_of_band is not None else ()
    closed = [each.id for each in accepted]
    for concern in before.concerns:
        about, again = known[concern.id], found.get(concern.id)
        if again is not None:
            settled = again.names != about.names
        elif concern.opened_by.engine != "command" or about.flag in ("command_red", "join_open"):
            settled = _is_settled(session, plan, outcome, about)
        elif not _is_same_suite(session, concern, plan, outcome):
            settled = about.flag in judged
        else:  # what tests showed only another look at them can take back
            settled = compared is not None or (about.flag in _RED and _is_settled(session, plan, outcome, about))
        if settled:
            closed.append(concern.id)
    closed.extend(met_commands(session, plan, outcome))
    waived = (*accepted_so_far(session, before), *accepted)
    new = (not_waived(each, waived) for each in found.values() if each.id not in known or each.id in closed)
    opened = tuple(each for each in new if each is not None)
    still = [about for name, about in known.items() if name not in closed]
    execution = plan.execution
    own = (each for each in (*still, *opened) if is_about(each.id, execution.flow, execution.step))
    return Judgement(opened, tuple(dict.fromkeys(closed)), tuple(each for each in own if each.blocking))


def _is_same_suite(session: Session, concern: OpenConcern, plan: StepPlan, outcome: StepOutcome) -> bool:
    """Whether this execution ran what the concern was found by; a step of the same name may have got another one."""
    if is_about(concern.id, plan.execution.flow, plan.execution.step):
        return True
    evidence = evidence_of(session, concern.opened_by)
    ran = evidence.tests.command if evidence is not None else None
    return ran is None or ran == outcome.evidence.tests.command


def _found(session: Session, plan: StepPlan, outcome: StepOutcome, compared: Comparison | None) -> dict[str, Concern]:
    """What holds after this execution: its own findings, and what earlier ones did to tests and still shows."""
    if compared is None:
        found = {concern.id: concern for concern in _of_step(session, plan, outcome)}
    else:
        found = _merged(plan, compared.findings) | _of_criteria(session, plan, outcome, compared)
        found |= {each.id: each for each in _of_verdict_on_others(outcome)}
    found |= {each.id: each for each in left_open(plan, outcome)}
    for lasting in _lasting(session, outcome, plan.before):
        more = found.pop(lasting.id, None)
        found[lasting.id] = lasting
        if more is not None and not set(more.names) <= set(lasting.names):
            number = 2 + sum(each.id.startswith(f"{lasting.id}#") for each in plan.before.concerns)
            found[f"{lasting.id}#{number}"] = replace(more, id=f"{lasting.id}#{number}")
    return found


def _of_step(session: Session, plan: StepPlan, outcome: StepOutcome) -> Iterator[Concern]:
    """The findings of this execution by itself."""
    if plan.execution.agent == HUMAN and outcome.result.status is Result.SKIPPED:
        flow = session.specs.flows[plan.execution.flow]
        if flow.has_step(plan.step.id) and is_test_step(session.spec.settings, flow.step(plan.step.id)):
            yield step_concern(plan, "tests_not_run", "a person skipped the tests")
    if plan.choice.engine == KERNEL or plan.execution.agent == HUMAN:
        return
    yield from _of_protected(session, plan, outcome)
    if plan.step.is_command:
        yield from _of_command(session, plan, outcome)
        return
    yield from _of_verdict(session, plan, outcome)
    before = _tree_before(session, plan)
    if before == plan.before.tip_tree:  # the difference is known
        objects, diff = session.repository.objects, outcome.evidence.diff
        changes = tuple(text_changes(objects, before, outcome.code_tree, diff))
    else:
        changes = _changes(session, before, outcome)
    removed = outcome.envelope.removed_tests if _is_compared(session) else ()
    tests = _tests_of(session, outcome.code_tree, changes)
    untouched = session.stored_tests.beside(changes, outcome.code_tree)
    judged = judge_change(changes, removed, untouched)
    yield from _merged(plan, (*judged, *find_suspicious_code(changes, tests))).values()
    yield from artifact_findings(session, plan, outcome)
    dropped = dropped_criteria(session, plan.before, outcome.artifacts)
    if dropped:
        fact = f"{listed(dropped)}: missing in the new matrix"
        yield step_concern(plan, "criteria_removed", fact, dropped, blocking=False)
    yield from _of_role(plan, outcome)
    yield from unmet_commands(session, plan, outcome)


def _tree_before(session: Session, plan: StepPlan) -> str:
    """What the step's work is measured from: of a repeat the tree before the execution that called for it."""
    execution = plan.execution
    if plan.repeat and plan.parallel is None:  # a branch of a fork begins where the fork does
        for record in reversed(plan.before.steps):
            if (record.flow, record.step) == (execution.flow, execution.step) and not record.repeat:
                return session.repository.objects.commit(record.parent).tree
    return plan.before.tip_tree


def _tests_of(session: Session, tree: str, changes: Sequence[TextChange]) -> Iterator[str]:
    """Texts of the project's Python tests that name what changed code defines: special cases are made for such."""
    product = [each.after or "" for each in changes if each.path.endswith(".py") and not is_test_file(each.path)]
    names = frozenset(name for text in product for name in _DEFINED.findall(text))
    return session.stored_tests.naming(names, tree) if names else iter(())


def _is_compared(session: Session) -> bool:
    """Whether the run will reach a test step, which decides whether what a handoff calls removed was."""
    return any(session.specs.flows[name].closing_tests for name in session.spec.flows)


def _of_protected(session: Session, plan: StepPlan, outcome: StepOutcome) -> Iterator[Concern]:
    """Whatever wrote them, an agent or a command."""
    evidence = outcome.evidence
    touched = protected_paths(
        (path for file in evidence.diff.files for path in (file.path, file.old_path) if path),
        session.spec.settings.policy.protected_paths,
    )
    touched = tuple(path for path in touched if not _as_at_base(session, plan.before, outcome.code_tree, (path,)))
    if touched:
        yield step_concern(plan, "protected_path", f"{listed(touched)}: needs a person's approval", touched)
    overwritten = tuple(path for path in evidence.tampered if path.startswith((f"{RUNS_FOLDER}/", "refs/notes/")))
    if overwritten:
        yield step_concern(
            plan,
            "evidence_tampered",
            f"{listed(overwritten)} was overwritten or deleted, and was restored",
            overwritten,
        )
    others = (".git/", "refs/heads/", "refs/tags/", "refs/remotes/")
    changed = tuple(name for name in evidence.tampered if name.startswith(others) and "/shadow/" not in name)
    if changed:
        fact = f"{listed(changed)} changed during the step, and was restored"
        yield step_concern(plan, "repository_changed", fact, changed, blocking=False)


def _of_role(plan: StepPlan, outcome: StepOutcome) -> Iterator[Concern]:
    """What the station's role does not write."""
    back = outcome.evidence.put_back
    if back:
        yield step_concern(plan, "code_put_back", f"{listed(back)}: its role only reads code", back, blocking=False)
    roles = plan.station.writes if plan.station is not None else ()
    foreign = tuple(file.path for file in outcome.evidence.diff.files if not is_written_by(file.path, roles))
    if foreign:
        fact = f"{listed(foreign)}: its role writes {', '.join(roles)}"
        yield step_concern(plan, "role_exceeded", fact, foreign, blocking=False)


def _of_criteria(session: Session, plan: StepPlan, outcome: StepOutcome, compared: Comparison) -> dict[str, Concern]:
    """What the tests of all suites do not prove of the criteria; where tests fail or did not run, those are told."""
    if _is_red(session, plan, outcome, compared):
        return {}
    owed = owes_criteria(session, plan.before)
    found = [
        step_concern(
            plan,
            f"criterion:{each.id}",
            f"{each.proof}: {each.reason}",
            each.names,
            blocking=owed and each.is_blocking,
        )
        for each in outcome.criteria
        if each.proof != "proven"
    ]
    return {concern.id: concern for concern in found}


def _is_red(session: Session, plan: StepPlan, outcome: StepOutcome, compared: Comparison | None) -> bool:
    """Whether tests failed or did not run, here or in another suite whose tests have not run since."""
    now = {finding.flag for finding in compared.findings if finding.blocking} if compared is not None else set()
    others = {
        each.id.partition("@")[0] for each in plan.before.blocking if not _is_same_suite(session, each, plan, outcome)
    }
    return bool({"tests_red", "tests_not_run"} & (now | others))


def _of_command(session: Session, plan: StepPlan, outcome: StepOutcome) -> Iterator[Concern]:
    """Tests that fail are about the code, and no matter of the step that ran them: they cap nothing."""
    tests, report = outcome.evidence.tests, outcome.evidence.report
    if plan.step.may_fail:
        return
    names = report.failing if report is not None else ()
    red = tests.passed is False or (report is not None and report.failed > 0)
    if not red or tests.command is None:
        return
    fact = f"`{tests.command}` ended with exit code {tests.exit_code}"
    if report is not None and report.failed:
        fact = f"{report.failed} of {report.total} tests failed" + (f": {listed(names)}" if names else "")
    is_test = report is not None or is_test_step(session.spec.settings, plan.step)
    yield step_concern(plan, "tests_red" if is_test else "command_red", fact, names)


def _of_verdict(session: Session, plan: StepPlan, outcome: StepOutcome) -> Iterator[Concern]:
    """Structured claims about files that exist nowhere block; whatever was read out of prose is a warning."""
    verdict = outcome.evidence.verdict
    invented = _invented(session, plan, outcome)
    if invented:
        unknown = [name for name in invented if name not in outcome.ignored]
        ignored = [name for name in invented if name in outcome.ignored]
        facts = [f"{listed(unknown)} is claimed, but does not exist"] if unknown else []
        facts += [f"git ignores {listed(ignored)}: no commit has it"] if ignored else []
        yield step_concern(plan, "file_changes_mismatch", "; ".join(facts), invented)
    # Red tests are a concern by themselves; a status that says nothing of them would be one more with every step.
    # That tests are fewer, or cover less, is told of who changed code; of others what they say of it and is not so.
    flags = {"claimed_verified_with_failures", *(("file_changes_mismatch",) if invented else ())}
    elsewhere = () if outcome.evidence.diff.files else ("test_count_decreased", "coverage_dropped")
    for finding in verdict.findings if verdict is not None else ():
        if finding.flag in elsewhere and not finding.claim:
            continue
        if finding.flag not in flags and finding.flag not in _BY_TEXT:
            flags.add(finding.flag)
            fact = f"{finding.claim!r}, but {finding.fact}" if finding.claim else finding.fact
            yield step_concern(plan, finding.flag, fact, blocking=False)


def _of_verdict_on_others(outcome: StepOutcome) -> Iterator[Concern]:
    """What a test run says about the claims of those who left the code: a warning about the newest of them."""
    verdict = outcome.evidence.verdict
    if verdict is None or not verdict.about or (outcome.result.check and outcome.result.check.passed is not True):
        return  # what fails is told by its names, and may have failed before
    flow, _slash, step = verdict.about[0].partition("/")
    for finding in verdict.findings:
        fact = f"{finding.claim!r}, but {finding.fact}" if finding.claim else finding.fact
        yield Concern(id=concern_id(finding.flag, flow, step), flag=finding.flag, blocking=False, fact=fact)


def _invented(session: Session, plan: StepPlan, outcome: StepOutcome) -> tuple[str, ...]:
    """Files that the handoff lists, and that are not there and never were."""
    handoff = outcome.result.handoff
    if handoff is None:
        return ()
    claimed = dict.fromkeys([*(each.path for each in handoff.file_changes), *handoff.artifacts])
    near = (*outcome.present, *outcome.artifacts, *_paths(outcome.evidence))
    unknown = [name for name in claimed if not any_means(name, near)]
    if not unknown:
        return ()
    objects = session.repository.objects
    everywhere = [path for tree in (plan.before.tip_tree, outcome.code_tree) for path, _blob in objects.files(tree)]
    return tuple(name for name in unknown if not any_means(name, everywhere))


def _lasting(session: Session, outcome: StepOutcome, before: RunState) -> Iterator[Concern]:
    """Blocking changes of tests by earlier steps of which the difference since then still shows a part: whole, for
    what is left is measured from the tree before them."""
    for concern in before.blocking:
        flag = concern.id.partition("@")[0]
        if flag not in _BY_TEXT or concern.opened_by.engine == "command":
            continue
        opened_by = concern.opened_by
        tree = session.repository.objects.commit(opened_by.fork or opened_by.parent).tree
        changes = _changes(session, tree, outcome)
        names = [
            name
            for finding in judge_change(changes, untouched=session.stored_tests.beside(changes, outcome.code_tree))
            if finding.flag == flag and finding.blocking
            for name in finding.names
        ]
        about = stored_concern(session, concern)
        if set(about.names) & set(names):
            yield about


def _changes(session: Session, before: str, outcome: StepOutcome) -> tuple[TextChange, ...]:
    """Texts of the code that differs from `before`."""
    objects, store = session.repository.objects, session.store
    old, new = store.code(before), store.code(outcome.code_tree)
    return tuple(text_changes(objects, old, new, session.repository.diffs.summary(old, new)))


def _merged(plan: StepPlan, findings: Iterable[ProofFinding]) -> dict[str, Concern]:
    """One concern per flag: what blocks comes first, and makes it block."""
    grouped: dict[str, list[ProofFinding]] = {}
    for finding in sorted(findings, key=lambda each: not each.blocking):
        grouped.setdefault(finding.flag, []).append(finding)
    found = {}
    for flag, group in grouped.items():
        blocking = [each for each in group if each.blocking] or group
        names = tuple(dict.fromkeys(name for each in blocking for name in each.names))
        fact = "; ".join(each.fact for each in blocking)
        concern = step_concern(plan, flag, fact, names, blocking=blocking[0].blocking)
        found[concern.id] = concern
    return found


def _is_settled(session: Session, plan: StepPlan, outcome: StepOutcome, about: Concern) -> bool:
    """Whether a concern that this execution did not find again is closed by it."""
    base, execution = session.layout.base, plan.execution
    own = is_about(about.id, execution.flow, execution.step) and execution.agent != HUMAN
    match about.flag:
        case "tests_deleted" | "tests_weakened":
            return about.blocking or own  # of what blocks the difference since then shows nothing any more
        case "protected_path":
            return _as_at_base(session, plan.before, outcome.code_tree, about.names)
        case "artifact_missing":
            there = (says_something(session, plan.before, outcome, f"{base}/{name}") for name in about.names)
            return own or all(there)
        case "artifact_invalid":
            paths = [f"{base}/{name}" for name in about.names]
            now = {path: content_after(session, plan.before, outcome, path) or b"" for path in paths}
            return not list(artifact_problems(session, plan.before, now))
        case "critic_open":
            return own and (outcome.loop is None or outcome.loop.content)
        case "tests_red" | "tests_not_run":
            is_test = is_test_step(session.spec.settings, plan.step)
            own = outcome.evidence.tests.passed is True and (own or is_test)
    return own


def _as_at_base(session: Session, before: RunState, tree: str, paths: tuple[str, ...]) -> bool:
    objects = session.repository.objects
    base = objects.commit(before.base).tree
    return all(objects.entry(base, path) == objects.entry(tree, path) for path in paths)


def accepted_so_far(session: Session, before: RunState) -> tuple[AcceptedConcern, ...]:
    """What people accepted so far."""
    found: list[AcceptedConcern] = []
    for record in before.steps:
        if record.by_human and record.closed:
            evidence = evidence_of(session, record)
            found += evidence.accepted if evidence is not None else ()
    return tuple(found)


def not_waived(concern: Concern, waived: tuple[AcceptedConcern, ...]) -> Concern | None:
    """The concern, with `#2` where more of the same was found; None for one that a person accepted, whichever step
    found it."""
    earlier = [each for each in waived if each.id.partition("#")[0] == concern.id]
    known = {name for each in waived if each.id.partition("@")[0] == concern.flag for name in each.names}
    if (concern.names and set(concern.names) <= known) or any(each.names == concern.names for each in earlier):
        return None
    if not earlier:
        return concern
    return replace(concern, id=f"{concern.id}#{len(earlier) + 1}")


def _paths(evidence: Evidence) -> tuple[str, ...]:
    return tuple(path for file in evidence.diff.files for path in (file.path, file.old_path) if path)
