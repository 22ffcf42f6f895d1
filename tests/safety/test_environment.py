"""What git can do in the environment of an agent: everything at home, nothing with a remote."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from gitswarm.git.object_reader import Person
from gitswarm.safety.environment import isolated_git, passed_on
from tests.conftest import Project

AGENT = Person("code-implementer", "code-implementer@git-swarm.invalid")
LEAVES_A_TRACE = '#!/bin/sh\ntouch "$SWARM_TRACE"\n'


def as_agent(project: Project, line: str, **extra: str) -> subprocess.CompletedProcess[str]:
    env = isolated_git(passed_on({**project.env, **extra}, ()), AGENT)
    return subprocess.run(
        ["sh", "-c", line], cwd=project.root, env=env, capture_output=True, text=True, check=False, timeout=30
    )


@pytest.fixture
def remote(project: Project) -> Path:
    """A bare repository that is the project's `origin`."""
    path = project.root.parent / "origin.git"
    project.git("init", "-q", "--bare", str(path))
    project.git("remote", "add", "origin", str(path))
    return path


def refs(remote: Path, project: Project) -> str:
    return project.git("for-each-ref", cwd=remote)


PUSHES = {
    "by name": "git push origin HEAD:refs/heads/x",
    "without its hook": "git push --no-verify origin HEAD:refs/heads/x",
    "by path": "git push ../origin.git HEAD:refs/heads/x",
    "by URL": "git push file://$PWD/../origin.git HEAD:refs/heads/x",
    "everything": "git push --mirror origin",
    "the plumbing": "git send-pack ../origin.git HEAD:refs/heads/x",
    "protocol allowed on the command line": "git -c protocol.allow=always push origin HEAD:refs/heads/x",
    "file allowed on the command line": "git -c protocol.file.allow=always push origin HEAD:refs/heads/x",
    "another push URL": "git -c remote.origin.pushurl=../origin.git push origin HEAD:refs/heads/x",
    "from elsewhere": "cd / && git -C $OLDPWD push origin HEAD:refs/heads/x",
}


@pytest.mark.parametrize("push", PUSHES.values(), ids=PUSHES)
def test_no_push_arrives(project: Project, remote: Path, push: str) -> None:
    done = as_agent(project, push)
    assert (done.returncode != 0, refs(remote, project)) == (True, "")


def test_the_same_push_of_the_user_arrives(project: Project, remote: Path) -> None:
    project.git("push", "-q", "origin", "HEAD:refs/heads/x")
    assert refs(remote, project) == f"{project.git('rev-parse', 'HEAD')} commit\trefs/heads/x"


@pytest.mark.parametrize("line", ["git fetch origin", "git ls-remote origin", "git clone -q ../origin.git copy"])
def test_nothing_is_fetched(project: Project, remote: Path, line: str) -> None:
    project.git("push", "-q", "origin", "HEAD:refs/heads/x")
    done = as_agent(project, line)
    assert (done.returncode != 0, "not allowed" in done.stderr) == (True, True)
    assert refs(remote, project) != ""


def test_no_hook_of_the_repository_runs(project: Project, tmp_path: Path) -> None:
    for name in ("pre-commit", "commit-msg", "post-commit", "post-checkout", "reference-transaction"):
        hook = project.root / ".git" / "hooks" / name
        hook.write_text(LEAVES_A_TRACE)
        hook.chmod(0o755)
    trace = tmp_path / "trace"
    assert as_agent(project, "git commit --allow-empty -qm x", SWARM_TRACE=str(trace)).returncode == 0
    assert not trace.exists()
    subprocess.run(
        ["git", "commit", "-q", "--allow-empty", "-m", "y"],
        cwd=project.root,
        env={**project.env, "SWARM_TRACE": str(trace)},
        check=True,
    )
    assert trace.exists()


def test_no_credential_helper_is_asked(project: Project, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    helper = tmp_path / "helper"
    helper.write_text(f"#!/bin/sh\ntouch {trace}\necho username=me\necho password=secret\n")
    helper.chmod(0o755)
    project.git("config", "credential.helper", str(helper))
    project.git("config", "credential.https://example.org.helper", str(helper))
    ask = "printf 'protocol=https\\nhost=example.org\\n\\n' | git credential fill"
    done = as_agent(project, ask)
    assert (done.returncode != 0, "secret" in done.stdout, trace.exists()) == (True, False, False)
    assert (
        "password=secret"
        in subprocess.run(
            ["sh", "-c", ask], cwd=project.root, env=dict(project.env), capture_output=True, text=True, check=True
        ).stdout
    )


CREDENTIALS = (
    *(
        "SSH_AUTH_SOCK",
        "GH_TOKEN",
        "GITHUB_TOKEN",
        "GITLAB_TOKEN",
        "NPM_TOKEN",
        "NODE_AUTH_TOKEN",
        "UV_PUBLISH_TOKEN",
    ),
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_CLIENT_SECRET", "KUBECONFIG"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "PGPASSWORD"),
    *("DATABASE_URL", "TWINE_PASSWORD", "CARGO_REGISTRY_TOKEN", "POETRY_PYPI_TOKEN_PYPI", "DJANGO_SECRET_KEY"),
)


def test_no_credential_is_there_unless_the_team_lists_it() -> None:
    env = dict.fromkeys(
        (*CREDENTIALS, "PATH", "LC_CTYPE", "PYTHONPATH", "VIRTUAL_ENV", "JAVA_HOME", "https_proxy"), "x"
    )
    usual = {"PATH", "LC_CTYPE", "PYTHONPATH", "VIRTUAL_ENV", "JAVA_HOME", "https_proxy"}
    assert passed_on(env, ()).keys() == usual
    assert passed_on(env, ("DATABASE_URL", "AWS_*")).keys() - usual == {
        name for name in env if name[:3] in ("AWS", "DAT")
    }


def test_ssh_is_never_started(project: Project, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    project.git("config", "core.sshCommand", f"touch {trace}; false")
    as_agent(project, "git -c protocol.ssh.allow=always ls-remote ssh://git@127.0.0.1:1/x.git")
    assert as_agent(project, 'sh -c "$GIT_SSH_COMMAND"').returncode == 1
    assert not trace.exists()


def test_a_commit_is_signed_by_nobody_and_names_the_agent(project: Project) -> None:
    project.git("config", "commit.gpgSign", "true")
    project.git("config", "gpg.program", "false")
    assert as_agent(project, "git commit --allow-empty -qm x").returncode == 0
    said = project.git("log", "-1", "--format=%an %ae %cn %ce")
    assert said == " ".join([AGENT.name, AGENT.email] * 2)


def test_nobody_is_asked_for_a_text(project: Project) -> None:
    project.git("config", "core.editor", "false")
    assert as_agent(project, "git commit --allow-empty --amend").returncode == 0


@pytest.mark.parametrize(("given", "expected"), [({}, "/tmp"), ({"TMPDIR": "/var/tmp/mine"}, "/var/tmp/mine")])
def test_there_is_a_folder_for_temporary_files(project: Project, given: dict[str, str], expected: str) -> None:
    assert as_agent(project, 'printf %s "$TMPDIR"', **given).stdout == expected


def test_a_command_is_told_which_variable_it_did_not_get(project: Project) -> None:
    asks = 'test -n "$ACME_URL" || { echo ACME_URL?; exit 1; }'
    flow = {"id": "f", "steps": [{"id": "own", "engine": "command", "command": {"run": asks}}]}
    project.commit({".swarm/flows/f.yaml": yaml.safe_dump(flow)})
    project = replace(project, env={**project.env, "ACME_URL": "https://acme.example"})
    project.swarm("start", "f", "--allow-stub", code=4)
    (told,) = project.json("log")
    assert told["summary"].endswith("; not passed on: ACME_URL (policy.env in .swarm/config.yaml)")
    project.commit({".swarm/config.yaml": "policy: {env: [ACME_*]}\n"})
    project.swarm("start", "f", "--allow-stub")
