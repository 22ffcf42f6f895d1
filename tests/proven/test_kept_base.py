"""The tests of a base are run once, and what they said is believed only where it speaks for the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.conftest import Project
from tests.projects import ask
from tests.proven.stories import newest
from tests.safety.sandbox.conftest import confined

__all__ = ["confined"]

CHECK = """\
echo "$(cat version)" >> "$HOME/counted"
number=0
for name in $(cat names) $(cat "$HOME/more" 2>/dev/null); do
    number=$((number + 1))
    echo "ok $number - $name"
done
echo "1..$number"
test ! -e "$HOME/red"
"""
TWICE = """\
id: work
steps:
  - {id: write, station: code-implementer}
  - {id: test, engine: command, command: test}
  - {id: polish, station: code-implementer}
  - {id: last, engine: command, command: test}
"""
BASE = {
    "check.sh": CHECK,
    "version": "base\n",
    "names": "adds\nrounds\n",
    ".swarm/flows/work.yaml": TWICE,
    ".swarm/config.yaml": "commands: {test: sh check.sh}\n",
}


def begin(project: Project, *options: str, **steps: Any) -> None:
    done = {"write": {"write": {"version": "one\n"}}, "polish": {"write": {"version": "two\n"}}, **steps}
    project.commit(BASE)
    again(project, *options, **done)


def again(project: Project, *options: str, **steps: Any) -> None:
    done = {"write": {"write": {"version": "one\n"}}, "polish": {"write": {"version": "two\n"}}, **steps}
    path = project.script(json.dumps({"steps": done}))
    ask(project, "start", "work", "--script", path, "--allow-stub", "--autopilot", *options)


def ran_on(project: Project) -> list[str]:
    """What the tests ran on, in order."""
    return Path(project.env["HOME"], "counted").read_text(encoding="utf-8").split()


def test_what_the_tests_reported_is_read_and_gone_when_the_run_has_ended(project: Project) -> None:
    begin(project)
    assert len(ran_on(project)) > 1
    assert list((project.root / ".git/swarm/sessions").glob("*/*")) == []


def test_a_resume_does_not_test_the_base_again(project: Project) -> None:
    begin(project, "--until", "test")
    project.swarm("resume", newest(project).run)
    assert (newest(project).state, ran_on(project)) == ("succeeded", ["one", "base", "two"])
    project.swarm("verify", newest(project).run)


def test_a_second_step_does_not_test_the_base_again_but_another_run_does(project: Project) -> None:
    """Where agents can write to the repository."""
    begin(project)
    again(project)
    assert ran_on(project) == ["one", "base", "two"] * 2


def test_what_is_kept_shows_of_no_test_that_it_is_gone(project: Project) -> None:
    more = Path(project.env["HOME"], "more")
    more.write_text("network\n", encoding="utf-8")
    begin(project, "--until", "test")
    more.unlink()
    project.swarm("resume", newest(project).run)
    assert (newest(project).state, ran_on(project)) == ("succeeded", ["one", "base", "two", "base"])


def test_what_is_kept_excuses_nothing(project: Project) -> None:
    begin(project, "--until", "test")
    Path(project.env["HOME"], "red").touch()
    project.swarm("resume", newest(project).run)
    assert (newest(project).state, ran_on(project)) == ("succeeded", ["one", "base", "two", "base"])
    assert newest(project).warnings == {"red_before@work/last"}


def test_what_an_agent_puts_in_its_place_is_not_read(project: Project) -> None:
    forged = {"run": ["sed -i /rounds/,+3d $RUN_BASE/work/base/test.json"], "write": {"names": "adds\n"}}
    begin(project, "--until", "polish", polish=forged)
    ask(project, "resume", newest(project).run)
    assert {"evidence_tampered@work/polish", "tests_deleted@work/last"} <= newest(project).blocking


def test_another_run_is_believed_where_agents_cannot_write_to_the_repository(confined: Project) -> None:
    begin(confined)
    again(confined)
    runs = [each["run_id"] for each in confined.json("list")]
    took = [confined.json("show", "test", "--run", run)["evidence"]["extra_runs_ms"] for run in runs]
    assert [sorted(each) for each in took] == [[], ["base"]]
    assert newest(confined).state == "succeeded"
