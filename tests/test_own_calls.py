"""What a step leaves in the repository's own files is put back before git, ours or the user's, reads it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.conftest import Project
from tests.fingerprint import fingerprint
from tests.twin import FLOW
from tests.unseen import unseen

COMMON = '"$(git rev-parse --path-format=absolute --git-common-dir)"'


@pytest.fixture
def row(project: Project) -> Project:
    """A repository with a flow of two steps."""
    project.commit({".swarm/flows/row.yaml": FLOW, "kept.txt": "1\n"})
    return project


def executed(project: Project, *lines: str, code: int = 0) -> str:
    """A run whose first step is these shell lines, in a script as an agent would write it; its id."""
    script = "\n".join(("set -e", *lines))
    steps = {"one": {"run": [f"cat > tool.sh <<'EOS'\n{script}\nEOS", "sh tool.sh"]}, "two": {"run": ["true"]}}
    return project.start(yaml.safe_dump({"steps": steps}), flow="row", code=code)


def contents(project: Project) -> dict[str, str]:
    """Everything of the user's checkout and repository without reflogs, samples of hooks and times."""
    entries = fingerprint(project.root).entries.items()
    named = ((name, about) for name, about in entries if not name.startswith(".git/logs"))
    return {name: re.sub(r" of \d+", "", about) for name, about in named if not name.endswith(".sample")}


def warnings(project: Project) -> dict[str, list[str]]:
    said = json.loads(project.swarm("status", "--json").stdout)
    return {concern["id"]: concern["names"] for concern in said["open_concerns"]}


def test_a_filter_that_a_step_configures_never_runs(row: Project, tmp_path: Path) -> None:
    before = contents(row)
    run = executed(
        row,
        f"""printf '[filter "evil"]\\n\\tclean = "echo ran >> {tmp_path}/trace; cat"\\n' >> {COMMON}/config""",
        "echo '*.txt filter=evil' > .gitattributes",
        "echo 2 > kept.txt",
    )
    assert not (tmp_path / "trace").exists()
    assert row.git("show", f"shadow/{run}:kept.txt") == "2"
    assert contents(row) == before
    assert warnings(row) == {"repository_changed@row/one": [".git/config (filter.evil.clean)"]}
    kept = list((row.root / ".git/swarm/quarantine" / run).glob("config.*"))
    assert len(kept) == 1
    assert "evil" in kept[0].read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "line",
    [
        f"echo '*.py' >> {COMMON}/info/exclude",
        f"echo '*.py working-tree-encoding=UTF-16' > {COMMON}/info/attributes",
        "git config core.hooksPath /tmp/of-an-agent",
        f"rm {COMMON}/config; ln -s /dev/null {COMMON}/config",
        f"cd {COMMON}/hooks; echo 'touch /tmp/owned' > post-checkout; chmod +x post-checkout",
        f"rm {COMMON}/hooks/commit-msg",
        f"rm {COMMON}/hooks/big; echo smaller > {COMMON}/hooks/big",
        f"rm {COMMON}/config; mkdir {COMMON}/config; touch {COMMON}/config/in-the-way",
        f"rm {COMMON}/config; mkfifo {COMMON}/config",
        f'rm -r {COMMON}/hooks; ln -s "$HOME/outside" {COMMON}/hooks',
        f'rm -r {COMMON}/info; ln -s "$HOME/outside" {COMMON}/info',
        f'mkdir {COMMON}/hooks/deep; ln -s "$HOME/outside" {COMMON}/hooks/deep/link',
        f"echo 'exit 1' >> {COMMON}/hooks/commit-msg",
        "git config remote.origin.pushurl /tmp/elsewhere",
        "git config remote.my.host.url /tmp/elsewhere",
        "git update-ref refs/heads/main HEAD~2",
        "git branch -f topic HEAD",
        "git tag v1",
        f"cd {COMMON}/hooks; touch $(printf 'x\\377')",
    ],
)
def test_the_repository_is_what_it_was_and_the_code_is_whole(row: Project, line: str) -> None:
    hook = row.root / ".git/hooks/commit-msg"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    hook.chmod(0o755)
    (hook.parent / "big").write_bytes(b"#!/bin/sh\n" + b"# a hook with a program in it\n" * 50_000)
    row.git("branch", "topic", "HEAD~1")
    row.git("remote", "add", "origin", "/nowhere")
    row.git("remote", "add", "my.host", "/nowhere")
    outside = Path(row.env["HOME"], "outside/deep/thesis.txt")
    outside.parent.mkdir(parents=True)
    outside.write_text("all of it")
    before = contents(row)
    run = executed(row, "echo 'x = 1' > hidden.py", line)
    assert contents(row) == before
    assert [path.name for path in outside.parents[1].rglob("*")] == ["deep", "thesis.txt"]
    assert row.git("show", f"shadow/{run}:hidden.py") == "x = 1"
    assert list(warnings(row)) == ["repository_changed@row/one"]


def test_what_people_change_beside_a_run_stays(row: Project, tmp_path: Path) -> None:
    """The step waits in the middle for a person who works in the checkout."""
    row.git("remote", "add", "origin", "/nowhere")
    steps = {"one": {"run": [f"touch {tmp_path}/begun; while ! test -e {tmp_path}/done; do sleep 0.02; done"]}}
    script = unseen(yaml.safe_dump({"steps": steps}))
    argv = row.argv("start", "row", "--script", row.script(script))
    with subprocess.Popen(argv, cwd=row.root, env=dict(row.env), stderr=subprocess.DEVNULL) as running:
        _await(tmp_path / "begun")
        row.git("config", "branch.main.remote", "origin")
        row.git("remote", "add", "second", "/elsewhere")
        row.git("commit", "-q", "--allow-empty", "-m", "of a person")
        row.swarm("init")
        (tmp_path / "done").touch()
        running.wait(timeout=60)
    assert running.returncode == 0
    assert row.git("config", "branch.main.remote") == "origin"
    assert row.git("remote") == "origin\nsecond"
    assert row.git("log", "-1", "--format=%s") == "of a person"
    assert "git-swarm guard" in (row.root / ".git/hooks/pre-push").read_text(encoding="utf-8")
    assert warnings(row) == {}


def test_filters_that_appear_in_the_users_own_configuration_stop_the_run_until_a_person_looked(
    row: Project, tmp_path: Path
) -> None:
    line = f"git config --global filter.evil.clean 'echo ran >> {tmp_path}/trace; cat'"
    attack = (line, "echo '*.txt filter=evil' > .gitattributes", "echo 2 > kept.txt")
    executed(row, *attack, code=1)
    assert not (tmp_path / "trace").exists()


def test_the_programs_of_the_repository_show_no_differences(row: Project, tmp_path: Path) -> None:
    executed(row, "echo 2 > kept.txt")
    row.git("config", "diff.external", f"touch {tmp_path}/ran; true")
    assert "+2" in row.swarm("diff").stdout
    assert not (tmp_path / "ran").exists()
    row.swarm("diff", "--ext-diff")
    assert (tmp_path / "ran").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are found by prctl(2)")
def test_a_child_that_hides_cannot_approve_and_is_ended(row: Project, tmp_path: Path) -> None:
    """Its environment is empty, its session its own, its parent gone."""
    approved = executed(row, "echo 2 > kept.txt")
    swarm = " ".join(row.argv("approve", approved))
    hidden = f'env -i PATH="$PATH" HOME="$HOME" {swarm} > {tmp_path}/said 2>&1; touch {tmp_path}/asked; sleep 300'
    run = executed(
        row,
        f"(setsid sh -c 'echo $$ > {tmp_path}/pid; {hidden}' &) >/dev/null 2>&1",
        f"while ! test -e {tmp_path}/asked; do sleep 0.02; done",
    )
    assert f"an agent cannot approve: this process belongs to a step of {run}" in (tmp_path / "said").read_text(
        encoding="utf-8"
    )
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text(encoding="utf-8")), signal.SIG_DFL)


def _await(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.02)
