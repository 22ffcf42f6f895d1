"""Asking a test command for a report that names its tests.

| command                         | asked by                                           | read from  |
|---------------------------------|----------------------------------------------------|------------|
| anything that may call pytest   | `PYTEST_ADDOPTS`: `--junitxml`, family xunit1      | the folder |
| `jest …`, `vitest …`            | arguments: the JSON report                         | the folder |
| `node --test …`                 | arguments: the reporters tap (to stdout) and junit | the folder |
| `npm test` for `… node --test`  | `NODE_OPTIONS`: the same                           | the folder |
| `go test …`                     | argument: `-json`                                  | the output |
| anything that may call          | `GOTESTSUM_JSONFILE`                               | the folder |
| gotestsum                       |                                                    |            |
| anything that may call nextest  | `NEXTEST_STATUS_LEVEL=all`: it prints every name   | the output |
| `cargo test …`                  | nothing: it prints every name                      | the output |

pytest expands variables in the path of its report, so one script that calls it in several folders leaves a file for
each. Two calls in one folder leave the second; `read_run` sees that by the output, and says so.
Arguments are added to one known program only. A command that names a report of its own keeps it, and is not asked.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from msgspec import Struct

from gitswarm.evidence.test_command import TestCommand, npm_script, read_command


class ReportRequest(Struct, frozen=True):
    """
    :ivar environment: to be set for the command.
    :ivar argv: to be started in its place; None: the command as it is.
    """

    environment: Mapping[str, str]
    argv: tuple[str, ...] | None = None


def request_report(
    command: str | Sequence[str], folder: str, environment: Mapping[str, str], scripts: Mapping[str, str]
) -> ReportRequest:
    """How to run `command` so that every file below `folder` is a report of it, or its output is one.

    A program that is too old for what it is asked ends at once and leaves neither a report nor readable output; such
    a run has to be made again as it stands.

    :param command: a line for a shell, or the words of a program.
    :param folder: absolute, outside of the worktree; exists, and is empty.
    :param environment: the command's; what its variables ask already is kept.
    :param scripts: of the package.json where it runs.
    """
    known = read_command(command, scripts)
    if known is None:
        script = npm_script(command, scripts)
        return ReportRequest(_unseen(folder, environment) | (_node_options(script or "", folder, environment)))
    arguments = _arguments(known, folder)
    if arguments is not None:
        return ReportRequest({}, (*known.before, *arguments))
    if known.runner in {"pytest", "gotestsum", "nextest"}:
        return ReportRequest(_unseen(folder, environment))
    return ReportRequest({})


def _unseen(folder: str, environment: Mapping[str, str]) -> dict[str, str]:
    """For programs that a command may call: variables that nobody else reads."""
    given = environment.get("PYTEST_ADDOPTS", "")
    file = f"--junitxml={shlex.quote(folder)}/$PWD/pytest.xml"
    asked = {"PYTEST_ADDOPTS": f"{given} -o junit_family=xunit1 {file}".strip()}
    if "GOTESTSUM_JSONFILE" not in environment:
        asked["GOTESTSUM_JSONFILE"] = f"{folder}/gotestsum.jsonl"
    if "NEXTEST_STATUS_LEVEL" not in environment:
        asked["NEXTEST_STATUS_LEVEL"] = "all"
    return asked


def _arguments(command: TestCommand, folder: str) -> tuple[str, ...] | None:
    """The program's arguments with those that ask; None where it is asked by variables, or not at all."""
    given = command.arguments
    if command.runner == "go":
        return None if _has(given, "-json", "-c", "-list") else ("-json", *given)
    if command.runner == "node":
        return None if _has(given, "--test-reporter") else (*_reporters(folder), *given)
    if "--" in given:
        return None
    if command.runner == "jest" and not _has(given, "--json", "--outputFile", "--watch", "--listTests"):
        return (*given, "--json", f"--outputFile={folder}/jest.json")
    if command.runner == "vitest" and not _has(given, "--reporter", "--outputFile", "--watch", "-w", "list", "bench"):
        return (*given, "--reporter=default", "--reporter=json", f"--outputFile.json={folder}/vitest.json")
    return None


def _has(arguments: Sequence[str], *options: str) -> bool:
    return any(word.split("=", 1)[0].split(".", 1)[0] in options for word in arguments)


def _reporters(folder: str) -> tuple[str, ...]:
    """Each reporter needs a destination; tap on stdout is what is read where there is no file."""
    return (
        "--test-reporter=tap",
        "--test-reporter-destination=stdout",
        "--test-reporter=junit",
        f"--test-reporter-destination={folder}/node.xml",
    )


def _node_options(script: str, folder: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Reporters add up, and their number has to be that of the destinations: nobody else may ask for one."""
    given = environment.get("NODE_OPTIONS", "")
    words = script.replace("&&", " ").split()
    if "--test" not in words or "--test-reporter" in f"{script} {given}" or any(mark in folder for mark in ' "\\'):
        return {}
    return {"NODE_OPTIONS": " ".join(filter(None, (given, *_reporters(folder))))}
