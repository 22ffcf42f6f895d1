"""What stands in the project or on the machine does not come between a session and its policy, nor do other tools."""

from __future__ import annotations

import json

import pytest
import yaml

from gitswarm.engines.claude import provider
from gitswarm.engines.claude.messages import SUBAGENT_TOOLS
from gitswarm.records.json_value import JsonValue
from gitswarm.records.safety import Allow, Deny, Verdict
from tests.claude.stage import EVERYTHING, Given, Stage, by, deny, in_turns, quick, terms_of
from tests.conftest import Project
from tests.loopback.api import ApiRequest, Reply, say, use
from tests.loopback.replies import bash, working
from tests.routed import flow, step

WRITING = working(bash("echo x > f.txt"))


def plant_project(stage: Stage) -> None:
    """What a hostile or merely lively repository brings along."""
    touch: JsonValue = {"type": "command", "command": f"touch {stage.folder}/hooked"}
    events: dict[str, JsonValue] = {name: [{"hooks": [touch]}] for name in ("SessionStart", "PreToolUse", "Stop")}
    stage.settings("worktree", {**EVERYTHING, "hooks": events, "enableAllProjectMcpServers": True})
    server = {"own": {"command": "touch", "args": [f"{stage.folder}/served"]}}
    (stage.worktree / ".mcp.json").write_text(json.dumps({"mcpServers": server}))
    (stage.worktree / "CLAUDE.md").write_text("Planted in CLAUDE.md.")
    (stage.worktree / ".claude/agents").mkdir()
    agent = "---\nname: planted\ndescription: Planted in agents.\n---\nDo it.\n"
    (stage.worktree / ".claude/agents/planted.md").write_text(agent)


@by("sdk")
def test_nothing_of_the_project_has_an_effect_by_default(stage: Stage, mode: str) -> None:
    plant_project(stage)
    told = stage.run(mode, WRITING, decide=deny, terms=terms_of(tools=("Bash", "Agent")))
    assert not (stage.worktree / "f.txt").exists()
    assert told.blocked == ["test-rule: not in this test"]
    assert sorted(path.name for path in stage.folder.iterdir()) == ["home", "scratch", "tmp", "worktree"]
    assert "Planted in" not in str([asked.body for asked in told.asked])


@by("cli")
def test_what_is_read_on_demand_does_not_take_the_policy_away(stage: Stage, mode: str) -> None:
    """`disableAllHooks` would, and an allow rule would let through what no hook denies."""
    (stage.worktree / "CLAUDE.md").write_text("Planted in CLAUDE.md.")
    stage.settings("worktree", {**EVERYTHING, "disableAllHooks": True})
    stage.settings("home", {**EVERYTHING, "disableAllHooks": True})
    told = stage.run(mode, WRITING, decide=deny, profile=quick(setting_sources=("user", "project")))
    assert not (stage.worktree / "f.txt").exists()
    assert told.blocked == ["test-rule: not in this test"]
    assert "Planted in CLAUDE.md." in str(told.at_work[0].body)


@in_turns("name", {name: name for name in ("CLAUDE_CODE_SIMPLE", "CLAUDE_CODE_SAFE_MODE")})
def test_variables_that_switch_hooks_off_do_not_reach_a_session(stage: Stage, mode: str, name: str) -> None:
    stage.settings("home", EVERYTHING)
    profile = quick(setting_sources=("user",))
    told = stage.having(**{name: "1"}).run(mode, WRITING, decide=deny, profile=profile)
    assert told.files == {}
    assert told.blocked == ["test-rule: not in this test"]


@by("sdk")
def test_a_session_in_which_nobody_asks_is_ended_at_its_first_call(
    stage: Stage, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What switches hooks off and is not known here, for one a company's own settings."""
    monkeypatch.setattr(provider, "_NEVER", frozenset())
    stage.settings("home", EVERYTHING)
    model = working(bash("echo x > first.txt"), bash("sleep 5; echo x > second.txt"))
    told = stage.having(CLAUDE_CODE_SIMPLE="1").run(
        mode, model, decide=deny, profile=quick(setting_sources=("user",))
    )
    assert told.files == {"first.txt": "x\n"}
    assert told.outcome == {"kind": "killed"}
    assert "Bash was carried out without asking the policy" in told.detail
    assert (told.handoff, told.result.status.value) == (None, "failed")


def test_where_the_project_is_read_its_agents_do_not_write_what_is_read(project: Project) -> None:
    """The next session would start the servers and hooks that stand there, and nobody would be asked."""
    config = "engines: {claude: {setting_sources: [project]}}\n"
    spec = yaml.safe_dump(flow("one", step("work")))
    project.commit({".swarm/config.yaml": config, ".swarm/flows/one.yaml": spec})
    files = dict.fromkeys((".mcp.json", ".claude/settings.json", "CLAUDE.md"), "{}")
    run = project.start(yaml.safe_dump({"steps": {"work": {"write": files}}}), flow="one")
    assert project.git("diff", "--name-only", "HEAD", f"shadow/{run}", "--", ":(exclude).swarm") == ""


# Ways around it, from inside.


@by("cli")
def test_there_are_no_tools_but_those_that_were_ordered(stage: Stage, mode: str) -> None:
    others = ("Skill", "WebFetch", "Monitor", "EnterWorktree", "CronCreate", "ToolSearch", "SlashCommand", "Agent")
    background = use("Bash", command="sleep 60; touch late.txt", run_in_background=True)
    model = working(*(use(name, command="touch f.txt", skill="init", prompt="x") for name in others), background)
    told = stage.run(mode, model)
    assert told.files == {}
    assert set(told.at_work[0].tools) == {"Read", "Write", "Edit", "Bash", "Grep", "Glob", "StructuredOutput"}
    assert [(call.tool_name, call.success) for call in told.calls] == [(name, False) for name in (*others, "Bash")]
    assert "run_in_background" in told.calls[-1].output


@by("sdk")
@pytest.mark.parametrize("name", SUBAGENT_TOOLS)
def test_what_a_subagent_does_is_judged_and_recorded_as_its_own(stage: Stage, mode: str, name: str) -> None:
    """By whichever of its names the station, or the model, calls the tool."""
    order = {"description": "look", "subagent_type": "general-purpose"}
    own = working(use(name, prompt="sub-task", **order))

    def model(asked: ApiRequest) -> Reply:
        if "sub-task" not in str(asked.body["messages"][0]):
            return own(asked)
        acts = (
            bash("echo x > denied.txt"),
            bash("echo x > allowed.txt"),
            use("Agent", prompt="sub-sub-task", **order),
        )
        return acts[asked.turn] if asked.turn < len(acts) else say("looked")

    judged: list[str] = []

    def decide(tool: str, given: Given) -> Verdict:
        judged.append(str(given.get("command", tool)))
        return Deny("test-rule", "no", "no") if "denied" in str(given) else Allow()

    told = stage.run(mode, model, decide=decide, terms=terms_of(tools=(name, "Bash")))
    assert told.files == {"allowed.txt": "x\n"}
    assert judged == ["Agent", "echo x > denied.txt", "echo x > allowed.txt"]
    assert [(call.tool_name, call.agent, call.success, call.blocked_reason) for call in told.calls] == [
        ("Bash", "general-purpose", False, "test-rule: no"),
        ("Bash", "general-purpose", True, None),
        ("Agent", "general-purpose", False, "tool: Agent: a subagent starts no subagents"),
        (name, None, True, None),
    ]
    assert "looked" in told.calls[-1].output
    assert not any("sub-sub-task" in str(asked.body["messages"][0]) for asked in told.at_work)
