"""A provider that speaks Anthropic's protocol and is not Anthropic: configured by a team, with a key of its own."""

from __future__ import annotations

import json

from gitswarm.resources import bundled
from tests.claude.runs import asked, having
from tests.claude.stage import by
from tests.conftest import Project
from tests.leaks import kept_bytes
from tests.loopback.api import ApiRequest, Reply, Use, say, use
from tests.loopback.server import Loopback
from tests.projects import only_run
from tests.routed import MAKER

KEY = "zai-0a1b2c3d4e5f60718293a4b5c6d7e8f9"
CONFIG = """
engines:
  claude:
    mode: {mode}
    provider: anthropic_compat
    env:
      ANTHROPIC_BASE_URL: {url}
      ANTHROPIC_AUTH_TOKEN: ${{ACME_MODELS}}
"""
FLOW = "id: one\nsteps: [{id: work, station: maker}]\n"


def model(request: ApiRequest) -> Reply:
    if request.wants_result:
        return use("StructuredOutput", status="VERIFIED", summary="wrote a.txt")
    if request.turn == 0:
        return Reply((Use("Write", {"file_path": "a.txt", "content": "one\n"}),), tokens_in=1000, tokens_out=100)
    return say("done")


@by("cli")
def test_a_run_by_another_provider(project: Project, loopback: Loopback, mode: str) -> None:
    url = loopback.play("compatible", model)
    policy = (bundled("flows") / "policy" / "models.yaml").read_text("utf-8")
    priced = policy.replace("\nmodels:\n", "\nmodels:\n  acme-large: {window: 100000, input: 10, output: 50}\n")
    assert priced != policy
    project.commit(
        {
            ".swarm/config.yaml": CONFIG.format(mode=mode, url=url),
            **MAKER,
            ".swarm/flows/one.yaml": FLOW,
            ".swarm/flows/policy/models.yaml": priced,
        },
        "another provider",
    )
    made = having(project, ACME_MODELS=KEY, ANTHROPIC_API_KEY="")

    made.swarm_process("start", "one", "-m", "write a.txt", "--model", "acme-large")

    run, requests = only_run(made), loopback.of("compatible")
    assert {each.model for each in requests} == {"acme-large"}
    names = [{name.lower(): said for name, said in each.headers.items()} for each in requests]
    assert {each.get("authorization") for each in names} == {f"Bearer {KEY}"}
    assert not any("x-api-key" in each for each in names)
    receipt = json.loads(made.git("show", f"shadow/{run}:.swarm/runs/{run}/one/receipts/work-maker.json"))
    assert (receipt["provider"], receipt["model"], receipt["status"]) == (
        "anthropic_compat",
        "acme-large",
        "succeeded",
    )
    tokens = receipt["tokens"]
    assert tokens["prompt"] >= 1000
    assert receipt["cost_usd"] == (tokens["prompt"] * 10 + tokens["completion"] * 50) / 1_000_000
    (step,) = asked(made, "log", run)
    assert (step["cost_usd"], step["status"]) == (receipt["cost_usd"], "VERIFIED")
    assert KEY.encode() not in kept_bytes(made)
