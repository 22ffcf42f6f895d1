"""A project's own work in the sandbox: setup, tests, git-swarm's test runs, caches."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import Project
from tests.safety.sandbox.conftest import needs_bwrap

pytestmark = needs_bwrap

CONFIG = """
worktree:
  setup: python3 -m venv --without-pip .venv && touch ~/gone && echo "$GITHUB_TOKEN$OWN" > setup.txt
commands:
  test: .venv/bin/python -m unittest -v
"""
OLD = (
    "import unittest\nimport app\n\nclass T(unittest.TestCase):\n    def test_a(self): self.assertEqual(app.f(), 1)\n"
)
NEW = OLD.replace("app.f(), 1", "app.f(), 2") + "    def test_b(self): self.assertTrue(app.f())\n"


def test_setup_tests_and_the_tests_of_the_base_are_confined(confined: Project) -> None:
    project = Project(confined.root, {**confined.env, "GITHUB_TOKEN": "forge", "OWN": "own"})
    project.commit(
        {
            ".swarm/config.yaml": CONFIG,
            ".gitignore": ".venv\nsetup.txt\n__pycache__\n",
            "app.py": "def f(): return 1\n",
            "test_app.py": OLD,
        }
    )
    script = {"steps": {"build/implement": [{"write": {"app.py": "def f(): return 2\n", "test_app.py": NEW}}]}}
    done = project.swarm("start", "build", "--script", project.script(json.dumps(script)), "--until", "run_tests")
    assert "testing the base" in done.stderr
    assert "could not be tested" not in done.stderr
    run = project.json("list")[0]["run_id"]
    receipt = json.loads(project.swarm("show", "run_tests", "--receipt", "--run", run).stdout)
    assert (receipt["status"], receipt["sandbox"]) == ("succeeded", "bubblewrap")
    assert project.json("show", "run_tests", "--evidence", "--run", run)["tests"]["passed"] is True
    worktree = project.worktree(run)
    assert (worktree / "setup.txt").read_text(encoding="utf-8") == "own\n"
    assert not (Path(project.env["HOME"]) / "gone").exists()


def test_setup_of_changed_code_has_no_key_and_no_cache_of_the_base(confined: Project) -> None:
    """What an agent wrote into it is executed as an agent's own line."""
    project = Project(confined.root, {**confined.env, "CLOUD_API_KEY": "own", "MAVEN_OPTS": "-q"})
    setup = 'echo "$CLOUD_API_KEY/$MAVEN_OPTS" > setup.txt; cat "$XDG_CACHE_HOME"/seen.txt >> setup.txt; '
    setup += 'echo was here >> "$XDG_CACHE_HOME/seen.txt"; true'
    test = "cat setup.txt; .venv/bin/python -m unittest -v"
    config = {"worktree": {"setup": f"python3 -m venv --without-pip .venv; {setup}"}, "commands": {"test": test}}
    ignored = ".venv\nsetup.txt\n__pycache__\n"
    old = {"app.py": "def f(): return 1\n", "test_app.py": OLD}
    project.commit({".swarm/config.yaml": json.dumps(config), ".gitignore": ignored, **old})
    script = {"steps": {"build/implement": [{"write": {"app.py": "def f(): return 2\n", "test_app.py": NEW}}]}}
    done = project.swarm("start", "build", "--script", project.script(json.dumps(script)), "--until", "run_tests")
    assert "could not be tested" not in done.stderr
    run = project.json("list")[0]["run_id"]
    assert (project.worktree(run) / "setup.txt").read_text(encoding="utf-8") == "own/-q\n"
    caches = project.root / ".git/swarm/caches" / run
    assert {path.name for path in caches.iterdir()} == {"agents", "base"}
    seen = {each.name: (each / "seen.txt").read_text(encoding="utf-8") for each in caches.iterdir()}
    assert seen["base"].splitlines().count("was here") == 2, "the run's worktree, and that of the base"
    assert "was here" in seen["agents"], "that of the base's tests on the new code"


def test_caches_last_as_long_as_the_run(confined: Project) -> None:
    lines = 'echo x >> "$PIP_CACHE_DIR.txt"; cat "$XDG_CACHE_HOME/pip.txt" > seen.txt\n'
    act = {"write": {"x.sh": lines}, "run": ["sh x.sh"]}
    script = json.dumps({"steps": {"build/author_tests": [act], "build/implement": [act]}})
    run = confined.start(script, "--until", "implement")
    assert (confined.worktree(run) / "seen.txt").read_text(encoding="utf-8") == "x\nx\n"
    caches = confined.root / ".git/swarm/caches"
    assert [path.name for path in caches.iterdir()] == [run]
    confined.swarm("discard", run, "--force")
    assert list(caches.iterdir()) == []


def test_what_git_adds_inside_is_stored_nowhere(confined: Project) -> None:
    lines = "echo hidden > hidden.txt; git add hidden.txt; git rev-parse :hidden.txt > id.txt; rm hidden.txt\n"
    script = json.dumps({"steps": {"build/implement": [{"write": {"x.sh": lines}, "run": ["sh x.sh"]}]}})
    run = confined.start(script, "--until", "implement")
    blob = (confined.worktree(run) / "id.txt").read_text(encoding="utf-8").strip()
    assert len(blob) == 40
    assert blob not in confined.git("cat-file", "--batch-all-objects", "--batch-check")
    assert confined.git("status", "--porcelain", cwd=confined.worktree(run)) == ""


def test_what_borrows_objects_is_read_through(confined: Project, tmp_path: Path) -> None:
    root = tmp_path / "world" / "borrower"
    confined.git("clone", "-q", "--shared", str(confined.root), str(root))
    borrower = Project(root, confined.env)
    lines = "git log --oneline | wc -l > log.txt; git diff --stat HEAD; git add log.txt && git diff --cached --stat\n"
    script = json.dumps({"steps": {"build/implement": [{"write": {"x.sh": lines}, "run": ["sh x.sh"]}]}})
    run = borrower.start(script, "--until", "implement")
    call = json.loads(borrower.swarm("show", "implement", "--receipt", "--run", run).stdout)["tool_calls"][1]
    assert call["success"]
    assert " log.txt | 1 +" in call["output"]


def test_a_virtual_environment_that_an_agent_made_up_shows_nothing(confined: Project) -> None:
    home = Path(confined.env["HOME"])
    (home / "keys").mkdir()
    (home / "keys/id").write_text("PLANTED", encoding="utf-8")
    made = {"write": {"own/pyvenv.cfg": f"home = {home}/keys/bin\n", ".own/pyvenv.cfg": f"home = {home}/bin\n"}}
    look = {"write": {"x.sh": "cat ~/keys/id; ls ~\n"}, "run": ["sh x.sh"]}
    script = json.dumps({"steps": {"build/author_tests": [made], "build/implement": [look]}})
    run = confined.start(script, "--until", "implement")
    call = json.loads(confined.swarm("show", "implement", "--receipt", "--run", run).stdout)["tool_calls"][1]
    assert "No such file" in call["output"]
    assert "PLANTED" not in call["output"]
