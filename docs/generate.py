"""The pages that are made of the code: python -m docs.generate, as `make docs` does. A test compares them."""
# ruff: noqa: INP001, T201

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, get_args

from docs.manual import man_page
from gitswarm.cli.app import command_function
from gitswarm.cli.arguments import Argument, Parameter, parameters
from gitswarm.cli.command_table import ROOT, Command, Group
from gitswarm.cli.schemas import SCHEMAS, schema_text

DOCS = Path(__file__).parent
SAMPLE = "docs/reference/config.yaml"
_MADE = "<!-- made by docs/generate.py: make docs -->\n"


def commands() -> str:
    """Every command with its arguments and options, as `-h` tells them."""
    lines = [
        "# Commands",
        "",
        _MADE,
        "`git swarm COMMAND -h` shows the same. What `RUN` and `STEP` may be, `--json`, exit codes:",
        "[daily work](../howto/daily.md#names).",
        "",
    ]
    for name, command in _all_commands(ROOT, "git swarm"):
        lines += [*_command(name, command), ""]
    return "\n".join(lines[:-1]) + "\n"


def _all_commands(group: Group, name: str) -> Iterator[tuple[str, Command]]:
    for word, entry in group.entries.items():
        if isinstance(entry, Group):
            yield from _all_commands(entry, f"{name} {word}")
        else:
            yield f"{name} {word}", entry


def _command(name: str, command: Command) -> Iterator[str]:
    called = command_function(command)
    declared = list(parameters(called))
    arguments = [each for each in declared if isinstance(each.marker, Argument)]
    options = [each for each in declared if each not in arguments]
    yield f"## {name}"
    yield ""
    yield from (
        _plain(line) for line in inspect.cleandoc(called.__doc__ or command.help).partition("\n:")[0].splitlines()
    )
    yield ""
    yield "```text"
    yield " ".join([name, *(["[OPTIONS]"] if options else []), *map(_placeholder, arguments)])
    yield "```"
    rows = [(_placeholder(each), each) for each in arguments] + [(_option(each), each) for each in options]
    if rows:
        yield ""
        yield from ("| | |", "|---|---|")
        yield from (f"| `{_cell(shown)}` | {_cell(each.marker.help)} |" for shown, each in rows)


def _placeholder(parameter: Parameter) -> str:
    name = parameter.marker.metavar or parameter.name.upper()
    shown = f"{name}…" if parameter.takes_all else name
    return shown if parameter.is_required else f"[{shown}]"


def _option(parameter: Parameter) -> str:
    names = ", ".join(sorted(parameter.names, key=len))
    return names if parameter.is_flag else f"{names} {parameter.marker.metavar or _kind(parameter)}"


def _kind(parameter: Parameter) -> str:
    """What stands for a value that has no name of its own: the choices, if there are some."""
    for kind in (parameter.type, *get_args(parameter.type)):
        if isinstance(kind, type) and issubclass(kind, Enum):
            return "|".join(str(each.value) for each in kind)
    return "NUMBER" if int in (parameter.type, *get_args(parameter.type)) else "TEXT"


def configuration() -> str:
    """The sample with its comments, and every key with its type and default."""
    lines = [
        "# Configuration",
        "",
        _MADE,
        "`.swarm/config.yaml` of the commit that a run starts from; `git config swarm.*` overrides it, the",
        "environment that, the command line all of them. Engines, commands, copies and setup are frozen when a run",
        "is created. An unknown key is an error.",
        "",
        "```yaml",
        (DOCS.parent / SAMPLE).read_text(encoding="utf-8").rstrip("\n"),
        "```",
        "",
        "Environment: `SWARM_CLAUDE_STEP_ENGINE_MODE`, `SWARM_CLAUDE_CLI`, `SWARM_GEMINI_STUB` (1: stub, 0: cli),",
        "`SWARM_GEMINI_CLI`, `SWARM_CODEX_STEP_ENGINE_MODE`, `SWARM_CODEX_CLI`, `SWARM_STUB_SCRIPT` (as `--script`),",
        "and what Claude Code itself reads ([engines](../engines.md)).",
        "",
        "## Every key",
        "",
        "| key | type | default |",
        "|---|---|---|",
        *(
            f"| `{key}` | {_cell(kind)} | {default} |"
            for key, kind, default in _keys(json.loads(schema_text("config")))
        ),
    ]
    return "\n".join(lines) + "\n"


def _keys(schema: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Dotted name, type and default of every key; sections are replaced by their keys."""

    def walk(
        properties: Mapping[str, Any], defaults: Mapping[str, Any], prefix: str
    ) -> Iterator[tuple[str, str, str]]:
        for name, field in properties.items():
            default = defaults.get(name, field.get("default"))
            inner = _section(field, schema["$defs"])
            if inner is not None:
                yield from walk(inner["properties"], default if isinstance(default, dict) else {}, f"{prefix}{name}.")
            else:
                yield (
                    f"{prefix}{name}",
                    _type(field, schema["$defs"]),
                    "-" if default is None else f"`{json.dumps(default)}`",
                )

    yield from walk(schema["properties"], {}, "")


def _section(field: Mapping[str, Any], known: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for each in (field, *field.get("anyOf", ())):
        found = known.get(str(each.get("$ref", "")).rpartition("/")[2])
        if found is not None and "properties" in found:
            return found
    return None


def _type(field: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """In few words: `integer`, `list of string`, `'auto' or 'off'`."""
    found = str(field.get("type", "any"))
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        found = name if "properties" in known[name] else _type(known[name], known)
    elif "enum" in field or "const" in field:
        found = " or ".join(f"`{value}`" for value in field.get("enum", [field.get("const")]))
    elif "anyOf" in field:
        found = " or ".join(
            dict.fromkeys(_type(each, known) for each in field["anyOf"] if each.get("type") != "null")
        )
    elif found == "array" and field.get("items"):
        found = f"list of {_type(field['items'], known)}"
    elif found == "object":
        inner = field.get("additionalProperties")
        found = f"map to {_type(inner, known)}" if isinstance(inner, dict) else "map"
    return found


def files() -> str:
    """What people write and what a run stores, with the schema of each."""
    lines = [
        "# Files and schemas",
        "",
        _MADE,
        "JSON schemas of everything that people write and that a run stores; `git swarm schemas FOLDER` writes those",
        "of your version. In the first line of a flow: `# yaml-language-server: $schema=PATH/flow.json`. Where each",
        "file is: [contracts](../contracts.md).",
        "",
        "| schema | describes |",
        "|---|---|",
    ]
    for name in SCHEMAS:
        schema = json.loads(schema_text(name))
        about = str(schema.get("description", schema.get("title", ""))).partition("\n\n")[0]
        first = re.split(r"(?<=[.])\s", about)[0]
        lines.append(f"| [{name}](../schemas/{name}.json) | {_cell(first)} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return _plain(" ".join(text.split())).replace("|", "\\|")


def _plain(text: str) -> str:
    """What looks like HTML is none, but for code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;") for part in parts)


PAGES: Mapping[str, Callable[[], str]] = {
    "reference/commands.md": commands,
    "reference/configuration.md": configuration,
    "reference/files.md": files,
    "man/git-swarm.1": man_page,
}

if __name__ == "__main__":
    for page, text in PAGES.items():
        (DOCS / page).write_text(text(), encoding="utf-8")
        print(f"docs/{page}")
