"""`config`: what is configured, where that comes from, and other values for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gitswarm.cli.candidates import candidates, config_keys
from gitswarm.settings import CONFIG_FILE, config_with, load_config
from gitswarm.settings_personal import known_keys
from gitswarm.settings_values import with_entry, with_team_value, without_entry
from tests.conftest import Project
from tests.projects import ask, new_project
from tests.tables import table

KEYS = tuple(config_keys())

TEAM = """\
# How we work
engines:
  default: claude-step   # not gemini
  claude: {mode: cli, provider: anthropic}   # on one line

# What is typed
commands:
  test: "make test"      # quoted

policy:
  deny:
    - npm publish
    # and
    - rm
# Last
context: lean
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = new_project(tmp_path_factory.mktemp("config"))
    made.commit({CONFIG_FILE: TEAM}, "the team's configuration")
    return made


@pytest.fixture
def project(shared: Project) -> Iterator[Project]:
    file = shared.root / ".git/config"
    before = file.read_bytes()
    yield shared
    file.write_bytes(before)
    shared.git("checkout", "--quiet", "--", ".")


def value(project: Project, key: str) -> tuple[object, object]:
    found = project.json("config", key)
    return found["value"], found["origin"]


def test_the_list_has_every_key_with_its_value_and_where_that_comes_from(project: Project) -> None:
    project.swarm("config", "budget.max_cost_usd", "5")
    project.swarm("config", "policy.deny", "[git bisect]")
    found = {each["key"]: (each["value"], each["origin"]) for each in project.json("config")}
    assert tuple(found) == KEYS
    assert found["commands.test"] == ("make test", "team")
    assert found["budget.max_cost_usd"] == (5.0, "git config")
    assert found["policy.deny"] == (["npm publish", "rm", "git bisect"], "team and git config")
    assert found["context.profile"] == ("lean", "team")
    assert found["deploy.strategy"] == ("squash", "default")
    lines = project.swarm("config").stdout.splitlines()
    assert lines[0].split() == ["key", "value", "from"]
    assert any(line.split() == ["budget.max_cost_usd", "5.0", "git", "config"] for line in lines)
    assert max(map(len, lines)) <= 80


def test_a_key_is_printed_as_it_is_and_known_by_other_spellings(project: Project) -> None:
    spellings = ("commands.test", "swarm.commands.test", "Commands.Test")
    assert {project.swarm("config", each).stdout for each in spellings} == {"make test\n"}
    assert project.swarm("config", "budget.maxCostUsd").stdout == "null\n"


def test_a_person_s_value_is_git_s_configuration_and_counts_for_runs(project: Project) -> None:
    said = project.swarm("config", "engines.claude.mode", "sdk").stdout
    assert said.splitlines() == [
        "engines.claude.mode: sdk (git config)",
        "undo       git swarm config --unset engines.claude.mode",
    ]
    assert project.git("config", "swarm.engines.claude.mode").strip() == "sdk"
    entries = {"swarm.engines.claude.mode": "sdk"}
    assert load_config(TEAM, entries).engines.sections["claude"].mode == "sdk"
    project.swarm("config", "--unset", "engines.claude.mode")
    assert value(project, "engines.claude.mode") == ("cli", "team")


def test_a_text_that_yaml_takes_for_something_else_is_stored_as_a_text(project: Project) -> None:
    project.swarm("config", "commands.lint", "echo a: b")
    assert value(project, "commands.lint") == ("echo a: b", "git config")


def test_entries_of_a_mapping_whatever_their_names(project: Project) -> None:
    project.swarm("config", "engines.flows.gate", "gemini-step")
    project.swarm("config", "engines.steps.run_tests", "gemini-step")
    project.swarm("config", "engines.steps.lint", "claude-step")
    assert value(project, "engines.flows.gate") == ("gemini-step", "git config")
    assert value(project, "engines.steps.run_tests")[0] == "gemini-step"
    project.swarm("config", "--unset", "engines.steps.run_tests")
    assert ask(project, "config", "engines.steps.run_tests").code == 1
    assert value(project, "engines.flows") == ({"gate": "gemini-step"}, "git config")


def test_no_key_of_a_provider_is_shown(project: Project) -> None:
    answer = project.swarm("config", "engines.claude.env.ANTHROPIC_API_KEY", "sk-ant-0123456789")
    project.swarm("config", "engines.claude.env.ANTHROPIC_BASE_URL", "http://127.0.0.1:8080")
    shown = answer.stdout + project.swarm("config").stdout + project.swarm("config", "--json").stdout
    for key in ("engines.claude.env", "engines.claude.env.ANTHROPIC_API_KEY"):
        shown += project.swarm("config", key).stdout + project.swarm("config", key, "--json").stdout
    assert "sk-ant" not in shown
    assert "127.0.0.1" in shown


def test_an_entry_with_another_spelling_is_replaced_not_joined(project: Project) -> None:
    project.git("config", "swarm.worktreeDir", "/old")
    project.swarm("config", "worktree.dir", "/new")
    assert project.git("config", "--get-regexp", "^swarm[.]worktree").split() == ["swarm.worktree.dir", "/new"]


def test_a_value_that_the_team_s_is_stricter_than(project: Project) -> None:
    project.commit({CONFIG_FILE: f"{TEAM}deploy: {{require_signature: true}}\n"}, "signed")
    said = project.swarm("config", "deploy.require_signature", "false").stdout
    assert said.splitlines()[:2] == [
        "deploy.require_signature: true (team)",
        "note: the team's value is at least as strict, and wins",
    ]
    project.commit({CONFIG_FILE: TEAM}, "not signed")


@table(
    ("line", "said"),
    [
        (("engine.claude.mode", "cli"), "no key 'engine.claude.mode' (did you mean 'engines.claude.mode'?)"),
        (("budgets",), "no key 'budgets'"),
        (("budget",), "'budget' is a section: budget.max_cost_usd, budget.max_tokens"),
        (("engines.claude.mode", "clli"), "there is no mode 'clli' (did you mean 'cli'?)"),
        (("budget.max_cost_usd", "-1"), "has to be more than 0, not -1"),
        (("commands.test", ""), "commands.test: the value is empty"),
        (("--team", "commands.test", " "), "commands.test: the value is empty"),
        (("retention.days", ""), "retention.days: the value is empty"),
        (("retention.days", "true"), "retention.days: 'true' is not a number"),
        (("--team", "retention.days", "true"), "retention.days: 'true' is not a number"),
        (("budget.max_cost_usd", "yes"), "budget.max_cost_usd: 'true' is not a number"),
        (("retention.days", "soon"), "git-swarm: retention.days: 'soon' is not a whole number"),
        (("retention.days", "-3"), "has to be at least 0, not -3"),
        (("budget.max_time", "4hh"), "git-swarm: budget.max_time: '4hh' is not a duration"),
        (("commands.tests", "{a: {run: true}}"), "expected a text: 'true'"),
        (("policy.env", "[HOME]"), "would loosen what the team agreed on"),
        (("--unset", "hub"), "git config does not set hub"),
        (("--team", "--unset", "hub"), "'hub' is not set there"),
        (("--team", "deploy.strategy", "mrge"), "did you mean 'merge'"),
        (("--team", "engines.claude.env.API_KEY", "abc"), "a key does not belong in a committed file"),
        (("--team", "commands.lint", '"a\\0b"'), "commands.lint: a NUL byte"),
        (("commands.lint", '"a\\0b"'), "commands.lint: a NUL byte"),
        (("policy.deny", "[npm publish"), "policy.deny: not a value: expected ',' or ']'"),
        (("policy.deny", "!!binary aGk="), "policy.deny: not a value: could not determine a constructor"),
        (("budget.max_tokens", "0x1" + "0" * 9000), "budget.max_tokens: not a value: a number with too many digits"),
        (("--team", "hub"), "that needs KEY VALUE"),
        (("--team", "--global", "hub", "x"), "two places"),
    ],
)
def test_what_is_refused_is_written_nowhere(shared: Project, line: tuple[str, ...], said: str) -> None:
    before = (shared.root / ".git/config").read_bytes(), (shared.root / CONFIG_FILE).read_bytes()
    dashed = ("--", *line) if line[-1] in ("-1", "-3") else line
    answer = ask(shared, "config", *dashed)
    assert answer.code in (1, 2)
    assert said in " ".join(answer.stderr.split())
    assert "hint: git swarm config" in answer.stderr or "hint: leave" in answer.stderr or "hint: API" in answer.stderr
    assert before == ((shared.root / ".git/config").read_bytes(), (shared.root / CONFIG_FILE).read_bytes())


BY_HAND = (
    (("swarm.commands.test", ""), "commands.test: the value is empty", "git swarm config --unset commands.test"),
    (
        ("swarm.retention.days", "true"),
        "retention.days: 'true' is not a number",
        "git swarm config --unset retention.days",
    ),
    (
        ("--global", "swarm.budget.maxTime", "4hh"),
        "budget.max_time: '4hh' is not a duration: 90s, 45m, 4h, 1h30m",
        "git swarm config --global --unset budget.max_time",
    ),
    (("swarm.policy.deny", "[{a: b}]"), "policy.deny: expected a text", "git swarm config --unset policy.deny"),
)


def test_entries_that_cannot_be_read_keep_nobody_from_finding_and_unsetting_them(project: Project) -> None:
    for entry, what, hint in BY_HAND:
        project.git("config", *entry)
        for line in (("start", "build", "-m", "x"), ("config", "hub", "origin")):
            assert ask(project, *line).stderr == f"git-swarm: git config: {what}\nhint: {hint}\n"
        project.swarm(*hint.split()[2:])
    for entry, _what, _hint in BY_HAND:
        project.git("config", *entry)
    wrong = {(f"git config: {what}", hint) for _entry, what, hint in BY_HAND}
    found = json.loads(ask(project, "doctor", "--json").stdout)["findings"]
    assert {(each["message"], each["hint"]) for each in found if each["check"] == "config"} == wrong
    listed = ask(project, "config", "--json")
    assert (listed.code, len(json.loads(listed.stdout))) == (0, len(KEYS))
    assert set(listed.stderr.splitlines()) == {
        line for what, hint in wrong for line in (f"git-swarm: ignored: {what}", f"hint: {hint}")
    }
    for _entry, _what, hint in BY_HAND:
        project.swarm(*hint.split()[2:])
    assert project.swarm("config").stderr == ""


def test_one_key_says_too_that_the_team_s_file_is_wrong(project: Project) -> None:
    project.commit({CONFIG_FILE: "comands: {test: make}\n"}, "broken")
    answer = ask(project, "config", "commands.test", "--json")
    assert (answer.code, json.loads(answer.stdout)["value"]) == (0, None)
    assert answer.stderr.startswith(f"git-swarm: ignored: {CONFIG_FILE}:1: unknown key 'comands'")


def test_a_team_s_file_that_cannot_be_read_is_told_beside_the_rest(project: Project) -> None:
    project.commit({CONFIG_FILE: "retention: {days: true}\n"}, "broken")
    said = f"{CONFIG_FILE}:1: retention.days: 'true' is not a number"
    assert said in ask(project, "config").stderr
    assert ask(project, "config").code == 0
    assert json.loads(ask(project, "doctor", "--json").stdout)["findings"][0]["message"] == said
    project.commit({CONFIG_FILE: TEAM}, "mended")


def test_a_name_without_a_value_is_true_as_git_reads_it(project: Project) -> None:
    with (project.root / ".git/config").open("a", encoding="utf-8") as file:
        file.write('[swarm "deploy"]\n\trequireSignature\n')
    assert value(project, "deploy.require_signature") == (True, "git config")


def test_a_value_for_all_repositories_and_how_to_undo_it(project: Project) -> None:
    said = project.swarm("config", "--global", "retention.days", "30d").stdout.splitlines()
    assert said[0] == "retention.days: 30 (git config)"
    assert said[1] == "undo       git swarm config --global --unset retention.days"
    assert project.swarm("config", "retention.days", "31").stdout.startswith("retention.days: 31 ")
    project.swarm("config", "--unset", "retention.days")
    project.swarm(*said[1].split()[3:])
    assert value(project, "retention.days") == (None, "default")


def test_the_team_s_value_that_is_there_already(project: Project) -> None:
    same = project.swarm("config", "--team", "commands.test", "make test").stdout
    assert same == f"{CONFIG_FILE}: nothing changed: commands.test is make test already\n"
    project.swarm("config", "--team", "hub", "origin")
    gone = project.swarm("config", "--team", "--unset", "hub").stdout
    assert gone == f"{CONFIG_FILE}: hub is gone, as in the last commit: nothing to commit\n"


def test_ends_of_lines_stay_and_no_link_is_followed(project: Project, tmp_path: Path) -> None:
    file = project.root / CONFIG_FILE
    before = file.read_bytes()
    file.write_bytes(before.replace(b"\n", b"\r\n"))
    project.swarm("config", "--team", "hub", "origin")
    assert (file.read_bytes().count(b"\n"), b"hub" in file.read_bytes()) == (file.read_bytes().count(b"\r\n"), True)
    file.unlink()
    outside = tmp_path / "outside.yaml"
    outside.write_bytes(before)
    file.symlink_to(outside)
    answer = ask(project, "config", "--team", "hub", "origin")
    assert (answer.code, "not a file of this checkout" in " ".join(answer.stderr.split())) == (1, True)
    assert outside.read_bytes() == before
    file.unlink()
    file.write_bytes(before)


def test_the_next_command_works_in_a_subfolder(project: Project) -> None:
    below = project.root / "below"
    below.mkdir(exist_ok=True)
    said = ask(project, "config", "--team", "hub", "origin", cwd=below).stdout.splitlines()[-1]
    assert said == f"next       git add :/{CONFIG_FILE} && git commit -m 'hub'"
    project.git("-C", str(below), *said.partition(" && ")[0].split()[2:])
    assert "origin" in project.git("diff", "--cached")
    project.git("reset", "--quiet")


def test_an_agent_sets_nothing(project: Project) -> None:
    agent = replace(project, env={**project.env, "SWARM_STEP_OF": "run-20260101-000000-abcdef"})
    answer = ask(agent, "config", "engines.claude.cli", "/tmp/evil")
    assert (answer.code, answer.stderr.partition(":")[2][:24]) == (1, " an agent cannot config:")


def test_the_team_s_file_is_written_and_counts_once_committed(project: Project) -> None:
    said = project.swarm("config", "--team", "deploy.strategy", "merge").stdout
    assert said.splitlines()[-1] == f"next       git add {CONFIG_FILE} && git commit -m 'deploy.strategy'"
    assert value(project, "deploy.strategy") == ("squash", "default")
    assert "not committed" in project.swarm("config").stderr
    assert (project.root / CONFIG_FILE).read_text() == f"{TEAM}deploy:\n  strategy: merge\n"


CHANGES: list[tuple[str, str | None, tuple[str, str]]] = [
    ("engines.claude.mode", "sdk", ("{mode: cli,", "{mode: sdk,")),
    ("engines.claude.cli", "/c", ("anthropic}", "anthropic, cli: /c}")),
    ("engines.default", "gemini", ("claude-step  ", "gemini  ")),
    ("commands.test", "x: y", ('"make test"', "'x: y'")),
    ("commands.lint", "null", ("quoted\n", "quoted\n  lint: null\n")),
    ("policy.deny", "[a]", ("\n    - npm publish\n    # and\n    - rm", " [a]")),
    ("context.wisdom", "false", ("lean", "{profile: lean, wisdom: false}")),
    ("engines.claude", None, ("  claude: {mode: cli, provider: anthropic}   # on one line\n", "")),
    ("engines.claude.mode", None, ("{mode: cli, ", "{")),
    ("commands.test", None, ('commands:\n  test: "make test"      # quoted\n', "")),
    ("policy.deny", None, ("policy:\n  deny:\n    - npm publish\n    # and\n    - rm\n", "")),
]


@table(("key", "new", "change"), CHANGES)
def test_all_else_in_the_team_s_file_stays_as_it_is(key: str, new: str | None, change: tuple[str, str]) -> None:
    assert with_team_value(TEAM, tuple(key.split(".")), new) == TEAM.replace(*change)


def test_a_file_with_nothing_but_comments_keeps_them() -> None:
    assert with_team_value("# only this", ("hub",), "origin") == "# only this\nhub: origin\n"


def test_a_file_that_cannot_be_changed_in_place_is_left_to_its_author() -> None:
    anchored = "a: &x {b: 1}\nc: *x\n"
    with pytest.raises(Exception, match="cannot be edited automatically"):
        with_entry(anchored, ("a", "b"), 2)
    assert without_entry(anchored, ("c",)) == "a: &x {b: 1}\n"


def test_tab_offers_the_keys() -> None:
    assert tuple(".".join(each) for each in known_keys(config_with())) == KEYS
    assert candidates(["config", "engines.claude.m"]) == ["engines.claude.mode"]
    assert candidates(["config", "--team", "dur"]) == ["durability"]
    assert candidates(["config", "durability", ""]) == []


def test_a_team_s_file_that_has_nothing_left_and_was_never_committed_is_gone(tmp_path: Path) -> None:
    project = new_project(tmp_path)
    project.swarm("config", "--team", "commands.test", "make test")
    project.swarm("config", "--team", "--unset", "commands.test")
    assert project.git("status", "--porcelain") == ""
