"""A prompt from which something was left out says so: what it was, and how much of it."""

from __future__ import annotations

import re

import yaml

from gitswarm.resources import bundled
from gitswarm.specs.context import EarlierStep, Priority
from tests.conftest import Project
from tests.routed import MAKER, flow, step

WINDOW = 2_000
"""Tokens: 2,000 characters for the history, 600 for its newest step and for the charter, 200 for each older one."""

STEPS = [f"step-{number:02}" for number in range(14)]
SUMMARY = "x" * 900
CHARTER = {"goal": "Greet.", "question": "Is it loud?", "non_goals": ["n" * 700]}


def prompt_of_the_last(project: Project) -> str:
    """The prompt of a step after fourteen others that had much to say, for a model with a small window."""
    policy = yaml.safe_load((bundled("flows") / "policy/models.yaml").read_text("utf-8"))
    for facts in policy["models"].values():
        facts["window"] = WINDOW
    spec = flow("f", *(step(name, "maker") for name in (*STEPS, "last")), charter=CHARTER)
    project.commit(
        {
            ".swarm/flows/f.yaml": yaml.safe_dump(spec),
            ".swarm/flows/policy/models.yaml": yaml.safe_dump(policy),
            "AGENTS.md": "a" * 700,
            "CLAUDE.md": "Be brief.",
        }
        | MAKER
    )
    run = project.start(yaml.safe_dump({"default": {"status": "VERIFIED", "summary": SUMMARY}}), flow="f")
    context = project.json("show", "last", "--receipt", "--run", run)["context"]
    assert (context["truncated"], context["budget_chars"], context["steps_total"]) == (True, WINDOW, len(STEPS))
    return project.swarm("show", "last", "--prompt", "--run", run).stdout


def test_each_cut_is_named_with_its_size(project: Project) -> None:
    told = prompt_of_the_last(project)
    whole = len(EarlierStep(f"f/{STEPS[0]}", "maker", "VERIFIED", SUMMARY, Priority.CRITICAL).text(10_000))
    included = re.findall(r"^- f/(step-\d\d) \(maker\): VERIFIED", told, re.MULTILINE)
    gone = STEPS[: len(STEPS) - len(included)]
    assert included == STEPS[len(gone) :]
    assert 0 < len(gone) < len(STEPS)

    names = ", ".join(f"f/{name} ({whole} characters)" for name in gone)
    counts = f"{len(included)} of {len(STEPS)} earlier steps; left out: {len(gone)} CRITICAL"
    assert f"[CONTEXT_TRUNCATED] {counts}: {names}\n" in told

    cuts = [tuple(map(int, found)) for found in re.findall(r"\[… cut: (\d+) of (\d+) characters …\]", told)]
    note = len("\n[… cut: 000 of 000 characters …]\n")
    older, newest, agents = (whole - 200 + note, whole), (whole - 600 + note, whole), (700 - 600 + note, 700)
    assert sorted(cuts) == sorted([older] * (len(included) - 1) + [newest, agents])
    assert "[CONTEXT_TRUNCATED] 1 of 2 files; left out: CLAUDE.md (9 characters)\n" in told

    assert "The question that the flow answers: Is it loud?" in told
    non_goals = len(f"No part of it:\n\n- {'n' * 700}")
    assert f"[CONTEXT_TRUNCATED] left out of the charter: non_goals ({non_goals} characters)\n" in told
