"""What an agent says about a step against what git and the tests show, topic by topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from gitswarm.cli.runs import TEST_VERDICTS
from gitswarm.cli.show import objects_within, within
from gitswarm.records.json_value import JsonValue


class Topic(Struct, frozen=True):
    """`is_mismatch`: the two do not agree; `why`: what git-swarm says about it."""

    name: str
    claimed: tuple[str, ...]
    shown: tuple[str, ...]
    is_mismatch: bool = False
    why: tuple[str, ...] = ()


def topics(envelope: JsonValue, evidence: JsonValue, *, of_tests: bool) -> list[Topic]:
    """The topics of a step's two files, as stored.

    :param of_tests: its command, if there is one, runs tests.
    """
    claims = envelope if isinstance(envelope, dict) else {}
    shown = evidence if isinstance(evidence, dict) else {}
    found = [
        _status(claims),
        _files(claims, shown),
        _tests(shown, "tests" if of_tests else "command"),
        *_findings(shown),
    ]
    found += [
        Topic(name.replace("_", " "), _texts(claims, name), ())
        for name in ("artifacts", "concerns", "blockers", "assumptions", "decisions", "observations")
    ]
    found += [_criteria(shown), _concerns(shown)]
    for name in ("tampered", "quarantined", "put_back", "artifact_problems", "secrets"):
        found.append(Topic(name.replace("_", " "), (), _texts(shown, name), is_mismatch=True))
    return [topic for topic in found if topic.claimed or topic.shown]


def _status(claims: Mapping[str, JsonValue]) -> Topic:
    holds = str(claims.get("status") or "")
    claimed = str(claims.get("claimed_status") or holds)
    reason = claims.get("status_reason")
    why = (str(reason),) if reason else ()
    return Topic("status", (claimed,) if claimed else (), (holds,) if holds else (), claimed != holds, why)


def _files(claims: Mapping[str, JsonValue], shown: Mapping[str, JsonValue]) -> Topic:
    """An agent that names no file says nothing about them."""
    changed = {str(each.get("path")): each for each in objects_within(shown, "diff", "files")}
    claimed = {str(each.get("path")): str(each.get("change")) for each in objects_within(claims, "file_changes")}
    missing = set(claimed) ^ set(changed) if claimed else set()
    lines = tuple(f"{each.get('change')} {path} {_counts(each)}" for path, each in sorted(changed.items()))
    return Topic(
        "files",
        tuple(f"{change} {path}" for path, change in sorted(claimed.items())),
        lines or ("no change",),
        is_mismatch=bool(missing),
        why=tuple(
            f"{path}: {'said, and not in the diff' if path in claimed else 'changed, and not said'}"
            for path in sorted(missing)
        ),
    )


def _tests(shown: Mapping[str, JsonValue], name: str) -> Topic:
    tests, report = shown.get("tests"), shown.get("report")
    lines = []
    if isinstance(tests, dict) and tests.get("command"):
        passed = tests.get("passed")
        judged = TEST_VERDICTS[passed if isinstance(passed, bool) else None]
        lines.append(f"{tests['command']}: {judged}")
    if isinstance(report, dict):
        lines.append(", ".join(f"{report.get(kind)} {kind}" for kind in ("passed", "failed", "skipped")))
        lines += [f"failing: {name}" for name in _texts(report, "failing")]
    return Topic(name, (), tuple(lines))


def _findings(shown: Mapping[str, JsonValue]) -> Iterator[Topic]:
    """Contradictions that git-swarm found; those of a test run are about earlier steps."""
    verdict = shown.get("verdict")
    if not isinstance(verdict, dict):
        return
    about = ", ".join(_texts(verdict, "about"))
    for each in objects_within(verdict, "findings"):
        claim = str(each.get("claim") or "")
        name = str(each.get("flag")).replace("_", " ") + (f" (about {about})" if about else "")
        yield Topic(name, (claim,) if claim else (), (str(each.get("fact")),), is_mismatch=True)
    yield Topic("verdict", (), (f"{verdict.get('recommendation')}, score {verdict.get('score')}",))


def _criteria(shown: Mapping[str, JsonValue]) -> Topic:
    judged = objects_within(shown, "criteria")
    lines = tuple(f"{each.get('id')} {each.get('proof')}: {each.get('reason')}" for each in judged)
    return Topic("criteria", (), lines)


def _concerns(shown: Mapping[str, JsonValue]) -> Topic:
    opened = objects_within(shown, "opened")
    lines = [
        f"{'blocking' if each.get('blocking') else 'warning'} {each.get('id')}: {each.get('fact')}" for each in opened
    ]
    lines += [f"settled {each}" for each in _texts(shown, "closed")]
    return Topic("concerns opened", (), tuple(lines), is_mismatch=any(each.get("blocking") for each in opened))


def _texts(holder: Mapping[str, JsonValue], name: str) -> tuple[str, ...]:
    return tuple(
        "; ".join(f"{key}: {each[key]}" for key in each if each[key]) if isinstance(each, dict) else str(each)
        for each in within(holder, name)
    )


def _counts(change: Mapping[str, JsonValue]) -> str:
    added = change.get("insertions")
    return "(binary)" if added is None else f"+{added} -{change.get('deletions')}"
