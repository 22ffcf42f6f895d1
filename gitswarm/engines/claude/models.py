"""Which models the provider of Claude's sessions offers: one request, with the key that they would use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from gitswarm.engines.claude.direct import reason_of
from gitswarm.engines.claude.profile import ClaudeProfile
from gitswarm.errors import EngineMissingError, SwarmError

_TIMEOUT_S = 20.0
_MOST_BYTES = 1_000_000
_MAX_CHARS = 200
"""Of what the provider says of an error."""
_VERSION = "2023-06-01"


class _NoRedirect(HTTPRedirectHandler):
    """The key is for this host."""

    def redirect_request(self, *_args: object) -> None:
        return None


def offered_models(profile: ClaudeProfile, env: Mapping[str, str]) -> list[str]:
    """
    :param env: the caller's.
    :raises EngineMissingError: there is no key to ask with, or the answer is no list of models.
    """
    env = profile.environment(env)
    elsewhere = profile.elsewhere(env)
    if elsewhere is not None:
        raise EngineMissingError(f"{elsewhere} is set: that provider has another list", hint=f"unset {elsewhere}")
    key, token = env.get("ANTHROPIC_API_KEY", ""), env.get("ANTHROPIC_AUTH_TOKEN", "")
    if not (key or token):
        what = "models are listed with a key only: neither ANTHROPIC_API_KEY nor ANTHROPIC_AUTH_TOKEN is set"
        raise EngineMissingError(what, hint="export ANTHROPIC_API_KEY=…")
    url = f"{profile.base_url(env).rstrip('/')}/v1/models?limit=1000"
    try:
        return _ids(_answer(url, key, token))
    except HTTPError as error:
        reason = f"HTTP {error.code}: {_said(error)}"
    except (OSError, HTTPException) as error:
        reason = str(getattr(error, "reason", error)) or type(error).__name__
    except (ValueError, LookupError, TypeError):
        reason = "its answer is no list of models"
    for secret in (key, token):
        reason = reason.replace(secret, "***") if secret else reason
    raise _failed(url, reason)


def _answer(url: str, key: str, token: str) -> bytes:
    if urlsplit(url).scheme not in ("http", "https"):
        raise OSError("ANTHROPIC_BASE_URL is no http address")
    request = Request(url, headers={"anthropic-version": _VERSION})  # noqa: S310 - checked above
    for name, value in (("X-Api-Key", key), ("Authorization", f"Bearer {token}" if token else "")):
        if value:
            request.add_unredirected_header(name, value)
    with build_opener(_NoRedirect).open(request, timeout=_TIMEOUT_S) as response:
        return bytes(response.read(_MOST_BYTES))


def _ids(answer: bytes) -> list[str]:
    return [str(each["id"]) for each in json.loads(answer)["data"]]


def _said(error: HTTPError) -> str:
    try:
        return reason_of(json.loads(error.read(_MOST_BYTES)))[:_MAX_CHARS]
    except (OSError, HTTPException, ValueError):
        return str(error.reason)


def _failed(url: str, reason: str) -> SwarmError:
    host = urlsplit(url).netloc.rpartition("@")[2]
    return EngineMissingError(f"{host} does not list its models: {reason}", hint="git swarm engines -v")
