"""The staging matrix, repositories: sparse, split, partial, shallow, large, with submodules."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.conftest import Project
from tests.twin import FLOW, Row, check, parameters

FIXED_DATE = "export GIT_AUTHOR_DATE=2026-01-01T00:00:00Z GIT_COMMITTER_DATE=2026-01-01T00:00:00Z\n"
"""A twin's commits have the same ids."""


def configured(*settings: str) -> Callable[[Project], Project]:
    def arrange(project: Project) -> Project:
        for setting in settings:
            name, _equals, value = setting.partition("=")
            project.git("config", name, value)
        return project

    return arrange


def sparse(*arguments: str) -> Callable[[Project], Project]:
    """Only `in/` of `in/` and `out/` is checked out."""

    def arrange(project: Project) -> Project:
        project.commit({"in/old": "in\n", "out/old": "out\n", "out/other": "other\n", "out/d/deep": "deep\n"})
        project.git("sparse-checkout", "set", *arguments)
        assert not (project.root / "out").exists()
        return project

    return arrange


def with_a_submodule(project: Project) -> Project:
    """`sub`, which the user has not initialised beyond its URL."""
    inner = Project(project.root.parent / "inner", project.env)
    inner.root.mkdir()
    inner.git("init", "-q")
    inner.commit({"f": "inner\n", "g": "inner\n"})
    project.git("config", "--global", "protocol.file.allow", "always")
    project.git("submodule", "--quiet", "add", inner.root.as_uri(), "sub")
    project.commit({}, "a submodule")
    project.git("submodule", "deinit", "-q", "--force", "sub")
    project.git("submodule", "init", "-q")
    return project


def cloned(*arguments: str) -> Callable[[Project], Project]:
    """The user stands in a clone of a repository with some history."""

    def arrange(project: Project) -> Project:
        project.commit({"out/gone": "".join(f"line {n}\n" for n in range(50)), "out/old": "old\n"})
        project.commit({"README.md": "# changed\n"})
        project.git("config", "uploadpack.allowFilter", "true")
        place = project.root.parent / "clone"
        project.git("clone", "-q", *arguments, project.root.as_uri(), str(place))
        return replace(project, root=place)

    return arrange


SPARSE: dict[str, Any] = {
    "first": "echo 1 > in/new; mkdir out; echo 1 > out/new; echo 1 >> in/old; echo 1 > top",
    "second": "echo 2 > in/new; echo 2 > out/old; rm out/new; mkdir -p else/d; echo 2 > else/d/x\n"
    "git rm -q --sparse out/other",
    "dirt": "echo dirt > out/dirt; echo dirt > in/dirt; rm else/d/x; echo dirt > out/old",
    "add": ("add", "-A", "--sparse"),
}
CHANGES: dict[str, Any] = {
    "first": "echo 1 > a; mkdir -p d/e; echo x > d/e/x; echo two >> README.md",
    "second": "echo 2 > a; rm -r d; mv README.md moved; echo 3 > src/new",
}
MANY = "mkdir many; cd many; seq {count} | split -l 1 -a 5 -d - f; cd .."

ROWS = (
    Row("sparse, cone", arrange=sparse("--cone", "in"), **SPARSE),
    Row("sparse, patterns", arrange=sparse("--no-cone", "/*", "!/out/", "!/else/"), **SPARSE),
    Row("sparse index", arrange=sparse("--cone", "--sparse-index", "in"), **SPARSE),
    Row(
        "split index with an untracked cache",
        arrange=configured("core.splitIndex=true", "core.untrackedCache=true", "splitIndex.maxPercentChange=0"),
        **CHANGES,
    ),
    Row("index of version 4", long=True, arrange=configured("feature.manyFiles=true", "index.version=4"), **CHANGES),
    Row("a submodule that stays empty", long=True, arrange=with_a_submodule, **CHANGES),
    Row(
        "a submodule in which the agent commits",
        arrange=with_a_submodule,
        first=f"{FIXED_DATE}git submodule --quiet update; cd sub; echo 1 > f; git commit -q -a -m 1",
        second=f"{FIXED_DATE}cd sub; echo 2 > f; rm g; echo 2 > h; git add h; git commit -q -a -m 2\n"
        "cd ..; echo 2 > a",
        dirt="echo dirt > dirt; echo dirt > a",
    ),
    Row("a submodule that goes", arrange=with_a_submodule, first="echo 1 > a", second="git rm -q sub; echo 2 > a"),
    Row(
        "partial clone, contents fetched when needed",
        arrange=cloned("--filter=blob:none", "--sparse"),
        first="mkdir out; echo 1 > out/old",
        second="git rm -q --sparse --cached out/gone; seq 50 > out/came; echo 2 > a",
        dirt="echo dirt > out/old",
        add=("add", "-A", "--sparse"),
    ),
    Row(
        "partial clone without trees",
        long=True,
        arrange=cloned("--filter=tree:0"),
        **CHANGES,
    ),
    Row("shallow clone", arrange=cloned("--depth", "1"), **CHANGES),
    Row(
        "thousands of files",
        long=True,
        first=MANY.format(count=5000),
        second="rm many/f000*; for f in many/f04*; do echo 2 > $f; done; mkdir more; mv many/f0399* more",
        dirt="rm -r more; echo dirt > many/f00000",
    ),
    Row(
        "files over 100 MB",
        long=True,
        first="truncate -s 101M big; echo end >> big",
        second="truncate -s 102M big; truncate -s 101M other",
        dirt="rm other; truncate -s 103M big",
    ),
    Row(
        "a hundred thousand files",
        long=True,
        first=MANY.format(count=100_000),
        second="rm -r many/f0*; for f in many/f10*; do echo 2 > $f; done",
        dirt="echo dirt > many/f00000",
    ),
)


@pytest.mark.parametrize("row", parameters(ROWS))
def test_a_step_commits_what_git_would(project: Project, row: Row) -> None:
    check(row, project)


def test_a_worktree_made_again_holds_what_the_run_wrote_outside_of_the_sparse_patterns(project: Project) -> None:
    project.commit({".swarm/flows/row.yaml": FLOW})
    user = sparse("--cone", "in")(project)
    script = "steps: {one: {write: {out/new: '1'}}, two: {run: [cp out/new in/copy]}}"
    run = user.start(script, "--until", "one", flow="row")
    shutil.rmtree(user.worktree(run))

    user.swarm("resume")

    assert user.git("show", f"shadow/{run}:in/copy") == "1"
    assert sorted(path.name for path in (user.worktree(run) / "out").iterdir()) == ["new"]
