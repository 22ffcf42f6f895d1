"""In which shape a run lands, and what of the code and the evidence gets there."""

from __future__ import annotations

import pytest

from tests.conftest import Project
from tests.landing.common import TWO_STEPS, WRITES, code_of, make_run, ready, tidy, with_flow
from tests.projects import ask

HOME = {"README.md": "# hello", "src/app.py": "print('changed')", "src/new.py": "print('new')"}
STRATEGIES = ("squash", "merge", "evidence")


def runs_on(project: Project, branch: str = "main") -> list[str]:
    return project.git("ls-tree", "--name-only", branch, ".swarm/runs/").split()


@pytest.mark.parametrize("moved", [False, True], ids=["target still", "target moved"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_strategy_brings_the_same_code(project: Project, strategy: str, *, moved: bool) -> None:
    run = ready(project)
    if moved:
        project.commit({"other.txt": "other\n"}, "meanwhile")
    before = run.head()
    landed = run.landed("--strategy", strategy)
    assert code_of(project, "main") == {**HOME, **({"other.txt": "other"} if moved else {})}
    parents = project.git("log", "-1", "--format=%P", landed).split()
    assert parents == [before, *([run.approved] if strategy == "merge" else [])]
    assert runs_on(project) == ([f".swarm/runs/{run.id}"] if strategy == "evidence" else [])
    assert project.git("status", "--porcelain") == ""
    assert run.trailers(landed) == {"Swarm-Run": run.id, "Swarm-Landed": f"{run.id} {run.approved}"}
    tidy(run)


def test_evidence_is_that_of_the_approved_commit(project: Project) -> None:
    run = ready(project)
    landed = run.landed("--strategy", "evidence")
    folder = f".swarm/runs/{run.id}"
    assert project.git("rev-parse", f"{landed}:{folder}") == project.git("rev-parse", f"{run.approved}:{folder}")


def test_the_configured_strategy_counts_and_the_command_line_before_it(project: Project) -> None:
    run = ready(project, config="deploy: {strategy: evidence}\n")
    run.landed()
    other = make_run(project, {"make": {"write": {"other.txt": "1\n"}}})
    other.landed("--strategy", "squash")
    assert runs_on(project) == [f".swarm/runs/{run.id}"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_earlier_evidence_on_the_target_stays(project: Project, strategy: str) -> None:
    first = ready(project)
    first.landed("--strategy", "evidence")
    kept = project.git("rev-parse", f"main:.swarm/runs/{first.id}")
    run = make_run(project, {"make": {"write": {"other.txt": "1\n"}}})
    run.landed("--strategy", strategy)
    own = [f".swarm/runs/{run.id}"] if strategy == "evidence" else []
    assert runs_on(project) == [f".swarm/runs/{first.id}", *own]
    assert project.git("rev-parse", f"main:.swarm/runs/{first.id}") == kept


def test_evidence_that_came_to_the_target_meanwhile_stays(project: Project) -> None:
    run = ready(project)
    other = make_run(project, {"make": {"write": {"other.txt": "1\n"}}})
    other.landed("--strategy", "evidence")
    run.landed()
    assert runs_on(project) == [f".swarm/runs/{other.id}"]
    assert code_of(project, "main") == {**HOME, "other.txt": "1"}


def test_evidence_of_the_same_run_on_the_target_is_brought_up_to_date(project: Project) -> None:
    steps = {"make": {"write": WRITES}, "more": {"write": {"again.txt": "1\n"}}}
    run = make_run(with_flow(project, TWO_STEPS), steps, "--until", "make")
    run.landed("--strategy", "evidence")
    first = project.git("rev-parse", f"main:.swarm/runs/{run.id}")
    assert ask(project, "resume", run.id).code == 0
    run.landed("--strategy", "evidence")
    second = project.git("rev-parse", f"main:.swarm/runs/{run.id}")
    assert first != second == project.git("rev-parse", f"{run.approved}:.swarm/runs/{run.id}")


CHANGES = {
    "a deleted file": ({"delete": ["README.md"]}, {"src/app.py": "print('hello')"}),
    "a new folder": (
        {"write": {"deep/er/x.txt": "x\n"}},
        {"README.md": "# hello", "deep/er/x.txt": "x", "src/app.py": "print('hello')"},
    ),
    "a renamed file": (
        {"run": ["git mv src/app.py src/main.py"]},
        {"README.md": "# hello", "src/main.py": "print('hello')"},
    ),
    "a file that becomes a folder": (
        {"run": ["rm README.md", "mkdir README.md", "echo a > README.md/a"]},
        {"README.md/a": "a", "src/app.py": "print('hello')"},
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_every_kind_of_change_lands(project: Project, what: str) -> None:
    entry, expected = CHANGES[what]
    run = ready(project, {"make": entry})
    run.landed()
    assert code_of(project, "main") == expected
    assert project.git("status", "--porcelain") == ""


def test_modes_and_links_land(project: Project) -> None:
    lines = ["printf 'x' > tool.sh", "chmod +x tool.sh", "ln -s ../README.md src/link"]
    run = ready(project, {"make": {"run": lines}})
    run.landed()
    modes = {name: about.split()[0] for name, about in project.tree("main").items() if not name.startswith(".")}
    assert modes == {"README.md": "100644", "src/app.py": "100644", "src/link": "120000", "tool.sh": "100755"}
    assert project.git("status", "--porcelain") == ""


def test_a_rename_follows_an_edit_of_the_target(project: Project) -> None:
    lines = "".join(f"line {number}\n" for number in range(20))
    project.commit({"src/long.py": lines})
    run = ready(project, {"make": {"run": ["git mv src/long.py src/longer.py"]}})
    project.commit({"src/long.py": lines.replace("line 3\n", "line three\n")}, "meanwhile")
    run.landed()
    found = code_of(project, "main")
    assert "src/long.py" not in found
    assert found["src/longer.py"].splitlines()[3] == "line three"


def test_a_submodule_moves_to_the_commit_that_the_run_chose(project: Project, env: dict[str, str]) -> None:
    library = Project(project.root.parent / "library", env)
    library.root.mkdir()
    library.git("init", "-q")
    first = library.commit({"lib.txt": "1\n"}, "one")
    second = library.commit({"lib.txt": "2\n"}, "two")
    project.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library.root), "lib")
    project.git("-C", "lib", "checkout", "-q", first)
    project.commit({}, "with a submodule")
    run = ready(project, {"make": {"run": [f"git update-index --cacheinfo 160000,{second},lib"]}})
    landed_before = project.git("rev-parse", "main:lib")
    run.landed()
    assert (landed_before, project.git("rev-parse", "main:lib")) == (first, second)


def test_files_behind_a_filter_land_as_they_are_stored(project: Project) -> None:
    """As with LFS: what lies in the checkout is not what is stored."""
    project.git("config", "filter.turn.clean", "tr a-z n-za-m")
    project.git("config", "filter.turn.smudge", "tr a-z n-za-m")
    project.git("config", "filter.turn.required", "true")
    project.commit({".gitattributes": "*.bin filter=turn\n", "old.bin": "uryyb\n"})
    run = ready(project, {"make": {"write": {"new.bin": "hello\n"}}})
    project.commit({"other.txt": "1\n"}, "meanwhile")
    run.landed()
    assert project.git("show", "main:new.bin") == "uryyb"
    assert (project.root / "new.bin").read_text(encoding="utf-8") == "hello\n"
    assert project.git("status", "--porcelain") == ""


def test_what_was_committed_only_on_the_target_is_not_undone(project: Project) -> None:
    run = ready(project)
    project.git("rm", "-q", "README.md")
    project.commit({}, "no more")
    run.landed()
    assert set(code_of(project, "main")) == set(WRITES)
