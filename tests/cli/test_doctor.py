"""`git swarm doctor`: what it finds, what repairs it, and that it finds nothing where nothing is wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Project
from tests.projects import ask
from tests.safety.guard.layouts import hooks_of, lefthook
from tests.safety.guard.test_init_hooks import as_lefthook
from tests.safety.sandbox.conftest import confined as confined  # noqa: PLC0414 - a fixture
from tests.safety.sandbox.conftest import needs_bwrap

LONG_AGO = time.time() - 8000


def examined(project: Project, *options: str, code: int = 0) -> dict[str, list[dict[str, Any]]]:
    """Findings by check."""
    found = json.loads(project.swarm("doctor", "--json", *options, code=code).stdout)
    assert found["sound"] is (code == 0)
    checks: dict[str, list[dict[str, Any]]] = {}
    for each in found["findings"]:
        checks.setdefault(each["check"], []).append(each)
    return checks


def problems(project: Project, *options: str) -> list[tuple[str, str]]:
    """Check and hint of what is wrong and was not repaired."""
    found = json.loads(ask(project, "doctor", "--json", *options).stdout)["findings"]
    return [(each["check"], each["hint"]) for each in found if each["level"] == "problem" and not each["fixed"]]


def aged(path: Path) -> Path:
    os.utime(path, (LONG_AGO, LONG_AGO), follow_symlinks=False)
    return path


def test_nothing_is_wrong(project: Project) -> None:
    done = project.swarm("doctor")
    assert done.stdout.endswith("no problems found\n")
    found = examined(project)
    assert {name: found[name][0]["level"] for name in ("sandbox", "network", "git", "guard")} == {
        "sandbox": "note",
        "network": "note",
        "git": "ok",
        "guard": "note",
    }


def test_outside_of_a_repository(project: Project, tmp_path: Path) -> None:
    done = ask(project, "doctor", cwd=tmp_path)
    assert "none here: its checks were skipped" in " ".join(done.stdout.split())


@needs_bwrap
def test_a_sandbox_that_works(confined: Project) -> None:
    found = examined(confined)
    assert (found["sandbox"][0]["level"], found["sandbox"][0]["message"]) == ("ok", "bubblewrap")
    assert (found["network"][0]["level"], found["network"][0]["message"]) == ("ok", "the model's provider")
    assert found["limits"][0]["message"].startswith("processes: ")


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap")
def test_no_sandbox(project: Project, tmp_path: Path) -> None:
    project.git("config", "--global", "swarm.policy.sandbox", "auto")
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "git").symlink_to(shutil.which("git") or "git")
    bare = replace(project, env={**project.env, "PATH": str(tools)})
    hint = "apt-get install bubblewrap   (dnf, pacman: the same name)"
    assert problems(bare) == [("sandbox", hint)]
    (tools / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions' >&2\nexit 1\n", encoding="utf-8")
    (tools / "bwrap").chmod(0o755)
    (found,) = examined(bare, code=1)["sandbox"]
    assert found["message"].startswith("none: bwrap does not work here (bwrap: No permissions)")


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap")
def test_a_sandbox_that_cannot_cut_the_network_off(project: Project, tmp_path: Path) -> None:
    project.git("config", "--global", "swarm.policy.sandbox", "auto")
    (tmp_path / "bin").mkdir()
    line = 'for word; do [ "$word" != --unshare-net ] || { echo "bwrap: loopback: no" >&2; exit 1; }; done'
    (tmp_path / "bin/bwrap").write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    (tmp_path / "bin/bwrap").chmod(0o755)
    half = replace(project, env={**project.env, "PATH": f"{tmp_path}/bin:{project.env['PATH']}"})
    assert problems(half) == [("network", "git config swarm.policy.network allow")]
    half.git("config", "swarm.policy.network", "allow")
    assert problems(half) == []
    half.git("config", "swarm.policy.network", "engine")
    half.git("config", "swarm.policy.sandbox", "require")
    (found,) = examined(half, code=1)["sandbox"]
    assert "policy.network is engine, and nothing here keeps programs from the network" in found["message"]


def test_an_engine_that_is_configured_and_not_there(project: Project, tmp_path: Path) -> None:
    project.git("config", "swarm.engines.claude.mode", "cli")
    project.git("config", "swarm.engines.claude.cli", str(tmp_path / "missing"))
    assert ("engine", "git swarm engines") in problems(project)


def test_a_guard_that_another_tool_replaced(project: Project) -> None:
    project.swarm("init")
    assert examined(project)["guard"][0]["level"] == "ok"
    lefthook(project)
    assert problems(project) == [("guard", "git swarm init")]
    project.swarm("init")
    assert problems(project) == []


def test_a_guard_that_nothing_stands_behind(project: Project) -> None:
    """As undo of an older version left it."""
    project.swarm("init")
    as_lefthook(project)
    (project.root / ".git/swarm/init.json").unlink()
    dead = hooks_of(project) / "pre-push.old"
    assert problems(project) == [("guard", f"rm {project.root}/.git/hooks/pre-push.old")]
    assert problems(project, "--fix") == []
    assert not dead.exists()
    assert (hooks_of(project) / "pre-push").exists()
    assert problems(project) == []


def test_git_lfs_beside_the_guard(project: Project) -> None:
    project.commit({".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n"})
    assert problems(project) == []
    project.swarm("init")
    (found,) = problems(project)
    assert found == ("git-lfs", "git swarm init --undo && git lfs install --local && git swarm init")
    project.swarm("init", "--undo")
    (hooks_of(project) / "pre-push").write_text('#!/bin/sh\ngit lfs pre-push "$@"\n', encoding="utf-8")
    (hooks_of(project) / "pre-push").chmod(0o755)
    project.swarm("init")
    assert problems(project) == []


def test_what_killed_processes_left(project: Project) -> None:
    swarm = project.root / ".git" / "swarm"
    gone = "run-20200101-000000-abcdef"
    for folder in ("journal", "sessions", "caches"):
        (swarm / folder / gone).mkdir(parents=True)
        aged(swarm / folder / gone)
    assert [hint for _check, hint in problems(project)] == ["git swarm gc"] * 3
    fixed = examined(project, "--fix")["leftover"]
    assert all(each["fixed"] for each in fixed)
    assert not list(swarm.glob(f"*/{gone}"))
    assert problems(project) == []


def test_what_is_young_may_be_in_use(project: Project) -> None:
    (project.root / ".git/swarm/journal/run-20200101-000000-abcdef").mkdir(parents=True)
    (project.root / ".git/index.lock").touch()
    assert problems(project) == []


def test_a_lock_of_git_is_for_a_person_to_remove(project: Project) -> None:
    lock = project.root / ".git" / "config.lock"
    lock.touch()
    aged(lock)
    assert problems(project, "--fix") == [("lock", f"rm {project.root}/.git/config.lock   (when no git runs)")]
    assert lock.exists()


def test_an_interrupted_run(project: Project) -> None:
    script = project.script("steps:\n  build/author_tests: {hang: true}\n")
    running = subprocess.Popen(
        project.argv("start", "build", "--script", script),
        cwd=project.root,
        env=dict(project.env),
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while not list(project.root.glob(".git/swarm/journal/run-*/*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    running.kill()
    running.wait()
    (run,) = (each["run_id"] for each in project.json("list"))
    assert problems(project) == [("run", f"git swarm resume {run}")]


def test_what_is_kept_on_purpose_is_no_problem(project: Project) -> None:
    run = project.start("steps: {}")
    kept = project.root / ".git/swarm/quarantine" / run
    cache = project.root / ".git/swarm/caches" / run
    for folder in (kept, cache):
        folder.mkdir(parents=True)
    (cache / "wheel").write_bytes(b"x" * (3 << 20))
    found = examined(project)
    assert found["quarantine"][0]["hint"].startswith(f"git swarm discard {run}")
    assert found["caches"][0]["message"] == "1 runs keep 3 MiB of package caches"


def test_an_agent_repairs_nothing(project: Project) -> None:
    agent = replace(project, env={**project.env, "SWARM_STEP_OF": "run-x"})
    assert "an agent cannot doctor --fix" in agent.swarm("doctor", "--fix", code=1).stderr
    agent.swarm("doctor")
