"""A git process that a killed owner had just started is ended before its run is continued."""

from __future__ import annotations

import os
import signal
import subprocess

import psutil

from tests.conftest import Project
from tests.unseen import unseen
from tests.waiting import wait_until

FLOW = "id: one\nsteps: [{id: work, station: code-implementer}]\n"
SCRIPT = """\
steps:
  work:
    write: {{README.md: "# changed\\n"}}
    run: ["touch '{go}'; for _ in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; done"]
"""
GIT = """\
#!/bin/sh
case " $* " in
  *" read-tree --reset -u "*) echo $$ > '{pid}'; kill -9 $PPID; while ! [ -e '{go}' ]; do sleep 0.05; done ;;
esac
PATH='{path}' exec git "$@"
"""


def test_it_does_not_undo_what_the_next_step_changes(project: Project) -> None:
    """It waits for the step to have changed a file, if nobody ends it."""
    project.commit({".swarm/flows/one.yaml": FLOW})
    folder = project.root.parent / "bin"
    pid, go, git = folder / "pid", folder / "go", folder / "git"
    folder.mkdir()
    git.write_text(GIT.format(pid=pid, go=go, path=project.env["PATH"]), encoding="utf-8")
    git.chmod(0o755)
    started = subprocess.run(
        project.argv("start", "one", "--script", project.script(unseen(SCRIPT.format(go=go)))),
        cwd=project.root,
        env={**project.env, "PATH": f"{folder}:{project.env['PATH']}"},
        check=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert started.returncode == -signal.SIGKILL
    orphan = int(pid.read_text())
    try:
        project.swarm("resume")
        assert project.git("show", f"{project.json('list')[0]['tip']}:README.md") == "# changed"
        wait_until(lambda: not psutil.pid_exists(orphan), "the orphan has ended")
    finally:
        if psutil.pid_exists(orphan):
            os.kill(orphan, signal.SIGKILL)
