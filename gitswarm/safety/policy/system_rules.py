"""What concerns the machine, other hosts, registries and forges: judged by the program's name and its first arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from gitswarm.records.policy import Deny
from gitswarm.safety.policy.classes import deny
from gitswarm.safety.policy.options import Options, parse_options
from gitswarm.safety.policy.paths import places
from gitswarm.safety.policy.scope import Scope
from gitswarm.safety.policy.values import Command, Word

_PROGRAMS: Mapping[str, str] = {
    name: rule
    for rule, names in {
        "privileges": "sudo su doas pkexec sudoedit visudo gosu su-exec runuser setcap chroot nsenter runas gksudo kdesu sg newgrp",
        "disk": "fdisk sfdisk cfdisk gdisk sgdisk parted partprobe mount umount losetup mdadm lvcreate lvremove vgremove pvremove "
        "wipefs shred blkdiscard swapon swapoff cryptsetup badblocks hdparm diskutil debugfs fsck e2fsck resize2fs mknod zpool zfs srm wipe",
        "processes": "pkill killall killall5 skill snice fuser xkill slay",
        "machine": "shutdown reboot halt poweroff init telinit at batch useradd userdel usermod groupadd groupdel passwd chpasswd chsh "
        "adduser deluser iptables ip6tables nft ufw modprobe insmod rmmod hostnamectl timedatectl chown chgrp chattr setfacl "
        "update-rc.d systemd-run launchctl sysctl kexec crond update-alternatives dpkg-reconfigure screen tmux",
        "remote-host": "ssh scp sftp mosh autossh sshfs ssh-copy-id telnet ftp lftp ncftp rlogin rsh rcp ngrok cloudflared chisel frpc "
        "socat ncat netcat nc nc.openbsd nc.traditional cryptcat tor proxychains proxychains4 sshpass",
        "shadowing": "enable",
        "publish": "semantic-release release-it np lerna-publish goreleaser-release gh-pages surge vsce ovsx",
        "hidden-code": "bind",
    }.items()
    for name in names.split()
}
_BEGINNINGS: Mapping[str, tuple[str, ...]] = {
    "publish": (
        *("npm publish", "npm unpublish", "npm deprecate", "npm dist-tag", "npm owner", "npm access", "npm token", "npm login", "npm adduser"),
        *("yarn publish", "yarn npm publish", "yarn npm login", "yarn login", "pnpm publish", "pnpm login", "bun publish", "jsr publish", "deno publish"),
        *("lerna publish", "changeset publish", "nx release", "rush publish", "auto shipit", "vsce publish", "ovsx publish"),
        *("twine upload", "flit publish", "poetry publish", "uv publish", "hatch publish", "pdm publish", "maturin publish", "maturin upload"),
        *("setup.py upload", "setup.py register", "cargo publish", "cargo yank", "cargo login", "cargo owner", "cargo release"),
        *("gem push", "gem yank", "gem owner", "rake release", "pod trunk", "mix hex.publish", "hex publish", "dart pub publish", "flutter pub publish"),
        *("docker push", "docker login", "docker compose push", "docker-compose push", "docker buildx imagetools", "docker image push"),
        *("podman push", "podman login", "buildah push", "nerdctl push", "skopeo copy", "skopeo delete", "crane push", "crane copy", "oras push", "helm push", "ko publish"),
        *("mvn deploy", "mvnw deploy", "mvn release:perform", "mvn release:prepare", "mvn site:deploy", "mvn scm:checkin", "sbt publish", "sbt publishSigned"),
        *("gradle publish", "gradlew publish", "gradle publishPlugins", "gradlew publishPlugins", "gradle bintrayUpload", "gradle uploadArchives", "gradlew uploadArchives"),
        *("dotnet nuget push", "nuget push", "conan upload", "luarocks upload", "cabal upload", "stack upload", "goreleaser release", "anaconda upload"),
        *("mkdocs gh-deploy", "mike deploy", "vercel deploy", "netlify deploy", "firebase deploy", "wrangler deploy", "wrangler publish", "flyctl deploy", "fly deploy"),
        *("heroku container:push", "eas submit", "eb deploy", "gcloud app deploy", "gcloud run deploy", "serverless deploy", "sls deploy", "sam deploy", "cdk deploy"),
        *("terraform apply", "terraform destroy", "tofu apply", "tofu destroy", "pulumi up", "pulumi destroy", "aws s3 cp", "aws s3 sync", "aws s3 rm", "gsutil cp", "gsutil rsync"),
        *("kubectl apply", "kubectl delete", "kubectl create", "kubectl replace", "kubectl patch", "kubectl edit", "kubectl drain", "helm install", "helm upgrade", "helm uninstall"),
    ),
    "git-commit": ("npm version", "yarn version", "pnpm version", "bumpversion", "bump2version", "bump-my-version", "lerna version", "cz commit", "cz bump", "standard-version"),
    "git-config": ("pre-commit install", "pre-commit uninstall", "pre-commit init-templatedir", "husky install", "lefthook install", "lefthook uninstall", "husky init"),
    "machine": ("npm config set", "brew services", "rc-service", "rc-update"),
    "history": ("history -c", "history -d", "history -w", "history -r", "history -a", "set +o history", "shopt -uo history", "journalctl --vacuum"),
    "git-environment": ("export -n",),
}
_ASKING_SYSTEMCTL = frozenset({"status", "is-active", "is-enabled", "list-units", "list-unit-files", "show", "cat", "list-timers"})
_FORGE_READING = frozenset({"view", "list", "diff", "checks", "status", "show", "ls", "get", "watch", "download", "search", "issues", "prs", "code", "repos", "commits"})
_VALUES = frozenset({"--prefix", "--registry", "--workspace", "-w", "--filter", "-F", "-C", "--cwd", "--dir", "--manifest-path", "-f", "--file", "-p", "--package"})
_CONTAINERS = frozenset({"docker", "podman", "nerdctl"})
_CONTAINER_VALUES = Options("vuewpehml", frozenset({"--volume", "--mount", "--user", "--env", "--workdir", "--publish", "--network", "--net", "--pid", "--ipc", "--userns", "--cap-add", "--device", "--security-opt", "--name", "--entrypoint", "--platform", "--uts", "--volumes-from", "--env-file"}))
_ESCAPES = re.compile(r"--privileged|--device|--cap-add|--(pid|ipc|uts|userns|net|network)=host|--security-opt|--cgroup-parent|--volumes-from")


def system_problem(command: Command, scope: Scope) -> Deny | None:
    name = command.name or ""
    shown = " ".join(word.shown for word in command.words)
    if name in _CHECKS:
        return _CHECKS[name](command.arguments, shown)
    if name in _PROGRAMS:
        harmless = name in ("nc", "ncat", "netcat") and any(_asks(word) for word in command.arguments)
        return None if harmless else deny(_PROGRAMS[name], shown)
    if name.startswith("mkfs") or name in ("mke2fs", "newfs", "format"):
        return deny("disk", shown)
    if name in _CONTAINERS:
        problem = _container_problem(command, scope, shown)
        if problem is not None:
            return problem
    if name in ("rsync",) and any(re.match(r"[\w.@-]+::?|rsync://", word.shown) and not word.shown.startswith("-") for word in command.arguments if ":" in word.shown):
        return deny("remote-host", shown)
    if any("/dev/tcp/" in word.shown or "/dev/udp/" in word.shown for word in command.arguments) and name != "echo":
        return deny("reverse-shell", shown)
    return _beginning(command, shown)


def _asks(word: Word) -> bool:
    text = word.known or ""
    return text.startswith("-") and not text.startswith("--") and "z" in text


def _beginning(command: Command, shown: str) -> Deny | None:
    """Programs with subcommands, options left out."""
    name = command.name or ""
    texts = [name]
    skip = False
    for word in command.arguments[:12]:
        text = word.shown
        if skip:
            skip = False
        elif text.startswith("-"):
            skip = text in _VALUES
        else:
            texts.append(text)
    plain = f"{' '.join(texts)} "
    written = f"{name} {' '.join(word.shown for word in command.arguments)} "
    for rule, beginnings in _BEGINNINGS.items():
        for beginning in beginnings:
            if plain.startswith(f"{beginning} ") or written.startswith(f"{beginning} "):
                return deny(rule, shown)
    later = {text for text in texts[1:] if text.rpartition(":")[2] in ("publish", "deploy", "publishPlugins", "uploadArchives")}
    if name in ("mvn", "mvnw", "gradle", "gradlew", "sbt", "lein") and later:
        return deny("publish", shown)
    if name == "docker" and "--push" in written.split():
        return deny("publish", shown)
    rest = command.arguments
    if name in ("git-swarm", "gitswarm"):
        from gitswarm.safety.policy.git_rules import swarm_problem  # noqa: PLC0415 - it reads these rules as well

        return swarm_problem(rest)
    return None


def _kill(words: Sequence[Word], shown: str) -> Deny | None:
    """Only ids of processes that this shell started, or that are written out."""
    if any(word.known in ("-l", "-L", "--list") for word in words):
        return None
    signalled = words[:1] and (words[0].known or "").startswith("-") and words[0].known not in ("-1", "--") or False
    rest = list(words[1:] if signalled else words)
    if signalled and words[0].known in ("-s", "-n", "--signal"):
        rest = rest[1:]
    if signalled is False and words and words[0].known == "-1" and len(words) > 1:
        rest = list(words[1:])
    for word in rest:
        text = word.known
        if word.text is None or (text is not None and (text in ("0", "1") or text.startswith("-"))):
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
        sends = any((word.known or word.start).startswith(("-X", "--method", "-f", "-F", "--field", "--raw-field", "--input")) for word in words)
        return deny("hosting", shown) if sends or "graphql" in plain else None
    reads = plain[0] in ("help", "version", "status", "search") or plain[1:2] and plain[1] in _FORGE_READING or plain[:2] == ["auth", "status"]
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
}


def _container_problem(command: Command, scope: Scope, shown: str) -> Deny | None:
    words = command.arguments
    plain = [word.known for word in words if not word.shown.startswith("-")]
    if not {"run", "create", "exec"} & set(plain[:3]):
        return None
    parsed = parse_options(words, _CONTAINER_VALUES)
    for option, value in parsed.given:
        text = f"{option}={value.shown}" if value is not None else option
        if _ESCAPES.match(text):
            return deny("container", shown)
    mounts = [word for word in parsed.value("-v", "--volume") if word.shown.startswith((".", "/", "~")) or word.text is None]
    for word in parsed.value("--mount"):
        pairs = dict(part.partition("=")[::2] for part in word.shown.split(","))
        source = pairs.get("source") or pairs.get("src")
        if pairs.get("type", "bind") == "bind":
            mounts.append(Word(source) if word.known is not None and source else Word(None))
    for word in mounts:
        text = word.text if word.text is not None else None
        found = places(Word(text.partition(":")[0]), command.folders, scope) if text is not None else None
        allowed = (scope.worktree, *scope.temp)
        if found is None or not all(any(place.path.is_relative_to(one) for one in allowed) for place in found):
            return deny("container", shown)
    return None
