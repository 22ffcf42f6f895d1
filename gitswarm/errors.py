"""Every error that a user may see, as a tree.

SwarmError                 exit 1: what went wrong, and the next command to type
├── UsageError             exit 2
├── NotARepositoryError, UnsupportedRepositoryError
├── SpecError              a flow, station, script or config file, with its place
├── NotFoundError          no such run, step, flow …
├── RunHeldError           another live process owns the run
├── FencedError            exit 75: somebody else took the run over on the hub
├── RefMovedError          a compare-and-swap lost
├── GitFailedError         git said no
├── CorruptError           something stored is not what we wrote
├── StorageError           the disk is full, read-only or closed to us
├── SetupFailedError       the worktree could not be prepared
└── EngineMissingError     an engine is not on this machine, too old, or not told where its provider is
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


class FencedError(SwarmError):
    """Not to be tried again by whoever started us: another process continues the run."""

    exit_code = 75


class RefMovedError(SwarmError):
    pass


class GitFailedError(SwarmError):
    pass


class CorruptError(SwarmError):
    pass


class StorageError(SwarmError):
    pass


class SetupFailedError(SwarmError):
    pass


class EngineMissingError(SwarmError):
    pass


class NoSuchModeError(UsageError):
    """`mode`: one that the engine has."""

    def __init__(self, message: str, mode: str) -> None:
        super().__init__(message, hint=f"git swarm start FLOW --mode {mode}")
        self.mode = mode


AGAIN = "the same command again"
"""In hints, where the command line stands in the end; or what a note on the error says: how its run continues."""
_FULL = f"{AGAIN}   (when there is room again: df -h)"
_CLOSED = f"{AGAIN}   (when this user may write there again)"
_STORAGE_FAULTS = {
    "no space left on device": ("the disk is full", _FULL),
    "out of diskspace": ("the disk is full", _FULL),
    "disk quota exceeded": ("your disk quota is used up", _FULL),
    "file too large": ("a file may not grow that large", _FULL),
    "read-only file system": ("the file system is read-only", _CLOSED),
    "permission denied": ("permission denied", _CLOSED),
    "operation not permitted": ("permission denied", _CLOSED),
}


def is_storage_fault(message: str) -> bool:
    """Whether the system's own words say that the place, not the program, is the problem."""
    return any(words in message.lower() for words in _STORAGE_FAULTS)


def storage_error(message: str) -> StorageError:
    """The error for a write that the system refused with these words."""
    for words, (title, hint) in _STORAGE_FAULTS.items():
        if words in message.lower():
            return StorageError(f"{title}: {message}", hint=hint)
    return StorageError(message, hint=f"{AGAIN}   (when that is fixed)")


class RunInterruptedError(BaseException):
    """Ctrl-C or SIGTERM while a step was executing: its journal stays, `resume` salvages it."""
