"""What the hook is asked and what codex cannot do behind its back; and what a session of it knows."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from gitswarm.engines import hook_client
from gitswarm.engines.base import SessionTerms
from gitswarm.engines.codex import engine
from gitswarm.engines.codex.codex_session import _parts, _reads
from gitswarm.records.json_value import JsonValue
from gitswarm.records.safety import Allow, Deny, Rewrite, Verdict
from tests.codex.stage import SCHEMA, SCRIPTING, Stage
from tests.codex.test_faults import detail, outcome
from tests.loopback.api import Reply, Use, use
from tests.loopback.replies import WORK, bash, working
from tests.tables import table

Given = Mapping[str, JsonValue]
TOUCH = {"type": "command", "command": "touch p"}
PATCH = """*** Begin Patch
*** Update File: a.txt
@@
-hi
+ho
*** Add File: RUN_BASE/plan.md
+1
*** Delete File: old.txt
*** End Patch"""


def patch(text: str) -> Reply:
    return use("Write", patch=text)


def no_plan(_tool: str, given: Given) -> Verdict:
    return Deny("test-rule", "no plans", "write code") if "plan" in str(given.get("file_path")) else Allow()


def spelled_out(_tool: str, given: Given) -> Verdict:
    path = str(given.get("file_path"))
    new = path.replace("RUN_BASE", "base")
    return Rewrite({**given, "file_path": new}, "RUN_BASE is the folder of the run") if new != path else Allow()


def test_each_file_of_a_patch_is_judged_and_one_that_is_denied_keeps_it_from_all(stage: Stage) -> None:
    model = working(bash("echo hi > a.txt; echo x > old.txt"), patch(PATCH), patch(PATCH))

    denied = stage.run(model, decide=no_plan)

    assert [tool for tool, _given, _there in denied.asked] == ["Bash", *["Edit", "Write", "Delete"] * 2]
    assert denied.files == {"a.txt": "hi\n", "old.txt": "x\n"}
    calls = denied.done.tool_calls[1:4]
    assert [(call.tool_name, call.blocked, call.blocked_reason) for call in calls] == [
        (tool, True, "test-rule: no plans") for tool in ("Edit", "Write", "Delete")
    ]
    assert calls[1].input == {"file_path": "RUN_BASE/plan.md", "content": "1\n"}
    assert outcome(denied) == {"kind": "ok"}


@pytest.mark.soak
def test_a_patch_is_carried_out_with_the_paths_that_the_policy_gives(stage: Stage) -> None:
    model = working(bash("echo hi > a.txt; echo x > old.txt"), patch(PATCH))

    seen = stage.run(model, decide=spelled_out)

    assert seen.files == {"a.txt": "ho\n", "base/plan.md": "1\n"}
    assert [(call.tool_name, call.success) for call in seen.done.tool_calls[1:]] == [
        (tool, True) for tool in ("Edit", "Write", "Delete")
    ]
    assert (seen.done.tool_calls[2].executed_input or {})["file_path"] == "base/plan.md"


@pytest.mark.soak
def test_calls_side_by_side_are_each_recorded_with_their_own_end(stage: Stage) -> None:
    lines = [f"sleep 0.{9 - number}; echo {number}; exit {number % 2}" for number in range(1, 5)]

    seen = stage.run(working(Reply(tuple(Use("Bash", {"command": line}) for line in lines))))

    found = {str(call.input["command"]): (call.output, call.success) for call in seen.done.tool_calls}
    assert found == {line: (f"{number}\n", number % 2 == 0) for number, line in enumerate(lines, 1)}


def test_a_model_that_calls_its_tools_from_a_script_is_asked_about_each(stage: Stage) -> None:
    def no_shell(tool: str, _given: Given) -> Verdict:
        return Deny("test-rule", "no shell", "write it") if tool == "Bash" else Allow()

    model = working(use("Write", file_path="a.txt", content="hi\n"), WORK)

    seen = stage.run(model, model=SCRIPTING, decide=no_shell)

    assert stage.asked[0].in_script
    assert "spawn_agent" not in json.dumps(stage.asked[0].body)
    assert seen.files == {"a.txt": "hi\n"}
    assert [(call.tool_name, call.success, call.blocked) for call in seen.done.tool_calls] == [
        ("Write", True, False),
        ("Bash", False, True),
    ]
    assert seen.done.handoff is not None


OTHER_WAYS: Mapping[str, tuple[Reply, str]] = {
    "a shell on a terminal, for lines that nobody judges": (
        use("exec_command", cmd="cat > b.txt", tty=True, yield_time_ms=300),
        "TTY execution is disabled",
    ),
    "a patch in a shell": (bash("apply_patch <<'EOF'\n*** Begin Patch\nEOF"), "a patch in a shell"),
    "a tool that is switched off": (use("view_image", path="/etc/hostname"), ""),
    "a patch in a shell, behind a blank": (bash(" apply_patch <<'EOF'\n*** Begin Patch\nEOF"), "a patch in a shell"),
    "a patch outside": (use("Write", file_path="../home/b.txt", content="x"), "patch rejected"),
    "a shell outside": (bash("echo x > ../home/b.txt"), "../home/b.txt: "),
}


@pytest.mark.soak
@pytest.mark.parametrize("way", OTHER_WAYS)
def test_there_is_no_other_way(stage: Stage, way: str) -> None:
    reply, told = OTHER_WAYS[way]

    seen = stage.run(working(reply))

    assert outcome(seen) == {"kind": "ok"}
    assert seen.files == {}
    assert [str(p) for p in (stage.folder / "home").rglob("*")] == []
    assert [call.success for call in seen.done.tool_calls] in ([], [False])
    assert told in stage.asked[1].outputs[0]


def test_a_path_in_a_patch_is_judged_as_codex_reads_it() -> None:
    paths = [f"a{sign}/../b.txt" for sign in "\r\v\f\x1c\x85\u2028"]
    text = "\n".join(f"*** Add File: {path}\n+1" for path in paths)
    judged = [given["file_path"] for _tool, given in _parts("apply_patch", {"command": text})]
    assert judged == paths


@table(
    ("line", "read"),
    [
        ("cat -n a.txt b/c.txt", ["Read a.txt", "Read b/c.txt"]),
        ("sed -n '1,200p' a.txt", ["Read a.txt"]),
        ("sed -n '1w b.txt' a.txt", []),
        ("sed -i 1d a.txt", []),
        ("ls -la", ["Read ."]),
        ("rg -n 'two words' src a.txt", ["Grep src", "Grep a.txt"]),
        ("grep -r x", ["Grep ."]),
        ("rg -e x /etc/shadow", []),
        ("rg --pre sh x src", []),
        ("grep -f/etc/shadow x", []),
        ("grep -rf /etc/shadow x", []),
        ("cat a.txt > b.txt", []),
        ("cat $HOME/x", []),
        ("cat ~/x", []),
        ("cat a.txt\nrm a.txt", []),
        ("cat 'a", []),
        ("", []),
        ("python x.py", []),
    ],
)
def test_which_lines_only_read(line: str, read: list[str]) -> None:
    assert [f"{tool} {given.get('path') or given.get('file_path')}" for tool, given in _reads(line)] == read


@pytest.mark.soak
def test_a_station_without_a_shell_reads(stage: Stage) -> None:
    terms = SessionTerms(tools=("Read", "Write"), output_schema=SCHEMA)
    model = working(use("Write", file_path="a.txt", content="one"), bash("cat a.txt"), bash("wc -l < a.txt"))

    seen = stage.run(model, terms=terms, decide=lambda tool, _: Deny("tool", tool, "") if tool == "Bash" else Allow())

    assert [(call.tool_name, call.success, call.output) for call in seen.done.tool_calls[1:2]] == [
        ("Read", True, "one\n")
    ]
    assert seen.done.tool_calls[2].blocked_reason == "tool: Bash"
    assert "This step has no shell." in "".join(stage.asked[0].said)


@pytest.mark.soak
def test_the_policy_sees_the_folder_of_a_command(stage: Stage) -> None:
    seen = stage.run(working(use("Bash", command="touch b.txt", workdir=str(stage.folder / "tmp"))))

    assert seen.asked[0][1] == {"command": f"cd {stage.folder / 'tmp'} && touch b.txt"}
    assert [call.success for call in seen.done.tool_calls] == [True]
    assert (stage.folder / "tmp" / "b.txt").is_file()


def test_a_hook_that_is_not_there_lets_nothing_through(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_client, "__file__", "/nowhere/hook_client.py")

    seen = stage.run(working(WORK))

    assert seen.files == {}
    assert "denied" in stage.asked[1].outputs[0]


@pytest.mark.soak
def test_a_program_that_does_not_ask_is_ended(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = engine._config
    monkeypatch.setattr(engine, "_config", lambda *given: ours(*given).partition("hooks.PreToolUse")[0])

    seen = stage.run(working(WORK, bash("sleep 30; echo late > late.txt")))

    assert outcome(seen) == {"kind": "killed"}
    assert "codex did not ask before it carried out 'echo hi >> a.txt'" in detail(seen)
    assert (seen.done.handoff, "late.txt" in seen.files) == (None, False)


@pytest.mark.soak
def test_a_session_knows_what_its_prompt_says_and_nothing_of_the_project_or_the_user(stage: Stage) -> None:
    planted = {
        "worktree/AGENTS.md": "PLANTED",
        "worktree/.agents/skills/p/SKILL.md": "---\nname: p\ndescription: PLANTED\n---\n",
        "worktree/.codex/config.toml": 'developer_instructions = "PLANTED"\n',
        "worktree/.codex/hooks.json": json.dumps({"hooks": {"PreToolUse": [{"hooks": [TOUCH]}]}}),
        "home/.codex/AGENTS.md": "PLANTED",
        "home/.codex/config.toml": 'developer_instructions = "PLANTED"\n',
    }
    for name, text in planted.items():
        path = stage.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    seen = stage.run(working(WORK))

    assert outcome(seen) == {"kind": "ok"}
    assert (stage.worktree / "p").exists() is False
    assert "PLANTED" not in repr([asked.body for asked in stage.asked])
    assert "You are an implementer." in stage.asked[0].said
    assert stage.asked[0].headers["authorization"].startswith("Bearer sk-proj-planted")
