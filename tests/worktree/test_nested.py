"""Repositories that an agent makes inside its worktree: their files count, their git does not run."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gitswarm.worktree.index_entries import NestedFinder, quarantine
from tests.conftest import Project
from tests.projects import ask, evidence, only_run
from tests.unseen import unseen

ONE = "id: one\nsteps:\n  - {id: work, station: code-implementer}\n  - {id: more, station: fixer}\n"
LATER_NS = 60_000_000_000


# --- the walk ---------------------------------------------------------------------------------------------------


def make(root: Path, *folders: str) -> None:
    for folder in folders:
        (root / folder).mkdir(parents=True)


def now_of(path: Path) -> int:
    """The moment of the folder's last change, on the clock of its file system."""
    return path.stat().st_ctime_ns


def test_a_git_of_any_kind_is_found(tmp_path: Path) -> None:
    make(tmp_path, "folder/.git", "file", "link", "plain/deep/.git")
    (tmp_path / "file/.git").write_text("gitdir: /elsewhere\n", encoding="utf-8")
    (tmp_path / "link/.git").symlink_to("/nowhere")
    assert NestedFinder(tmp_path).find(0) == ["file", "folder", "link", "plain/deep"]


def test_the_worktree_s_own_git_is_none_of_them(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /elsewhere\n", encoding="utf-8")
    assert NestedFinder(tmp_path).find(0) == []


def test_a_nested_one_in_a_nested_one_is_found(tmp_path: Path) -> None:
    make(tmp_path, "a/.git", "a/b/.git")
    assert NestedFinder(tmp_path).find(0) == ["a", "a/b"]


def test_a_linked_folder_is_not_followed(tmp_path: Path) -> None:
    make(tmp_path, "outside/repo/.git", "tree")
    (tmp_path / "tree/link").symlink_to(tmp_path / "outside/repo")
    assert NestedFinder(tmp_path / "tree").find(0) == []


def test_one_that_came_later_is_found_by_the_next_look(tmp_path: Path) -> None:
    make(tmp_path, "a/b")
    finder = NestedFinder(tmp_path)
    assert finder.find(now_of(tmp_path) + LATER_NS) == []
    make(tmp_path, "a/b/.git")
    assert finder.find(now_of(tmp_path) + LATER_NS) == ["a/b"]


def test_one_that_is_gone_is_not_found_any_more(tmp_path: Path) -> None:
    make(tmp_path, "a/.git")
    finder = NestedFinder(tmp_path)
    assert finder.find(now_of(tmp_path) + LATER_NS) == ["a"]
    time.sleep(0.05)  # the clock of a file system ticks every 4 to 10 ms
    (tmp_path / "a/.git").rmdir()
    assert finder.find(now_of(tmp_path) + LATER_NS) == []


def test_a_folder_that_was_put_in_the_place_of_another_is_looked_at(tmp_path: Path) -> None:
    make(tmp_path, "a", "b/.git")
    finder = NestedFinder(tmp_path)
    finder.find(now_of(tmp_path) + LATER_NS)
    (tmp_path / "a").rmdir()
    (tmp_path / "b").rename(tmp_path / "a")
    assert finder.find(now_of(tmp_path) + LATER_NS) == ["a"]


def test_a_folder_that_changed_just_before_the_look_is_looked_at_again(tmp_path: Path) -> None:
    """Within one tick of the clock a second change leaves the same change time."""
    make(tmp_path, "a")
    finder = NestedFinder(tmp_path)
    finder.find(now_of(tmp_path / "a") + 1)
    make(tmp_path, "a/.git")
    assert finder.find(now_of(tmp_path / "a") + 2) == ["a"]


def test_what_is_known_of_a_racy_folder_is_not_believed(tmp_path: Path) -> None:
    make(tmp_path, "a")
    finder = NestedFinder(tmp_path)
    finder.find(now_of(tmp_path / "a") + 1)
    assert finder._known["a"].changed_ns != now_of(tmp_path / "a")


def test_what_is_known_of_a_quiet_folder_is_believed(tmp_path: Path) -> None:
    make(tmp_path, "a")
    finder = NestedFinder(tmp_path)
    finder.find(now_of(tmp_path / "a") + LATER_NS)
    assert finder._known["a"].changed_ns == now_of(tmp_path / "a")


def test_a_changed_modification_time_deceives_nobody(tmp_path: Path) -> None:
    make(tmp_path, "a")
    before = (tmp_path / "a").stat()
    finder = NestedFinder(tmp_path)
    finder.find(now_of(tmp_path) + LATER_NS)
    make(tmp_path, "a/.git")
    os.utime(tmp_path / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert finder.find(now_of(tmp_path) + LATER_NS) == ["a"]


def test_quarantine_moves_the_git_and_leaves_the_files(tmp_path: Path) -> None:
    make(tmp_path, "tree/a/b/.git")
    (tmp_path / "tree/a/b/file").touch()
    kept = quarantine(tmp_path / "tree", "a/b", tmp_path / "store")
    assert (kept, kept.is_dir()) == (tmp_path / "store/1-a_b", True)
    assert [path.name for path in (tmp_path / "tree/a/b").iterdir()] == ["file"]


def test_quarantine_keeps_two_of_one_name(tmp_path: Path) -> None:
    for _ in range(2):
        make(tmp_path, "tree/a/.git")
        quarantine(tmp_path / "tree", "a", tmp_path / "store")
        (tmp_path / "tree/a").rmdir()
    assert sorted(path.name for path in (tmp_path / "store").iterdir()) == ["1-a", "2-a"]


# --- through a whole run ----------------------------------------------------------------------------------------

EMB = "git init -q emb && echo inside > emb/file.txt"
COMMITTED = f"{EMB} && git -C emb add -A && git -C emb commit -qm inner"


def played(project: Project, *lines: str, extra: str = "") -> str:
    """A run whose first step executes these shell lines; its id."""
    project.commit({".swarm/flows/one.yaml": ONE})
    script = project.script(unseen(f"steps:\n  work: [{{run: [{', '.join(map(quoted, lines))}]}}]\n{extra}"))
    project.swarm("start", "one", "--script", script)
    return only_run(project)


def code(project: Project, run: str) -> dict[str, str]:
    """Mode by path of all code at the end of the run."""
    tree = project.tree(f"shadow/{run}")
    return {name: about.split()[0] for name, about in tree.items() if not name.startswith(".swarm/")}


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([COMMITTED], id="with commits"),
        pytest.param([EMB], id="without a commit"),
        pytest.param([COMMITTED, "git add emb 2>/dev/null"], id="staged by the agent as a gitlink"),
        pytest.param(["mkdir emb && echo inside > emb/file.txt && echo 'gitdir: /nowhere' > emb/.git"], id="a file"),
    ],
)
def test_files_of_a_nested_repository_become_ordinary_files(project: Project, lines: list[str]) -> None:
    run = played(project, *lines)
    assert code(project, run) == {"README.md": "100644", "emb/file.txt": "100644", "src/app.py": "100644"}
    assert evidence(project, "one/work")["quarantined"] == ["emb"]


def test_an_empty_nested_repository_is_quarantined(project: Project) -> None:
    """`git add -A` alone would fail as a whole here, and nothing would be staged."""
    run = played(project, "git init -q emb", "echo more > more.txt")
    assert code(project, run) == {"README.md": "100644", "more.txt": "100644", "src/app.py": "100644"}
    assert evidence(project, "one/work")["quarantined"] == ["emb"]


@pytest.mark.parametrize("name", [r"emb\377", "😀" * 60 + "/" + "😀" * 20], ids=["no text", "long"])
def test_a_nested_repository_has_any_name(project: Project, name: str) -> None:
    make = project.root.parent / "make.sh"
    make.write_text(f"git init -q \"$(printf '{name}')\"\n", encoding="utf-8")
    run = played(project, f"sh {make}")
    assert len(evidence(project, "one/work")["quarantined"]) == 1
    assert len([*(project.root / f".git/swarm/quarantine/{run}").iterdir()]) == 1


def test_the_git_of_a_nested_repository_is_kept_whole(project: Project) -> None:
    run = played(project, COMMITTED)
    kept = project.root / f".git/swarm/quarantine/{run}/1-emb"
    assert project.git(f"--git-dir={kept}", "log", "--format=%s") == "inner"


def test_the_quarantine_is_told_as_an_event(project: Project) -> None:
    run = played(project, COMMITTED)
    events = ask(project, "events", run, "--json").stdout
    assert '"payload":{"path":"emb/.git","kept_as":"1-emb"}' in events


def test_every_nested_repository_is_quarantined(project: Project) -> None:
    run = played(project, COMMITTED, "cd emb && git init -q deeper && echo x > deeper/x")
    assert sorted(code(project, run)) == ["README.md", "emb/deeper/x", "emb/file.txt", "src/app.py"]
    assert evidence(project, "one/work")["quarantined"] == ["emb", "emb/deeper"]


EVIL = "echo ran >> $HOME/evil"


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(f"git -C emb config core.fsmonitor '{EVIL}; false'", id="fsmonitor"),
        pytest.param(
            f"git -C emb config filter.x.clean '{EVIL}; cat' && echo '* filter=x' > emb/.gitattributes"
            " && echo INSIDE > emb/file.txt",
            id="filter",
        ),
        pytest.param(
            f"printf '#!/bin/sh\\n{EVIL}\\n' > emb/.git/hooks/pre-commit && chmod +x emb/.git/hooks/pre-commit"
            " && cp emb/.git/hooks/pre-commit emb/.git/hooks/post-index-change",
            id="hooks",
        ),
    ],
)
def test_nothing_that_a_nested_repository_configures_runs(project: Project, config: str) -> None:
    played(project, COMMITTED, config)
    assert not (Path(project.env["HOME"]) / "evil").exists()


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(f"git -C emb config core.fsmonitor '{EVIL}; false'", id="fsmonitor"),
        pytest.param(
            f"git -C emb config filter.x.clean '{EVIL}; cat' && echo '* filter=x' > emb/.gitattributes"
            " && echo INSIDE > emb/file.txt",
            id="filter",
        ),
    ],
)
def test_a_nested_repository_that_the_agent_calls_a_submodule_does_not_run_either(
    project: Project, config: str
) -> None:
    """The first step registers the path, the second one makes the repository."""
    project.commit({".swarm/flows/one.yaml": ONE})
    register = "printf '[submodule \"emb\"]\\n\\tpath = emb\\n\\turl = ./emb\\n' > .gitmodules"
    link = "mkdir emb && git add .gitmodules && git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),emb"
    lines = [
        f"{COMMITTED} && {config}",
        "git update-index --cacheinfo 160000,$(git -C emb rev-parse HEAD),emb",
    ]
    script = project.script(
        unseen(
            "steps:\n"
            f"  work: [{{run: [{quoted(register)}, {quoted(link)}]}}]\n"
            f"  more: [{{run: [{', '.join(quoted(line) for line in lines)}]}}]\n"
        )
    )
    project.swarm("start", "one", "--script", script)
    assert not (Path(project.env["HOME"]) / "evil").exists()


def quoted(line: str) -> str:
    return "'" + line.replace("'", "''") + "'"


def test_an_ignored_nested_repository_is_left_alone(project: Project) -> None:
    project.commit({".gitignore": "vendor/\n"})
    run = played(project, COMMITTED.replace("emb", "vendor/lib"))
    assert evidence(project, "one/work")["quarantined"] == []
    assert (project.root.parent / f"repo.swarm/{run}/vendor/lib/.git").is_dir()


def test_a_submodule_that_was_checked_out_is_left_alone(project: Project, tmp_path: Path) -> None:
    lib = tmp_path / "lib"
    project.git("clone", "-q", str(project.root), str(lib))
    project.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(lib), "lib")
    project.commit({})
    run = played(project, "git -c protocol.file.allow=always submodule --quiet update --init", "echo x > x.txt")
    assert evidence(project, "one/work")["quarantined"] == []
    assert code(project, run)["lib"] == "160000"


def test_a_second_step_of_the_same_run_is_watched_too(project: Project) -> None:
    extra = f"  more: [{{run: [{quoted(COMMITTED)}]}}]\n"
    run = played(project, "true", extra=extra)
    assert code(project, run)["emb/file.txt"] == "100644"
    assert evidence(project, "one/more")["quarantined"] == ["emb"]
