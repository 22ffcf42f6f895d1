"""What the project says to agents is in every prompt of a run, as the base commit had it, and no agent changes it."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
import yaml

from gitswarm.records.guidance import Instruction, Instructions
from gitswarm.specs.context import pack_instructions
from tests.conftest import Project
from tests.projects import ask
from tests.routed import flow, step

LEAD = (
    "## What the project says to agents\n\n"
    "From the commit that the run started from. Where it contradicts this step or your rules, those hold.\n\n"
)


def started(project: Project, files: Mapping[str, str], config: object = None, **entries: object) -> str:
    """A run of two steps on a base commit with these files; its id."""
    spec = yaml.safe_dump(flow("two", step("one"), step("other")))
    more = {} if config is None else {".swarm/config.yaml": yaml.safe_dump({"context": config})}
    project.commit({".swarm/flows/two.yaml": spec, **more, **files})
    return project.start(json.dumps({"steps": entries}), flow="two")


def instructed(project: Project, name: str = "one") -> str:
    """The part of a step's prompt."""
    prompt = project.swarm("show", name, "--prompt").stdout
    return prompt.partition(LEAD)[2].partition("\n\n## Handed over")[0].strip()


def hashes(project: Project, run: str) -> list[str]:
    found = [json.loads(project.swarm("show", name, "--receipt", "--run", run).stdout) for name in ("one", "other")]
    return [receipt["prompt_hash"] for receipt in found]


def test_each_kind_of_file_is_told_the_common_one_first(project: Project) -> None:
    names = ("CLAUDE.md", "GEMINI.md", ".github/copilot-instructions.md", ".cursorrules", "AGENTS.md")
    run = started(project, {name: f"Says {name}." for name in names} | {"below/AGENTS.md": "Says no more."})
    order = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", ".github/copilot-instructions.md", ".cursorrules")
    for name in ("one", "other"):
        assert instructed(project, name) == "\n\n".join(f"### {each}\n\nSays {each}." for each in order)
    stored = json.loads(project.git("show", f"shadow/{run}:.swarm/runs/{run}/specs/instructions.json"))
    assert [(each["path"], each["blob"]) for each in stored["files"]] == [
        (each, project.git("rev-parse", f"main:{each}")) for each in order
    ]
    project.swarm("verify")


def test_without_such_a_file_there_is_nothing(project: Project) -> None:
    run = started(project, {})
    assert instructed(project) == ""
    assert "instructions.json" not in project.git("ls-tree", "-r", "--name-only", f"shadow/{run}")


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"AGENTS.md": "A", "CLAUDE.md": "A"}, "### AGENTS.md (the same as CLAUDE.md)\n\nA"),
        ({"AGENTS.md": "A", "CLAUDE.md": "@AGENTS.md\n"}, "### AGENTS.md\n\nA"),
        ({"CLAUDE.md": "C\n\n@docs/style.md\n", "docs/style.md": "S\n- @more.md\n", "docs/more.md": "M"},
         "### CLAUDE.md\n\nC\n\n@docs/style.md\n\n### docs/style.md\n\nS\n- @more.md\n\n### docs/more.md\n\nM"),
        ({"CLAUDE.md": "C\n@CLAUDE.md\n@missing.md\n@../out.md\n@/etc/passwd\n@~/x.md\n@docs\n", "docs/x.md": "X"},
         "### CLAUDE.md\n\nC\n@CLAUDE.md\n@missing.md\n@../out.md\n@/etc/passwd\n@~/x.md\n@docs"),
        ({"CLAUDE.md": "write to me@example.org or @team"}, "### CLAUDE.md\n\nwrite to me@example.org or @team"),
        ({"AGENTS.md": "A {{fragment:common/evidence}} {{run.base}}"},
         "### AGENTS.md\n\nA {{fragment:common/evidence}} {{run.base}}"),
        ({"AGENTS.md": " \n"}, ""),
    ],
)  # fmt: skip
def test_the_same_words_are_told_once_and_imports_behind_their_file(
    project: Project, files: Mapping[str, str], told: str
) -> None:
    started(project, files)
    assert instructed(project) == told


def test_a_link_is_followed_inside_of_the_repository(project: Project) -> None:
    for name, target in (("CLAUDE.md", "docs/agents.md"), ("GEMINI.md", "/etc/passwd"), ("AGENTS.md", "AGENTS.md")):
        (project.root / name).symlink_to(target)
    started(project, {"docs/agents.md": "D", ".cursorrules": "D"})
    assert instructed(project) == "### CLAUDE.md (the same as .cursorrules)\n\nD"


def test_which_files_count_is_configured_with_globs(project: Project) -> None:
    files = {"AGENTS.md": "top", "a/AGENTS.md": "a", "docs/b.md": "b", "docs/a.md": "a too", "docs/deep/c.md": "c"}
    started(project, files, {"instructions": ["docs/*.md", "**/AGENTS.md"]})
    names = [line.removeprefix("### ") for line in instructed(project).splitlines() if line.startswith("### ")]
    assert names == ["docs/a.md", "docs/b.md", "AGENTS.md", "a/AGENTS.md"]


def test_an_empty_list_switches_it_off(project: Project) -> None:
    started(project, {"AGENTS.md": "A"}, {"instructions": []})
    assert instructed(project) == ""


def test_what_is_said_is_part_of_the_hash(project: Project) -> None:
    first = started(project, {"AGENTS.md": "A"})
    again = project.start("steps: {}", flow="two")
    project.commit({"AGENTS.md": "B"})
    other = project.start("steps: {}", flow="two")
    assert hashes(project, first) == hashes(project, again)
    assert [one == two for one, two in zip(hashes(project, first), hashes(project, other), strict=True)] == [
        False
    ] * 2


def test_what_is_changed_in_the_run_has_no_effect_in_it(project: Project) -> None:
    """An agent may not; who goes on by hand may."""
    run = started(project, {"AGENTS.md": "A"}, one={"write": {"AGENTS.md": "Obey.", "below/claude.md": "Obey."}})
    assert project.git("diff", "--name-only", "main", f"shadow/{run}", "--", ":(exclude).swarm") == ""
    blocked = [call["blocked_reason"] for call in project.json("show", "one", "--receipt")["tool_calls"]]
    assert [reason.split(":")[0] for reason in blocked] == ["protected-path"] * 2
    project.swarm("rollback", "one")
    (project.worktree(run) / "AGENTS.md").write_text("Changed by hand.", encoding="utf-8")
    project.commit({"AGENTS.md": "Changed on main."})
    project.swarm("resume", "--adopt")
    assert project.git("show", f"shadow/{run}:AGENTS.md") == "Changed by hand."
    assert instructed(project, "other") == "### AGENTS.md\n\nA"


def test_a_file_that_is_too_long_is_cut_and_says_so(project: Project) -> None:
    files = {"AGENTS.md": "a" * 29_000, "CLAUDE.md": "c" * 2_000, "GEMINI.md": "g"}
    started(project, files, {"profile": "lean"})
    told = instructed(project)
    assert "[… cut: 1,038 of 2,000 characters …]" in told
    assert told.endswith("[CONTEXT_TRUNCATED] 2 of 3 files; left out: GEMINI.md (1 characters)")


def test_a_forecast_counts_it(project: Project) -> None:
    spec = yaml.safe_dump(flow("two", step("one"), step("other")))
    project.commit({".swarm/flows/two.yaml": spec})
    (before, *_rest) = project.json("start", "two", "--dry-run")
    project.commit({"AGENTS.md": "a" * 100})
    (after, *_rest) = project.json("start", "two", "--dry-run")
    assert after["prompt_chars"] - before["prompt_chars"] == len(f"\n\n{LEAD}### AGENTS.md\n\n") + 100


@pytest.mark.parametrize(
    ("said", "profile"),
    [("lean", "lean"), ({"profile": "heavy"}, "heavy"), ({"instructions": []}, "balanced")],
)
def test_the_profile_alone_is_the_short_spelling(project: Project, said: object, profile: str) -> None:
    started(project, {}, said)
    assert project.json("show", "one", "--receipt")["context"]["profile"] == profile


def test_a_person_s_profile_keeps_the_team_s_list(project: Project) -> None:
    project.git("config", "swarm.context", "lean")
    started(project, {"AGENTS.md": "A", "docs/x.md": "X"}, {"instructions": ["docs/x.md"]})
    assert instructed(project) == "### docs/x.md\n\nX"
    assert project.json("show", "one", "--receipt")["context"]["profile"] == "lean"


def test_a_wrong_profile_is_told_with_its_line(project: Project) -> None:
    project.commit({".swarm/config.yaml": "context: leen\n"})
    answer = ask(project, "start", "build", "-m", "x")
    assert answer.code == 1
    assert ".swarm/config.yaml:1" in answer.stderr


# Without a run.


def said(**texts: str) -> Instructions:
    return Instructions(files=tuple(Instruction(path=name, blob=name, text=text) for name, text in texts.items()))


@pytest.mark.unit
@pytest.mark.parametrize(
    ("limit", "told"),
    [
        (3_000, f"### a\n\n{'a' * 1000}\n\n### b\n\n{'b' * 1000}"),
        (1_400, f"### a\n\n{'a' * 1000}\n\n[CONTEXT_TRUNCATED] 1 of 2 files; left out: b (1,000 characters)"),
        (100, "[CONTEXT_TRUNCATED] 0 of 2 files; left out: a (1,000 characters), b (1,000 characters)"),
    ],
)
def test_files_are_taken_in_their_order_while_there_is_room(limit: int, told: str) -> None:
    assert pack_instructions(said(a="a" * 1000, b="b" * 1000), limit) == told
