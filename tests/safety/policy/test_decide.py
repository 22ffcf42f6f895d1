"""Verdicts on tools, and what a scope is made of."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from gitswarm.engines import base
from gitswarm.records.json_value import JsonValue
from gitswarm.records.safety import Allow, Deny, PolicyRules, Rewrite, Verdict
from gitswarm.runner import run_processes as marks
from gitswarm.safety.policy.decide import MARKERS, decide
from gitswarm.safety.policy.paths import FOLDERS_OF_AGENTS, RunScope, Scope, StationRights, make_scope
from tests.safety.policy.conftest import RUN_BASE
from tests.tables import table


def _rule(verdict: Verdict) -> str:
    """`allow`, `rewrite`, or the rule of a deny."""
    return verdict.rule if isinstance(verdict, Deny) else type(verdict).__name__.lower()


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


def test_the_stations_tools_are_named_instead(writer: Scope) -> None:
    verdict = decide("Bash", {"command": "ls"}, replace(writer, tools=("Read", "Write")))

    assert isinstance(verdict, Deny)
    assert verdict.instead == "the station's tools: Read, Write"


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
        ("tee guide/[A-B]* < x", "protected-path"),
        ("echo x > GEMINI.md", "protected-path"),
        ("rm src/*.md", "allow"),
        ("cat guide/AGENTS.md > src/x", "allow"),
    ],
)
def test_what_is_said_to_agents_is_not_changed_by_them(command: str, wanted: str, writer: Scope) -> None:
    """A pattern is denied where there is such a file, in any folder."""
    guide = writer.worktree / "guide" / "AGENTS.md"
    guide.parent.mkdir(exist_ok=True)
    guide.touch()
    assert _rule(decide("Bash", {"command": command}, writer)) == wanted


def test_a_scope_is_made_of_what_the_machine_and_the_repository_say(tmp_path: Path) -> None:
    ground = RunScope(
        tmp_path,
        RUN_BASE,
        {"alias.st": "status", "user.name": "x"},
        {"HOME": "/home/dev", "TMPDIR": "/var/tmp/agent"},
    )
    rules = PolicyRules(deny=("x",))

    scope = make_scope(ground, StationRights(frozenset({"a"}), writes_code=False, tools=("Read",)), rules)

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


def test_the_markers_are_those_of_sessions_and_steps() -> None:
    assert frozenset({base.SESSION_MARKER, marks.MARKER, marks.SIBLING_MARKER}) == MARKERS


@table("variable", FOLDERS_OF_AGENTS)
def test_conversations_that_an_agent_keeps_elsewhere_are_not_read(variable: str, writer: Scope) -> None:
    scope = replace(writer, variables={variable: "/srv/agent"})
    asked = [
        decide("Bash", {"command": f"cat ${variable}/projects/a.jsonl"}, scope),
        decide("Read", {"file_path": "/srv/agent/projects/a.jsonl"}, scope),
        decide("Read", {"file_path": "/srv/agents.md"}, scope),
    ]
    assert [_rule(verdict) for verdict in asked] == ["key-file", "key-file", "allow"]


@table("tool", ["Agent", "Task"])
def test_the_subagent_tool_has_two_names(tool: str, writer: Scope) -> None:
    for station in ("Agent", "Task"):
        assert decide(tool, {"prompt": "look"}, replace(writer, tools=(station,))) == Allow()
    assert _rule(decide(tool, {"prompt": "look"}, replace(writer, tools=("Read", "Bash")))) == "tool"


@table(
    ("command", "wanted"),
    [
        ("git notes --ref=swarm/r/routing show HEAD", "allow"),
        ("git notes --ref swarm/r/routing list", "allow"),
        ("git notes --ref=x add -m y", "git-refs"),
        ("git notes --ref show add -m y", "git-refs"),
    ],
)
def test_notes_of_a_named_ref_may_be_read(command: str, wanted: str, writer: Scope) -> None:
    assert _rule(decide("Bash", {"command": command}, writer)) == wanted


@table(
    ("command", "wanted"),
    [
        ("flock -n /tmp/lock git push", "git-push"),
        ("time -p git push", "git-push"),
        ("xvfb-run -a git push", "git-push"),
        ("flock -w 5 /tmp/lock git push", "git-push"),
        ("openssl x509 -in /tmp/copy/tests/ca.pem", "allow"),
        ("cat /tmp/copy/.env", "allow"),
        ("cat ../.env", "key-file"),
        ("git branch --sort -committerdate", "allow"),
        ("git tag --sort -creatordate", "allow"),
        ("git branch --sort -committerdate -d x", "git-refs"),
        ("curl -O https://example.org/certs/ca.pem", "allow"),
        ("curl --url=https://example.org/.env", "allow"),
        ("curl file:///etc/shadow", "key-file"),
        ("git swarm --help", "allow"),
        ("git swarm log --grep add", "allow"),
        ("git swarm config commands.test", "allow"),
        ("git swarm config --team commands.test true", "swarm-command"),
        ("git swarm config --unset commands.test", "swarm-command"),
        ("git swarm wisdom list --all", "allow"),
        ("git swarm wisdom apply a", "swarm-command"),
        ("git swarm doctor --fix", "swarm-command"),
    ],
)
def test_a_command_is_told_from_options_values_and_addresses(command: str, wanted: str, writer: Scope) -> None:
    assert _rule(decide("Bash", {"command": command}, writer)) == wanted


@table("line", ['echo x >"$OUT"', 'printf x >>"${OUT}/f"', 'cd src && cd "$OUT" && echo x >f'])
def test_a_path_that_is_not_known_is_left_to_the_sandbox(line: str, writer: Scope) -> None:
    assert decide("Bash", {"command": line}, writer) == Allow(contained=True)
