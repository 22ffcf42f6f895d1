"""What is refused by its name, or by its name and first arguments; and the class of each refusal, with what to do
instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from msgspec import Struct

from gitswarm.records.safety import Deny


class RuleClass(Struct, frozen=True):
    rule: str
    stops: str
    instead: str


_ROWS = """
tool | a tool that the station was not given; a shell without a command | use one of the station's tools
git-push | sending commits anywhere | leave your work in the worktree; Deploy lands it after approval
git-network | asking or fetching from remotes | work with what is here: git log, git show, git branch -r
git-commit | making commits, merging, rebasing | commit nothing: every step is committed for you
git-refs | making, moving, deleting, checking out branches and tags | read with git show REV:PATH; files: git restore
git-reset | resets of more than the index | git restore PATH for files, git reset -- PATH for the index
git-stash | the stash, which all worktrees share | git diff > $TMPDIR/x.patch, later git apply
git-config | configuration, remotes and hooks | git config --get NAME reads; say in the handoff what should change
git-environment | variables that change what git does or may reach | call git without them
marker | changing SWARM_SESSION and the like | call the program with the environment as it is
git-worktree | adding repositories, worktrees and submodules | work in this worktree; scratch repositories: $TMPDIR
git-maintenance | rewriting or pruning the object store | leave that to git-swarm
git-clean | git clean of everything or of ignored files | git clean -n to look, rm PATH for a file
hosting | changing pull requests, issues, releases on a forge | write it into the handoff; Deploy does it
swarm-command | git-swarm's commands that change a run | git swarm status, log, show and diff read
nested-agent | starting other coding agents | do the work in this session
outside-write | writes and deletes outside of the worktree | write in the worktree, or in $TMPDIR
git-internals | writes into .git | use git's own commands
swarm-files | writes into .swarm but for the step's artifacts | write your artifacts in $RUN_BASE
protected-path | writes to paths that the project protects | say in the handoff what should change there
read-only | changes of code by a station that only reads it | write your finding into your artifact in $RUN_BASE
delete-everything | deleting the whole worktree or its whole top level | name what should go: rm -r build
key-file | keys, credentials, password stores | ask for what you need in the handoff
shell-startup | start-up files of shells and programs | set variables in front of the command
privileges | sudo and its relatives | work as the user you are; name missing packages in the handoff
disk | writing to devices, file systems, mounts | work with files in the worktree
processes | ending processes that are not yours | kill the id of a process that you started: kill $!
machine | shutting down, services, timers, users, owners of files | say in the handoff what the machine needs
remote-host | shells, copies and tunnels to other hosts | work on this machine
reverse-shell | network connections of the shell itself | curl or the project's own client
publish | publishing packages, images and sites | build and check only: npm pack, twine check; Deploy publishes
user-rule | what the project's own policy.deny forbids | see policy.deny in .swarm/config.yaml
"""
CLASSES: tuple[RuleClass, ...] = tuple(RuleClass(*row.split(" | ")) for row in _ROWS.strip().splitlines())
_BY_RULE = {each.rule: each for each in CLASSES}


def deny(rule: str, what: str, instead: str | None = None) -> Deny:
    """`what`: the thing that was refused, as it stands in the call."""
    each = _BY_RULE[rule]
    shown = what if len(what) <= 200 else f"{what[:200]}…"
    return Deny(rule, f"{shown}: {each.stops} is not allowed here", instead or each.instead)


def listed(text: str) -> frozenset[str]:
    """Names separated by blanks."""
    return frozenset(text.split())


def _phrases(text: str) -> Iterator[str]:
    """Beginnings of commands, separated by commas; `a|b c|d` are four."""
    for phrase in text.split(","):
        yield from (" ".join(words) for words in product(*(word.split("|") for word in phrase.split())))


REFUSED: Mapping[str, str] = {
    phrase: rule
    for rule, many in {
        "privileges": """
            sudo|su|doas|pkexec|sudoedit|visudo|gosu|su-exec|runuser|setcap|chroot|nsenter|unshare|newgrp
        """,
        "disk": """
            fdisk|sfdisk|cfdisk|gdisk|sgdisk|parted|mount|umount|losetup|mdadm|lvcreate|lvremove|wipefs|shred|swapon,
            swapoff|cryptsetup|badblocks|diskutil|debugfs|fsck|mknod|zpool|zfs|mkfs|mkfs.ext4|mkfs.xfs|mkfs.vfat
        """,
        "processes": "pkill|killall|killall5|skill|snice|fuser|xkill",
        "machine": """
            shutdown|reboot|halt|poweroff|telinit|at|useradd|userdel|usermod|groupadd|groupdel|passwd,
            chpasswd|chsh|adduser|deluser|iptables|nft|ufw|modprobe|insmod|rmmod|hostnamectl|timedatectl|chown|chgrp,
            chattr|setfacl|systemd-run|launchctl|sysctl|kexec|update-alternatives|dpkg-reconfigure|screen|tmux,
            brew services, npm config set, crontab -|-e|-r,
            systemctl start|stop|restart|reload|enable|disable|mask
        """,
        "remote-host": """
            ssh|scp|sftp|mosh|autossh|sshfs|ssh-copy-id|sshpass|telnet|ftp|lftp|rlogin|rsh|rcp|ngrok|cloudflared,
            chisel|frpc|socat|ncat|netcat|nc
        """,
        "key-file": """
            pass|gopass show|otp, security export|dump-keychain|find-generic-password|find-internet-password,
            gcloud auth print-access-token|print-identity-token|print-refresh-token, az account get-access-token,
            gcloud auth application-default print-access-token, op read, op item|document get, vault read,
            vault kv get, vault print token, secret-tool lookup, bw get, lpass show, heroku auth:token,
            aws configure get aws_secret_access_key|aws_session_token, aws configure export-credentials,
            aws sts get-session-token, aws ecr get-login-password, aws secretsmanager get-secret-value,
            doctl auth token, keyring get, gpg --export-secret-keys|--export-secret-subkeys
        """,
        "nested-agent": """
            claude|claude-code|gemini|gemini-cli|codex|aider|aider-chat|opencode|opencode-ai|cursor-agent|copilot|amp,
            qwen|qwen-code|auggie|openhands|openhands-ai|gptme|mini-swe-agent|cline, goose run|session|web
        """,
        "git-environment": "env -i|-|--ignore-environment",
        "git-push": "hg|sl|bzr|brz|fossil|darcs push, jj git push, svn commit|ci|import",
        "git-commit": """
            npm|yarn|pnpm|lerna version, bumpversion|bump2version|bump-my-version|standard-version, cz commit|bump,
            hg|jj commit
        """,
        "git-config": "pre-commit install|uninstall|init-templatedir, husky install|init, lefthook install|uninstall",
        "publish": """
            semantic-release|release-it|np|gh-pages|surge, vsce|ovsx|jsr|deno|lerna|changeset|rush publish,
            npm publish|unpublish|deprecate|dist-tag|owner|access|token|login|adduser, yarn|pnpm|bun publish|login,
            yarn npm publish|login, twine|maturin upload|register, flit|poetry|uv|hatch|pdm|maturin publish,
            cargo publish|yank|login|owner|release, gem push|yank|owner, rake release, pod trunk, mix hex.publish,
            docker|podman|buildah|nerdctl|oras|crane|helm|docker-compose push, docker|podman login, docker image push,
            docker compose push, docker buildx imagetools, skopeo|crane copy, mvn|mvnw deploy|release:perform,
            dotnet nuget push, nuget push, conan|luarocks|cabal|stack|anaconda upload, goreleaser release,
            mkdocs gh-deploy, vercel|netlify|firebase|wrangler|flyctl|fly|mike|eb|serverless|sls|sam|cdk deploy,
            vercel --prod, wrangler publish, gcloud app|run deploy, terraform|tofu apply|destroy, pulumi up|destroy,
            aws s3 cp|sync|rm, gsutil cp|rsync, kubectl apply|delete|create|replace|patch|edit|drain,
            helm install|upgrade|uninstall
        """,
    }.items()
    for phrase in _phrases(many)
}
LONGEST = max(len(phrase.split()) for phrase in REFUSED)
TELLS = listed("--version -v -V --help -h version")
"""Arguments with which, alone, every program only prints its version or help."""
OPTIONS_WITH_VALUE = listed("""
    --prefix --registry --workspace -w --filter -F -C --cwd --dir --manifest-path -f --file -p --package --profile
    --region --project --account --context --kubeconfig --namespace -n --address --vault --config -R --repo
""")
"""Of programs with subcommands: what follows is none."""
FORGES = listed("gh hub glab tea lab")
FORGE_READING = listed("""
    view list diff checks status show ls get watch download search issues prs code repos commits
""")
SWARM_READING = listed("""
    log show transcript diff status list path cost stats compare watch events report verify export flows stations
    engines policy why blame doctor schemas config completion wisdom help
""")
PLAIN = listed("""
    : [ basename cat cd cmp column comm cut date diff dirname echo egrep exit export expr false fgrep file fold grep
    head hostname id jq local ls nl nproc paste popd pushd pwd read realpath return rg seq set sleep stat tac tail
    test tr true type uname unset wait wc which whoami
""")
"""Programs that start no others and write nothing but their output."""
