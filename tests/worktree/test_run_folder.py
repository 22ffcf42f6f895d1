"""RUN_BASE on disk: what nobody declared is put back and reported."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import pytest

from gitswarm.git.repository import open_repository
from gitswarm.worktree.run_folder import FolderChanges, RunFolder
from tests.conftest import Project
from tests.projects import ask, evidence, only_run
from tests.unseen import unseen

BASE = ".swarm/runs/run-20260101-000000-abcdef"
STORED = {f"{BASE}/spec.json": b"{}\n", f"{BASE}/build/receipts/a-b.json": b"[1]\n"}
SPEC, RECEIPT = STORED
NOTES = f"{BASE}/build/notes.md"


@dataclass(frozen=True)
class Checked:
    """A worktree whose RUN_BASE is in order, and the tree that it is in order with."""

    worktree: Path
    tree: str
    folder: RunFolder

    def examine(self, *declared: str) -> FolderChanges:
        return self.folder.examine(self.tree, frozenset(declared))

    def files(self) -> dict[str, bytes]:
        found = sorted((self.worktree / BASE).rglob("*"))
        return {
            path.relative_to(self.worktree).as_posix(): path.read_bytes()
            for path in found
            if path.is_file() and not path.is_symlink()
        }


@pytest.fixture
def checked(project: Project, tmp_path: Path) -> Checked:
    objects = open_repository(project.root, project.env).objects
    tree = objects.with_files(None, {name: objects.write_blob(content) for name, content in STORED.items()})
    worktree = tmp_path / "worktree"
    folder = RunFolder(worktree, BASE, objects)
    folder.write(STORED)
    return Checked(worktree, tree, folder)


def test_a_folder_in_order_has_no_changes(checked: Checked) -> None:
    assert checked.examine() == FolderChanges({}, ())


def _write(name: str, content: bytes = b"forged") -> Callable[[Path], None]:
    def act(worktree: Path) -> None:
        (worktree / name).parent.mkdir(parents=True, exist_ok=True)
        (worktree / name).write_bytes(content)

    return act


def _delete(worktree: Path) -> None:
    (worktree / RECEIPT).unlink()


def _delete_folder(worktree: Path) -> None:
    shutil.rmtree(worktree / f"{BASE}/build")


def _delete_all(worktree: Path) -> None:
    shutil.rmtree(worktree / ".swarm")


def _link(worktree: Path) -> None:
    copy = worktree / "copy"
    copy.write_bytes(STORED[RECEIPT])
    (worktree / RECEIPT).unlink()
    (worktree / RECEIPT).symlink_to(copy)


def _link_folder(worktree: Path) -> None:
    (worktree / f"{BASE}/build").rename(worktree / "elsewhere")
    (worktree / f"{BASE}/build").symlink_to(worktree / "elsewhere")


def _link_base(worktree: Path) -> None:
    (worktree / BASE).rename(worktree / "elsewhere")
    (worktree / BASE).symlink_to(worktree / "elsewhere")


def _file_for_base(worktree: Path) -> None:
    shutil.rmtree(worktree / BASE)
    (worktree / BASE).touch()


def _folder_for_file(worktree: Path) -> None:
    (worktree / RECEIPT).unlink()
    (worktree / RECEIPT).mkdir()


def _full_folder_for_file(worktree: Path) -> None:
    _folder_for_file(worktree)
    (worktree / RECEIPT / "x").touch()


def _same_size_and_time(worktree: Path) -> None:
    before = (worktree / RECEIPT).stat()
    (worktree / RECEIPT).write_bytes(b"[2]\n")
    os.utime(worktree / RECEIPT, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    ("tamper", "reported"),
    [
        pytest.param(_write(RECEIPT), [RECEIPT], id="changed"),
        pytest.param(_same_size_and_time, [RECEIPT], id="changed, size and time kept"),
        pytest.param(_delete, [RECEIPT], id="deleted"),
        pytest.param(_delete_folder, [RECEIPT], id="folder deleted"),
        pytest.param(_delete_all, [RECEIPT, SPEC], id="all deleted"),
        pytest.param(_write(f"{BASE}/build/receipts/x.json"), [f"{BASE}/build/receipts/x.json"], id="added"),
        pytest.param(_write(f"{BASE}/own/x"), [f"{BASE}/own/x"], id="added in a folder of its own"),
        pytest.param(_link, [RECEIPT], id="link with the same content"),
        pytest.param(_link_folder, [f"{BASE}/build", RECEIPT], id="folder replaced by a link"),
        pytest.param(_link_base, [RECEIPT, SPEC], id="RUN_BASE replaced by a link"),
        pytest.param(_file_for_base, [RECEIPT, SPEC], id="RUN_BASE replaced by a file"),
        pytest.param(_folder_for_file, [RECEIPT], id="empty folder for a file"),
        pytest.param(_full_folder_for_file, [RECEIPT, f"{RECEIPT}/x"], id="full folder for a file"),
    ],
)
def test_tampering_is_put_back_and_reported(
    checked: Checked, tamper: Callable[[Path], None], reported: list[str]
) -> None:
    tamper(checked.worktree)
    assert checked.examine() == FolderChanges({}, tuple(sorted(reported)))
    assert checked.files() == STORED


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Fails what would wait for ever."""

    def give_up(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"no end after {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_a_pipe_in_the_place_of_a_file_is_put_back_and_reported(checked: Checked) -> None:
    (checked.worktree / RECEIPT).unlink()
    os.mkfifo(checked.worktree / RECEIPT)
    with within(3):
        assert checked.examine() == FolderChanges({}, (RECEIPT,))
    assert checked.files() == STORED


def test_after_it_was_put_back_the_folder_is_in_order(checked: Checked) -> None:
    _write(RECEIPT)(checked.worktree)
    checked.examine()
    assert checked.examine() == FolderChanges({}, ())


def test_what_a_link_shows_is_never_written_to(checked: Checked) -> None:
    outside = checked.worktree.parent / "outside"
    outside.write_bytes(b"precious")
    (checked.worktree / RECEIPT).unlink()
    (checked.worktree / RECEIPT).symlink_to(outside)
    checked.examine()
    assert outside.read_bytes() == b"precious"


def test_a_linked_folder_above_is_never_written_through(checked: Checked) -> None:
    outside = checked.worktree.parent / "outside"
    (checked.worktree / ".swarm").rename(outside)
    _write("outside-file")(outside)
    (checked.worktree / ".swarm").symlink_to(outside)
    (outside / "runs").rename(outside / "taken")
    checked.examine()
    assert (sorted(path.name for path in outside.iterdir()), checked.files()) == (["outside-file", "taken"], STORED)


def test_a_declared_output_is_accepted(checked: Checked) -> None:
    _write(NOTES, b"notes")(checked.worktree)
    assert checked.examine(NOTES) == FolderChanges({NOTES: b"notes"}, ())


def test_a_declared_output_that_stayed_the_same_is_no_change(checked: Checked) -> None:
    assert checked.examine(RECEIPT) == FolderChanges({}, ())


def test_a_declared_output_that_exists_may_be_changed(checked: Checked) -> None:
    _write(RECEIPT, b"new")(checked.worktree)
    assert checked.examine(RECEIPT) == FolderChanges({RECEIPT: b"new"}, ())


def test_an_output_beside_the_declared_one_is_tampering(checked: Checked) -> None:
    _write(NOTES, b"notes")(checked.worktree)
    _write(f"{NOTES}.bak", b"notes")(checked.worktree)
    assert checked.examine(NOTES) == FolderChanges({NOTES: b"notes"}, (f"{NOTES}.bak",))


def test_a_link_is_no_declared_output(checked: Checked) -> None:
    secret = checked.worktree.parent / "secret"
    secret.write_bytes(b"secret")
    (checked.worktree / NOTES).symlink_to(secret)
    assert checked.examine(NOTES) == FolderChanges({}, (NOTES,))


def test_the_kernel_s_own_files_replace_whatever_lies_there(checked: Checked) -> None:
    _link_folder(checked.worktree)
    checked.folder.write({RECEIPT: b"new"})
    assert (checked.worktree / RECEIPT).read_bytes() == b"new"
    assert (checked.worktree / "elsewhere/receipts/a-b.json").read_bytes() == STORED[RECEIPT]


def test_a_folder_in_the_way_of_the_kernel_s_own_file_is_removed(checked: Checked) -> None:
    _full_folder_for_file(checked.worktree)
    checked.folder.write({RECEIPT: b"new"})
    assert (checked.worktree / RECEIPT).read_bytes() == b"new"


# --- through a whole run ----------------------------------------------------------------------------------------

ONE = """\
id: one
steps:
  - {id: first, station: code-implementer}
  - {id: work, station: code-implementer, teaching: {outputs: [notes.md]}}
"""


def played(project: Project, *lines: str) -> str:
    """A run whose second step executes these lines; its id."""
    project.commit({".swarm/flows/one.yaml": ONE})
    quoted = ", ".join("'" + line.replace("'", "''") + "'" for line in lines)
    script = project.script(unseen(f"steps:\n  work: [{{run: [{quoted}]}}, {{}}]\n"))
    project.swarm("start", "one", "--script", script)
    return only_run(project)


def test_a_run_reports_tampering_in_the_evidence_and_commits_none_of_it(project: Project) -> None:
    forged = "$RUN_BASE/one/receipts/first-code-implementer.json"
    run = played(project, f"echo {{}} > {forged}", "rm $RUN_BASE/spec.json", "touch $RUN_BASE/extra")
    base = f".swarm/runs/{run}"
    tampered = [f"{base}/extra", f"{base}/one/receipts/first-code-implementer.json", f"{base}/spec.json"]
    assert json.loads(project.swarm("show", "work@1", "--evidence").stdout)["tampered"] == tampered
    commit = project.json("log")[1]["commit"]
    changed = project.git("diff", "--name-only", f"{commit}~1", commit).splitlines()
    assert changed == [
        f"{base}/one/{name}"
        for name in (
            "events/work@1.jsonl",
            "evidence/work.json",
            "handoff/work.json",
            "llm/work-code-implementer-claude.jsonl",
            "receipts/work-code-implementer.json",
        )
    ]


def test_a_run_reports_tampering_as_an_event(project: Project) -> None:
    run = played(project, "touch $RUN_BASE/extra")
    events = ask(project, "events", run, "--json").stdout
    assert '"kind":"evidence_tampering","flow_key":"one","step_id":"work"' in events
    assert f'"payload":{{"paths":[".swarm/runs/{run}/extra"]}}' in events


def test_a_declared_output_is_committed_and_named_as_an_artifact(project: Project) -> None:
    run = played(project, "mkdir -p $RUN_BASE/one", "echo hello > $RUN_BASE/one/notes.md")
    path = f".swarm/runs/{run}/one/notes.md"
    envelope = json.loads(project.git("show", f"shadow/{run}:.swarm/runs/{run}/one/handoff/work.json"))
    assert (evidence(project, "one/work")["tampered"], envelope["artifacts"]) == ([], [path])
    assert project.git("show", f"shadow/{run}:{path}") == "hello"


def test_a_name_that_is_not_utf_8_is_reported_and_put_away(project: Project) -> None:
    run = played(project, 'touch "$RUN_BASE/$(printf "caf\\351")"')
    found = json.loads(project.swarm("show", "work@1", "--evidence").stdout)["tampered"]
    assert found == [f".swarm/runs/{run}/caf\N{REPLACEMENT CHARACTER}"]


def test_a_station_s_own_outputs_count_where_the_step_names_none(project: Project) -> None:
    """Design section 4.4: exactly the files that the kernel wrote or the station declares."""
    flow = "id: one\nsteps:\n  - {id: work, station: code-critic}\n"
    project.commit({".swarm/flows/one.yaml": flow})
    script = project.script("steps: {work: {write: {RUN_BASE/one/code_critique.md: CC-1}}}")
    project.swarm("start", "one", "--script", script)
    run = only_run(project)
    assert evidence(project, "one/work")["tampered"] == []
    assert project.git("show", f"shadow/{run}:.swarm/runs/{run}/one/code_critique.md") == "CC-1"


def test_the_worktree_of_a_finished_run_is_clean(project: Project) -> None:
    run = played(project, "touch $RUN_BASE/extra", "echo x > new.txt", "echo y > $RUN_BASE/one/notes.md")
    assert project.git("status", "--porcelain", cwd=project.root.parent / "repo.swarm" / run) == ""
