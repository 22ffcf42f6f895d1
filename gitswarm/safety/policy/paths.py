"""Which paths an agent may write, delete and read, from where it works."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from msgspec import Struct, field

from gitswarm.records.globs import INSTRUCTION_FILES, gitignore
from gitswarm.records.lazy_re import lazy_re
from gitswarm.records.safety import Deny, PolicyRules
from gitswarm.safety.policy.shell_words import ShellWord
from gitswarm.safety.policy.table import deny, listed

_OF_THE_SHELL = listed("PATH PWD OLDPWD IFS SHLVL PPID UID EUID RANDOM SECONDS LINENO")

_INSTRUCTIONS = tuple(dict.fromkeys(PurePosixPath(name).name for name in INSTRUCTION_FILES))
_DEVICES = listed("/dev/null /dev/stdout /dev/stderr /dev/stdin /dev/tty /dev/zero /dev/full")
_SOCKETS = ("/dev/tcp/", "/dev/udp/")
_KEYS_AT_HOME = listed("""
    .ssh .gnupg .aws .azure .kube .netrc .git-credentials .pgpass .pypirc .npmrc .docker/config.json .config/gh
    .config/hub .config/glab-cli .config/gcloud .config/git/credentials .cargo/credentials .cargo/credentials.toml
    .gem/credentials .m2/settings.xml .gradle/gradle.properties .claude .claude.json .gemini .codex .vault-token
    .terraform.d .password-store .local/share/keyrings .mozilla .config/google-chrome .config/chromium .config/rclone
    .my.cnf .anthropic .config/anthropic .config/op .bash_history .zsh_history .python_history
""")
FOLDERS_OF_AGENTS = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME")
"""Variables that say where coding agents keep credentials and conversations, when not in the home."""
_KEYS_OF_SYSTEM = listed("""
    /etc/shadow /etc/gshadow /etc/sudoers /etc/ssh /etc/ssl/private /root/.ssh /run/secrets
""")
_KEY_NAMES = lazy_re(r"id_(rsa|dsa|ecdsa|ed25519)|.*\.(pem|p12|pfx|keystore|jks|kdbx)|\.env(\..+)?|authorized_keys")
_STARTUP = lazy_re(
    r"\.(bash|zsh|k?sh|csh|tcsh|fish|input|vim|emacs|screen|tmux|git|hg|curl|wget)(_?(profile|login|logout|aliases|env))?(rc|\.conf|config)?"
    r"|\.profile|\.zlogin|\.pam_environment|\.gitconfig|\.gitattributes|\.gitignore"
)


class Scope(Struct, frozen=True):
    """`worktree` is absolute and resolved. `run_base` (`.swarm/runs/<run>`) and `artifacts` are relative to it;
    `artifacts` are the files in RUN_BASE that the step may write. `tools`: the station's; empty: any.

    `aliases`: git's, name to value as configured. `temp`: folders for temporary files. `resolve` follows symlinks
    as far as a path exists (`Path.resolve`). `variables`: of the agent's environment, as far as they mean to a shell
    what they mean to every program.
    """

    worktree: Path
    run_base: str
    artifacts: frozenset[str]
    writes_code: bool
    tools: tuple[str, ...]
    rules: PolicyRules
    aliases: Mapping[str, str]
    home: Path
    temp: tuple[Path, ...]
    resolve: Callable[[Path], Path]
    variables: Mapping[str, str] = field(default_factory=dict)


class StationRights(Struct, frozen=True):
    """What a step's station may do; `artifacts` as in `Scope`."""

    artifacts: frozenset[str]
    writes_code: bool
    tools: tuple[str, ...]


class RunScope(Struct, frozen=True):
    """What the machine and the repository say; the same for all steps of a run."""

    worktree: Path
    run_base: str
    git_config: Mapping[str, str]
    env: Mapping[str, str]


def make_scope(run: RunScope, role: StationRights, rules: PolicyRules) -> Scope:
    """
    :param run: `git_config` holds entries by full name, of which those below `alias.` count; `env` is the agent's.
    """
    home = Path(run.env.get("HOME") or "/")
    named = run.env.get("TMPDIR")
    folders = [Path("/tmp"), Path("/var/tmp"), *([Path(named)] if named else [])]  # noqa: S108 - named, not used
    return Scope(
        worktree=run.worktree.resolve(),
        run_base=run.run_base,
        artifacts=role.artifacts,
        writes_code=role.writes_code,
        tools=role.tools,
        rules=rules,
        aliases={name[6:]: value for name, value in run.git_config.items() if name.lower().startswith("alias.")},
        home=home,
        temp=tuple(dict.fromkeys(folder.resolve() for folder in reversed(folders) if folder.is_absolute())),
        resolve=Path.resolve,
        variables={name: value for name, value in run.env.items() if name not in _OF_THE_SHELL},
    )


class ResolvedPath(Struct, frozen=True):
    """A path as it will be found. `path` is resolved up to its first glob; `rest` is what follows."""

    path: Path
    rest: str = ""

    @property
    def whole(self) -> PurePosixPath:
        return PurePosixPath(self.path, self.rest) if self.rest else PurePosixPath(self.path)


def resolved_paths(
    word: ShellWord, folders: frozenset[str] | None, scope: Scope, *, follows: bool = True
) -> list[ResolvedPath] | None:
    """Where `word` may lead from each of the folders; None: nobody can know. `follows`: a symlink at its end too."""
    text = word.text
    if text is None or "\0" in text:
        return None
    starts = frozenset({"/"}) if text.startswith("/") else folders
    if starts is None:
        return None
    fixed, rest = _split(text) if word.pattern else (text, "")
    if ".." in rest.split("/"):
        return None
    found = []
    for start in starts:
        try:
            whole = os.path.join(start, fixed)  # noqa: PTH118 - keeps `..`
            found.append(ResolvedPath(_resolved(whole, scope, follows=follows or bool(rest)), rest))
        except (OSError, ValueError, RuntimeError):
            return None
    return found


def _resolved(path: str, scope: Scope, *, follows: bool) -> Path:
    folder, name = os.path.split(path)
    if follows or name in ("", ".", ".."):
        return scope.resolve(Path(path))
    return scope.resolve(Path(folder)) / name


def _split(text: str) -> tuple[str, str]:
    """The folder in front of the first part with a glob, and the rest."""
    parts = text.split("/")
    first = next((at for at, part in enumerate(parts) if any(sign in part for sign in "*?[")), len(parts))
    fixed = "/".join(parts[:first])
    return (fixed or ("/" if text.startswith("/") else "."), "/".join(parts[first:]))


def write_problem(
    word: ShellWord, folders: frozenset[str] | None, scope: Scope, *, deletes: bool = False
) -> Deny | None:
    """Why this may not be written; None: it may. `deletes`: with everything below it."""
    if word.text is not None and word.text.startswith(_SOCKETS):
        return deny("reverse-shell", word.shown)
    if word.text in _DEVICES or (word.text or "").startswith("/dev/fd/"):
        return None
    found = resolved_paths(word, folders, scope, follows=not deletes)
    if found is None:
        return deny("outside-write", word.shown)
    return first(_path_problem(resolved, word.shown, scope, deletes=deletes) for resolved in found)


def _path_problem(resolved: ResolvedPath, shown: str, scope: Scope, *, deletes: bool) -> Deny | None:
    if not resolved.path.is_relative_to(scope.worktree):
        return _outside_problem(resolved, shown, scope)
    relative = resolved.whole.relative_to(scope.worktree)
    if deletes and (
        str(relative) == "." or (resolved.rest and resolved.path == scope.worktree and resolved.rest.strip("*") == "")
    ):
        return deny("delete-everything", shown)
    return inside_problem(relative, shown, scope, deletes=deletes)


def inside_problem(relative: PurePosixPath, shown: str, scope: Scope, *, deletes: bool) -> Deny | None:
    """`relative`: to the worktree; may hold globs."""
    parts = relative.parts
    if any(_may_be(part, ".git") for part in parts):
        return deny("git-internals", shown)
    own = str(relative) in scope.artifacts and not deletes
    if parts and _may_be(parts[0], ".swarm") and not own:
        return deny("swarm-files", shown)
    if protects(scope, relative, below=deletes) or (not own and _instructs_agents(relative, scope)):
        return deny("protected-path", shown)
    if not scope.writes_code and not own:
        return deny("read-only", shown)
    return None


def _may_be(part: str, name: str) -> bool:
    """Whether a part of a path with globs can be `name`; a leading dot matches no `*`."""
    part = part.lower()
    return part == name or (part[:1] in (".", "[") and fnmatchcase(name, part))


def protects(scope: Scope, relative: PurePosixPath, *, below: bool) -> bool:
    """Whether the project protects this path, or with `below` anything under it."""
    patterns = scope.rules.protected_paths
    if not patterns:
        return False
    path = str(relative)
    spec = gitignore(*patterns)
    if spec.match_file(path) or (below and (path == "." or spec.match_file(f"{path}/x"))):
        return True
    plain = [pattern.strip("/") for pattern in patterns if not pattern.startswith("!")]
    return any(fnmatchcase(pattern, path) or (below and pattern.startswith(f"{path}/")) for pattern in plain)


def _instructs_agents(relative: PurePosixPath, scope: Scope) -> bool:
    """Whether coding agents read this by themselves, in any folder; with globs, whether it hits such a file."""
    if relative.name.lower() in (name.lower() for name in _INSTRUCTIONS):
        return True
    hit = [name for name in _INSTRUCTIONS if fnmatchcase(name, relative.name)]
    return any((scope.worktree / relative.parent / name).exists() for name in hit)


def _outside_problem(resolved: ResolvedPath, shown: str, scope: Scope) -> Deny | None:
    if is_key(resolved, scope):
        return deny("key-file", shown)
    if any(resolved.path.is_relative_to(folder) for folder in scope.temp) and not _is_ours(resolved.path, scope):
        return deny("git-internals", shown) if ".git" in resolved.whole.parts else None
    if resolved.path.is_relative_to("/dev") and not resolved.path.is_relative_to("/dev/shm"):  # noqa: S108 - no device
        return deny("disk", shown)
    if resolved.path.parent == scope.home and _STARTUP.fullmatch(resolved.path.name):
        return deny("shell-startup", shown)
    return deny("outside-write", shown)


def _is_ours(path: Path, scope: Scope) -> bool:
    """Whether a path in a folder for temporary files belongs to the repository, which lies there too."""
    around = [folder for folder in scope.temp if path.is_relative_to(folder)]
    nearest = max(around, key=lambda folder: len(folder.parts), default=None)
    if nearest is None or not scope.worktree.is_relative_to(nearest) or path == nearest:
        return False
    mine = scope.worktree.relative_to(nearest).parts[0]
    return path.relative_to(nearest).parts[0] in (mine, mine.removesuffix(".swarm"))


def read_problem(word: ShellWord, folders: frozenset[str] | None, scope: Scope) -> Deny | None:
    """Why this may not be read; what cannot be known may."""
    text = word.text or word.start
    if text.startswith(_SOCKETS):
        return deny("reverse-shell", word.shown)
    found = resolved_paths(ShellWord(text, word.pattern), folders, scope) or []
    return deny("key-file", word.shown) if any(is_key(resolved, scope) for resolved in found) else None


def is_key(resolved: ResolvedPath, scope: Scope) -> bool:
    """Keys and credentials. The `.env` and test certificates of the project and of scratch copies are none."""
    if resolved.path.is_relative_to(scope.worktree) or _is_long_result(resolved):
        return False
    whole = resolved.whole
    named = (scope.variables.get(name, "") for name in FOLDERS_OF_AGENTS)
    keys = [
        *(scope.home / name for name in _KEYS_AT_HOME),
        *(Path(name) for name in _KEYS_OF_SYSTEM),
        *(scope.resolve(Path(folder)) for folder in named if folder.startswith("/")),
    ]
    if any(_within(whole, PurePosixPath(key)) for key in keys) or (
        whole.parts[1:2] == ("proc",) and whole.name == "environ"
    ):
        return True
    names = [_KEY_NAMES.fullmatch(whole.name) is not None, ".ssh" in whole.parts]
    others: list[str | Path] = ["/usr", "/opt", "/etc/ssl", "/nix", "/var", *scope.temp]
    return any(names) and not any(whole.is_relative_to(folder) for folder in others)


def _is_long_result(resolved: ResolvedPath) -> bool:
    """What Claude's CLI saves of a long result, for its agent to read by its full name, which nobody can guess."""
    parts = resolved.path.parts
    return not resolved.rest and parts[-5:-4] == ("projects",) and parts[-2] == "tool-results"


def _within(path: PurePosixPath, key: PurePosixPath) -> bool:
    """Whether `path`, which may hold globs, is `key` or lies in it."""
    if len(path.parts) < len(key.parts):
        return False
    return all(mine == its or fnmatchcase(its, mine) for mine, its in zip(path.parts, key.parts, strict=False))


def holds_keys(resolved: ResolvedPath, scope: Scope) -> bool:
    """Whether a folder is one of those that keys lie in or below: the home, or above it."""
    return resolved.path in (scope.home, *scope.home.parents)


def first(problems: Iterable[Deny | None]) -> Deny | None:
    return next((problem for problem in problems if problem is not None), None)
