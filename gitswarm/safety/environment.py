"""The environment of agents and of the project's commands: nothing in it lets a program reach a remote."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

from gitswarm.git.object_reader import Person
from gitswarm.records.globs import is_named
from gitswarm.records.lazy_re import lazy_re
from gitswarm.records.text import words

_PASSED_ON = words("""
    PATH HOME USER LOGNAME SHELL PWD TERM COLORTERM COLUMNS LINES DISPLAY HOSTNAME
    LANG LANGUAGE LC_* TZ TMPDIR TMP TEMP XDG_* CI DEBUG NO_COLOR FORCE_COLOR
    *_proxy *_PROXY SSL_CERT_* REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS
    CC CXX LD AR AS *FLAGS *_PATH MAKE* CMAKE_* PKG_CONFIG* LD_* DYLD_* NIX_*
    PYTHON* VIRTUAL_ENV* CONDA_* PYENV_* PIP_* UV_* POETRY_* PDM_* HATCH_* TOX_* NOX_*
    PYTEST_* COVERAGE_* HYPOTHESIS_* DJANGO_* FLASK_* JUPYTER_* OMP_* MPL* CUDA_*
    NODE_* NPM_CONFIG_* npm_config_* NVM_* PNPM_* YARN_* BUN_* DENO_* COREPACK_* JEST_*
    GO* CGO_* CARGO_* RUST* JAVA_* JDK_* MAVEN_* M2_* GRADLE_* SDKMAN_* KOTLIN_*
    RUBY* GEM_* BUNDLE_* RBENV_* RAILS_* RACK_* PHP_* COMPOSER_* DOTNET_* NUGET_*
    PERL* LUA_* MIX_* HEX_* ERL_* GHC* STACK_* CABAL_* OPAM* ASDF_* MISE_*
    SWARM_* RUN_ID RUN_BASE SOURCE_DATE_EPOCH WSL* SYSTEMROOT __CF*
""")
_CREDENTIAL = lazy_re(
    r"(^|_)(API_?KEY|APIKEY|KEY|TOKEN|SECRETS?|PASS|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|AUTH|COOKIE)(_|$)|_KEY_ID$",
    re.IGNORECASE,
)

_OF_FORGES = words("""
    SSH_AUTH_SOCK SSH_AGENT_PID GH_TOKEN GITHUB_TOKEN GH_ENTERPRISE_TOKEN GITHUB_ENTERPRISE_TOKEN
    GITLAB_TOKEN GITLAB_ACCESS_TOKEN BITBUCKET_TOKEN CI_JOB_TOKEN
""")
_SETTINGS = (
    ("credential.helper", ""),  # empty: forgets every helper that was configured so far
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("core.logAllRefUpdates", "always"),  # by which it is known who moved a tag
)


def passed_on(env: Mapping[str, str], also: Sequence[str]) -> dict[str, str]:
    """What agents and the project's commands get of a person's environment: what tools are found and built by, but
    nothing that is named as a credential; and what the team lists.

    :param also: names or globs, `policy.env`.
    """
    return {name: value for name, value in env.items() if _is_usual(name) or is_named(name, tuple(also))}


@cache
def _is_usual(name: str) -> bool:
    return is_named(name, _PASSED_ON) and _CREDENTIAL.search(name) is None


def isolated_git(env: Mapping[str, str], identity: Person) -> dict[str, str]:
    """`env` in which git speaks to no remote, asks nobody, runs no hook and signs nothing.

    `GIT_ALLOW_PROTOCOL` also stops `push --no-verify` and `send-pack`; a program that takes it out of its environment
    is for the tool policy, one with a git library of its own for the sandbox.

    :param identity: author and committer of whatever a program commits in a repository of its own.
    """
    clean = {name: value for name, value in env.items() if not name.startswith("GIT_")}
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


def without_credentials(env: Mapping[str, str]) -> dict[str, str]:
    """`env` without what lets a program act on a forge as the user."""
    return {name: value for name, value in env.items() if name not in _OF_FORGES}
