"""Buttons are commands: the same outcome, the same refusals."""

from __future__ import annotations

import html
import re
import time

import pytest
import yaml
from starlette.testclient import TestClient

from tests.conftest import Project
from tests.projects import new_project
from tests.web.browsing import press, visitor

FLOW = "id: two\nsteps: [{id: s1, station: code-implementer}, {id: s2, station: code-implementer}]\n"
SCRIPT = {
    "s1": {"write": {"a.txt": "1\n"}},
    "s2": [{"status": "BLOCKED", "blockers": ["which?"]}, {"write": {"b.txt": "2\n"}}],
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = new_project(tmp_path_factory.mktemp("actions"))
    made.commit({".swarm/flows/two.yaml": FLOW})
    return made


@pytest.fixture(scope="module")
def run(project: Project) -> str:
    return project.start(yaml.safe_dump({"steps": SCRIPT}), "--allow-stub", flow="two", code=5)


@pytest.fixture(scope="module")
def client(project: Project) -> TestClient:
    return visitor(project)


def state(project: Project, run: str) -> str:
    return str(project.json("status", run)["state"])


def said(page: str) -> str:
    """What the command said."""
    return html.unescape("\n".join(re.findall(r"<pre>(.*?)</pre>", page, re.DOTALL)))


def test_an_answer_resumes_the_run_in_the_background(project: Project, run: str, client: TestClient) -> None:
    assert f"/runs/{run}/resume" in client.get(f"/runs/{run}").text
    status, page = press(client, f"/runs/{run}/resume", {"message": "--this 'one'"})
    assert status == 200, said(page)
    deadline = time.monotonic() + 60
    while state(project, run) in ("running", "paused") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert state(project, run) == "succeeded"
    assert "--this 'one'" in project.swarm("transcript", "s2", "--run", run, "--prompt").stdout
    assert "s2@2" in project.swarm("log", run).stdout


def test_what_the_command_refuses_the_button_refuses_in_the_same_words(
    project: Project, run: str, client: TestClient
) -> None:
    expected = project.swarm("rollback", "s9", f"--run={run}", code=1).stderr
    status, page = press(client, f"/runs/{run}/rollback", {"step": "s9"})
    assert (status, " ".join(said(page).split())) == (409, " ".join(expected.split()))
    assert "hint: git swarm log" in said(page)
    assert f"git swarm rollback s9 --run={run}" in page


@pytest.mark.soak
def test_pause_of_a_run_that_ended_says_how_it_stands(project: Project, run: str, client: TestClient) -> None:
    expected = project.swarm("pause", run).stdout
    assert said(press(client, f"/runs/{run}/pause", {})[1]).split() == expected.split()


def test_a_rejection_and_an_approval(project: Project, run: str, client: TestClient) -> None:
    assert press(client, f"/runs/{run}/reject", {"message": "no <b>"})[0] == 200
    assert project.json("status", run)["rejected"]["valid"] is True
    status, page = press(client, f"/runs/{run}/land", {})
    assert (status, "was rejected" in said(page)) == (409, True), said(page)
    assert press(client, f"/runs/{run}/approve", {})[0] == 200
    assert project.json("status", run)["approved"]["valid"] is True
    status, page = press(client, f"/runs/{run}/land", {"dry-run": "1", "strategy": "merge", "message": "It's done"})
    assert (status, "would land on main (merge)" in said(page)) == (200, True), said(page)


def test_a_rollback_and_its_undo(project: Project, run: str, client: TestClient) -> None:
    tip = project.git("rev-parse", f"shadow/{run}")
    assert press(client, f"/runs/{run}/rollback", {"step": "s1"})[0] == 200
    assert project.git("rev-parse", f"shadow/{run}") != tip
    assert press(client, f"/runs/{run}/rollback", {"step": "", "undo": "1"})[0] == 200
    assert project.git("rev-parse", f"shadow/{run}") == tip


@pytest.mark.soak
def test_what_a_rollback_would_undo_is_only_said(project: Project, run: str, client: TestClient) -> None:
    tip = project.git("rev-parse", f"shadow/{run}")
    status, page = press(client, f"/runs/{run}/rollback", {"step": "s1", "dry-run": "1"})
    assert (status, "would be rolled back" in said(page), project.git("rev-parse", f"shadow/{run}")) == (
        200,
        True,
        tip,
    )


@pytest.mark.parametrize("step", ["s1", "0"])
def test_a_fork_is_another_run_that_the_answer_links(
    project: Project, run: str, client: TestClient, step: str
) -> None:
    status, page = press(client, f"/runs/{run}/fork", {"step": step, "engine": ""})
    assert status == 200, said(page)
    (fork,) = re.findall(r'<a href="/runs/(run-\S+)">', page)
    assert fork != run
    deadline = time.monotonic() + 60
    while state(project, fork) in ("running", "interrupted") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert state(project, fork) in ("paused", "succeeded")


def test_a_run_is_started_in_the_background(project: Project, client: TestClient) -> None:
    assert 'value="two"' in client.get("/start").text
    status, page = press(
        client, "/start", {"flow": "two", "message": "Say 'hello'\nagain", "economy": "1", "mode": "stub"}
    )
    assert status == 200, said(page)
    assert "--economy" in page
    (run,) = re.findall(r'<a href="/runs/(run-\S+)">', page)
    assert project.json("status", run)["task"] == "Say 'hello'\nagain"
    deadline = time.monotonic() + 60
    while state(project, run) in ("running", "interrupted") and time.monotonic() < deadline:
        time.sleep(0.1)


def test_a_form_says_words_and_no_options(project: Project, run: str, client: TestClient) -> None:
    before = project.git("for-each-ref"), sorted((project.root / ".git/swarm/logs").iterdir())
    pressed: list[tuple[str, dict[str, str]]] = [
        ("/start", {"flow": "--script=/etc/passwd"}),
        ("/start", {"flow": "nosuch"}),
        (f"/runs/{run}/rollback", {"step": "--undo"}),
        ("/runs/--all/stop", {}),
        (f"/runs/{run}/nosuch", {}),
        ("/runs/../resume", {}),
        ("/runs/nowhere/resume", {}),
        (f"/runs/{run}/resume", {"message": "a\0b"}),
        (f"/runs/{run}/resume", {"message": "x" * 1_000_001}),
        (f"/runs/{run}/approve", {"message": "ö" * 66_000}),
    ]
    assert [press(client, address, form)[0] for address, form in pressed] == [
        400,
        409,
        400,
        400,
        404,
        404,
        404,
        400,
        400,
        400,
    ]
    assert (project.git("for-each-ref"), sorted((project.root / ".git/swarm/logs").iterdir())) == before


def test_a_concern_may_stay_for_a_reason(project: Project, client: TestClient) -> None:
    claim = {"status": "VERIFIED", "summary": "done", "file_changes": [{"path": "nowhere.txt", "change": "added"}]}
    lies = yaml.safe_dump({"steps": {"s1": {"write": {"c.txt": "z\n"}, "envelope": claim}}})
    run = project.start(lies, flow="two", code=5)
    (field,) = set(re.findall(r'name="(accept:[^"]*)"', client.get(f"/runs/{run}").text))
    assert press(client, f"/runs/{run}/resume", {field: "it = was renamed"})[0] == 200
    deadline = time.monotonic() + 60
    while state(project, run) in ("running", "paused") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert "it = was renamed" in project.swarm("log", run).stdout + project.swarm("show", "s1", "--run", run).stdout
    assert not any(each["blocking"] for each in project.json("status", run)["open_concerns"])
