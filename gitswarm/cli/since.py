"""What `--since` means: a short age, or any date that git understands."""

from __future__ import annotations

import re
import time

from gitswarm.errors import UsageError
from gitswarm.git.reader import RepositoryReader
from gitswarm.ledger.layout import RunLayout
from gitswarm.records.execution import created_at

_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}

_NUMBERS = re.compile(
    r"@?\d+|\d+(st|nd|rd|th|am|pm)|[+-]\d{4}|z"
    r"|(\d{1,4}[-/]\d{1,2}([-/]\d{1,4})?t?)?(\d{1,2}(:\d\d){1,2}(am|pm|z|[+-]\d\d:?\d\d)?)?"
)
_TIME_WORD = re.compile(
    "ago|last|at|am|pm|utc|gmt|now|never|today|yesterday|noon|midnight|tea"
    "|one|two|three|four|five|six|seven|eight|nine|ten"
)
_TIME_NAMES = (
    " seconds minutes hours days weeks months years"
    " january february march april may june july august september october november december"
    " sunday monday tuesday wednesday thursday friday saturday"
)


def not_older(repository: RepositoryReader, runs: list[RunLayout], since: str | None) -> list[RunLayout]:
    """Runs that were created since then; None: all.

    :raises UsageError: git does not understand it as a time.
    """
    if since is None:
        return runs
    short = re.fullmatch(r"(\d+)([smhdw])", since)
    if short:
        oldest = time.time() - int(short[1]) * _SECONDS[short[2]]
    elif not _is_time(since):
        hint = "git swarm list --since 3d   (or 12h, yesterday, '2 weeks ago', 2026-11-20)"
        raise UsageError(f"--since {since}: not a time that git understands", hint=hint)
    else:
        answer = repository.git.output("rev-parse", f"--since={since}").decode()
        oldest = int(answer.strip().removeprefix("--max-age="))
    return [layout for layout in runs if created_at(layout.run_id).timestamp() >= oldest]


def _is_time(text: str) -> bool:
    """Whether every word is one that git's approxidate knows: what it does not know it takes for now."""
    words = [word for word in re.split(r"[\s.,_]+", text.lower()) if word]
    if all(re.fullmatch(r"\d{1,8}|ago|last|at", word) for word in words):
        return bool(re.fullmatch(r"\d{4}\.\d\d?\.\d\d?|\d\d?\.\d\d?\.\d{4}|@?\d{9,}", text))
    return all(_NUMBERS.fullmatch(word) or _is_word_of_time(word.lstrip("0123456789")) for word in words)


def _is_word_of_time(word: str) -> bool:
    """Names of months, days and units are known by their first letters."""
    return bool(_TIME_WORD.fullmatch(word)) or (len(word) > 2 and f" {word}" in _TIME_NAMES)
