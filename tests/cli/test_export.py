"""`export`: the layout that other tools read, from git alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gitswarm.records.receipt import Receipt
from tests.conftest import Project
from tests.projects import ask, new_project

FLOW = "id: one\nsteps: [{id: s1, station: code-implementer}, {id: s2, station: code-implementer}]\n"
SCRIPT = "steps: {s1: {write: {a.txt: x}}, s2: {write: {b.txt: y}}}\ndefault: {status: VERIFIED}\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = new_project(tmp_path_factory.mktemp("export"))
    made.commit({".swarm/flows/one.yaml": FLOW})
    run = made.start(SCRIPT, "-m", "Two files", "--until", "s1", flow="one")
    made.swarm("resume", run)
    return made


@pytest.fixture(scope="module")
def run(project: Project) -> str:
    return str(project.json("list")[0]["run_id"])


@pytest.fixture(scope="module")
def exported(project: Project, run: str) -> Path:
    folder = project.root.parent / "deep" / "exported"
    said = project.swarm("export", run, str(folder)).stdout
    assert said == f"{run}: 12 files in {folder}\n"
    return folder


def test_the_layout_is_that_of_the_contract(exported: Path) -> None:
    found = sorted(str(path.relative_to(exported)) for path in exported.rglob("*") if not path.is_dir())
    assert found == [
        "events.jsonl",
        "meta.json",
        "one/evidence/s1.json",
        "one/evidence/s2.json",
        "one/handoff/s1.json",
        "one/handoff/s2.json",
        "one/impl_changes_summary.md",
        "one/llm/s1-code-implementer-claude.jsonl",
        "one/llm/s2-code-implementer-claude.jsonl",
        "one/receipts/s1-code-implementer.json",
        "one/receipts/s2-code-implementer.json",
        "spec.json",
    ]
    receipt = Receipt.from_json((exported / "one/receipts/s1-code-implementer.json").read_bytes())
    assert (exported / "one" / receipt.transcript_path).is_file()


def test_stored_files_are_byte_for_byte_those_of_git(project: Project, run: str, exported: Path) -> None:
    for path in exported.rglob("one/*/*"):
        stored = project.git("show", f"shadow/{run}:.swarm/runs/{run}/{path.relative_to(exported)}")
        assert path.read_text(encoding="utf-8").rstrip("\n") == stored


def test_the_events_are_one_file_with_one_end(project: Project, run: str, exported: Path) -> None:
    lines = (exported / "events.jsonl").read_text(encoding="utf-8")
    assert lines == project.swarm("events", run, "--json").stdout
    kinds = [json.loads(line)["kind"] for line in lines.splitlines()]
    assert (kinds[0], kinds[-1], kinds.count("run_stopped")) == ("run_created", "run_completed", 0)


def test_the_meta_data_is_about_the_run_not_this_machine(project: Project, run: str, exported: Path) -> None:
    meta = json.loads((exported / "meta.json").read_text(encoding="utf-8"))
    assert (meta["run_id"], meta["state"], meta["task"], meta["flows"]) == (run, "succeeded", "Two files", ["one"])
    assert meta["created_at"] < meta["completed_at"]
    whole = "".join(path.read_text(encoding="utf-8") for path in exported.rglob("*.json*"))
    assert str(project.root.parent) not in whole


def test_a_folder_that_holds_something_is_refused(project: Project, run: str, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine", encoding="utf-8")
    for taken in (tmp_path, tmp_path / "mine"):
        answer = ask(project, "export", run, str(taken))
        assert (answer.code, "not an empty folder" in " ".join(answer.stderr.split())) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_place_that_cannot_be_is_refused(project: Project, run: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    places = (tmp_path / "link", tmp_path / "file" / "x", tmp_path / "new" / "..", project.root / ".git/refs/heads/x")
    answers = [ask(project, "export", run, str(place)) for place in places]
    assert [(answer.code, "bug" in answer.stderr) for answer in answers] == [(2, False)] * 4
    assert not (project.root / ".git/refs/heads/x").exists()


def test_an_empty_folder_is_filled_and_nothing_is_left_beside_it(project: Project, run: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    found = project.json("export", run, str(tmp_path / "empty"))
    assert (found["files"], found["left_out"], [path.name for path in tmp_path.iterdir()]) == (12, [], ["empty"])


def test_what_is_no_plain_file_is_left_out(project: Project, run: str, tmp_path: Path) -> None:
    """An agent may commit anything in its own name."""
    base = f".swarm/runs/{run}/one"
    worktree = project.worktree(run)
    (worktree / base / "link").symlink_to("/etc/passwd")
    project.git("add", "-f", f"{base}/link", cwd=worktree)
    tree = project.git("write-tree", cwd=worktree)
    message = project.git("log", "-1", "--format=%B", f"shadow/{run}")
    parent = project.git("rev-parse", f"shadow/{run}~1")
    commit = project.git("commit-tree", tree, "-p", parent, "-m", message)
    tip = project.git("rev-parse", f"shadow/{run}")
    project.git("update-ref", f"refs/heads/shadow/{run}", commit)
    answer = project.swarm("export", run, str(tmp_path / "x"))
    project.git("update-ref", f"refs/heads/shadow/{run}", tip)
    assert answer.stderr == "left out   one/link: it is not a plain file\n"
    assert not (tmp_path / "x/one/link").is_symlink()


def test_a_trace_has_a_bar_for_each_step_and_call(project: Project, run: str, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    project.swarm("export", run, str(file), "--trace")
    found = json.loads(file.read_text())["traceEvents"]
    rows = {each["tid"]: each["args"]["name"] for each in found if each["name"] == "thread_name"}
    bars = [(each["cat"], each["name"], rows[each["tid"]]) for each in found if each["ph"] == "X"]
    assert bars == [
        ("tool", "Write", "s1"),
        ("step", "one/s1@1", "s1"),
        ("tool", "Write", "s2"),
        ("step", "one/s2@1", "s2"),
    ]
    steps = [each for each in found if each.get("cat") == "step"]
    (call, *_rest) = [each for each in found if each.get("cat") == "tool"]
    assert steps[0]["ts"] <= call["ts"] <= call["ts"] + call["dur"] <= steps[0]["ts"] + steps[0]["dur"]
    assert [each["name"] for each in found if each["ph"] == "i"][:1] == ["advance s1"]
    assert "NEW_FILE" in project.swarm("export", run, str(file), "--trace", code=2).stderr
