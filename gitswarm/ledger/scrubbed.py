"""What is stored, without its secrets. JSON stays JSON of the same shape: only strings in it change."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable
from typing import TypeVar

from pydantic import JsonValue

from gitswarm.records.base import Record, pretty_json
from gitswarm.records.secrets import Scrubber

R = TypeVar("R", bound=Record)

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def scrubbed(path: str, content: bytes, scrubber: Scrubber) -> bytes:
    """A file as it may be stored; the same bytes when there is no secret in it.

    What is no text is read letter by letter (latin-1): a secret in it goes too, which may break such a file.
    """
    try:
        if path.endswith(".json"):
            return _json(content, scrubber)
        if path.endswith(".jsonl"):
            return _json_lines(content, scrubber)
    except (ValueError, RecursionError):
        pass  # not what its name promises
    return _text(content, scrubber.scrub)


def scrubbed_record(record: R, scrubber: Scrubber) -> R:
    """The same record when there is no secret in it."""
    plain: JsonValue = record.model_dump(mode="json")
    clean = scrubber.scrub_json(plain)
    return record if clean is plain else type(record).model_validate(clean)


def _json(content: bytes, scrubber: Scrubber) -> bytes:
    value: JsonValue = json.loads(content)
    clean = scrubber.scrub_json(value)
    return content if clean is value else pretty_json(clean)


def _json_lines(content: bytes, scrubber: Scrubber) -> bytes:
    values: list[JsonValue] = [json.loads(line) for line in content.splitlines() if line.strip()]
    clean = scrubber.scrub_json(values)
    if clean is values or not isinstance(clean, list):
        return content
    return b"".join(json.dumps(value, ensure_ascii=False).encode() + b"\n" for value in clean)


def _text(content: bytes, scrub: Callable[[str], str]) -> bytes:
    encoding = "utf-16" if content.startswith(_UTF_16) else "utf-8"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        encoding, text = "latin-1", content.decode("latin-1")
    clean = scrub(text)
    return content if clean == text else clean.encode(encoding)
