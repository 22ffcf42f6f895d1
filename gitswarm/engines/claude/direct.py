"""A navigator without a session: one request to Anthropic's API, by its SDK (extra `navigator`)."""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, cast

from gitswarm.engines.adapter import Prices
from gitswarm.records.navigator import RouteAnswer, RouteQuestion
from gitswarm.records.receipt import Tokens

if TYPE_CHECKING:
    import httpx2

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


@dataclass(frozen=True, slots=True)
class DirectAccess:
    """Where the API is, the key to it, and what it asks for its models. `wait_s`: before a second attempt."""

    base_url: str
    key: str = field(repr=False)
    prices: Prices = lambda _model: None
    wait_s: float = 2.0


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
        cost = 0.0 if error.status_code in _NOT_STARTED else None
        reason = reason_of(error.body).replace(access.key, "***")[:_MAX_CHARS]
        return RouteAnswer(cost_usd=cost, problem=f"no answer: HTTP {error.status_code}: {reason}")
    except (anthropic.APIResponseValidationError, ValueError):
        return RouteAnswer(cost_usd=None, problem="no answer: it is none of the API")
    except anthropic.APIError as error:
        if isinstance(error.__cause__, TimeoutError):
            raise TimeoutError from error
        cause = error.__cause__ if isinstance(error.__cause__, _TooLongError) else error.message
        return RouteAnswer(cost_usd=None, problem=f"no answer: {cause}")
    used = reply.usage
    prompt = used.input_tokens + (used.cache_creation_input_tokens or 0) + (used.cache_read_input_tokens or 0)
    price = access.prices(model)
    cost = None if price is None else (prompt * price[0] + used.output_tokens * price[1]) / 1_000_000
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
