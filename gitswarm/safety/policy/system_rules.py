"""What concerns the machine, other hosts, registries and forges."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from gitswarm.records.policy import Deny
from gitswarm.safety.policy.classes import deny
from gitswarm.safety.policy.credentials import hands_out_credentials
from gitswarm.safety.policy.listed import listed
from gitswarm.safety.policy.options import Options, Parsed, parse_options
from gitswarm.safety.policy.paths import places
from gitswarm.safety.policy.scope import Scope
from gitswarm.safety.policy.system_tables import BEGINNINGS, PROGRAMS
from gitswarm.safety.policy.values import PARENT, UNKNOWN, Command, Word

_ASKING_SYSTEMCTL = frozenset(
    {"status", "is-active", "is-enabled", "list-units", "list-unit-files", "show", "cat", "list-timers"}
)
_TRYING = {
    **dict.fromkeys(("npm", "pnpm", "uv", "poetry"), ("--dry-run",)),
    "cargo": ("--dry-run", "-n"),
}
_FORGE_READING = listed("""
    view list diff checks status show ls get watch download search issues prs code repos commits
""")
_VALUES = listed("""
    --prefix --registry --workspace -w --filter -F -C --cwd --dir --manifest-path -f --file -p --package
""")
_VALUES_OF_CLOUDS = _VALUES | listed("""
    --profile --region --project --account --context --kubeconfig --namespace -n --address --vault --subscription
""")
_BEGINNERS = frozenset(each.split()[0] for beginnings in BEGINNINGS.values() for each in beginnings)
_NETCATS = frozenset({"nc", "ncat", "netcat"})
_BUILDS = frozenset({"mvn", "mvnw", "gradle", "gradlew", "sbt", "lein"})
_PUBLISHING = frozenset({"publish", "deploy", "publishPlugins", "uploadArchives"})
_HOST = re.compile(r"(?!-)[\w.@-]+:|rsync://")
_CONTAINERS = frozenset({"docker", "podman", "nerdctl"})
_CONTAINER_VALUES = Options(
    "vuewpehml",
    listed("""
        --volume --mount --user --env --workdir --publish --network --net --pid --ipc --userns --cap-add --device
        --security-opt --name --entrypoint --platform --uts --volumes-from --env-file
    """),
)
_ESCAPES = re.compile(
    r"--privileged|--device|--cap-add|--(pid|ipc|uts|userns|net|network)=host|--security-opt|--cgroup-parent|--volumes-from"
)


def system_problem(command: Command, scope: Scope) -> Deny | None:
    name = command.name or ""
    shown = " ".join(word.shown for word in command.words)
    if name in _CHECKS:
        return _CHECKS[name](command.arguments, shown)
    if name in _CONTAINERS and _leaves_its_box(command, scope):
        return deny("container", shown)
    if hands_out_credentials(command, _plain(command, _VALUES_OF_CLOUDS)):
        return deny("key-file", shown)
    rule = _by_name(command) or _by_addresses(command) or _by_beginning(command) or _publishes(command)
    return deny(rule, shown) if rule is not None else None


def _by_name(command: Command) -> str | None:
    name = command.name or ""
    only_asks = name in _NETCATS and any(_asks(word) for word in command.arguments)
    if name.startswith("mkfs"):
        return "disk"
    return None if only_asks else PROGRAMS.get(name)


def _asks(word: Word) -> bool:
    """`nc -z` only looks whether a port is open."""
    text = word.known or ""
    return text.startswith("-") and not text.startswith("--") and "z" in text


def _by_addresses(command: Command) -> str | None:
    texts = [word.shown for word in command.arguments]
    if command.name == "rsync" and any(_HOST.match(text) for text in texts):
        return "remote-host"
    sockets = any("/dev/tcp/" in text or "/dev/udp/" in text for text in texts)
    return "reverse-shell" if sockets and command.name != "echo" else None


def _by_beginning(command: Command) -> str | None:
    """Programs with subcommands, as they are written and with their options left out."""
    if command.name not in _BEGINNERS or _only_tries(command):
        return None
    written = f"{command.name} {' '.join(word.shown for word in command.arguments)} "
    plain = f"{' '.join(_plain(command))} "
    clouds = f"{' '.join(_plain(command, _VALUES_OF_CLOUDS))} "
    for rule, beginnings in BEGINNINGS.items():
        if any(text.startswith(f"{beginning} ") for beginning in beginnings for text in (plain, clouds, written)):
            return rule
    return None


def _only_tries(command: Command) -> bool:
    """`npm publish --dry-run`, and `npm version` that only tells."""
    texts = [word.known for word in command.arguments]
    if command.name in ("npm", "pnpm", "yarn") and texts in (["version"], ["version", "--json"]):
        return command.name == "npm"
    options = _TRYING.get(command.name or "", ())
    verbs = [text for text in texts if text is not None and not text.startswith("-")]
    last = len(texts) - 1
    tries = any(text in options and (at == last or texts[at + 1] != "false") for at, text in enumerate(texts))
    overruled = any(text is None or text.startswith(("--dry-run=", "--no-dry-run")) for text in texts)
    return verbs[:1] == ["publish"] and tries and not overruled


def _plain(command: Command, values: frozenset[str] = _VALUES) -> list[str]:
    """The name and the first arguments that are no options."""
    texts = [command.name or ""]
    skip = False
    for word in command.arguments[:12]:
        text = word.shown
        if not skip and not text.startswith("-"):
            texts.append(text)
        skip = not skip and text in values
    return texts


def _publishes(command: Command) -> str | None:
    """Builds that publish when one of their goals says so, wherever it stands."""
    name, *texts = _plain(command)
    goals = {text.rpartition(":")[2] for text in texts}
    if name in _BUILDS and goals & _PUBLISHING:
        return "publish"
    if name.startswith("python") and "setup.py" in texts and {"upload", "register"} & set(texts):
        return "publish"
    if name == "vercel":
        told = {word.known for word in command.arguments} & {"--version", "-v", "--help", "-h"}
        return "publish" if not told and (not texts or "/" in texts[0] or texts[0] == ".") else None
    pushes = name in _CONTAINERS and any(word.known == "--push" for word in command.arguments)
    return "publish" if pushes else None


def _kill(words: Sequence[Word], shown: str) -> Deny | None:
    """Only ids of processes that this shell started, or that are written out."""
    if any(word.known in ("-l", "-L", "--list") for word in words):
        return None
    signalled = (words[:1] and (words[0].known or "").startswith("-") and words[0].known not in ("-1", "--")) or False
    rest = list(words[1:] if signalled else words)
    if signalled and words[0].known in ("-s", "-n", "--signal"):
        rest = rest[1:]
    if signalled is False and words and words[0].known == "-1" and len(words) > 1:
        rest = list(words[1:])
    for word in rest:
        text = word.known
        if (
            word.text is None
            or PARENT.shown in word.text
            or (text is not None and (text in ("0", "1") or text.startswith("-")))
        ):
            return deny("processes", shown)
    return None


def _systemctl(words: Sequence[Word], shown: str) -> Deny | None:
    plain = [word.known for word in words if not word.shown.startswith("-")]
    return None if plain and plain[0] in _ASKING_SYSTEMCTL else deny("machine", shown)


def _service(words: Sequence[Word], shown: str) -> Deny | None:
    return None if words and words[-1].known in ("status", "--status-all") else deny("machine", shown)


def _crontab(words: Sequence[Word], shown: str) -> Deny | None:
    return None if [word.known for word in words] == ["-l"] else deny("machine", shown)


def _forge(words: Sequence[Word], shown: str) -> Deny | None:
    """gh, hub, glab, tea: what only reads."""
    plain = [word.known or "" for word in words if not word.shown.startswith("-")]
    if not words or not plain or {"--help", "-h", "--version"} & {word.known for word in words}:
        return None
    if plain[0] == "api":
        sends = any(
            (word.known or word.start).startswith(("-X", "--method", "-f", "-F", "--field", "--raw-field", "--input"))
            for word in words
        )
        return deny("hosting", shown) if sends or "graphql" in plain else None
    reads = (
        plain[0] in ("help", "version", "status", "search")
        or (plain[1:2] and plain[1] in _FORGE_READING)
        or plain[:2] == ["auth", "status"]
    )
    return None if reads else deny("hosting", shown)


def _history(words: Sequence[Word], shown: str) -> Deny | None:
    return deny("history", shown) if any(word.shown.startswith("-") for word in words) else None


def _alias(words: Sequence[Word], shown: str) -> Deny | None:
    defines = any(word.text is None or "=" in word.text for word in words)
    return deny("shadowing", shown, "write the command itself") if defines else None


def _hash(words: Sequence[Word], shown: str) -> Deny | None:
    return deny("shadowing", shown) if any((word.known or "-p").startswith("-p") for word in words) else None


def _source(words: Sequence[Word], shown: str) -> Deny | None:
    file = words[0].text if words else None
    piped = file is not None and file.startswith(("/dev/fd/", "/dev/stdin", "/proc/self/fd"))
    return deny("pipe-to-shell", shown) if piped else None


def _complete(words: Sequence[Word], shown: str) -> Deny | None:
    return deny("hidden-code", shown) if any((word.known or "-C") in ("-C", "-F") for word in words) else None


_CHECKS: Mapping[str, Callable[[Sequence[Word], str], Deny | None]] = {
    "kill": _kill,
    "systemctl": _systemctl,
    "service": _service,
    "crontab": _crontab,
    **dict.fromkeys(("gh", "hub", "glab", "tea", "lab"), _forge),
    "history": _history,
    "alias": _alias,
    "hash": _hash,
    "source": _source,
    ".": _source,
    "complete": _complete,
    "compgen": _complete,
}


def _leaves_its_box(command: Command, scope: Scope) -> bool:
    """A container that shares the machine's devices, namespaces, or folders that are not the worktree's."""
    words = command.arguments
    plain = [word.known for word in words if not word.shown.startswith("-")]
    if not {"run", "create", "exec"} & set(plain[:3]):
        return False
    parsed = parse_options(words, _CONTAINER_VALUES)
    if any(_ESCAPES.match(f"{option}={value.shown}" if value else option) for option, value in parsed.given):
        return True
    return not all(_is_own(word, command, scope) for word in _mounted(parsed))


def _mounted(parsed: Parsed) -> Iterator[Word]:
    """Folders of this machine; named volumes are none."""
    for word in parsed.value("-v", "--volume"):
        if word.text is None or word.text.startswith((".", "/", "~")):
            yield Word(word.text.partition(":")[0]) if word.text is not None else UNKNOWN
    for word in parsed.value("--mount"):
        pairs = dict(part.partition("=")[::2] for part in word.shown.split(","))
        source = pairs.get("source") or pairs.get("src")
        if pairs.get("type", "bind") == "bind":
            yield Word(source) if word.known is not None and source else UNKNOWN


def _is_own(word: Word, command: Command, scope: Scope) -> bool:
    found = places(word, command.folders, scope)
    own = (scope.worktree, *scope.temp)
    return found is not None and all(any(place.path.is_relative_to(one) for one in own) for place in found)
