"""What a run does when the provider fails, and what a person sees and types next."""

from __future__ import annotations

import pytest
import yaml

from tests.claude.runs import asked, having, reaching
from tests.claude.stage import KEY, LOGIN, by
from tests.conftest import Project
from tests.loopback.api import ApiRequest, Reply
from tests.loopback.replies import WORK, failing, limit_reached, working
from tests.loopback.server import Loopback
from tests.projects import ask
from tests.routed import MAKER, flow, step

RESET = 4_102_444_800
RIGHT = {"ANTHROPIC_API_KEY": "sk-ant-api03-right-0123456789abcdefghij"}


class Provider:
    """Knows one key, and has limits while `limit` says so."""

    def __init__(self) -> None:
        self.limit: Reply | None = None

    def __call__(self, asked: ApiRequest) -> Reply:
        if asked.headers.get("x-api-key") == KEY:
            return failing(401, "invalid x-api-key")
        if self.limit is not None and asked.turn:
            return self.limit
        return working(WORK)(asked)


@pytest.fixture
def one(project: Project) -> Project:
    """A project with a flow of one step."""
    project.commit({**MAKER, ".swarm/flows/one.yaml": yaml.safe_dump(flow("one", step("work", "maker")))})
    return project


def outcomes(project: Project) -> list[tuple[str, int, str]]:
    return [(line["step"], line["iteration"], line["status"]) for line in asked(project, "log")]


@by("sdk")
def test_with_the_right_key_a_run_goes_on(one: Project, loopback: Loopback, mode: str) -> None:
    project = reaching(one, loopback, Provider())
    done = project.swarm("start", "one", "--mode", mode, code=4)
    status = asked(project, "status")
    said = (
        "claude: Invalid API key (set ANTHROPIC_API_KEY or log in with `claude`; a login in ~/.claude/settings.json "
        "needs engines.claude.setting_sources: [user])"
    )
    assert (status["state"], status["last_error"]) == ("failed", said)
    assert status["hint"] == f"git swarm resume {status['run_id']}"
    assert f"because    one/work failed: {said}\n" in done.stdout
    assert f"next       {status['hint']}\n" in done.stdout
    having(project, **RIGHT).swarm(*status["hint"].split()[2:])
    assert outcomes(project) == [("work", 1, "UNVERIFIED"), ("work", 2, "VERIFIED")]
    assert KEY not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("mode", "options"), [("cli", []), pytest.param("sdk", ["--autopilot"], marks=pytest.mark.soak)]
)
def test_a_usage_limit_pauses_the_run_until_it_is_resumed(
    one: Project, loopback: Loopback, mode: str, options: list[str]
) -> None:
    provider = Provider()
    provider.limit = limit_reached(RESET)
    project = having(reaching(one, loopback, provider), **LOGIN)
    done = project.swarm("start", "one", "--mode", mode, *options, code=5)
    status = asked(project, "status")
    said = (
        "The provider's usage limit is reached, which resets at 2100-01-01 00:00 UTC. What was done so far is kept."
    )
    assert {name: status[name] for name in ("state", "next_step", "last_error", "hint")} == {
        "state": "paused",
        "next_step": "work",
        "last_error": said,
        "hint": f"git swarm resume {status['run_id']}",
    }
    assert done.stdout.splitlines()[1:5] == [
        f"last step  one/work: {said}",
        "because    work met a usage limit, which resets at 2100-01-01 00:00 UTC",
        f"next       git swarm log {status['run_id']}",
        f"next       {status['hint']}",
    ]
    assert f" error {said} " in " ".join(ask(project, "status").stdout.split())
    assert outcomes(project) == [("work", 1, "PARTIAL")]
    provider.limit = None
    project.swarm("resume")
    assert outcomes(project) == [("work", 1, "PARTIAL"), ("work", 2, "VERIFIED")]
    assert (
        project.git("show", f"{status['branch']}:a.txt") == "hi"
    )  # in the same conversation: nothing was done twice
    assert asked(project, "status")["last_error"] is None
