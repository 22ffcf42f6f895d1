"""Guarantee 7: no planted secret is found in any object of a run, reachable or not, in any journal, log or note."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from gitswarm.git import incoming
from gitswarm.runner.run_processes import MARKER
from gitswarm.worktree import search
from tests.conftest import Project
from tests.leaks import FLOW, clean, events_of, journals, kept_bytes, leaked, quarantined, token, with_flow
from tests.projects import new_project, only_run
from tests.safety.redact.corpus import SHAPED, Dice, Planted, planted
from tests.unseen import unseen_line
from tests.waiting import wait_until

PLANTED = planted(500)


def texts(items: list[Planted]) -> str:
    return "\n\n".join(item.text for item in items)


def script(**steps: object) -> str:
    return yaml.safe_dump({"steps": steps})


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A run that failed, was resumed with an answer and finished, with secrets wherever one can stand."""
    project = with_flow(new_project(tmp_path_factory.mktemp("told")))
    home = Path(project.env["HOME"])
    (home / "read.txt").write_text(texts(PLANTED[200:400]), encoding="utf-8")
    steps = script(
        write={
            "output": texts(PLANTED[:150]),
            "envelope": {
                "status": "VERIFIED",
                "summary": f"used {PLANTED[0].text}",
                "concerns": [item.text for item in PLANTED[400:]],
                "observations": [item.text for item in PLANTED[150:200]],
            },
            "write": {
                "RUN_BASE/leak/notes.md": texts(PLANTED),
                "RUN_BASE/leak/data.json": json.dumps({"found": [item.text for item in PLANTED]}),
                "src/app.py": "print('harmless')\n",
            },
            "run": [
                f"printf '\\000\\377%s' '{token(50)}' > \"$RUN_BASE/leak/raw.bin\"",
                'cat "$HOME/read.txt"',
                f"echo {token(51)} >&2; false",
            ],
        },
        close=[{"fail": f"the server refused {token(52)}"}, {"status": "VERIFIED", "summary": "ok"}],
    )
    task = f"deploy with {token(53)}\n{texts(PLANTED[:40])}"
    project.swarm("start", "leak", "--script", project.script(steps), "-m", task, code=4)
    project.swarm("record-event", f"CI used {token(54)}", "--source", token(55))
    project.swarm("resume", "-m", f"try {token(56)}")
    return project


def test_of_500_planted_secrets_none_is_kept_anywhere(told: Project) -> None:
    assert len(PLANTED) >= 500
    assert leaked(told, [*PLANTED, *(token(seed) for seed in range(50, 57))]) == []


def test_what_was_stored_shows_where_they_were(told: Project) -> None:
    run = only_run(told)
    notes = told.git("show", f"shadow/{run}:.swarm/runs/{run}/leak/notes.md")
    assert notes.count("[REDACTED:") >= len(PLANTED)


def test_what_was_stored_is_still_json(told: Project) -> None:
    run = only_run(told)
    names = told.git("ls-tree", "-r", "--name-only", f"shadow/{run}", f".swarm/runs/{run}/").splitlines()
    for name in names:
        content = told.git("show", f"shadow/{run}:{name}") if ".json" in name else ""
        if name.endswith(".json"):
            json.loads(content)
        if name.endswith(".jsonl"):
            assert all(json.loads(line) for line in content.splitlines())


def test_reading_commands_understand_what_was_stored(told: Project) -> None:
    assert [entry["step"] for entry in told.json("log")] == ["write", "check", "close", "close"]
    for words in (["events"], ["show", "write"], ["transcript", "check", "--full"], ["status"], ["diff"]):
        told.swarm(*words)


def test_the_worktree_holds_what_was_committed(told: Project) -> None:
    assert clean(told, only_run(told)) == ""


def test_what_was_stored_is_whole(told: Project) -> None:
    """Message, envelope, receipt and note say the same without their secrets."""
    assert told.json("verify")["findings"] == []


def test_ids_and_hashes_of_the_run_survive(told: Project) -> None:
    run = only_run(told)
    messages = told.git("log", "--format=%B", f"shadow/{run}", "--grep", "Swarm-Format")
    trailers = [line for line in messages.splitlines() if line.startswith("Swarm-")]
    assert [line for line in trailers if "REDACTED" in line] == []


# --- in the middle of a step --------------------------------------------------------------------------------------


def start_hanging(project: Project, entry: dict[str, object], *words: str) -> subprocess.Popen[bytes]:
    """A run whose first step does what `entry` says and then waits for ever."""
    steps = script(write={**entry, "run": [*_lines(entry), unseen_line('touch "$HOME/reached"; sleep 1000')]})
    argv = project.argv("start", "leak", "--script", project.script(steps), *words)
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(argv, cwd=project.root, env=dict(project.env), stdout=quiet, stderr=quiet)
    wait_until((Path(project.env["HOME"]) / "reached").exists, "the step runs")
    return process


def _lines(entry: dict[str, object]) -> list[str]:
    found = entry.get("run", [])
    return [str(line) for line in found] if isinstance(found, list) else []


def test_a_journal_holds_none_when_the_process_is_killed(project: Project) -> None:
    with_flow(project)
    process = start_hanging(project, {"run": [f"echo {token(1)}"]})
    process.send_signal(signal.SIGKILL)
    process.wait()
    (journal,) = journals(project)
    assert b"[REDACTED:github-token]" in journal.read_bytes()
    assert leaked(project, [token(1)]) == []


def test_what_a_killed_step_left_is_salvaged_without_it(project: Project) -> None:
    with_flow(project)
    process = start_hanging(project, {"write": {"src/key.py": f"KEY = '{token(2)}'\n", "src/fine.py": "fine = 1\n"}})
    process.send_signal(signal.SIGKILL)
    process.wait()
    run = only_run(project)
    project.swarm("discard", run, "--force")
    assert leaked(project, [token(2)]) == []
    assert [content for content, _mode in quarantined(project, run).values()] == [f"KEY = '{token(2)}'\n"]


def test_a_step_that_was_paused_at_once_keeps_it_out_of_the_repository(project: Project) -> None:
    with_flow(project)
    process = start_hanging(project, {"write": {"src/key.py": f"KEY = '{token(3)}'\n", "src/fine.py": "fine = 1\n"}})
    project.swarm("pause", "--now")
    process.wait()
    run = only_run(project)
    assert leaked(project, [token(3)]) == []
    kept = project.git("ls-tree", "-r", "--name-only", f"refs/swarm/{run}/rollback/1").splitlines()
    assert ("src/fine.py" in kept, "src/key.py" in kept) == (True, False)
    assert (project.worktree(run) / "src/key.py").read_text("utf-8") == f"KEY = '{token(3)}'\n"


# --- in code ------------------------------------------------------------------------------------------------------


def blocked_run(project: Project, entry: dict[str, object], *words: str, flow: str = FLOW) -> str:
    """A run whose first step does what `entry` says and is BLOCKED for it; executed again it does nothing."""
    with_flow(project, flow)
    steps = script(write=[entry, {"status": "VERIFIED"}])
    project.swarm("start", "leak", "--script", project.script(steps), *words, code=5)
    return only_run(project)


def test_a_file_with_a_secret_is_left_out_and_the_step_is_blocked(project: Project) -> None:
    content = f"import os\nKEY = '{token(4)}'\n"
    run = blocked_run(project, {"write": {"src/key.py": content, "src/fine.py": "fine = 1\n"}})
    assert leaked(project, [token(4)]) == []
    assert sorted(project.tree(f"shadow/{run}")) == sorted([*project.tree("HEAD"), "src/fine.py"])
    assert quarantined(project, run) == {"1-src_key.py": (content, 0o600)}
    assert events_of(project, "secret_found") == [
        {"path": "src/key.py", "line": 2, "kind": "github-token", "kept_as": "1-src_key.py"}
    ]
    entry = project.json("log")[-1]
    assert (entry["step"], entry["status"]) == ("write", "BLOCKED")
    assert clean(project, run) == ""


@pytest.mark.parametrize(
    ("name", "kept"), [(r"key\377.py", "1-key?.py"), ("😀" * 60 + ".py", "1-" + "😀" * 50)], ids=["no text", "long"]
)
def test_a_file_with_a_secret_has_any_name(project: Project, name: str, kept: str) -> None:
    write = project.root.parent / "write.sh"
    write.write_text(f"printf '%s' '{token(4)}' > \"$(printf '{name}')\"\n", encoding="utf-8")
    run = blocked_run(project, {"run": [f"sh {write}"]})
    assert [each["kept_as"] for each in events_of(project, "secret_found")] == [kept]
    assert list(quarantined(project, run)) == [kept]
    assert clean(project, run) == ""


def test_evidence_and_envelope_say_where_it_was(project: Project) -> None:
    run = blocked_run(project, {"write": {"src/key.py": f"KEY = '{token(5)}'\n"}})

    def stored(name: str) -> dict[str, object]:
        found: dict[str, object] = json.loads(project.git("show", f"shadow/{run}:.swarm/runs/{run}/leak/{name}"))
        return found

    assert stored("evidence/write.json")["secrets"] == [{"path": "src/key.py", "line": 1, "kind": "github-token"}]
    assert stored("handoff/write.json")["blockers"] == [
        "src/key.py:1: a secret (github-token): the file was left out",
        f'git swarm resume {run} -m "read it from the environment"   (the step is executed again)',
        f"git swarm resume {run} --allow 'PATH=WHY'   (if it is not a secret)",
    ]


def test_a_person_says_that_it_is_none(project: Project) -> None:
    with_flow(project)
    # A run is resumed from what is stored, which holds no secret: the lines make it up.
    first, second = (unseen_line(f"echo \"KEY = '{token(5)}'\" > src/{name}.py") for name in ("key", "other"))
    steps = script(write=[{"run": [first]}, {"run": [first, second]}, {"run": [first, second]}])
    project.swarm("start", "leak", "--script", project.script(steps), code=5)
    run = only_run(project)
    refused = project.swarm("resume", "--allow", "src/kez.py", code=1)
    assert "no secret was found in src/kez.py; found in: src/key.py" in refused.stderr
    # The word holds for that file, and in a later process as well.
    project.swarm("resume", "--allow", "src/key.py=a made-up one", code=5)
    assert project.json("log")[1]["summary"] == "no secrets: src/key.py (a made-up one)"
    project.swarm("resume", "--allow", "src/*.py")
    assert {"src/key.py", "src/other.py"} <= set(project.tree(f"shadow/{run}"))
    project.swarm("verify", run)


def test_an_agent_cannot_say_so(project: Project) -> None:
    blocked_run(project, {"write": {"src/key.py": f"KEY = '{token(5)}'\n"}})
    agent = Project(project.root, {**project.env, MARKER: only_run(project)})
    refused = agent.swarm("resume", "--allow", "src/key.py", code=1)
    assert "an agent cannot resume --allow" in refused.stderr


def test_after_an_answer_the_step_is_executed_again(project: Project) -> None:
    blocked_run(project, {"write": {"src/key.py": f"KEY = '{token(6)}'\n"}})
    project.swarm("resume", "-m", "read it from the environment")
    assert [(entry["step"], entry["status"]) for entry in project.json("log")][:2] == [
        ("write", "BLOCKED"),
        ("write", "VERIFIED"),
    ]


def test_a_changed_file_is_as_before_afterwards(project: Project) -> None:
    run = blocked_run(project, {"write": {"src/app.py": f"print('{token(7)}')\n"}})
    assert (project.worktree(run) / "src/app.py").read_text("utf-8") == "print('hello')\n"
    assert project.tree(f"shadow/{run}") == project.tree("HEAD")
    assert leaked(project, [token(7)]) == []


def test_a_secret_in_a_file_name_counts(project: Project) -> None:
    run = blocked_run(project, {"write": {f"src/{token(8)}/a.py": "a = 1\n"}})
    assert leaked(project, [token(8)]) == []
    assert events_of(project, "secret_found") == [
        {
            "path": "src/[REDACTED:github-token]/a.py",
            "line": 0,
            "kind": "github-token",
            "kept_as": "1-src_[REDACTED:github-token]_a.py",
        }
    ]
    assert clean(project, run) == ""


def test_an_agent_that_adds_the_file_itself_does_not_get_it_committed(project: Project) -> None:
    lines = ["git add -A", "git commit -q -m mine"]
    run = blocked_run(project, {"write": {"src/key.py": f"KEY = '{token(9)}'\n"}, "run": lines})
    assert token(9) not in project.git("rev-list", "--objects", "--all", "--glob=refs/*")
    assert "src/key.py" not in project.tree(f"shadow/{run}")
    assert clean(project, run) == ""


@pytest.mark.parametrize("color", ["auto", "always"])
def test_a_secret_that_moves_from_one_file_to_another_is_not_new(project: Project, color: str) -> None:
    project.git("config", "color.ui", color)
    with_flow(project, **{"old.py": f"KEY = '{token(10)}'\n"})
    steps = script(write={"run": ["git mv old.py new.py", "echo '# moved' >> new.py"]})
    run = project.start(steps, flow="leak")
    assert "new.py" in project.tree(f"shadow/{run}")


KEY = SHAPED["rsa-key"](Dice(61))


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("src/copy.key", KEY),
        ("src/crlf.key", KEY.replace("\n", "\r\n")),
        ("src/indented.yaml", "key: |\n" + "".join(f"    {line}\n" for line in KEY.splitlines())),
        ("src/conf_new.py", f"KEY = {KEY!r}\n"),
        ("src/joined.py", "KEY = (\n" + "".join(f"    b'{line}\\n'\n" for line in KEY.splitlines()) + ")\n"),
        ("src/one_line.env", f'KEY="{KEY.replace(chr(10), "")}"\n'),
    ],
    ids=["copied", "crlf", "indented", "repr", "joined", "one-line"],
)
@pytest.mark.parametrize("is_gone", [False, True], ids=["kept", "deleted"])
def test_a_key_of_the_base_is_not_new_however_it_is_written(
    project: Project, path: str, content: str, *, is_gone: bool
) -> None:
    with_flow(project, **{"src/server.key": f"{KEY}\n"})
    run = project.start(
        script(write={"write": {path: content}, "run": ["git rm -q src/server.key"] if is_gone else []}), flow="leak"
    )
    assert path in project.tree(f"shadow/{run}")


def test_a_key_that_is_new_is_found_however_it_is_written(project: Project) -> None:
    with_flow(project, **{"src/server.key": f"{KEY}\n"})
    other = SHAPED["rsa-key"](Dice(62))
    steps = script(write={"write": {"src/a.key": other, "src/b.py": f"KEY = {other!r}\n", "src/c.key": KEY}})
    project.swarm("start", "leak", "--script", project.script(steps), code=5)
    assert {each["path"] for each in events_of(project, "secret_found")} == {"src/a.key", "src/b.py"}


def test_a_file_stays_whose_replacement_is_refused(project: Project) -> None:
    body = "".join(f"value_{number} = {number}\n" for number in range(40))
    with_flow(project, **{"src/config.py": body})
    move = {"write": {"src/settings.py": f"{body}KEY = '{token(30)}'\n"}, "run": ["git rm -q src/config.py"]}
    project.swarm("start", "leak", "--script", project.script(script(write=[move])), code=5)
    run = only_run(project)
    tree = project.tree(f"shadow/{run}")
    assert ("src/config.py" in tree, "src/settings.py" in tree) == (True, False)
    assert (project.worktree(run) / "src/config.py").read_text("utf-8") == body
    assert clean(project, run) == ""
    assert leaked(project, [token(30)]) == []


def test_what_takes_long_is_said_and_a_big_binary_file_is_looked_through_in_part(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_LONG_BYTES", 1_000_000)
    monkeypatch.setattr(search, "_BINARY_BYTES", 1_000_000)
    monkeypatch.setattr(incoming, "_PIECE", 1_000_000)
    monkeypatch.setattr(search, "_PATIENCE_S", 0.0)
    with_flow(project)
    late = unseen_line(f"truncate -s 5M big.bin; echo {token(31)} >> big.bin; echo {token(31)} > late.txt")
    said = project.swarm("start", "leak", "--script", project.script(script(write={"run": [late]})), code=5).stderr
    assert "looking through 5 MiB in 2 files for secrets" in said
    assert "big.bin: binary; only 1 MiB of 5 MiB looked through for secrets" in said
    assert "still staging what changed; the biggest file is big.bin (5 MiB)" in said
    assert {found["path"] for found in events_of(project, "secret_found")} == {"late.txt"}


def test_a_team_may_allow_paths(project: Project) -> None:
    allowed = "secrets: {allow_paths: ['tests/fixtures/**']}\n"
    with_flow(project, **{".swarm/config.yaml": allowed})
    run = project.start(script(write={"write": {"tests/fixtures/key.py": f"KEY = '{token(11)}'\n"}}), flow="leak")
    assert "tests/fixtures/key.py" in project.tree(f"shadow/{run}")


def test_the_value_of_a_secret_variable_counts(project: Project) -> None:
    value = "pl41n-but-secret"
    env = {**project.env, "ACME_API_KEY": value}
    with_flow(project)
    other = Project(project.root, env)
    steps = script(write={"write": {"src/key.py": f"KEY = '{value}'\n"}, "run": ["echo $ACME_API_KEY"]})
    # The script is ours, and frozen in the run too.
    other.swarm("start", "leak", "--script", other.script(steps), "-m", f"use {value}", code=5)
    assert leaked(project, [value]) == []


@pytest.mark.parametrize(
    "settings",
    [
        ["core.bigFileThreshold=1k"],
        ["index.version=4"],
        ["core.splitIndex=true"],
        ["core.untrackedCache=true"],
    ],
    ids=["packed", "v4", "split", "untracked-cache"],
)
def test_however_git_keeps_its_index_and_big_files(project: Project, settings: list[str]) -> None:
    for setting in settings:
        project.git("config", *setting.split("="))
    body = "x = 1\n" * 1_000
    run = blocked_run(project, {"write": {"big.py": f"{body}KEY = '{token(12)}'\n", "large.py": f"{body}# fine\n"}})
    assert leaked(project, [token(12)]) == []
    assert [found["line"] for found in events_of(project, "secret_found")] == [1001]
    assert "large.py" in project.tree(f"shadow/{run}")
    project.git("fsck", "--full")


def test_a_repository_that_borrows_objects(project: Project, tmp_path: Path) -> None:
    """The store's own alternates are still read, also below a folder whose name has a colon."""
    with_flow(project)
    borrowing = tmp_path / "a:b" / "clone"
    borrowing.parent.mkdir()
    project.git("clone", "-q", "--shared", str(project.root), str(borrowing), cwd=tmp_path)
    clone = Project(borrowing, project.env)
    steps = script(write=[{"write": {"src/key.py": f"KEY = '{token(13)}'\n", "src/fine.py": "fine = 1\n"}}])
    clone.swarm("start", "leak", "--script", clone.script(steps), code=5)
    assert leaked(clone, [token(13)]) == []
    assert "src/fine.py" in clone.tree(f"shadow/{only_run(clone)}")


def test_nothing_is_left_beside_the_object_store(project: Project) -> None:
    blocked_run(project, {"write": {"src/key.py": f"KEY = '{token(14)}'\n"}})
    assert list((project.root / ".git" / "objects").glob(f"{incoming.PREFIX}*")) == []


# --- by other ways ------------------------------------------------------------------------------------------------


def test_what_a_person_adopts_is_looked_through(project: Project) -> None:
    with_flow(project)
    steps = script(write={"status": "BLOCKED"})
    project.swarm("start", "leak", "--script", project.script(steps), code=5)
    run = only_run(project)
    (project.worktree(run) / "mine.py").write_text(f"KEY = '{token(15)}'\n", encoding="utf-8")
    project.swarm("resume", "--adopt", "-m", "mine", "--until", "write", code=5)
    assert leaked(project, [token(15)]) == []
    assert [content for content, _mode in quarantined(project, run).values()] == [f"KEY = '{token(15)}'\n"]


def test_a_rollback_keeps_uncommitted_work_without_it(project: Project) -> None:
    with_flow(project)
    run = project.start(script(write={"write": {"src/fine.py": "fine = 1\n"}}), flow="leak")
    (project.worktree(run) / "dirty.py").write_text(f"KEY = '{token(16)}'\n", encoding="utf-8")
    project.swarm("rollback", "write")
    assert leaked(project, [token(16)]) == []
    assert [content for content, _mode in quarantined(project, run).values()] == [f"KEY = '{token(16)}'\n"]
    assert clean(project, run) == ""


FORK = """\
id: leak
title: Leak
steps:
  - {id: write, station: maker, routing: {kind: fork, fork_targets: [left, right]}}
  - {id: left, station: STATION, teaching: {outputs: [left.md]}}
  - {id: right, station: STATION, teaching: {outputs: [right.md]}}
  - {id: both, station: maker, routing: {kind: join, join_from: [left, right]}}
"""


@pytest.mark.parametrize("station", ["maker", "reader"])
def test_steps_beside_each_other(project: Project, station: str) -> None:
    """Of a maker in a worktree of its own; of a reader in that of the run, where nobody may change code."""
    with_flow(project, FORK.replace("STATION", station))
    left = {
        "output": token(17),
        "write": {"RUN_BASE/leak/left.md": f"found {token(18)}\n"},
        "run": [unseen_line(f"printf '%s\\n' \"KEY = '{token(19)}'\" > src/key.py")],
    }
    steps = script(left=left, right={"write": {"RUN_BASE/leak/right.md": "fine\n"}})
    answer = subprocess.run(
        project.argv("start", "leak", "--script", project.script(steps)),
        cwd=project.root,
        env=dict(project.env),
        capture_output=True,
        check=False,
    )
    run = only_run(project)
    assert answer.returncode in (0, 5), answer.stderr
    assert leaked(project, [token(17), token(18), token(19)]) == []
    assert [content for content, _mode in quarantined(project, run).values()] == [f"KEY = '{token(19)}'\n"]
    assert clean(project, run) == ""


def test_the_log_of_a_run_in_the_background(project: Project) -> None:
    with_flow(project)
    steps = script(write={"fail": f"refused {token(20)}", "run": [f"echo {token(21)}"]})
    project.swarm_process("start", "leak", "--script", project.script(steps), "-m", token(22), "--detach")
    wait_until(lambda: project.json("status")["state"] == "failed", "the run failed")
    log = project.root / ".git" / "swarm" / "logs" / f"{only_run(project)}.log"
    wait_until(lambda: "failed" in log.read_text("utf-8"), "it said so")
    assert leaked(project, [token(20), token(21), token(22)]) == []


def test_an_error_message_shows_none(project: Project) -> None:
    with_flow(project)
    said = project.swarm("start", token(23), code=1)
    assert token(23) not in said.stdout + said.stderr


def test_a_fork_of_a_run_holds_none(told: Project) -> None:
    told.swarm("fork", "write", "--run", only_run(told), code=4)  # its script fails, as the first time
    assert leaked(told, [*PLANTED[:40], token(53)]) == []


def test_a_stop_in_the_middle_of_staging_leaves_an_index_that_can_be_read(project: Project) -> None:
    """Objects that were staged and not taken over are named by nobody."""
    with_flow(project)
    steps = script(write={"write": {"src/fine.py": "fine = 1\n"}})
    # git is ended as soon as it adds, and we with it.
    folder = Path(project.env["HOME"]) / "bin"
    folder.mkdir()
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    (folder / "git").write_text(
        f'#!/bin/sh\ncase " $* " in *" add -A "*) {real} "$@"; kill -9 $PPID;; *) exec {real} "$@";; esac\n',
        encoding="utf-8",
    )
    (folder / "git").chmod(0o755)
    fatal = Project(project.root, {**project.env, "PATH": f"{folder}{os.pathsep}{project.env['PATH']}"})
    fatal.swarm_process("start", "leak", "--script", fatal.script(steps), code=-signal.SIGKILL)
    project.git("fsck", "--full")
    (worktree,) = (project.root.parent / "repo.swarm").iterdir()
    assert project.git("status", "--porcelain", cwd=worktree) == "?? src/fine.py"
    project.swarm("resume")
    assert "src/fine.py" in project.tree(f"shadow/{only_run(project)}")
    assert kept_bytes(project).count(incoming.PREFIX.encode()) == 0
