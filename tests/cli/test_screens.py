"""What people see at 60, 80 and 120 columns, without colour: whole screens. After a wanted change: `make golden`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gitswarm.cli.watch import WatchedRun, screen_lines
from gitswarm.git.owners import Owner
from gitswarm.git.reader import open_reader
from gitswarm.ledger.layout import RunLayout
from gitswarm.records.event import EventKind, LoggedEvent
from gitswarm.records.text import columns
from tests.cli.test_reading import SCRIPT, Shelf, make_shelf
from tests.conftest import Project
from tests.golden import check_golden
from tests.projects import ask

GOLDEN = Path(__file__).parent / "golden"
WIDTHS = (60, 80, 120)
TIMED = ("cost", "transcript", "log", "show", "progress", "run_execution", "watch", "compare", "bisect")
SCREENS = {
    "list": ("list",),
    "list-one": ("list", "-n", "1", "--since", "1 week ago", "--state", "rehearsal"),
    "status": ("status", "RUN"),
    "log": ("log", "RUN"),
    "log-last": ("log", "RUN", "-n", "2"),
    "log-oneline": ("log", "RUN", "--oneline"),
    "log-graph": ("log", "RUN", "--graph"),
    "show-author": ("show", "write@1", "--run", "RUN"),
    "show-changes": ("show", "write@2", "--run", "RUN"),
    "show-critic": ("show", "critique@1", "--run", "RUN"),
    "show-failed": ("show", "test@1", "--run", "RUN"),
    "show-last": ("show", "done", "--run", "RUN"),
    "show-routing": ("show", "test@1", "--routing", "--run", "RUN"),
    "cost": ("cost", "RUN"),
    "cost-all": ("cost", "--all"),
    "blame": ("blame", "src/app.py", "--run", "RUN"),
    "why-line": ("why", "src/app.py:1", "--run", "RUN"),
    "bisect": ("bisect", "RUN", "--", "test ! -e src/logo.bin"),
    "compare": ("compare", "RUN", "NEWEST"),
    "diff-runs": ("diff", "RUN", "NEWEST", "--stat"),
    "transcript-author": ("transcript", "write@1", "--run", "RUN"),
    "transcript-command": ("transcript", "test@1", "--run", "RUN"),
    "approve": ("approve", "RUN"),
    "land": ("land", "RUN"),
    "rollback": ("rollback", "write@1", "--run", "RUN", "--dry-run"),
    "verify": ("verify", "RUN"),
    "unknown-step": ("show", "99", "--run", "RUN"),
}
FAILS = """\
steps:
  write: {write: {a.txt: "1\\n"}, summary: wrote a file}
  critique: {status: VERIFIED, summary: no findings}
  test:
    - {run: ["for n in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $n; done; exit 1"]}
    - {run: ["echo still red; exit 1"]}
"""


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return make_shelf(tmp_path_factory.mktemp("screens"))


@pytest.fixture(autouse=True)
def _one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything takes as long, and was as long ago; what is written is on a terminal."""
    for name in TIMED:
        monkeypatch.setattr(f"gitswarm.cli.{name}.duration", lambda _ms: "0ms")
    monkeypatch.setattr("gitswarm.cli.progress._SHOWN_MS", 0)
    for name in ("console", "why"):
        monkeypatch.setattr(f"gitswarm.cli.{name}.is_screen", lambda: True)
    for name in ("console", "progress"):
        monkeypatch.setattr(f"gitswarm.cli.{name}.is_narrow", lambda _stream: True)
    monkeypatch.setattr("gitswarm.cli.status.age", lambda _run: "3m")


def at(project: Project, width: int) -> Project:
    return replace(project, env={**project.env, "COLUMNS": str(width), "SWARM_CLAUDE_CLI": "/there/claude"})


def screen(shelf: Shelf, width: int, *arguments: str) -> str:
    """What a terminal shows of stdout and, below it, stderr; ids and places replaced by others as long."""
    words = [{"RUN": shelf.run, "NEWEST": shelf.newest}.get(word, word) for word in arguments]
    answer = ask(at(shelf.project, width), *words)
    said = f"$ git swarm {' '.join(arguments)}\n{answer.stdout}"
    text = shelf.plain(said + (f"-- stderr --\n{answer.stderr}" if answer.stderr else ""))
    text = text.replace(shelf.newest, "run-20260101-000000-fedcba").replace(shelf.newest[-6:], "fedcba")
    text = re.sub(r"in \d+\.\dm?s", "in 1.0ms", text)
    text = re.sub(r"prompt, \d+ lines", "prompt, 100 lines", text)
    text = re.sub(r"work:[0-9a-f]{16}", f"work:{'0' * 16}", text)
    return re.sub(r"\b[0-9a-f]{12}\b", "0" * 12, text)


def check_width(text: str, width: int) -> None:
    """No line wraps by accident: only paths and commands, which are copied, may be longer."""
    copied = ("worktree", "hint: git", "(or: git", "for real", "$ git", "  artifact", "tampered")
    assert [line for line in text.splitlines() if columns(line) > width and not line.strip().startswith(copied)] == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", SCREENS)
def test_a_screen(shelf: Shelf, name: str, width: int) -> None:
    text = screen(shelf, width, *SCREENS[name])
    check_golden(GOLDEN / f"{name}-{width}.txt", text)
    check_width(text, width)


WRITING = {"file_path": "src/app.py", "old_string": "hi", "new_string": "hello\nthere"}
DOING: list[tuple[EventKind, dict[str, Any]]] = [
    (EventKind.STEP_START, {"role": "x", "agents": [], "step_index": 1, "engine": "claude-step"}),
    (EventKind.MESSAGE, {"role": "system", "text": "who you are"}),
    (EventKind.MESSAGE, {"role": "user", "text": "what to do"}),
    (
        EventKind.MESSAGE,
        {"role": "assistant", "text": "The greeting is too short: it wants somebody whom it is for."},
    ),
    (EventKind.TOOL_START, {"tool": "Edit", "input": WRITING}),
    (EventKind.TOOL_END, {"tool": "Edit", "success": True, "output": ""}),
    (
        EventKind.TOOL_START,
        {"tool": "Bash", "input": {"command": "python -m pytest -q tests/test_of_the_greeting.py"}},
    ),
    (EventKind.TOOL_END, {"tool": "Bash", "success": False, "output": "one\ntwo\nthree\nfour\nfive\nsix"}),
    (EventKind.EXTRA_RUN, {"of": "base"}),
]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_watched_run(shelf: Shelf, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one step is executed: its journal is there, and an owner of the run."""
    project = at(shelf.project, width)
    monkeypatch.chdir(project.root)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("gitswarm.ledger.overview.owner_of", lambda _folder, _run: Owner(1, "here", ""))
    where: dict[str, Any] = {"run_id": shelf.run, "flow_key": "hello", "step_id": "done", "iteration": 2}
    events = [
        LoggedEvent(**where, seq=seq, ts=f"2026-01-01T00:00:0{seq}.000Z", kind=kind, payload=payload)
        for seq, (kind, payload) in enumerate(DOING, start=1)
    ]
    journal = project.root / f".git/swarm/journal/{shelf.run}/hello.done@2.jsonl"
    journal.parent.mkdir(parents=True, exist_ok=True)
    journal.write_bytes(b"".join(event.to_line() for event in events) + b'{"torn')
    try:
        run = WatchedRun(open_reader(project.root, project.env), RunLayout(shelf.run))
        whole, small = (screen_lines([run], height) for height in (24, 9))
    finally:
        journal.unlink()
    text = shelf.plain("\n".join(["-- 24 lines --", *whole, "-- 9 lines --", *small]) + "\n")
    assert (len(whole) <= 24, len(small) <= 9) == (True, True)
    check_golden(GOLDEN / f"watch-{width}.txt", text)
    check_width(text, width)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("name", "script"), [("start", SCRIPT), ("start-fails", FAILS)])
def test_a_start(shelf: Shelf, name: str, script: str, width: int) -> None:
    project = at(shelf.project, width)
    answer = ask(project, "start", "hello", "-m", "Say hi", "--script", project.script(script))
    run = str(project.json("list")[0]["run_id"])
    text = f"$ git swarm start hello -m 'Say hi'\n{answer.stderr}-- stdout --\n{answer.stdout}"
    text = shelf.plain(text.replace(run, shelf.run).replace(run[-6:], shelf.run[-6:]))
    project.swarm("discard", run, "--force")
    check_golden(GOLDEN / f"{name}-{width}.txt", text)
    check_width(text, width)


WIDE = (
    *SCREENS.values(),
    ("events", "RUN"),
    ("show", "RUN", "--evidence"),
    ("why", "src/app.py", "--run", "RUN"),
    ("record-event",),
    ("record-event", "seen", "--kind", "no word"),
    ("stop", "RUN"),
    ("pause", "NEWEST"),
    ("list", "--all"),
    ("watch", "RUN"),
    ("flows", "list"),
    *(("flows", "show", flow) for flow in ("signal", "plan", "build", "review", "gate", "deploy", "wisdom", "reset")),
    ("flows", "validate"),
    ("stations", "list"),
    ("stations", "show", "code-implementer"),
    ("policy", "rules"),
    ("policy", "explain", "git push"),
    ("engines",),
    ("config",),
    ("doctor",),
    ("wisdom", "list"),
    ("gc", "--dry-run"),
    ("discard", "--landed", "--dry-run"),
    ("start", "hello", "--dry-run"),
    ("start", "nonsense"),
    ("rollback", "write@1", "--run", "RUN"),
    ("rollback", "--undo", "--run", "RUN"),
    ("init",),
    ("init", "--undo"),
)
"""What people type, in this order."""


@pytest.mark.parametrize("width", [60, 80])
def test_no_line_of_a_command_is_wider_than_the_terminal(tmp_path: Path, width: int) -> None:
    """But for what is copied, and cannot be broken apart; and no line ends with blanks."""
    shelf = make_shelf(tmp_path)
    wrong = []
    for arguments in WIDE:
        words = [{"RUN": shelf.run, "NEWEST": shelf.newest}.get(word, word) for word in arguments]
        answer = ask(at(shelf.project, width), *words)
        for line in f"{answer.stdout}\n{answer.stderr}".splitlines():
            longest = max(map(columns, line.split()), default=0)
            is_whole = longest + 16 > width or line.strip().startswith(("hint: git", "(or: git", "$ git", "git "))
            if (columns(line) > width and not is_whole) or line != line.rstrip():
                wrong.append(f"{chr(32).join(arguments)}: {line!r}")
    assert "\n".join(wrong) == ""
