"""A handoff that is asked for and given as text: for an engine whose program holds no answer to a schema."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from msgspec import Struct
from pydantic import JsonValue

from gitswarm.engines.bounds import read_handoff
from gitswarm.engines.encodable import encodable_input
from gitswarm.records.envelope import Handoff

MOST_ASKED = 3
"""How often a handoff is asked for again, with what is wrong with the last one."""

_FENCED = re.compile(r"(?P<before>.*?)^```(?:json)?[ \t]*\n(?P<object>.*)\n```\Z", re.DOTALL | re.MULTILINE)


class LastMessage(Struct, frozen=True):
    """What a session said last: `text` is for people; `handoff` None: there is none, and `problem` says why."""

    text: str
    handoff: Handoff | None = None
    problem: str = ""


def asked_at_the_end(schema: Mapping[str, JsonValue]) -> str:
    """What stands behind the task."""
    return f"When the work is over, your last message is the handoff and nothing else. {_form(schema)}"


def asked_again(problem: str, schema: Mapping[str, JsonValue]) -> str:
    return (
        f"The work of this step is over, and no tools are left. Your last message is no handoff: {problem}. Hand "
        "over now: from what you did and saw in this session, by the rules that you were given for its status. What "
        f"you did not check you did not verify. {_form(schema)}"
    )


def read_last_message(said: str) -> LastMessage:
    """A JSON object alone, or in a code block that ends the message: nothing is read out of prose."""
    fenced = _FENCED.match(said.strip())
    text, body = (fenced["before"].strip(), fenced["object"]) if fenced else ("", said)
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return LastMessage(said, problem="it is not one JSON object alone" if said.strip() else "it is empty")
    if not isinstance(found, dict) or "status" not in found:
        return LastMessage(said, problem="it has no status")
    handoff = read_handoff(encodable_input(found))
    return LastMessage(said, problem=handoff) if isinstance(handoff, str) else LastMessage(text, handoff)


def _form(schema: Mapping[str, JsonValue]) -> str:
    return f"It is one JSON object that keeps this JSON schema:\n\n{json.dumps(schema, ensure_ascii=False)}"
