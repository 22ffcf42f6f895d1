"""Every error that a user may see, as a tree.

SwarmError                 exit 1: what went wrong, and the next command to type
├── UsageError             exit 2
├── NotARepositoryError, UnsupportedRepositoryError
├── SpecError              a flow, station, script or config file, with its place
├── NotFoundError          no such run, step, flow …
├── RunHeldError           another live process owns the run
├── RefMovedError          a compare-and-swap lost
├── GitFailedError         git said no
└── SetupFailedError       the worktree could not be prepared
RunInterruptedError        exit 130; a BaseException, so that nothing on the way treats it as a failure
"""

from __future__ import annotations


class SwarmError(Exception):
    """An expected failure: one line for people, and a hint that names the next command."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(SwarmError):
    exit_code = 2


class NotARepositoryError(SwarmError):
    pass


class UnsupportedRepositoryError(SwarmError):
    pass


class SpecError(SwarmError):
    """A file that a person wrote is wrong. `problems` are complete lines, `file:line: what`."""

    def __init__(self, problems: list[str], *, hint: str = "") -> None:
        super().__init__("\n".join(problems), hint=hint)
        self.problems = problems


class NotFoundError(SwarmError):
    pass


class RunHeldError(SwarmError):
    pass


class RefMovedError(SwarmError):
    pass


class GitFailedError(SwarmError):
    pass


class SetupFailedError(SwarmError):
    pass


class RunInterruptedError(BaseException):
    """Ctrl-C or SIGTERM while a step was executing: its journal stays, `resume` salvages it."""
