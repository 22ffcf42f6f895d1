from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.evidence.recordings import NAMES, recorded
from tests.evidence.suites import read_file, read_output
from tests.tables import table

FIFTY_MB = 50_000_000
SECONDS = 4  # 2 on an idle machine
WORDS = (
    "\n",
    " ",
    "\n    ",
    "#",
    "-",
    "ok",
    "not ok",
    "1..",
    "0",
    "7",
    "99999999999",
    "٣",
    "TAP version 13",
    "Bail out!",
    "\n--- FAIL: ",
    "\nFAIL\t",
    "\nok  \t",
    "T/a",
    " (0.0s)",
    "\ntest result: ok. ",
    " passed",
    "; ",
    " failed",
    " in 0.1s",
    "\n=== test session starts ===",
    "\n=== short test summary info ===",
    "\nFAILED ",
    "[",
    "]",
    " - ",
    "\nTests: ",
    " total",
    '\n{"Action":"fail","Test":"a","Package":"b","Elapsed":',
    '{"type":"suite","event":',
    "}",
    '"',
    "null",
    "1e999",
    "NaN",
    '{"numTotalTests":',
    '"testResults":',
    "[[",
    "<testsuite>",
    "<testcase ",
    'time="',
    "<failure/>",
    "</testsuite>",
    "<!DOCTYPE x>",
    "TOTAL 100%",
    "coverage: 200.0% of statements",
    "\ud800",
    "\x1b[31m",
    "\r\n",
    "\x00",
    "Summary [ 1s] 1 tests run: ",
)


def survives(text: str) -> None:
    found = read_output(text)
    if found is not None:
        found.to_json()
        assert found.total == found.passed + found.failed + found.skipped
        assert len(found.failing) <= min(found.failed, 50)


@given(st.text())
def test_no_text_raises(text: str) -> None:
    survives(text)


@given(st.lists(st.sampled_from(WORDS), max_size=60))
def test_no_text_made_of_their_words_raises(words: list[str]) -> None:
    survives("".join(words))


@given(st.binary(max_size=2_000))
def test_no_file_raises(content: bytes) -> None:
    read_file(content)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_damaged_recording_raises(data: Any) -> None:
    text = recorded(data.draw(st.sampled_from(NAMES))).decode()
    for _ in range(data.draw(st.integers(1, 5))):
        begin = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(begin, min(len(text), begin + 400)))
        text = text[:begin] + data.draw(st.sampled_from(WORDS) | st.text(max_size=20)) + text[end:]
    survives(text)


@table("name", NAMES)
def test_a_recording_may_end_anywhere(name: str) -> None:
    text = recorded(name).decode()
    for end in range(0, len(text), max(1, len(text) // 40)):
        survives(text[:end])


ENTITIES = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'
FILE_ENTITY = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'


@table("declared", [ENTITIES, FILE_ENTITY, "<!DOCTYPE testsuite>"])
def test_xml_with_a_document_type_is_no_report(declared: str) -> None:
    xml = f'<?xml version="1.0"?>{declared}<testsuite><testcase name="&a;"/></testsuite>'
    assert read_file(xml.encode()) is None
    assert read_file(xml.encode("utf-16")) is None


def test_a_document_type_inside_a_message_does_no_harm() -> None:
    xml = "<testsuite><testcase name='a'><failure><![CDATA[<!DOCTYPE html>]]></failure></testcase></testsuite>"
    found = read_file(xml.encode())
    assert found is not None
    assert found.failed == 1


def test_a_file_of_more_than_fifty_megabytes_is_not_read() -> None:
    assert read_file(b"1..1\nok 1\n".ljust(FIFTY_MB + 1)) is None


LARGE = {
    "newlines": "\n",
    "results": "\nnot ok",
    "go results": "\n--- FAIL: T (0.0s)\nFAIL\ta\t0.1s",
    "cargo results": "\nrunning 1 test\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; x",
    "pytest summaries": "\n=== test session starts ===\n1 failed in 1s",
    "json lines": '\n{"Action":"fail","Test":"a"}',
    "suites": '\n{"type":"suite","event":"failed"}',
    "jest": "\n  ● a\n\nb\nc\nTests:       1 failed, 1 total",
    "subtests": "\n    ok",
    "colons in pytest": "\n=== test session starts ===" + "\nstd" + "::vector" * 200,
    "one line": "=",
}


@pytest.mark.soak
@table("unit", LARGE.values(), ids=list(LARGE))
def test_fifty_megabytes_are_read_in_seconds(unit: str) -> None:
    text = unit * (FIFTY_MB // len(unit))
    started = time.process_time()
    read_output(text)
    assert time.process_time() - started < SECONDS


@pytest.mark.soak
def test_a_large_junit_file_is_read_in_seconds() -> None:
    xml = "<testsuite>" + '<testcase name="a"/>' * 99_000 + "</testsuite>"
    started = time.process_time()
    found = read_file(xml.encode())
    assert time.process_time() - started < SECONDS
    assert found is not None
    assert found.passed == 99_000
