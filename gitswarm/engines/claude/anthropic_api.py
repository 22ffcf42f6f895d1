"""Anthropic's API, asked without a session: a navigator's answer (extra `navigator`), and which models it offers."""

from __future__ import annotations

import importlib.util
import json
import time
import warnings
from collections.abc import Mapping
from functools import partial
from http.client import HTTPException
from typing import TYPE_CHECKING, cast
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from gitswarm.engines.agent_session import token_cost
from gitswarm.engines.claude.provider import ClaudeProfile, DirectAccess
from gitswarm.errors import EngineMissingError
from gitswarm.records.receipt import Tokens
from gitswarm.records.routing import RouteAnswer, RouteQuestion

if TYPE_CHECKING:
    import httpx2
    from anthropic import APIStatusError
    from anthropic.types import Message


INSTALL_NAVIGATOR = "pip install 'git-swarm[navigator]'"
NOT_INSTALLED = f"no navigator: ANTHROPIC_API_KEY is set, the package anthropic is missing ({INSTALL_NAVIGATOR})"
MAX_TOKENS = 4_096
_ATTEMPTS = 3
_LONGEST_WAIT_S = 5.0
_MOST_BYTES = 1_000_000
_MAX_CHARS = 200
"""Of what the API says of an error."""
_NOT_STARTED = frozenset({301, 302, 303, 307, 308, 400, 401, 403, 404, 413, 422, 429, 529})
"""Refusals of the API before a model answers: they cost nothing."""
_ENDED = {"refusal": "the model refused to answer", "max_tokens": f"the answer was cut off after {MAX_TOKENS} tokens"}


def is_installed() -> bool:
    return importlib.util.find_spec("anthropic") is not None


def ask_directly(question: RouteQuestion, system: str, model: str, access: DirectAccess) -> RouteAnswer:
    """Whatever comes back instead of an answer is its `problem`.

    :raises TimeoutError: there was no answer in time.
    """
    import anthropic  # noqa: PLC0415 - an extra, and a second
    import stamina  # noqa: PLC0415 - most commands ask nobody

    end = time.monotonic() + question.timeout_s
    schema = anthropic.transform_schema(dict(question.schema))
    tries = stamina.retry_context(
        on=_may_pass,
        attempts=_ATTEMPTS,
        timeout=question.timeout_s,
        wait_initial=access.wait_s,
        wait_max=_LONGEST_WAIT_S,
        wait_jitter=access.wait_s / 2,
    )
    try:
        with (
            warnings.catch_warnings(),
            anthropic.Anthropic(
                api_key=access.key,
                base_url=access.base_url,
                max_retries=0,
                http_client=anthropic.DefaultHttpxClient(
                    follow_redirects=False,  # the question is for this host, and so is the answer
                    event_hooks={"response": [partial(_read, end=end)]},
                ),
                _strict_response_validation=True,
            ) as client,
        ):
            warnings.simplefilter("ignore", DeprecationWarning)  # of models: they are the policy's choice
            for attempt in tries:
                with attempt:
                    reply = client.messages.create(
                        model=model,
                        max_tokens=MAX_TOKENS,
                        system=system,
                        messages=[{"role": "user", "content": question.prompt}],
                        output_config={"format": {"type": "json_schema", "schema": schema}},
                        timeout=max(0.01, end - time.monotonic()),
                    )
    except anthropic.APITimeoutError as error:
        raise TimeoutError from error
    except anthropic.APIStatusError as error:
        return _refused(error, access)
    except (anthropic.APIResponseValidationError, ValueError):
        return RouteAnswer(cost_usd=None, problem="no answer: it is none of the API")
    except anthropic.APIError as error:
        if isinstance(error.__cause__, TimeoutError):
            raise TimeoutError from error
        cause = error.__cause__ if isinstance(error.__cause__, _TooLongError) else error.message
        return RouteAnswer(cost_usd=None, problem=f"no answer: {cause}")
    return _answered(reply, model, access)


def _refused(error: APIStatusError, access: DirectAccess) -> RouteAnswer:
    cost = 0.0 if error.status_code in _NOT_STARTED else None
    reason = reason_of(error.body).replace(access.key, "***")[:_MAX_CHARS]
    return RouteAnswer(cost_usd=cost, problem=f"no answer: HTTP {error.status_code}: {reason}")


def _answered(reply: Message, model: str, access: DirectAccess) -> RouteAnswer:
    used = reply.usage
    prompt = used.input_tokens + (used.cache_creation_input_tokens or 0) + (used.cache_read_input_tokens or 0)
    cost = token_cost(access.prices(model), prompt, used.output_tokens)
    tokens = Tokens.of(prompt, used.output_tokens)
    if reply.stop_reason != "end_turn":
        ended = _ENDED.get(reply.stop_reason or "", f"the answer ended with {reply.stop_reason}")
        return RouteAnswer(tokens=tokens, cost_usd=cost, problem=ended)
    text = "".join(block.text for block in reply.content if block.type == "text")
    return RouteAnswer(text, tokens, cost)


class _TooLongError(Exception):
    pass


def _read(response: httpx2.Response, *, end: float) -> None:
    """All of an answer, in time: a timeout of the client is only about the next byte."""
    content = bytearray()
    for part in cast("httpx2.SyncByteStream", response.stream):
        content += part
        if time.monotonic() > end:
            raise TimeoutError
        if len(content) > _MOST_BYTES:
            raise _TooLongError(f"more than {_MOST_BYTES} bytes")
    response.stream.close()  # type: ignore[union-attr]
    response.stream = type(response)(response.status_code, content=bytes(content)).stream


def _may_pass(error: Exception) -> bool:
    """Also a connection that broke; one that took all the time is not tried again."""
    import anthropic  # noqa: PLC0415 - see above

    if isinstance(error, anthropic.APIStatusError):
        return error.status_code == 429 or error.status_code >= 500
    if isinstance(error.__cause__, TimeoutError | _TooLongError):
        return False
    return isinstance(error, anthropic.APIConnectionError) and not isinstance(error, anthropic.APITimeoutError)


def reason_of(body: object) -> str:
    """What the API says of an error."""
    error = body.get("error") if isinstance(body, Mapping) else None
    return str(error.get("message", "")) if isinstance(error, Mapping) else str(body)


_TIMEOUT_S = 20.0
_API_VERSION = "2023-06-01"


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
        return [str(each["id"]) for each in json.loads(_answer(url, key, token))["data"]]
    except HTTPError as error:
        reason = f"HTTP {error.code}: {_reason(error)}"
    except (OSError, HTTPException) as error:
        reason = str(getattr(error, "reason", error)) or type(error).__name__
    except (ValueError, LookupError, TypeError):
        reason = "its answer is no list of models"
    for secret in (key, token):
        reason = reason.replace(secret, "***") if secret else reason
    host = urlsplit(url).netloc.rpartition("@")[2]
    raise EngineMissingError(f"{host} does not list its models: {reason}", hint="git swarm engines -v")


def _answer(url: str, key: str, token: str) -> bytes:
    if urlsplit(url).scheme not in ("http", "https"):
        raise OSError("ANTHROPIC_BASE_URL is no http address")
    request = Request(url, headers={"anthropic-version": _API_VERSION})  # noqa: S310 - checked above
    for name, value in (("X-Api-Key", key), ("Authorization", f"Bearer {token}" if token else "")):
        if value:
            request.add_unredirected_header(name, value)
    with build_opener(_NoRedirect).open(request, timeout=_TIMEOUT_S) as response:
        return bytes(response.read(_MOST_BYTES))


def _reason(error: HTTPError) -> str:
    try:
        return reason_of(json.loads(error.read(_MOST_BYTES)))[:_MAX_CHARS]
    except (OSError, HTTPException, ValueError):
        return str(error.reason)
