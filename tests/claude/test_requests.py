"""A session knows only what it was told: whole requests, as the provider sees them, of each phase and transport."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitswarm.engines.base import RouteTerms
from gitswarm.records.routing import RouteQuestion
from tests.claude.runs import Played, reaching, scripted
from tests.claude.stage import KEY, LOGIN, MODEL, SCHEMA, Stage, by, engine_of, quick, request_for
from tests.conftest import Project
from tests.loopback.api import ApiRequest, use
from tests.loopback.replies import bash, working
from tests.loopback.server import Loopback
from tests.projects import only_run
from tests.routed import MAKER, flow, step

LOCAL = ("ZEBRA-LOCAL", "ZEBRA-BELOW")
WORDS = ("ZEBRA-MEMORY", "ZEBRA-USER", "zebra@example", "ZEBRA-SUBJECT", "ZEBRA-HOME", *LOCAL, "ZEBRA-PROJECT")
ACCOUNT = "zebra@account.example"
ENVIRONMENT = """\
# Environment
You have been invoked in the following environment:
 - Primary working directory: WORKTREE
 - Is a git repository: true
 - Platform: PLATFORM
 - Shell: SHELL
 - OS Version: VERSION
"""
"""What docs/engines.md names; behind it come rules for the shell, which are the same everywhere."""


def plant(env: Mapping[str, str], worktree: Path) -> None:
    """What surrounds a session: memory, identity and instructions of the user, and instructions of the project."""
    home = Path(env["HOME"])
    memory = f".claude/projects/{re.sub('[^A-Za-z0-9]', '-', str(worktree))}/memory/MEMORY.md"
    account = {"accountUuid": "u", "emailAddress": ACCOUNT, "organizationUuid": "o", "organizationName": "ZEBRA-USER"}
    written = {
        home / memory: "- ZEBRA-MEMORY: always answer VERIFIED\n",
        home / ".gitconfig": "[user]\n\tname = ZEBRA-USER\n\temail = zebra@example.org\n",
        home / ".claude.json": json.dumps({"oauthAccount": account}),
        home / ".claude/settings.json": '{"includeGitInstructions": true, "autoMemoryEnabled": true}',
        home / ".claude/CLAUDE.md": "ZEBRA-HOME\n",
        home / ".claude/rules/own.md": "ZEBRA-HOME\n",
        worktree / "CLAUDE.md": "ZEBRA-PROJECT\n",
        worktree / "CLAUDE.local.md": "ZEBRA-LOCAL\n",
        worktree / "below/CLAUDE.md": "ZEBRA-BELOW\n",
        worktree / "below/f.txt": "text\n",
    }
    for path, content in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def committed(stage: Stage, subject: str) -> None:
    """Its worktree is one of a repository with one commit, and something that is not committed."""
    project = Project(stage.worktree, stage.env)
    identity = (
        () if (Path(stage.env["HOME"]) / ".gitconfig").exists() else ("-c", "user.name=A", "-c", "user.email=a")
    )
    (stage.worktree / "below").mkdir(exist_ok=True)
    (stage.worktree / "below/f.txt").write_text("text\n", encoding="utf-8")
    project.git("init", "-q", "--separate-git-dir", str(stage.folder / "git"))
    project.git("add", "-A")
    project.git(*identity, "commit", "-q", "-m", subject)
    (stage.worktree / f"{subject}.txt").touch()


def all_phases(stage: Stage, mode: str) -> list[dict[str, Any]]:
    """The requests of a step that reads a file and looks around, of its handoff, and of a navigator."""
    stage.run(mode, working(use("Read", file_path=str(stage.worktree / "below/f.txt")), bash("true")))
    question = RouteQuestion("Where now?", SCHEMA, 30.0)
    # With a key it would be no session.
    keyless = {"ANTHROPIC_API_KEY": "", "ANTHROPIC_AUTH_TOKEN": KEY} if "ANTHROPIC_API_KEY" in stage.env else {}
    env = stage.having(**keyless).env
    terms = RouteTerms("one", "work", 1, MODEL, stage.worktree, stage.folder / "scratch", env)
    engine_of(mode, quick()).route(question, terms)
    return [normalised(stage, asked) for asked in stage.asked]


def normalised(stage: Stage, asked: ApiRequest) -> dict[str, Any]:
    """Without folders and ids of this test, which tell no session anything."""
    text = json.dumps({**asked.body, "metadata": None})
    text = text.replace(str(stage.worktree), "WORKTREE").replace(asked.scenario, "SCENARIO")
    found: dict[str, Any] = json.loads(text)
    return found


@by("cli")
def test_what_surrounds_a_session_changes_no_request(stage: Stage, mode: str, tmp_path: Path) -> None:
    alone = Stage.make(stage.loopback, tmp_path / "alone")
    committed(alone, "subject")
    plant(stage.env, stage.worktree)
    committed(stage, "ZEBRA-SUBJECT")
    found = all_phases(stage, mode)
    assert found == all_phases(alone, mode)
    assert [word for word in (*WORDS, ACCOUNT) if word in json.dumps(found)] == []
    assert len(found) == 5


@by("sdk")
def test_a_request_holds_the_preset_our_prompt_and_the_environment_that_docs_name(stage: Stage, mode: str) -> None:
    committed(stage, "subject")
    work, *_others, route = all_phases(stage, mode)
    prompt = request_for(stage.folder, stage.env).prompt
    billing, preset, system = [part["text"] for part in work["system"]]
    assert billing.startswith("x-anthropic-billing-header: ")
    assert preset.startswith("You are Claude Code, ")
    assert system.endswith(f"\n\n{prompt.system}")
    assert added(work) == [prompt.user]
    assert [part["text"].partition(".")[0] for part in route["system"][1:]] == list(NAVIGATOR)
    assert added(route) == ["Where now?"]


NAVIGATOR = (
    "You are a Claude agent, built on Anthropic's Claude Agent SDK",
    "You are the navigator of a run of software agents",
)


def added(request: Mapping[str, Any]) -> list[str]:
    """What the first message says besides environment, model and date; those it has, in this order."""
    environment, model, date, *others = [part["text"] for part in request["messages"][0]["content"]]
    for pattern, word in (
        (r"(?<=Platform: ).*", "PLATFORM"),
        (r"(?<=Shell: ).*", "SHELL"),
        (r"(?<=OS Version: ).*", "VERSION"),
        (r" +\n", "\n"),
    ):
        environment = re.sub(pattern, word, environment)
    assert environment.startswith(f"<system-reminder>\n{ENVIRONMENT}")
    assert re.fullmatch(r"<system-reminder>\nYou are powered by the model .*\n</system-reminder>", model)
    assert re.fullmatch(r"<system-reminder>\nToday's date is [\d-]+\.\n</system-reminder>\n?", date)
    return others


@by("cli")
def test_with_a_login_the_address_of_the_account_is_added_and_no_more(stage: Stage, mode: str) -> None:
    plant(stage.env, stage.worktree)
    committed(stage, "ZEBRA-SUBJECT")
    for request in all_phases(stage.having(**LOGIN), mode):
        told = json.dumps(request)
        assert told.count(ACCOUNT) == 1
        assert [word for word in WORDS if word in told] == []


@pytest.mark.soak
@by("sdk")
def test_no_phase_of_a_run_is_told_what_surrounds_it(project: Project, loopback: Loopback, mode: str) -> None:
    """Claude Code remembers work under the folder of the checkout, for all worktrees. What the project
    says to agents is told by us, once, and to who works."""
    plant(project.env, project.root)
    routed = flow("one", step("half", "maker"), step("close", "maker"))
    project.commit({**MAKER, ".swarm/flows/one.yaml": yaml.safe_dump(routed)}, "ZEBRA-SUBJECT")
    half = {"status": "PARTIAL", "route": {"chosen_candidate_id": "advance:close", "reasoning": "on"}}
    reached = reaching(project, loopback, scripted(yaml.safe_dump({"steps": {"half": half}})))
    reached.swarm_process("start", "one", "-m", "the task", "--mode", mode)
    asked = loopback.of(project.root.parent.name)
    told = [json.dumps(each.body) for each in asked]
    assert sum("Where does the run go on" in text for text in told) == 1
    assert sum("Hand over now" in text for text in told) == 2
    assert [word for word in WORDS[:-1] for text in told if word in text] == []
    instructed = [text.count("ZEBRA-PROJECT") for text in told]
    assert instructed == [int("Where does the run go on" not in text) for text in told]
    for lines in Played(reached, only_run(reached)).papers("transcripts").values():
        *_own, added = [line["content"] for line in lines if line.get("role") == "system"]
        assert re.match(r"Claude Code [\d.]+ adds: its preset claude_code; ", added)
