"""Verdicts on tools, paths, folders and git, one by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import JsonValue

from gitswarm.engines.claude import profile
from gitswarm.records.policy import Allow, Deny, PolicyRules, Rewrite, Verdict
from gitswarm.runner import session
from gitswarm.safety.policy.decide import decide
from gitswarm.safety.policy.paths import FOLDERS_OF_AGENTS
from gitswarm.safety.policy.scope import Ground, Role, Scope, make_scope
from gitswarm.safety.policy.state import MARKERS
from tests.safety.policy.conftest import RUN_BASE
from tests.tables import table


def _rule(verdict: Verdict) -> str:
    """`allow`, `rewrite`, or the rule of a deny."""
    return verdict.rule if isinstance(verdict, Deny) else type(verdict).__name__.lower()


@table(
    ("tool", "given", "wanted"),
    [
        ("Read", {"file_path": "src/a.py"}, "allow"),
        ("Read", {"file_path": ".env"}, "allow"),
        ("Read", {"file_path": "/usr/include/stdio.h"}, "allow"),
        ("Read", {"file_path": "HOME/.ssh/id_rsa"}, "key-file"),
        ("Read", {"file_path": "out/.aws/credentials"}, "key-file"),
        ("Write", {"file_path": "src/new.py", "content": "x"}, "allow"),
        ("Write", {"file_path": "WORKTREE/src/new.py"}, "allow"),
        ("Write", {"file_path": "../x"}, "outside-write"),
        ("Write", {"file_path": "src/../../x"}, "outside-write"),
        ("Write", {"file_path": "out/x"}, "outside-write"),
        ("Write", {"file_path": "HOME/.bashrc"}, "shell-startup"),
        ("Write", {"file_path": "HOME/.ssh/config"}, "key-file"),
        ("Write", {"file_path": "/etc/passwd"}, "outside-write"),
        ("Write", {"file_path": ".git"}, "git-internals"),
        ("Write", {"file_path": "vendor/.git/config"}, "git-internals"),
        ("Write", {"file_path": "infra/a/b.tf"}, "protected-path"),
        ("Edit", {"file_path": "Makefile"}, "protected-path"),
        ("Write", {"file_path": "CLAUDE.md"}, "protected-path"),
        ("Edit", {"file_path": "src/agents.md"}, "protected-path"),
        ("Delete", {"file_path": ".github/copilot-instructions.md"}, "protected-path"),
        ("Write", {"file_path": "docs/CLAUDE.md.txt"}, "allow"),
        ("Read", {"file_path": "CLAUDE.md"}, "allow"),
        ("Write", {"file_path": ".swarm/config.yaml"}, "swarm-files"),
        ("Write", {"file_path": f"{RUN_BASE}/build/notes.md"}, "allow"),
        ("Write", {"file_path": f"{RUN_BASE}/build/other.md"}, "swarm-files"),
        ("Write", {"file_path": ".swarm/runs/run-2/build/notes.md"}, "swarm-files"),
        ("Write", {"file_path": "RUN_BASE/build/other.md"}, "swarm-files"),
        ("Write", {"file_path": "RUN_BASE/../../config.yaml"}, "swarm-files"),
        ("Write", {"file_path": "a\0b"}, "unknown-target"),
        ("MultiEdit", {"file_path": "src/a.py", "edits": []}, "allow"),
        ("NotebookEdit", {"notebook_path": "/etc/x.ipynb"}, "outside-write"),
        ("Delete", {"file_path": "src/a.py"}, "allow"),
        ("Delete", {"file_path": "out"}, "allow"),
        ("Delete", {"file_path": "."}, "delete-everything"),
        ("Delete", {"file_path": "../x"}, "outside-write"),
        ("Glob", {"pattern": "**/*.py", "path": "src"}, "allow"),
        ("Grep", {"pattern": "x", "path": "HOME/.ssh"}, "key-file"),
        ("Grep", {"pattern": "x", "path": "~/.claude/projects"}, "key-file"),
        ("Grep", {"pattern": "x", "path": "~"}, "key-file"),
        ("Grep", {"pattern": "~/.claude"}, "allow"),
        ("Read", {"file_path": "~/.ssh/id_rsa"}, "key-file"),
        ("Read", {"file_path": "HOME/.claude/projects/p/a.jsonl"}, "key-file"),
        ("Read", {"file_path": "HOME/.claude/projects/p/5f6a/tool-results/b1.txt"}, "allow"),
        ("Glob", {"pattern": "HOME/.claude/projects/*/*/tool-results/*"}, "key-file"),
        ("Read", {"file_path": ".claude/settings.json"}, "allow"),
        ("Glob", {"pattern": "HOME/.claude/**/*.jsonl"}, "key-file"),
        ("Glob", {"pattern": "~/.codex/*"}, "key-file"),
        ("Glob", {"pattern": "**/*.jsonl", "path": "~/.claude"}, "key-file"),
        ("Glob", {"pattern": ".claude/**"}, "allow"),
        ("WebFetch", {"url": "https://example.org/a"}, "allow"),
        ("Agent", {"prompt": "look"}, "allow"),
        ("Task", {"prompt": "look"}, "allow"),
        ("TodoWrite", {"todos": []}, "allow"),
        ("mcp__files__write_file", {"path": "/etc/x"}, "outside-write"),
        ("mcp__files__read_file", {"path": "/usr/share/x"}, "allow"),
        ("mcp__files__move_file", {"source": "src/a", "destination": "/opt/a"}, "outside-write"),
        ("mcp__files__get_many", {"paths": ["src/a", "HOME/.netrc"]}, "key-file"),
        ("Unheard", {"file_path": "../x"}, "outside-write"),
        ("Bash", {"command": 3}, "unparsed"),
        ("run_shell_command", {"command": "git push"}, "git-push"),
        ("write_file", {"file_path": "../x"}, "outside-write"),
    ],
)
def test_a_tool_is_judged_by_the_paths_in_its_input(
    tool: str, given: dict[str, JsonValue], wanted: str, writer: Scope
) -> None:
    places = {"HOME": str(writer.home), "WORKTREE": str(writer.worktree)}

    def placed(value: JsonValue) -> JsonValue:
        if isinstance(value, list):
            return [placed(each) for each in value]
        head, slash, rest = str(value).partition("/")
        return f"{places[head]}{slash}{rest}" if head in places else value

    assert _rule(decide(tool, {key: placed(value) for key, value in given.items()}, writer)) == wanted


@table("place", ["", "WORKTREE/"])
def test_run_base_is_put_in_for_its_name(place: str, writer: Scope) -> None:
    spelled = f"{place}RUN_BASE/build/notes.md".replace("WORKTREE", str(writer.worktree))
    given: dict[str, JsonValue] = {"file_path": spelled, "content": "x"}

    assert decide("Write", given, writer) == Rewrite(
        {"file_path": f"{writer.worktree}/{RUN_BASE}/build/notes.md", "content": "x"},
        "RUN_BASE is the folder of the run",
    )


@table(
    ("tool", "wanted"),
    [
        ("Read", "allow"),
        ("Write", "allow"),
        ("Delete", "allow"),
        ("Edit", "tool"),
        ("MultiEdit", "tool"),
        ("Bash", "tool"),
    ],
)
def test_a_tool_that_the_station_was_not_given_is_denied(tool: str, wanted: str, writer: Scope) -> None:
    scope = replace(writer, tools=("Read", "Write"))

    assert _rule(decide(tool, {"file_path": "src/a.py", "command": "ls"}, scope)) == wanted


@table("tool", ["Agent", "Task"])
def test_the_subagent_tool_has_two_names(tool: str, writer: Scope) -> None:
    for station in ("Agent", "Task"):
        assert decide(tool, {"prompt": "look"}, replace(writer, tools=(station,))) == Allow()
    assert _rule(decide(tool, {"prompt": "look"}, replace(writer, tools=("Read", "Bash")))) == "tool"


def test_the_stations_tools_are_named_instead(writer: Scope) -> None:
    verdict = decide("Bash", {"command": "ls"}, replace(writer, tools=("Read", "Write")))

    assert isinstance(verdict, Deny)
    assert verdict.instead == "the station's tools: Read, Write"


@table(
    ("command", "wanted"),
    [
        ("pytest -q", "allow"),
        ("make && npm test", "allow"),
        ("cat src/a.py | tee /dev/null", "allow"),
        ("git diff > $TMPDIR/x.patch", "allow"),
        ("echo x > $RUN_BASE/build/notes.md", "allow"),
        ("mkdir -p $RUN_BASE/build/review", "allow"),
        ("echo x > $RUN_BASE/build/spec.md", "swarm-files"),
        ("echo x > notes.md", "read-only"),
        ("black --check .", "allow"),
        ("ruff check .", "allow"),
        ("cargo fmt --check", "allow"),
        ("git add -A", "allow"),
    ],
)
def test_a_reader_builds_and_looks_and_writes_its_artifacts(command: str, wanted: str, reader: Scope) -> None:
    assert _rule(decide("Bash", {"command": command}, reader)) == wanted


@table(
    ("command", "wanted"),
    [
        ("cd src && touch ../a", "allow"),
        ("cd src && touch ../../a", "outside-write"),
        ("cd .. ; ls", "allow"),
        ("cd .. ; touch a", "outside-write"),
        ("(cd ..); touch a", "allow"),
        ("cd /tmp && git init scratch", "allow"),
        ("pushd .. && touch a", "outside-write"),
        ("cd src && cd - && touch a", "allow"),
        ("cd $X && touch a", "unknown-target"),
        ("cd $X && touch /tmp/a", "allow"),
        ("while true; do cd ..; touch a; done", "outside-write"),
        ("for d in src ..; do touch $d/a; done", "outside-write"),
        ("for d in src lib; do touch $d/a; done", "allow"),
        ("D=src; touch $D/a", "allow"),
        ("D=src; if x; then D=..; fi; touch $D/a", "unknown-target"),
        ("false && D=src; rm -rf $D/", "unknown-target"),
        ("D=src; sh -c 'touch $D/a'", "unknown-target"),
        ("env -C .. touch a", "outside-write"),
        ("git -C .. status", "allow"),
        ("git -C .. rm a", "outside-write"),
        ("rm out", "allow"),
        ("rm -rf out/", "outside-write"),
        ("rm -rf out/a", "outside-write"),
        ("find src -name '*.o' -delete", "allow"),
        ("find . -type f -delete", "delete-everything"),
        ("find . -name __pycache__ -exec rm -rf {} +", "allow"),
        ("find . -name '*' -exec rm -rf {} +", "delete-everything"),
        ("find . -name .git -exec rm -rf {} +", "git-internals"),
        ("find . -name a -o -name b -exec rm -rf {} +", "delete-everything"),
        ("find $X -name a -exec rm -rf {} +", "unknown-target"),
        ("find .. -name a -exec rm -rf {} +", "outside-write"),
        ("find src -exec rm {} +", "allow"),
    ],
)
def test_folders_and_values_are_followed(command: str, wanted: str, writer: Scope) -> None:
    assert _rule(decide("Bash", {"command": command}, writer)) == wanted


@table(
    ("command", "wanted"),
    [
        ("git st", "allow"),
        ("git again -b", "allow"),
        ("git loop", "unknown-git"),
        ("git ship", "git-push"),
        ("git deploy", "git-push"),
        ("git checkout .", "allow"),
        ("git checkout main -- src/a.py", "allow"),
        ("git checkout main src/a.py", "allow"),
        ("git checkout src/a.py", "git-refs"),
        ("git checkout -- infra/x", "protected-path"),
        ("git diff --output=../x", "outside-write"),
        ("git diff --outp ../x", "outside-write"),
        ("git log --output=$X", "unknown-target"),
        ("git diff $X", "unknown-target"),
        ("git diff origin/$X", "allow"),
        ("git tag -n3", "allow"),
        ("git tag --contains HEAD", "allow"),
        ("git branch --contains HEAD", "allow"),
        ("git branch --list x y", "allow"),
        ("git branch -a x", "git-refs"),
        ("git notes --ref=swarm/r/routing show HEAD", "allow"),
        ("git notes --ref swarm/r/routing list", "allow"),
        ("git notes --ref=x add -m y", "git-refs"),
        ("git notes --ref show add -m y", "git-refs"),
        ("git config user.name", "allow"),
        ("git config --list --show-origin", "allow"),
        ("git config --get-regexp '^alias'", "allow"),
        ("git config core.editor x", "git-config"),
        ("git stash show -p", "allow"),
        ("git symbolic-ref HEAD", "allow"),
        ("git symbolic-ref HEAD x", "git-refs"),
        ("git remote get-url origin", "allow"),
        ("git rm -r src", "allow"),
        ("git clean -n", "allow"),
        ("git clean -fd build", "allow"),
        ("git clone . /tmp/x", "allow"),
        ("git reset", "allow"),
        ("git reset HEAD src/a.py", "allow"),
        ("git reset src/a.py", "git-reset"),
        ("git --version", "allow"),
        ("git", "allow"),
        ("git help push", "allow"),
        ("git apply --directory=.. x", "outside-write"),
        ("git archive -o ../x.tar HEAD", "outside-write"),
    ],
)
def test_git_reads_and_changes_files_but_moves_nothing(command: str, wanted: str, writer: Scope) -> None:
    assert _rule(decide("Bash", {"command": command}, writer)) == wanted


@table(
    "text",
    [
        "git push " + "x" * 90_000,
        "echo " + "a " * 45_000,
        "ls && " * 15_000 + "ls",
        "ls | " * 15_000 + "cat",
        "ls\n" * 30_000,
        "(" * 5_000 + ")" * 5_000,
        "$(" * 3_000,
        "{a,b}" * 5_000,
        "echo {1..999999999}",
        "echo " + "{a,b}" * 16,
        "sh -c " + "'" * 3_000,
        "eval " * 5_000,
        "env " * 5_000 + "ls",
        "for a in 1 2 3 4 5 6 7 8; do " * 20 + "ls" + "; done" * 20,
        "f() { g; }; g() { f; }; f",
        "cat <<A\n" * 2_000,
        "a=" * 20_000,
        "[[ " + "a && " * 10_000 + "b ]]",
        "echo $((" + "1+" * 20_000 + "1))",
        "\ud800 git push",
        "ls \U0010ffff é",
        "python -c '" + "(" * 10_000 + "'",
        "\\\n" * 20_000 + "ls",
        "'" + "x" * 90_000,
    ],
)
def test_any_text_gets_its_verdict_in_bounded_time(text: str, writer: Scope) -> None:
    assert isinstance(decide("Bash", {"command": text}, writer), (Allow, Deny))


@table(
    ("command", "wanted"),
    [
        ("rm guide/*.md", "protected-path"),
        ("sed -i s/a/b/ guide/[A-B]*", "protected-path"),
        ("mv guide/AGENTS.md guide/x", "protected-path"),
        ("echo x > GEMINI.md", "protected-path"),
        ("ln -sf x src/CLAUDE.md", "protected-path"),
        ("rm src/*.md", "allow"),
        ("rm *", "delete-everything"),
        ("cat guide/AGENTS.md > src/x", "allow"),
        ("git checkout -- .", "allow"),
    ],
)
def test_what_is_said_to_agents_is_not_changed_by_them(command: str, wanted: str, writer: Scope) -> None:
    """A pattern is denied where there is such a file, in any folder."""
    guide = writer.worktree / "guide" / "AGENTS.md"
    guide.parent.mkdir(exist_ok=True)
    guide.touch()
    assert _rule(decide("Bash", {"command": command}, writer)) == wanted


def test_a_scope_is_made_of_what_the_machine_and_the_repository_say(tmp_path: Path) -> None:
    ground = Ground(
        tmp_path,
        RUN_BASE,
        {"alias.st": "status", "user.name": "x"},
        {"HOME": "/home/dev", "TMPDIR": "/var/tmp/agent"},
    )
    rules = PolicyRules(deny=("x",))

    scope = make_scope(ground, Role(frozenset({"a"}), writes_code=False, tools=("Read",)), rules)

    assert scope == Scope(
        worktree=tmp_path.resolve(),
        run_base=RUN_BASE,
        artifacts=frozenset({"a"}),
        writes_code=False,
        tools=("Read",),
        rules=rules,
        aliases={"st": "status"},
        home=Path("/home/dev"),
        temp=(Path("/var/tmp/agent"), Path("/var/tmp"), Path("/tmp")),
        resolve=Path.resolve,
        variables={"HOME": "/home/dev", "TMPDIR": "/var/tmp/agent"},
    )


@table(
    ("line", "verdict"),
    [
        ("cd /tmp/x || exit 1; echo x > y", Allow),
        ('copy=$(mktemp -d)\ncp -R src "$copy" && cd "$copy" || exit 1\nsed s/a/b/ one > two', Allow),
        ("cd /tmp/x || true; echo x > y", Deny),
        ("cd /tmp/x || (exit 1); echo x > y", Deny),
        ("cd /tmp/x; echo x > y", Deny),
        ("exit() { :; }; cd /tmp/x || exit; echo x > y", Deny),
    ],
)
def test_who_leaves_when_a_cd_fails_writes_nowhere_else(line: str, verdict: type, reader: Scope) -> None:
    assert isinstance(decide("Bash", {"command": line}, reader), verdict)


def test_the_markers_are_those_of_sessions_and_steps() -> None:
    assert frozenset({profile.MARKER, session.MARKER, session.SIBLING_MARKER}) == MARKERS


@table("variable", FOLDERS_OF_AGENTS)
def test_conversations_that_an_agent_keeps_elsewhere_are_not_read(variable: str, writer: Scope) -> None:
    scope = replace(writer, variables={variable: "/srv/agent"})
    asked = [
        decide("Bash", {"command": f"cat ${variable}/projects/a.jsonl"}, scope),
        decide("Read", {"file_path": "/srv/agent/projects/a.jsonl"}, scope),
        decide("Read", {"file_path": "/srv/agents.md"}, scope),
    ]
    assert [_rule(verdict) for verdict in asked] == ["key-file", "key-file", "allow"]
