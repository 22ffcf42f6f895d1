"""Two clones, as of two people on two machines, and the hub between them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import Project, environment
from tests.unseen import unseen

STEPS = ("first", "second", "third")
FLOW = "id: trip\nsteps:\n" + "".join(f"  - {{id: {step}, station: code-implementer}}\n" for step in STEPS)


@dataclass(frozen=True)
class Clones:
    """`door`: what scripts and tests have in common, outside of both."""

    here: Project
    there: Project
    hub: Path
    door: Path

    def script(self, **lines: Sequence[str]) -> str:
        """Each step says that it was executed, and writes a file; further shell lines by step."""
        steps = {
            step: {
                "run": [
                    f"echo {step} >> '{self.door}/trace'",
                    *(line.format(door=self.door) for line in lines.get(step, ())),
                ],
                "write": {f"src/{step}.txt": f"{step}\n"},
            }
            for step in STEPS
        }
        return unseen(json.dumps({"steps": steps}))

    def start(self, **lines: Sequence[str]) -> list[str]:
        """The command line that starts such a run on the hub."""
        return ["start", "trip", "--hub", "--script", self.here.script(self.script(**lines))]

    @property
    def trace(self) -> list[str]:
        return (self.door / "trace").read_text(encoding="utf-8").split()

    def on_hub(self, *arguments: str) -> str:
        return self.here.git(*arguments, cwd=self.hub)

    @property
    def run(self) -> str:
        (name,) = self.on_hub("for-each-ref", "--format=%(refname:lstrip=3)", "refs/heads/shadow/").splitlines()
        return name

    def pushed(self) -> list[str]:
        """The steps that the hub has, oldest first."""
        form = "%(trailers:key=Swarm-Step,valueonly,separator=)"
        return self.on_hub("log", "--reverse", f"--format={form}", f"shadow/{self.run}", "--not", "main").split()


def two_clones(folder: Path, *options: str) -> Clones:
    """
    :param options: of `git init`, for the hub.
    """
    hub, door = folder / "hub.git", folder / "door"
    door.mkdir(parents=True)
    here = Project(folder / "here" / "repo", environment(folder / "home"))
    here.root.mkdir(parents=True)
    here.git("init", "-q")
    here.commit({"README.md": "# trip\n", ".swarm/flows/trip.yaml": FLOW}, "first")
    here.git("init", "-q", "--bare", *options, str(hub))
    here.git("push", "-q", str(hub), "main")
    there = Project(folder / "elsewhere" / "far" / "copy", environment(folder / "other-home"))
    there.root.parent.mkdir(parents=True)
    here.git("clone", "-q", str(hub), str(there.root))
    there.git("config", "--global", "user.name", "Somebody Else")
    for project in (here, there):
        project.git("remote", "add", "hub", str(hub))
        project.git("config", "swarm.hub", "hub")
    return Clones(here, there, hub, door)
