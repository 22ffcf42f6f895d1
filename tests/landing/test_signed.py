"""Signatures: of an approval, where a team asks for it, and of the landed commit, where the user signs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conftest import Project
from tests.landing.common import code_of, hook, ready, refusal, tidy

REQUIRED = "deploy: {require_signature: true}\n"


def new_key(project: Project, name: str = "key") -> Path:
    """The public half of an SSH key of the user's."""
    path = Path(project.env["HOME"]) / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path)], check=True)
    return path.with_suffix(".pub")


def sign_with(project: Project, key: Path) -> None:
    project.git("config", "--global", "gpg.format", "ssh")
    project.git("config", "--global", "user.signingkey", str(key))


def trust(project: Project, key: Path) -> None:
    signers = Path(project.env["HOME"]) / "allowed_signers"
    signers.write_text(f"user@example.org {key.read_text(encoding='utf-8')}", encoding="utf-8")
    project.git("config", "--global", "gpg.ssh.allowedSignersFile", str(signers))


def is_signed(project: Project, revision: str) -> bool:
    return "\ngpgsig -----BEGIN SSH SIGNATURE-----" in project.git("cat-file", "commit", revision)


def test_a_signed_approval_lands(project: Project) -> None:
    run = ready(project, config=REQUIRED)
    key = new_key(project)
    sign_with(project, key)
    trust(project, key)
    landed = run.landed()
    assert is_signed(project, f"refs/swarm/{run.id}/approval")
    assert not is_signed(project, landed)
    assert project.git("log", "-1", "--format=%an %ae %cn", f"refs/swarm/{run.id}/approval") == (
        "human human@git-swarm.invalid Test User"
    )
    tidy(run)


def test_without_a_key_nothing_is_approved(project: Project) -> None:
    run = ready(project, config=REQUIRED)
    tip = run.tip
    reason, _paths, hint = refusal(run.approve(code=1))
    assert (
        reason == "this run asks for signed approvals (deploy.require_signature), and git has no signing key for you"
    )
    assert hint == "git config --global gpg.format ssh && git config --global user.signingkey ~/.ssh/id_ed25519.pub"
    assert run.tip == tip


def test_a_key_that_does_not_sign_is_told_before_anything_happens(project: Project) -> None:
    run = ready(project, config=REQUIRED)
    sign_with(project, Path(project.env["HOME"]) / "lost.pub")
    tip = run.tip
    reason, _paths, _hint = refusal(run.approve(code=1))
    assert (reason, run.tip) == ("git could not sign the approval", tip)
    tidy(run)


@pytest.mark.parametrize("signers", ["nobody", "another"])
def test_a_signature_that_git_does_not_trust_does_not_land(project: Project, signers: str) -> None:
    run = ready(project, config=REQUIRED)
    sign_with(project, new_key(project))
    if signers == "another":
        trust(project, new_key(project, "another"))
    run.approve()
    before = run.world()
    reason, _paths, hint = refusal(run.land(code=1))
    commit = project.git("rev-parse", f"refs/swarm/{run.id}/approval")[:12]
    assert (reason, hint) == {
        "nobody": (
            "this run asks for a signed approval, and git does not know whose signatures count",
            "git config gpg.ssh.allowedSignersFile ~/.config/git/allowed_signers",
        ),
        "another": (f"the approval {commit} has no signature that git trusts", f"git verify-commit {commit}"),
    }[signers]
    assert run.world() == before


@pytest.mark.parametrize("hooks", [False, True], ids=["without hooks", "with hooks"])
def test_the_landed_commit_is_signed_where_the_user_signs_commits(project: Project, *, hooks: bool) -> None:
    run = ready(project)
    key = new_key(project)
    sign_with(project, key)
    trust(project, key)
    project.git("config", "commit.gpgsign", "true")
    if hooks:
        hook(project, "pre-commit", ["exit 0"])
    landed = run.landed()
    assert is_signed(project, landed)
    assert project.git("verify-commit", landed) == ""
    assert not is_signed(project, f"refs/swarm/{run.id}/approval")
    tidy(run)


def test_a_signature_that_fails_keeps_it_from_landing(project: Project) -> None:
    run = ready(project)
    run.approve()
    sign_with(project, Path(project.env["HOME"]) / "lost.pub")
    project.git("config", "commit.gpgsign", "true")
    before = run.world()
    reason, _paths, _hint = refusal(run.land(code=1))
    assert reason == "git could not make the commit in your name"
    assert run.world() == before
    assert "src/new.py" not in code_of(project, "main")
