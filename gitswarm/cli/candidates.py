"""What can stand where TAB is pressed. Imports next to nothing; whatever is wrong, there are no candidates."""

from __future__ import annotations

import os

from gitswarm.cli.command_table import ROOT, Command, Group

_RUN_REFS = "refs/heads/shadow/"
_VALUES = {
    "--run": "run",
    "-p": "run",
    "--from": "step",
    "--until": "step",
    "--engine": "engine",
    "--mode": "mode",
    "--format": "format",
    "--by": "by",
    "--strategy": "strategy",
}
_STEP = "%(trailers:key=Swarm-Step,valueonly)"
_FIXED = {
    "shell": ("bash", "zsh", "fish"),
    "format": ("md", "html", "json"),
    "by": ("step", "flow", "station", "engine", "model", "run"),
    "strategy": ("squash", "merge", "evidence"),
}


def write_candidates(line: list[str]) -> None:
    """One a line on stdout."""
    os.write(1, b"".join(os.fsencode(name) + b"\n" for name in candidates(line)))


def candidates(line: list[str]) -> list[str]:
    """
    :param line: the words behind `git swarm` up to the cursor; the last one is what is typed of the next.
    """
    *before, typed = line or [""]
    entry: Group | Command = ROOT
    while isinstance(entry, Group) and before:
        found = entry.entries.get(before.pop(0))
        if found is None:
            return []
        entry = found
    if isinstance(entry, Group):
        return _beginning(list(entry.entries), typed)
    if "--" in before:
        return []  # a command of somebody else
    options = entry.options.split()
    last = before[-1] if before else ""
    if f"{last}=" in options:
        kind = _VALUES.get(last, "")
        # Which steps a flow has, only its file says.
        return [] if (kind, entry.words) == ("step", "flow") else _beginning(_names(kind, before), typed)
    if typed.startswith("-"):
        return _beginning([*(name.removesuffix("=") for name in options), "--color", "--help"], typed)
    return _beginning([name for kind in entry.words.split() for name in _names(kind, before)], typed)


def _beginning(names: list[str], typed: str) -> list[str]:
    return [name for name in names if name.startswith(typed)]


def _names(kind: str, before: list[str]) -> list[str]:
    try:
        if kind == "run":
            return runs_here()
        if kind == "step":
            return _steps(before)
        if kind in ("flow", "station"):
            return _specs("stations" if kind == "station" else "")
    except OSError:
        return []
    if kind == "key" and any(not word.startswith("-") for word in before):
        return []
    return _ASKED[kind]() if kind in _ASKED else list(_FIXED.get(kind, ()))


def _engines() -> list[str]:
    """All that are installed: to look takes a tenth of a second, which nothing else may take."""
    from importlib.metadata import entry_points

    from gitswarm.engines.names import BUILT_IN, GROUP, id_of

    return [id_of(name) for name in dict.fromkeys([*BUILT_IN, *entry_points(group=GROUP).names])]


def _modes() -> list[str]:
    """The modes of the built-in engines; those of other engines are not known without importing them."""
    from gitswarm.engines.names import BUILT_IN, STUB

    return list(dict.fromkeys([STUB, *(mode for each in BUILT_IN.values() for mode in each.modes)]))


_KEYS = (
    *("commands.test", "commands.lint", "commands.smoke", "commands.tests", "worktree.dir", "worktree.paths"),
    *("worktree.copy", "worktree.setup", "worktree.setup_timeout", "routing.mode", "routing.navigator_timeout"),
    "policy.deny",
    *("policy.protected_paths", "policy.env", "policy.sandbox", "policy.sandbox_binds", "policy.network"),
    *("policy.allow_hosts", "policy.human", "secrets.patterns", "secrets.allow_paths", "hub", "deploy.target"),
    *("deploy.strategy", "deploy.push", "deploy.require_signature", "deploy.ci_timeout", "review.forge"),
    *("review.remote", "proof.max_time", "budget.max_cost_usd", "budget.max_tokens", "budget.max_time"),
    *("retention.days", "context.profile", "context.instructions", "context.wisdom", "durability"),
)
"""Of configuration, but for engines. Their models take longer to import than an answer may take."""


def config_keys() -> list[str]:
    """The keys of configuration; those of engines that are not built in are not among them."""
    from gitswarm.engines.names import BUILT_IN

    of_engines = [f"engines.{name}.{key}" for name, each in BUILT_IN.items() for key in each.keys]
    return ["engines.default", "engines.flows", "engines.steps", *of_engines, *_KEYS]


_ASKED = {"engine": _engines, "mode": _modes, "key": config_keys}


def _specs(folder: str) -> list[str]:
    """Bundled ones, and those of the checkout that we stand in."""
    package = os.path.dirname(os.path.dirname(__file__))
    checkout = _above(".git") or "."
    parents = (f"{package}/_bundled/flows", f"{os.path.dirname(package)}/flows", f"{checkout}/.swarm/flows")
    found: set[str] = set()
    for parent in parents:
        whole = os.path.join(parent, folder)
        if os.path.isdir(whole):
            found |= {name.removesuffix(".yaml") for name in os.listdir(whole) if name.endswith(".yaml")}
    return sorted(found)


def _above(name: str) -> str | None:
    """The next folder upwards that has something of this name in it."""
    folder = os.getcwd()
    while not os.path.exists(f"{folder}/{name}"):
        if folder == "/":
            return None
        folder = os.path.dirname(folder)
    return folder


def _common_dir() -> str | None:
    """The repository that we stand in, as its files say: git itself decides when a command is called."""
    checkout = _above(".git")
    if checkout is None:
        return None
    git_dir = _git_dir(checkout)
    shared = f"{git_dir}/commondir"
    return os.path.join(git_dir, _text(shared)) if os.path.exists(shared) else git_dir


def _git_dir(checkout: str) -> str:
    found = f"{checkout}/.git"
    return os.path.join(checkout, _text(found).removeprefix("gitdir: ")) if os.path.isfile(found) else found


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read().strip()


def runs_here() -> list[str]:
    """Ids of the runs that have a branch here, newest first; none where there is no repository."""
    try:
        repository = _common_dir()
        return _runs_of(repository) if repository is not None else []
    except OSError:
        return []


def _runs_of(repository: str) -> list[str]:
    found: set[str] = set()
    if os.path.isdir(f"{repository}/{_RUN_REFS}"):
        found |= set(os.listdir(f"{repository}/{_RUN_REFS}"))
    if os.path.exists(f"{repository}/packed-refs"):
        names = (line.rpartition(" ")[2] for line in _text(f"{repository}/packed-refs").split("\n"))
        found |= {name.removeprefix(_RUN_REFS) for name in names if name.startswith(_RUN_REFS)}
    return sorted((name for name in found if name.startswith("run-") and not name.endswith(".lock")), reverse=True)


def _steps(before: list[str]) -> list[str]:
    """The steps of the run that `--run` names, else of the one that we stand in, else of the newest."""
    named = before[before.index("--run") + 1] if "--run" in before[:-1] else _run_of_folder()
    run = next((name for name in runs_here() if named in name), "")
    if not run:
        return []
    # Without --git-dir: git refuses what belongs to somebody else.
    log = _git("log", "-n", "300", f"--format={_STEP}", f"shadow/{run}", "--")
    return list(dict.fromkeys(log.split()))


def _run_of_folder() -> str:
    head = f"{_git_dir(_above('.git') or '')}/HEAD"
    text = _text(head) if os.path.exists(head) else ""
    return text.partition(_RUN_REFS)[2]


def _git(*arguments: str) -> str:
    """Its output. Not by `subprocess`, whose import takes as long as all the rest."""
    taken, given = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, given, 1), (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
    argv = ["git", "--no-optional-locks", "-c", "log.showSignature=false", *arguments]
    process = os.posix_spawnp("git", argv, os.environ, file_actions=actions)
    os.close(given)
    with os.fdopen(taken, encoding="utf-8", errors="replace") as output:
        text = output.read()
    os.waitpid(process, 0)
    return text
