"""The environment of agents and of the project's commands: nothing in it lets a program reach a remote."""

from __future__ import annotations

from collections.abc import Mapping

from gitswarm.git.commits import Person

_CREDENTIALS = frozenset(
    {
        "SSH_AUTH_SOCK",
        "SSH_AGENT_PID",
        "GH_TOKEN",
        "GITHUB_TOKEN",
        "GH_ENTERPRISE_TOKEN",
        "GITHUB_ENTERPRISE_TOKEN",
        "GITLAB_TOKEN",
        "GITLAB_ACCESS_TOKEN",
        "BITBUCKET_TOKEN",
        "CI_JOB_TOKEN",
    }
)
"""What lets a program act on a forge as the user."""

_SETTINGS = (
    ("credential.helper", ""),  # empty: forgets every helper that was configured so far
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
)


def walled(env: Mapping[str, str], identity: Person) -> dict[str, str]:
    """`env` in which git speaks to no remote, asks nobody, runs no hook and signs nothing.

    `GIT_ALLOW_PROTOCOL` also stops `push --no-verify` and `send-pack`; a program that takes it out of its environment
    is for the tool policy, one with a git library of its own for the sandbox.

    :param identity: author and committer of whatever a program commits in a repository of its own.
    """
    clean = {name: value for name, value in env.items() if name not in _CREDENTIALS and not name.startswith("GIT_")}
    settings = {"GIT_CONFIG_COUNT": str(len(_SETTINGS))}
    for number, (key, value) in enumerate(_SETTINGS):
        settings |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return {
        **clean,
        **settings,
        # The policy tells agents to use it, and judges by what it says.
        "TMPDIR": clean.get("TMPDIR") or "/tmp",  # noqa: S108
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "false",
        "SSH_ASKPASS": "false",
        "SSH_ASKPASS_REQUIRE": "never",
        "GIT_SSH_COMMAND": "false",
        "GIT_EDITOR": ":",
        "GIT_PAGER": "cat",
        "PAGER": "cat",
        "GIT_AUTHOR_NAME": identity.name,
        "GIT_AUTHOR_EMAIL": identity.email,
        "GIT_COMMITTER_NAME": identity.name,
        "GIT_COMMITTER_EMAIL": identity.email,
    }
