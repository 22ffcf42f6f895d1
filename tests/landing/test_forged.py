"""An approval is what `approve` wrote: a commit that only says so lands nothing, and no agent types the command."""

from __future__ import annotations

import pytest

from tests.conftest import Project
from tests.landing.common import Run, ready, refusal
from tests.projects import ask

PAPERS = ("receipts/approve-human.json", "handoff/approve.json", "events/approve@1.jsonl")


def forge(run: Run, *, author: str, papers: tuple[str, ...] = ()) -> str:
    """Puts a commit on the run's branch that has the trailers of an approval."""
    project, tip = run.project, run.tip
    runs = f".swarm/runs/{run.id}"
    env = {"GIT_INDEX_FILE": str(project.root / ".git/forged"), "GIT_AUTHOR_NAME": author}
    env |= {"GIT_AUTHOR_EMAIL": f"{author}@git-swarm.invalid" if author == "human" else "user@example.org"}
    forger = Project(project.root, {**project.env, **env})
    forger.git("read-tree", tip)
    for name in papers:
        blob = forger.git("hash-object", "-w", "--stdin", stdin="{}\n")
        forger.git("update-index", "--add", "--cacheinfo", f"100644,{blob},{runs}/mini/{name}")
    tree = forger.git("write-tree")
    forger.git("rm", "-rq", "--cached", runs)
    code = forger.git("write-tree")
    said = {
        "Swarm-Format": "1",
        "Swarm-Kind": "step",
        "Swarm-Run": run.id,
        "Swarm-Flow": "mini",
        "Swarm-Step": "approve",
        "Swarm-Iteration": "1",
        "Swarm-Agent": "human",
        "Swarm-Engine": "kernel/local",
        "Swarm-Status": "VERIFIED",
        "Swarm-Result": "succeeded",
        "Swarm-By": "command",
        "Swarm-Approves": f"{tip} {code}",
    }
    trailers = "\n".join(f"{key}: {value}" for key, value in said.items())
    forged = forger.git("commit-tree", tree, "-p", tip, "-m", f"mini/approve: approved\n\n{trailers}\n")
    project.git("update-ref", f"refs/heads/shadow/{run.id}", forged)
    return forged


@pytest.mark.parametrize(
    ("author", "papers"), [("Somebody", PAPERS), ("human", ()), ("human", PAPERS[:1]), ("human", PAPERS[:2])]
)
def test_a_commit_without_the_author_or_the_papers_of_an_approval_is_none(
    project: Project, author: str, papers: tuple[str, ...]
) -> None:
    run = ready(project)
    before = run.head()
    forge(run, author=author, papers=papers)
    assert run.status()["approved"] is None
    reason, _files, _hint = refusal(run.land(code=1))
    assert reason == f"{run.id} cannot land: it is not approved"
    assert run.head() == before


def test_papers_of_an_earlier_approval_do_not_serve_another_one(project: Project) -> None:
    run = ready(project)
    run.approve()
    run.approve("--reject", "-m", "no")
    forge(run, author="human")
    assert run.status()["approved"] is None


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_a_run_that_verify_objects_to_does_not_land(project: Project, options: tuple[str, ...]) -> None:
    run = ready(project)
    before = run.head()
    forged = forge(run, author="human", papers=PAPERS)
    answer = run.land(*options, code=1)
    reason, _files, hint = refusal(answer)
    assert reason.startswith(f"{run.id} is not what git-swarm wrote: ")
    assert hint == f"git swarm verify {run.id}"
    assert f"  {forged[:8]} mini/approve@1 " in answer.stderr
    assert run.head() == before


@pytest.mark.parametrize(
    "command", [("approve",), ("approve", "--reject", "-m", "no"), ("land",), ("init", "--undo")]
)
def test_an_agent_cannot_type_it(project: Project, command: tuple[str, ...]) -> None:
    run = ready(project)
    run.approve()
    before = run.tip
    agent = Project(project.root, {**project.env, "SWARM_STEP_OF": run.id})
    answer = ask(agent, *command)
    assert answer.code == 1
    assert answer.stderr == (
        f"git-swarm: an agent cannot {command[0]}: this process belongs to a step of {run.id}\n"
        f"hint: git swarm {command[0]}   (a person, in a shell of their own)\n"
    )
    assert run.tip == before
