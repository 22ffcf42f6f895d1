"""What is refused by its name, or by its name and first arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product


def listed(text: str) -> frozenset[str]:
    """Names apart by blanks."""
    return frozenset(text.split())


def _phrases(text: str) -> Iterator[str]:
    """Beginnings of commands, apart by commas; `a|b c|d` are four."""
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
"""Arguments with which, alone, every program only tells about itself."""
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
    log show transcript diff status list path cost watch events report verify export flows stations engines policy
    why blame doctor schemas config completion wisdom
""")
PLAIN = listed("""
    : [ basename cat cd cmp column comm cut date diff dirname echo egrep exit export expr false fgrep file fold grep
    head hostname id jq local ls nl nproc paste popd pushd pwd read realpath return rg seq set sleep stat tac tail
    test tr true type uname unset wait wc which whoami
""")
"""Programs that start no others and write nothing but their output."""
