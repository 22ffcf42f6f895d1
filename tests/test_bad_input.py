"""Bad input: one clear line, one hint, exit code 1 (2 for usage), and nothing left behind."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from gitswarm.errors import SpecError
from gitswarm.settings import load_config
from tests.conftest import Project
from tests.projects import ask, new_project

HELLO = """\
id: hello
steps:
  - id: write
    station: code-implementer
  - id: critique
    station: code-critic
    routing:
      kind: microloop
      loop_target: write
      max_iterations: 3
  - id: test
    engine: command
    command: test
    routing:
      kind: branch
      when:
        - if: evidence.tests.passed
          next: done
      default: write
  - id: done
    station: build-cleanup
"""
FLOW_FILE = ".swarm/flows/hello.yaml"


def traces(project: Project) -> list[str]:
    """Whatever a run leaves in a repository and beside it."""
    refs = project.git("for-each-ref", "--format=%(refname)").splitlines()
    worktrees = project.git("worktree", "list", "--porcelain").count("worktree ")
    left = [name for name in refs if "shadow/" in name or "swarm" in name]
    left += ["a linked worktree"] * (worktrees - 1)
    beside = project.root.parent / f"{project.root.name}.swarm"
    state = Path(project.env["XDG_STATE_HOME"])
    journals = (project.root / ".git/swarm/journal").glob("*")
    return left + [str(path) for path in (beside, state, *journals) if path.exists()]


def refused(project: Project, *arguments: str, code: int = 1, cwd: Path | None = None) -> str:
    """Everything on stderr of a command that is refused; nothing is on stdout, and nothing is left."""
    before = traces(project)
    answer = ask(project, *arguments, cwd=cwd)
    assert (answer.code, answer.stdout, traces(project)) == (code, "", before), answer.stderr
    return answer.stderr


def said(message: str, hint: str) -> str:
    return "".join(f"git-swarm: {line}\n" for line in message.split("\n")) + f"hint: {hint}\n"


# --- flows ------------------------------------------------------------------------------------------------------


def test_an_unknown_flow_names_the_near_one(project: Project) -> None:
    assert refused(project, "start", "bulid") == said(
        "unknown flow 'bulid' (did you mean 'build'?)", "git swarm flows list"
    )


BAD_FLOWS = [
    pytest.param(
        HELLO.replace("code-critic", "code-critik"),
        f"{FLOW_FILE}:6: unknown station 'code-critik' (did you mean 'code-critic'?)",
        id="unknown station",
    ),
    pytest.param(
        HELLO.replace("      loop_target: write\n", ""),
        f"{FLOW_FILE}:7: 'steps.1.routing.loop_target' is missing",
        id="loop without a target",
    ),
    pytest.param(
        HELLO.replace("loop_target: write", "loop_target: wriet"),
        f"{FLOW_FILE}:9: loop_target: no step 'wriet' in this flow (did you mean 'write'?)",
        id="loop target that does not exist",
    ),
    pytest.param(
        HELLO.replace("id: hello", "id: [hello"),
        f"{FLOW_FILE}:2: not valid YAML: expected ',' or ']', but got ':'",
        id="not YAML",
    ),
    pytest.param(
        HELLO.replace("max_iterations", "max_iteration"),
        f"{FLOW_FILE}:10: unknown key 'steps.1.routing.max_iteration' (did you mean 'max_iterations'?)",
        id="unknown key",
    ),
    pytest.param(
        HELLO.replace("    command: test", "    command: test\n    command: lint"),
        f"{FLOW_FILE}:14: the key 'command' is here twice",
        id="duplicate key",
    ),
    pytest.param(
        HELLO.replace("evidence.tests.passed", "evidence.tests.passed =="),
        f"{FLOW_FILE}:17: not a CEL expression: 'evidence.tests.passed ==': column 25: "
        "Syntax error: mismatched input '<EOF>' expecting {{'[', '{{', '(', '.', '-', '!', 'true', 'false', 'null', "
        "NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}}".replace("{{", "{").replace("}}", "}"),
        id="bad condition",
    ),
    pytest.param(
        HELLO.replace("evidence.tests.passed", "evidnce.tests.passed"),
        f"{FLOW_FILE}:17: not a CEL expression: 'evidnce.tests.passed': "
        "unknown name 'evidnce' (known: receipt, envelope, evidence, run, history)",
        id="condition about something unknown",
    ),
    pytest.param(
        HELLO.replace("default: write", "default: critique"),
        f"{FLOW_FILE}:14: the loop of 'test' starts inside the loop of 'critique': loops may nest, not cross",
        id="crossing loops",
    ),
    pytest.param(
        HELLO.replace("id: hello", "id: hallo"),
        f"{FLOW_FILE}:1: id 'hallo' in a file named 'hello'",
        id="another name",
    ),
]


@pytest.mark.parametrize(("flow", "problem"), BAD_FLOWS)
def test_a_bad_flow_is_refused_before_anything_exists(project: Project, flow: str, problem: str) -> None:
    project.commit({FLOW_FILE: flow})
    assert refused(project, "start", "hello") == said(problem, "git swarm flows validate hello")


def test_flows_validate_finds_what_start_would_refuse_in_all_flows_at_once(project: Project) -> None:
    for number, param in enumerate(BAD_FLOWS):
        flow = str(param.values[0]).replace("id: hello", f"id: hello{number}", 1)
        project.write({f".swarm/flows/hello{number}.yaml": flow})
    problems = [
        str(param.values[1])
        .replace(FLOW_FILE, f".swarm/flows/hello{number}.yaml")
        .replace("'hello'", f"'hello{number}'")
        for number, param in enumerate(BAD_FLOWS)
    ]
    stderr = refused(project, "flows", "validate")
    expected = said("\n".join(problems), "fix the lines above, then: git swarm flows validate")
    assert sorted(stderr.splitlines()) == sorted(expected.splitlines())


def test_a_process_of_its_own_is_refused_in_the_same_words(project: Project) -> None:
    """All others here ask within this process, which is cheaper."""
    done = project.swarm("start", "bulid", code=1)
    message = "unknown flow 'bulid' (did you mean 'build'?)"
    assert (done.stdout, done.stderr) == ("", said(message, "git swarm flows list"))


def test_a_user_flow_that_is_not_committed_is_refused(project: Project) -> None:
    project.write({FLOW_FILE: HELLO})
    assert refused(project, "start", "hello") == said(
        f"{FLOW_FILE} is not committed: a run reads its flow from the base commit",
        f"git add {FLOW_FILE} && git commit -m 'flow hello'",
    )


def test_a_user_flow_with_changes_that_are_not_committed_runs_as_committed_and_says_so(project: Project) -> None:
    flow = "id: hello\nsteps:\n  - {id: look, station: fixer}\n"
    base = project.commit({FLOW_FILE: flow})
    project.write({FLOW_FILE: flow + "  - {id: more, station: fixer}\n"})
    lines = project.swarm("start", "hello").stderr.splitlines()
    assert lines[1] == f"note: the run starts from {base[:8]}; uncommitted changes here are not part of it"
    assert [entry["step"] for entry in json.loads(ask(project, "log", "--json").stdout)] == ["look"]


def test_what_says_how_runs_are_executed_and_is_not_committed_is_named(project: Project) -> None:
    station = "id: own\ntitle: Own\ncategory: critic\nidentity: x\ninvariants: [y]\n"
    project.commit(
        {FLOW_FILE: "id: hello\nsteps:\n  - {id: look, station: fixer}\n", ".gitignore": ".swarm/config.yaml\n"}
    )
    names = ".swarm/config.yaml", ".swarm/flows/stations/own.yaml"
    project.write({names[0]: "commands: {test: make}\n", names[1]: station, ".swarm/flows/hello.yaml~": "x"})
    line = project.swarm("start", "hello").stderr.splitlines()[1]
    assert (
        line == f"note: not committed, so the run does not use it: {', '.join(names)} (git add -f {' '.join(names)})"
    )


def test_a_station_that_is_not_valid_is_refused_with_its_file(project: Project) -> None:
    station = ".swarm/flows/stations/critic.yaml"
    flow = "id: hello\nsteps:\n  - {id: look, station: critic}\n"
    project.commit(
        {FLOW_FILE: flow, station: "id: critic\ntitle: C\ncategory: critc\nidentity: x\ninvariants: [y]\n"}
    )
    stderr = refused(project, "start", "hello")
    problem = "category: 'critc' is not an allowed value (did you mean 'critic'?)"
    assert stderr.startswith(f"git-swarm: {station}:3: {problem}")
    assert stderr.endswith("\nhint: git swarm flows validate hello\n")


# --- scripts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("steps:\n  implemnt: {}\n", "2: no step 'implemnt' in build (did you mean 'implement'?)"),
        ("steps:\n  build/implemnt: {}\n", "2: no step 'build/implemnt' in build (did you mean 'build/implement'?)"),
        ("steps: {implement: [", "1: not valid YAML: "),
        ("steps:\n  implement:\n    - {stauts: VERIFIED}\n", "3: unknown key 'steps.implement.0.stauts'"),
        ("steps: \x00", "1: not valid YAML: "),
    ],
)
def test_a_bad_script_is_refused_with_file_and_line(project: Project, text: str, problem: str) -> None:
    path = project.script(text)
    lines = refused(project, "start", "build", "--script", path).splitlines()
    assert [line.startswith(("git-swarm: ", "hint: ")) for line in lines] == [True, True]
    assert lines[0].startswith(f"git-swarm: {path}:{problem}")


def test_a_script_that_does_not_exist_is_refused(project: Project) -> None:
    path = project.root / "none.yaml"
    line = ("start", "build", "--script", str(path))
    assert refused(project, *line) == said(f"there is no file {path}", "git swarm start build --script FILE")
    path.with_suffix(".yml").touch()
    near = f"there is no file {path} (did you mean '{path.with_suffix('.yml')}'?)"
    assert refused(project, *line) == said(near, "git swarm start build --script FILE")
    by_variable = Project(project.root, {**project.env, "SWARM_STUB_SCRIPT": "no/none.yaml"})
    missing = said("there is no file no/none.yaml: its folder is not there", "unset SWARM_STUB_SCRIPT")
    assert refused(by_variable, "start", "build") == missing


def test_a_script_from_the_environment_is_checked_as_well(project: Project) -> None:
    path = project.script("- nothing")
    env = {**project.env, "SWARM_STUB_SCRIPT": path}
    lines = refused(Project(project.root, env), "start", "build").splitlines()
    assert (lines[0], len(lines)) == (f"git-swarm: {path}:1: expected a mapping with default, steps", 2)


# --- engines and options ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        pytest.param(
            ("--engine", "claud"),
            "unknown engine 'claud' (did you mean 'claude'?)",
            "git swarm engines",
            id="unknown engine",
        ),
        pytest.param(
            ("--mode", "fast"),
            "claude-step has no mode 'fast' in this version (it has: stub, sdk, cli)",
            "git swarm start FLOW --mode stub",
            id="unknown mode",
        ),
        pytest.param(
            ("--mode", "clli"),
            "claude-step has no mode 'clli' in this version (it has: stub, sdk, cli) (did you mean 'cli'?)",
            "git swarm start FLOW --mode cli",
            id="misspelt mode",
        ),
        pytest.param(
            ("-m", "a", "--issue", "b"),
            "-m and --issue both give the task",
            "leave one of them out",
            id="two tasks",
        ),
        pytest.param(
            ("plan", "build"),
            "build is named twice",
            "git swarm start build plan",
            id="a flow twice",
        ),
        pytest.param(
            ("deploy", "wisdom"),
            "deploy needs the gate before it: nothing is deployed that no gate has judged",
            "git swarm start build gate deploy wisdom",
            id="deploy without a gate",
        ),
    ],
)
def test_options_that_cannot_be_met_are_usage(
    project: Project, arguments: tuple[str, ...], message: str, hint: str
) -> None:
    assert refused(project, "start", "build", *arguments, code=2) == said(message, hint)


def test_a_script_with_another_mode_is_usage(project: Project) -> None:
    stderr = refused(project, "start", "build", "--script", project.script("{}"), "--mode", "cli", code=2)
    assert stderr == said("--script needs mode stub, not 'cli'", "leave out --mode or --script")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("start", "build", "--bogus"), "no such option: --bogus"),
        (("start",), "missing argument 'FLOW'"),
        (("start", "build", "--routing", "luck"), "invalid value for '--routing': 'luck' is not one of"),
        (("show", "a", "b"), "got unexpected extra argument"),
        (("bogus",), "there is no command 'bogus'"),
    ],
)
def test_a_wrong_command_line_is_usage(project: Project, arguments: tuple[str, ...], message: str) -> None:
    stderr = refused(project, *arguments, code=2)
    assert stderr.startswith(f"git-swarm: {message}")
    assert "\nhint: git swarm " in stderr


def test_a_base_that_does_not_exist_is_refused(project: Project) -> None:
    assert refused(project, "start", "build", "--base", "nowhere") == said(
        "'nowhere' is not a commit", "git log --oneline --all | head"
    )


@pytest.mark.parametrize("revision", ["--all", "HEAD:README.md", "HEAD^{tree}"])
def test_a_base_that_is_no_commit_is_refused(project: Project, revision: str) -> None:
    assert refused(project, "start", "build", f"--base={revision}") == said(
        f"'{revision}' is not a commit", "git log --oneline --all | head"
    )


# --- configuration ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        pytest.param(
            "engines:\n  defualt: claude\n", "2: unknown key 'engines.defualt' (did you mean 'default'?)", id="key"
        ),
        pytest.param(
            "worktree: {setup_timeout: soon}\n",
            "1: worktree.setup_timeout: 'soon' is not a whole number",
            id="value",
        ),
        pytest.param("commands: [a]\nx: {", "2: not valid YAML: ", id="not YAML"),
        pytest.param("durability: full\ndurability: fast\n", "2: the key 'durability' is here twice", id="twice"),
        pytest.param(
            "deploy:\n  target: a b\n", "2: deploy.target: 'a b' cannot be the name of a branch", id="no branch"
        ),
        pytest.param("deploy: {target: -x}", "1: deploy.target: '-x' cannot be the name of a branch", id="an option"),
        pytest.param(
            "hub: --upload-pack=x\n", "1: hub: '--upload-pack=x' is neither name nor URL of a remote", id="hub"
        ),
    ],
)
def test_a_bad_team_configuration_is_refused_with_file_and_line(project: Project, config: str, problem: str) -> None:
    project.commit({".swarm/config.yaml": config})
    lines = refused(project, "start", "build").splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["git-swarm", "hint"]
    assert lines[0].startswith(f"git-swarm: .swarm/config.yaml:{problem}")


def test_an_unknown_mode_in_the_team_configuration_is_refused_whatever_is_said_otherwise(project: Project) -> None:
    project.commit({".swarm/config.yaml": "engines:\n  claude:\n    mode: clli\n"})
    lines = refused(project, "start", "build", "--mode", "stub").splitlines()
    what = "engines.claude.mode: there is no mode 'clli' (did you mean 'cli'?)"
    assert lines[0] == f"git-swarm: .swarm/config.yaml:3: {what}"


def test_an_unknown_engine_in_the_team_configuration_is_an_error_not_usage(project: Project) -> None:
    project.commit({".swarm/config.yaml": "engines:\n  default: claud\n"})
    lines = refused(project, "start", "build").splitlines()
    assert lines[0].startswith("git-swarm: .swarm/config.yaml:2: ")


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("swarm.x", "1", "git config: unknown key 'swarm.x'"),
        ("swarm.worktre.dir", "1", "git config: unknown key 'swarm.worktre.dir' (did you mean 'worktree'?)"),
        ("swarm.worktree.setupTimeout", "soon", "git config: worktree.setup_timeout: 'soon' is not a whole number"),
        ("swarm.durability", "most", "git config: durability: 'most' is not an allowed value"),
        ("swarm.worktree.dir", "[", "git config: worktree.dir: "),
        ("swarm.hub", "--upload-pack=x", "git config: hub: '--upload-pack=x' is neither name nor URL of a remote"),
        ("swarm.deploy.target", "a..b", "git config: deploy.target: 'a..b' cannot be the name of a branch"),
    ],
)
def test_a_bad_git_configuration_is_refused_with_its_name(
    project: Project, key: str, value: str, problem: str
) -> None:
    project.git("config", key, value)
    lines = refused(project, "start", "build").splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["git-swarm", "hint"]
    assert lines[0].startswith(f"git-swarm: {problem}")


def test_an_unknown_engine_is_named_beside_every_other_mistake(project: Project) -> None:
    text = (
        "engines:\n  default: claud\n  steps: {a: cdex}\n  claude: {mode: clii, x: 1}\nbudget: {max_cost_usd: five}\n"
    )
    project.commit({".swarm/config.yaml": text})
    lines = refused(project, "start", "build").splitlines()
    assert [line.removeprefix("git-swarm: .swarm/config.yaml:").partition(" (")[0] for line in lines[:-1]] == [
        "2: engines.default: unknown engine 'claud'",
        "3: engines.steps.a: unknown engine 'cdex'",
        "4: unknown key 'engines.claude.x'",
        "4: engines.claude.mode: there is no mode 'clii'",
        "5: budget.max_cost_usd: 'five' is no number",
    ]


@pytest.mark.parametrize("name", ["main", "a/b", "é", "refs/heads/main", "a@b", "a.b/c-d", "lock", "HEADS", ""])
@pytest.mark.parametrize("tail", ["", "/", ".", ".lock", " ", "..x", "@{1", "/.x", "//x", "~1", "\n"])
def test_a_target_is_what_git_takes_for_the_name_of_a_branch(tmp_path: Path, name: str, tail: str) -> None:
    branch = name + tail
    by_git = subprocess.run(["git", "check-ref-format", "--branch", branch], cwd=tmp_path, check=False).returncode
    text = json.dumps({"deploy": {"target": branch}})
    if by_git == 0:
        assert load_config(text, {}).deploy.target == branch
    else:
        with pytest.raises(SpecError):
            load_config(text, {})


UNSET = (
    "git swarm config --unset budget.max_cost_usd",
    "git config --unset-all swarm.egnines.default",
    "git swarm config --unset policy.human",
)


def test_every_entry_of_git_configuration_that_is_wrong_is_named_with_what_unsets_it(project: Project) -> None:
    for key in ("swarm.budget.maxCostUsd", "swarm.egnines.default", "swarm.policy.human"):
        project.git("config", key, "x")
    lines = refused(project, "start", "build").splitlines()
    assert [line.partition(" (")[0] for line in lines] == [
        "git-swarm: git config: budget.max_cost_usd: 'x' is no number",
        "git-swarm: git config: unknown key 'swarm.egnines.default'",
        "git-swarm: git config: policy.human: 'x' is not an allowed value",
        f"hint: {' && '.join(UNSET)}",
    ]


def test_conditions_of_a_flow_and_a_sidequest_are_looked_at_whatever_else_is_wrong(project: Project) -> None:
    step = "id: a, station: fixer, routing: {kind: branch, when: [{if: evidence.tets, next: a}]}"
    quest = "id: q\ntitle: Q\ntriggers: [{kind: condition, if: run.flw == 1}]\nsteps: [{id: a, station: nobody}]\n"
    texts = {
        "flows/shape.yaml": f"id: shape\nsteps:\n  - {{{step}}}\n  - {{id: b, staton: fixer}}\n",
        "flows/graph.yaml": f"id: graph\nsteps:\n  - {{{step}}}\n  - {{id: b, station: nobody}}\n",
        "sidequests/q.yaml": quest,
    }
    project.write({f".swarm/{name}": text for name, text in texts.items()})
    lines = refused(project, "flows", "validate").splitlines()
    assert [line.removeprefix("git-swarm: .swarm/").partition(" (")[0] for line in lines[:-1]] == [
        "flows/graph.yaml:3: 'evidence.tets': no field 'tets' in evidence",
        "flows/graph.yaml:4: unknown station 'nobody'",
        "flows/shape.yaml:3: 'evidence.tets': no field 'tets' in evidence",
        "flows/shape.yaml:4: unknown key 'steps.1.staton'",
        "sidequests/q.yaml:3: 'run.flw == 1': no field 'flw' in run",
        "sidequests/q.yaml:4: unknown station 'nobody'",
    ]


# --- repositories -----------------------------------------------------------------------------------------------


def test_outside_of_a_repository(project: Project, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    assert refused(project, "start", "build", cwd=tmp_path / "elsewhere") == said(
        f"{tmp_path}/elsewhere is not in a git repository",
        "cd into one, or: git init && git commit --allow-empty -m start",
    )


def other(project: Project, *init: str) -> Project:
    """An empty repository beside the project's."""
    made = Project(project.root.parent / "other", project.env)
    made.root.mkdir()
    made.git("init", "-q", *init)
    return made


def test_a_repository_without_a_commit(project: Project) -> None:
    assert refused(other(project), "start", "build") == said(
        "this repository has no commit yet: a run branches off one",
        "git commit --allow-empty -m 'first commit'",
    )


def test_a_sha256_repository(project: Project) -> None:
    made = other(project, "--object-format=sha256")
    made.git("commit", "-q", "--allow-empty", "-m", "first")
    assert refused(made, "start", "build") == said(
        "this repository stores sha256 objects, which libgit2 cannot read",
        "use a SHA-1 repository: git clone it into one made by git init --object-format=sha1",
    )


def test_a_branch_named_shadow(project: Project) -> None:
    project.git("branch", "shadow")
    assert refused(project, "start", "build") == said(
        "a branch named 'shadow' is in the way: git cannot keep shadow/<run> beside it",
        "git branch -m shadow shadow-old",
    )


@pytest.mark.parametrize("path", [".swarm", ".swarm/runs"])
def test_a_file_where_a_run_keeps_its_evidence(project: Project, path: str) -> None:
    base = project.commit({path: "a file\n"})
    assert refused(project, "start", "build") == said(
        f"{base[:12]} has a file named {path}, where a run keeps its evidence",
        f"git mv {path} somewhere-else && git commit -m 'make room for git-swarm'",
    )


@pytest.mark.parametrize("line", [("init",), ("config", "--team", "hub", "x")], ids=["init", "config"])
def test_a_file_where_the_team_s_file_has_its_folder(project: Project, line: tuple[str, ...]) -> None:
    project.write({".swarm": "a file\n"})
    file = project.root / ".swarm"
    done = ask(project, *line)
    again = "git swarm " + " ".join(line)
    assert (done.code, done.stderr) == (1, said(f"File exists: {file}", f"mv {file} {file}.old && {again}"))


def test_a_submodule_where_a_run_keeps_its_evidence(project: Project) -> None:
    head = project.git("rev-parse", "HEAD")
    project.git("update-index", "--add", "--cacheinfo", f"160000,{head},.swarm")
    project.git("commit", "-qm", "module")
    lines = refused(project, "start", "build").splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["git-swarm", "hint"]
    assert ".swarm" in lines[0]


def test_a_file_beside_the_repository_is_no_obstacle(project: Project) -> None:
    (project.root.parent / "repo.swarm").touch(mode=0o644)
    project.commit({FLOW_FILE: "id: hello\nsteps:\n  - {id: a, station: fixer}\n"})
    project.swarm("start", "hello")


def test_a_task_of_nothing_is_refused(project: Project) -> None:
    for given in ("", "  "):
        stderr = refused(project, "start", "build", "-m", given, code=2)
        assert stderr == said("the task is empty", "git swarm start FLOW -m 'what is to be done'")


def test_an_issue_that_does_not_exist_is_refused(project: Project) -> None:
    stderr = refused(project, "start", "build", "--issue", "none.md")
    assert stderr == said("there is no file none.md", "git swarm start FLOW --issue FILE")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (".swarm/flows/one.yaml", b"id: one\ntitle: caf\xe9\nsteps:\n  - {id: a, station: fixer}\n"),
        (".swarm/flows/fragments/own/tone.md", b"Be kind\nin the caf\xe9\n"),
    ],
)
def test_a_flow_that_is_not_utf_8_is_named_with_its_line(project: Project, name: str, content: bytes) -> None:
    project.commit({name: content})
    how = f"iconv -f latin1 -t utf-8 {name}, if it is Latin-1"
    for command in (("flows", "validate"), ("start", "one", "-m", "Do it")):
        lines = refused(project, *command).splitlines()
        assert lines[0] == f"git-swarm: {name}:2: not UTF-8 text ({how})"


def test_what_is_no_flow_may_have_any_bytes(project: Project) -> None:
    project.commit({".swarm/flows/notes.md": b"caf\xe9\n", ".swarm/flows/fragments/picture.png": b"\x89PNG"})
    assert ask(project, "flows", "validate").code == 0


def test_a_task_that_is_not_utf_8_is_refused(project: Project) -> None:
    """Python hands such bytes over as half characters, which no file of a run can hold."""
    lines = refused(project, "start", "build", "-m", os.fsdecode(b"mend the caf\xe9")).splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["git-swarm", "hint"]


def test_a_task_on_standard_input_that_is_not_utf_8_is_refused(project: Project) -> None:
    argv = project.argv("start", "build", "--issue", "-")
    done = subprocess.run(
        argv, cwd=project.root, env=dict(project.env), input=b"mend the caf\xe9\n", capture_output=True, check=False
    )
    lines = done.stderr.decode().splitlines()
    assert (done.returncode, [line.partition(": ")[0] for line in lines]) == (1, ["git-swarm", "hint"])


# --- runs and steps ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["log", "show", "status", "path", "events", "transcript", "diff", "resume"])
def test_without_any_run_a_command_says_how_to_start_one(project: Project, command: str) -> None:
    assert refused(project, command) == said(
        "there is no run in this repository yet", "git swarm start build -m 'the task'"
    )


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, list[str]]:
    """A repository with two finished runs of one step; their ids, newest first."""
    project = new_project(tmp_path_factory.mktemp("two"))
    project.commit({FLOW_FILE: "id: hello\nsteps:\n  - {id: look, station: fixer}\n"}, "first")
    for _ in range(2):
        project.swarm("start", "hello")
    return project, [item["run_id"] for item in json.loads(ask(project, "list", "--json").stdout)]


def test_a_run_that_does_not_exist(two_runs: tuple[Project, list[str]]) -> None:
    project, _runs = two_runs
    assert refused(project, "log", "run-2001") == said("no run matches 'run-2001'", "git swarm list")


def test_a_part_that_several_runs_share(two_runs: tuple[Project, list[str]]) -> None:
    project, runs = two_runs
    assert refused(project, "resume", "run-") == said(
        f"'run-' matches 2 runs: {runs[0]}, {runs[1]}", "give more of the id"
    )


@pytest.mark.parametrize(
    ("step", "there"),
    [
        ("lock", "did you mean 'look'?"),
        ("lock@2", "did you mean 'look'?"),
        ("look@2", "look was executed once"),
        ("look@x", "look was executed once"),
        ("hello/lock", "did you mean 'hello/look'?"),
        ("build/look", "did you mean 'hello/look'?"),
        ("2", "it has 1 step"),
        ("#0", "it has 1 step"),
        ("9999999", "it has 1 step"),
        ("HEAD", "it has: look"),
    ],
)
def test_a_step_that_does_not_exist(two_runs: tuple[Project, list[str]], step: str, there: str) -> None:
    project, runs = two_runs
    assert refused(project, "show", step) == said(
        f"{runs[0]} has no step '{step}' ({there})", f"git swarm log {runs[0]}"
    )


def test_a_diff_of_neither_step_nor_run(two_runs: tuple[Project, list[str]]) -> None:
    project, _runs = two_runs
    lines = refused(project, "diff", "lock").splitlines()
    assert (lines[0], len(lines)) == ("git-swarm: no run matches 'lock'", 2)


def test_a_worktree_that_is_gone(two_runs: tuple[Project, list[str]]) -> None:
    project, runs = two_runs
    project.git("worktree", "remove", "--force", ask(project, "path", runs[1]).stdout.strip())
    assert refused(project, "path", runs[1]) == said(
        f"{runs[1]} no longer has a worktree here", f"git swarm resume {runs[1]}"
    )


def test_an_unknown_flow_in_flows_show(project: Project) -> None:
    assert refused(project, "flows", "show", "bulid") == said(
        "unknown flow 'bulid' (did you mean 'build'?)", "git swarm flows list"
    )


def test_a_handoff_without_a_summary_ends_a_run_as_any_other(project: Project) -> None:
    script = project.script("steps: {load_context: {envelope: {status: BLOCKED}}}\n")
    project.swarm("start", "build", "--script", script, code=5)
    assert "undone     build/load_context:" in project.swarm("rollback", "0").stdout


def test_a_run_that_is_typed_as_an_argument_becomes_an_option(two_runs: tuple[Project, list[str]]) -> None:
    project, runs = two_runs
    for command in ("fork", "rollback", "skip"):
        lines = refused(project, command, "look", runs[0], code=2).splitlines()
        assert lines[-1] == f"hint: git swarm {command} look --run {runs[0]}"


def test_an_empty_query_is_refused(two_runs: tuple[Project, list[str]]) -> None:
    project, _runs = two_runs
    for query in ("", " ;\n"):
        assert refused(project, "db", "query", query, code=2).splitlines()[0] == "git-swarm: the query is empty"


def test_a_line_that_no_file_of_a_run_has(two_runs: tuple[Project, list[str]]) -> None:
    project, _runs = two_runs
    script = project.script('{"steps": {"look": {"write": {"only-there.txt": "1\\n2\\n"}}}}')
    project.swarm("start", "hello", "--script", script)
    lines = refused(project, "why", "only-there.txt:99").splitlines()
    assert lines[0].startswith("git-swarm: only-there.txt has 2 lines in ")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            "id: hello\non: push\nsteps:\n  - {id: a, station: fixer}\n",
            "2: unknown key 'on' (known: budget, charter, cross_cutting, id, needs_task, on_complete, on_failure, "
            "steps, title, utility)",
            id="no truth value",
        ),
        pytest.param("id: hello\n~: 1\n", "2: a key is null: it needs a name, or quotes", id="null"),
        pytest.param(
            "id: hello\nsteps:\n  - {id: a, station: fixer, next: a}\n",
            "3: unknown key 'steps.0.next' (did you mean 'routing.next'?)",
            id="next beside station",
        ),
        pytest.param(
            b"id: hello\ntitle: caf\xe9\n",
            f"2: not UTF-8 text (iconv -f latin1 -t utf-8 {FLOW_FILE}, if it is Latin-1)",
            id="not UTF-8",
        ),
    ],
)
def test_a_wrong_file_says_what_is_wrong_and_hides_no_other(
    project: Project, text: str | bytes, problem: str
) -> None:
    project.write({FLOW_FILE: text})
    lines = refused(project, "flows", "validate", "hello").splitlines()
    assert lines[0] == f"git-swarm: {FLOW_FILE}:{problem}"
    assert ask(project, "flows", "validate", "build").code == 0
    listed = ask(project, "flows", "list")
    assert (listed.code, "hello" in listed.stdout, "build" in listed.stdout) == (0, True, True)


def test_of_many_mistakes_the_first_stay_in_sight(project: Project) -> None:
    steps = "".join(f"  - {{id: A{n}, station: fixer}}\n" for n in range(300))
    project.write({FLOW_FILE: f"id: hello\nsteps:\n{steps}"})
    lines = refused(project, "flows", "validate", "hello").splitlines()
    assert (len(lines), lines[-2]) == (42, f"git-swarm: {FLOW_FILE}: and 260 more")
