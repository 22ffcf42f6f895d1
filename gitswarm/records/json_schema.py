"""JSON schemas of records: for editors, for models that answer in them, for other programs."""

from __future__ import annotations

from inspect import cleandoc
from typing import Any

import msgspec

from gitswarm.records.json_value import JsonValue
from gitswarm.records.record import SHORT, UNSTORED
from gitswarm.records.text import END


def json_schema(model: type[Any]) -> dict[str, JsonValue]:
    """The schema of a record or dataclass, itself on top and what it consists of below `$defs`."""
    (top,), parts = msgspec.json.schema_components([model], ref_template="#/$defs/{name}")
    name = str(top["$ref"]).rpartition("/")[2]
    whole = {**parts.pop(name), **({"$defs": parts} if parts else {})}
    schema: dict[str, JsonValue] = _published(whole)
    return schema


def _published(schema: Any) -> Any:
    """Short forms as a choice, patterns as JavaScript reads them, and no field that is never stored."""
    if isinstance(schema, list):
        return [_published(each) for each in schema]
    if not isinstance(schema, dict):
        return schema.removesuffix(END) + "$" if isinstance(schema, str) and schema.endswith(END) else schema
    if isinstance(schema.get("description"), str):
        schema = {**schema, "description": cleandoc(schema["description"])}
    plain = {
        key: _published(each) for key, each in schema.items() if not isinstance(each, dict) or UNSTORED not in each
    }
    short = plain.pop(SHORT, None)
    if short is None:
        return plain
    about = {key: plain.pop(key) for key in ("default", "description", "title") if key in plain}
    return {"anyOf": [*(plain["anyOf"] if list(plain) == ["anyOf"] else [plain]), short], **about}
