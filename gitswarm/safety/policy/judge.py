"""The verdict on a shell command line: every program that it starts is held against every rule."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gitswarm.records.policy import Deny
from gitswarm.safety.policy.agents import agent_problem
from gitswarm.safety.policy.classes import deny
from gitswarm.safety.policy.environment import environment_problem
from gitswarm.safety.policy.file_rules import file_problem
from gitswarm.safety.policy.git_rules import judge_git, swarm_problem
from gitswarm.safety.policy.interpreters import one_liner
from gitswarm.safety.policy.listed import listed
from gitswarm.safety.policy.outputs import output_problem
from gitswarm.safety.policy.paths import first
from gitswarm.safety.policy.scope import Scope
from gitswarm.safety.policy.shell import Budget, commands
from gitswarm.safety.policy.state import Shell, first_shell
from gitswarm.safety.policy.system_rules import system_problem
from gitswarm.safety.policy.user_rules import user_problem
from gitswarm.safety.policy.values import Command, Refused, Word
from gitswarm.safety.policy.wrapper_tables import SHELLS
from gitswarm.safety.policy.wrappers import Inner, Script, inside

_NO_NAME = re.compile(r"[\s;&|<>()$`'\"\\]")
_RESERVED = listed("do done then else elif fi esac in while until for if case select function { } [[ ]]")
"""Where one of these begins a command, the grammar took for words what a shell reads as syntax."""
_EXPORTED = ("HOME", "TMPDIR", "RUN_BASE", "PATH")
_KEPT = SHELLS | listed("""
    git gh hub rm cp mv cd pushd popd command builtin eval exec exit env sudo xargs find tee sed source . test [ echo
    printf read set unset export kill trap curl wget ssh scp docker npm make python python3 node pip cargo go ls cat
    grep mkdir chmod ln dd tar
""")


class Judge:
    """One decision; nested command lines share its budget."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._budget = Budget()
        self._text = ""

    def line(self, text: str) -> Deny | None:
        """A whole command line, as an agent gives it."""
        self._text = text
        scope = self._scope
        known = {name: Word(value) for name, value in scope.variables.items()}
        known |= {"HOME": Word(str(scope.home)), "RUN_BASE": Word(str(scope.worktree / scope.run_base))}
        if scope.temp:
            known["TMPDIR"] = Word(str(scope.temp[0]))
        top = str(scope.worktree)
        return self._script(text, first_shell(top, frozenset({top}), known))

    def _script(self, text: str, shell: Shell) -> Deny | None:
        return first(self._found(each) for each in commands(text, shell, self._budget))

    def _found(self, each: Command | Refused) -> Deny | None:
        if isinstance(each, Refused):
            return self._refused(each)
        return self._command(each)

    def _refused(self, each: Refused) -> Deny | None:
        if each.rule == "shadowing" and each.what not in _KEPT:
            return None
        return deny(each.rule, each.what)

    def _inner(self, inner: Inner) -> Deny | None:
        if isinstance(inner, Refused):
            return self._refused(inner)
        if isinstance(inner, Command):
            self._budget.commands -= 1
            if self._budget.commands < 0 or self._budget.nesting <= 0:
                return deny("too-complex", "programs that start programs")
            self._budget.nesting -= 1
            problem = self._command(inner)
            self._budget.nesting += 1
            return problem
        command = inner.command
        variables = dict(command.variables) | dict(command.assigned)
        names = [*_EXPORTED, *self._scope.variables]
        if command.name == "trap":
            names += [name for name in variables if self._is_set_once(name)]
        exported = {name: variables.get(name, Word(None)) for name in names}
        shell = first_shell(str(self._scope.worktree), command.folders, exported)
        shell.input, shell.text = command.input, command.text
        return self._script(inner.text, shell)

    def _is_set_once(self, name: str) -> bool:
        """A trap runs later: what a variable is by then is known only of one that nothing else names."""
        return len(re.findall(rf"(?<![\w${{]){re.escape(name)}(?!\w)", self._text)) == 1

    def _command(self, command: Command) -> Deny | None:
        return first(self._problems(command))

    def _problems(self, command: Command) -> Iterator[Deny | None]:
        """What speaks against a command, the most telling first."""
        scope = self._scope
        environment = environment_problem(command, scope)
        yield self._inner(environment) if isinstance(environment, Script) else environment
        name = command.name
        if name in _RESERVED:
            yield deny("unparsed", f"a command that begins with {name}")
            return
        if name is None or (command.words and (name == "" or _NO_NAME.search(name))):
            yield deny("unknown-command", command.words[0].shown)
            return
        yield from (self._inner(inner) for inner in inside(command))
        yield user_problem(command, scope)
        if name == "git" or (name.startswith("git-") and name != "git-swarm"):
            yield self._git(command)
        if name in ("git-swarm", "gitswarm"):
            yield swarm_problem(command.arguments)
        yield agent_problem(command)
        yield system_problem(command, scope)
        yield from (self._inner(inner) for inner in one_liner(command))
        yield file_problem(command, scope)
        yield output_problem(command, scope)

    def _git(self, command: Command) -> Deny | None:
        """`git-push`, as it lies in git's own folder, is `git push`."""
        words = command.words
        if command.name != "git":
            words = (Word("git"), Word((command.name or "").removeprefix("git-")), *command.arguments)
            if command.name in _NOT_GIT:
                return None
        judged = judge_git(Command(words, folders=command.folders, variables=command.variables), self._scope)
        return judged if judged is None or isinstance(judged, Deny) else self._inner(judged)


_NOT_GIT = frozenset(
    {"git-clang-format", "git-cliff", "git-lfs-x", "git-town-x", "git-secrets", "git-filter-repo-x", "git-sizer"}
)
