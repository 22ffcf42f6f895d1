"""Programs that hand out what they keep: tokens, passwords, private keys."""

from __future__ import annotations

from collections.abc import Sequence

from gitswarm.safety.policy.listed import listed, phrases
from gitswarm.safety.policy.values import Command

HANDING_OUT = phrases("""
    pass show, pass grep, pass otp, gopass show, gopass cat, gopass otp, security find-generic-password,
    security find-internet-password, security dump-keychain, security export, gcloud auth print-access-token,
    gcloud auth print-identity-token, gcloud auth print-refresh-token,
    gcloud auth application-default print-access-token, az account get-access-token, op read, op item get,
    op document get, vault read, vault kv get, vault print token, secret-tool lookup, bw get, lpass show,
    aws configure export-credentials, aws sts get-session-token, aws ecr get-login-password,
    aws secretsmanager get-secret-value, heroku auth:token, doctl auth token, keyring get
""")
"""Beginnings of commands."""
_GPG = frozenset({"gpg", "gpg1", "gpg2"})
_SECRET = ("secret", "token", "password")


def hands_out_credentials(command: Command, plain: Sequence[str]) -> bool:
    """
    :param plain: the name and the arguments that are no options.
    """
    name = command.name or ""
    texts = [word.shown for word in command.arguments]
    if name.startswith("docker-credential-"):
        return not texts or texts[0] not in listed("list version --version help --help")
    if name in _GPG:
        return any(text.startswith("--export-secret") for text in texts)
    if name == "kubectl":
        return list(plain[1:3]) == ["config", "view"] and any(text.startswith("--raw") for text in texts)
    if name == "aws" and "configure" in plain and "get" in plain:
        return any(sign in text.lower() for text in texts for sign in _SECRET)
    return False
