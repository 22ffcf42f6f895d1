"""What is known of a shell at one point of a command line."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gitswarm.safety.policy.values import UNKNOWN, Command, Input, Refused, Word

MOST_FOLDERS = 8
SYSTEM_PATH = "/usr/bin:/bin"
"""Stands for the PATH that the agent was given."""
MARKERS = frozenset({"SWARM_SESSION", "SWARM_STEP_OF", "SWARM_SIBLING"})
"""Every process that works for a run carries them; what lost them would outlive its session."""

Found = Iterator[Command | Refused]
"""The programs that a part of a command line starts, in order."""


@dataclass(slots=True)
class Shell:
    """`folders`: where it may stand; None: anywhere. `been`: everywhere that it stood, for `cd -` and `popd`.
    `functions` by name; `calling`: the functions that are being followed. `top`: of the worktree. `left`: it has
    ended, so that what holds in it holds for nothing that follows.
    """

    variables: dict[str, Word]
    folders: frozenset[str] | None
    top: str = ""
    been: frozenset[str] = frozenset()
    functions: dict[str, Callable[[Shell], Found]] = field(default_factory=dict)
    calling: frozenset[str] = frozenset()
    input: Input = Input.INHERITED
    text: str | None = None
    splits: bool = True
    nesting: int = 0
    names: tuple[Word, ...] = ()
    left: bool = False

    def copy(self) -> Shell:
        return Shell(
            dict(self.variables),
            self.folders,
            self.top,
            self.been,
            dict(self.functions),
            self.calling,
            self.input,
            self.text,
            self.splits,
            self.nesting,
            self.names,
            self.left,
        )

    def join(self, other: Shell) -> None:
        """Becomes what holds in both, as far as each goes on."""
        if other.left:
            return
        if self.left:
            self.left, self.variables, self.folders = False, dict(other.variables), other.folders
        names = self.variables.keys() & other.variables.keys()
        self.variables = {
            name: self.variables[name] for name in names if self.variables[name] == other.variables[name]
        }
        self.stand_in(None if self.folders is None or other.folders is None else self.folders | other.folders)
        self.been |= other.been
        self.functions |= other.functions
        self.splits = self.splits and other.splits

    def knows_as_much(self, other: Shell) -> bool:
        return self.variables == other.variables and self.folders == other.folders and self.splits == other.splits

    def assign(self, name: str, value: Word) -> None:
        if name == "IFS":
            self.splits = False
        if value == UNKNOWN:
            self.variables.pop(name, None)
        else:
            self.variables[name] = value

    def value(self, name: str) -> Word:
        if name == "PWD":
            return Word(next(iter(self.folders))) if self.folders is not None and len(self.folders) == 1 else UNKNOWN
        return self.variables.get(name, UNKNOWN)

    def forget(self, names: Iterable[str]) -> None:
        for name in names:
            self.assign(name, UNKNOWN)

    def stand_in(self, folders: frozenset[str] | None) -> None:
        known = folders is not None and len(folders) <= MOST_FOLDERS
        self.folders = folders if known else None
        self.been |= self.folders or frozenset()

    def command(self, words: tuple[Word, ...], assigned: tuple[tuple[str, Word], ...] = ()) -> Command:
        return Command(words, assigned, (), self.folders, self.input, self.text, self.variables, self.names)


def first_shell(top: str, folders: frozenset[str] | None, variables: Mapping[str, Word]) -> Shell:
    """A shell that was just started in one of `folders`, in the worktree at `top`."""
    return Shell({"PATH": Word(SYSTEM_PATH), **variables}, folders, top, folders or frozenset())


def follow(folders: frozenset[str] | None, target: str) -> frozenset[str] | None:
    """Where `cd target` leads from each folder, as shells count `..`."""
    if target.startswith("/"):
        return frozenset({os.path.normpath(target)})
    return None if folders is None else frozenset(os.path.normpath(os.path.join(one, target)) for one in folders)  # noqa: PTH118 - text, not files
