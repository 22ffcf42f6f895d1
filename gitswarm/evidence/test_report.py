"""Test reports from what a test command printed, and from the report files that it wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from gitswarm.evidence.formats import cargo, go, jest, junit, nextest, pytest_text, tap
from gitswarm.evidence.formats.reading import Plain, Tally, plain
from gitswarm.records.evidence import TestReport

FILE_BYTES = 50_000_000
"""Report files larger than this are not read."""

Reader = Callable[[Plain], Tally | None]

_MACHINE: tuple[Reader, ...] = (junit.read, jest.read_json, go.read_json, cargo.read_json)
_TERMINAL: tuple[Reader, ...] = (
    nextest.read,
    pytest_text.read,
    jest.read,
    jest.read_vitest,
    cargo.read,
    go.read,
    tap.read,
)


def read_output(text: str) -> TestReport | None:
    """What stdout and stderr of a command say; None if no known test tool speaks in them.

    A machine format wins over text. Of several tools the one whose summary ends last is the outermost. Whatever
    the input is, nothing raises, and 50 MB take less than two seconds.
    """
    tally = _tally(text)
    return tally.report() if tally else None


def read_file(content: bytes) -> TestReport | None:
    """What a report file says, whatever it is called; None if it is no report or larger than 50 MB."""
    tally = _file(content)
    return tally.report() if tally else None


def read_report(output: str, files: Mapping[str, bytes]) -> TestReport | None:
    """The report of one command: its report files, added up, else its output; coverage from either.

    :param files: path → content. Only files that this command wrote: an agent may have left others.
    """
    spoken = _tally(output)
    written = [tally for _, content in sorted(files.items()) if (tally := _file(content))]
    if not written:
        return spoken.report() if spoken else None
    total = written[0].plus(written[1:])
    if total.coverage_percent is None and spoken is not None:
        total = replace(total, coverage_percent=spoken.coverage_percent)
    return total.report()


def _file(content: bytes) -> Tally | None:
    if len(content) > FILE_BYTES:
        return None
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return _tally(content.decode(encoding, errors="replace"))


def _tally(text: str) -> Tally | None:
    prepared = plain(text)
    for readers in (_MACHINE, _TERMINAL):
        found = [tally for read in readers if (tally := read(prepared))]
        if found:
            return max(found, key=lambda tally: tally.ends_at)
    return None
