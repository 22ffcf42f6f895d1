"""What providers and their models often say in tests."""

from __future__ import annotations

from gitswarm.records.json_value import JsonValue
from tests.loopback.api import ApiRequest, Model, Reply, Text, say, use


def bash(command: str) -> Reply:
    return use("Bash", command=command)


WORK = bash("echo hi >> a.txt")


def handed_over(status: str = "VERIFIED", **more: JsonValue) -> Reply:
    """The model's answer when it is asked for the handoff."""
    return use("StructuredOutput", status=status, summary="did it", **more)


def working(*replies: Reply, final: Reply | None = None) -> Model:
    """Says these in order while it works, `done` when it has nothing more, and a handoff when it is asked for one."""

    def answer(asked: ApiRequest) -> Reply:
        if asked.wants_result:
            return final or handed_over()
        return replies[asked.turn] if asked.turn < len(replies) else say("done")

    return answer


def always(reply: Reply) -> Model:
    return lambda _asked: reply


def failing(status: int, text: str = "scripted", **headers: str) -> Reply:
    return Reply((Text(text),), status=status, headers={name.replace("_", "-"): headers[name] for name in headers})


def limit_reached(resets_at: int | None) -> Reply:
    """
    :param resets_at: seconds since the epoch; None: the provider does not say.
    """
    until = {} if resets_at is None else {"anthropic_ratelimit_unified_reset": str(resets_at)}
    return failing(
        429,
        "limit",
        anthropic_ratelimit_unified_status="rejected",
        anthropic_ratelimit_unified_representative_claim="five_hour",
        retry_after="3600",
        **until,
    )
