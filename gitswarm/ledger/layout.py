"""Names of everything that a run stores: refs, and paths in the tree of its commits (design section 3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from gitswarm.git.object_reader import Person
from gitswarm.records.execution import BRANCH_PREFIX, RUN_ID, RUNS_FOLDER, Execution

HUMAN = "human"
"""Agent of the steps that people do: adopted edits, skipped steps, approvals."""

KERNEL = "kernel"
"""Agent and engine of what git-swarm does itself."""

AGENT_DOMAIN = "git-swarm.invalid"

EVENTS_KEPT = 64
"""Executions of one step whose events files lie in a tree; older ones lie in the trees of their own commits."""

STORED_AS_THEY_ARE = b"* -text -filter -ident -working-tree-encoding\n"
"""Content of `attributes`. We write blobs ourselves; a project's eol or LFS rules for `*.json` would have git
check them out as something else, and call every one of them modified."""

RESERVED_FLOW_IDS = frozenset({"events", "specs"})
"""Folders of RUN_BASE that no flow may be named after."""


class RunLayout(Struct, frozen=True):
    """Refs and folders of one run."""

    run_id: str

    @property
    def base(self) -> str:
        """RUN_BASE without the final slash."""
        return f"{RUNS_FOLDER}/{self.run_id}"

    @property
    def branch(self) -> str:
        return f"refs/heads/{BRANCH_PREFIX}{self.run_id}"

    @property
    def events_notes(self) -> str:
        return f"refs/notes/swarm/{self.run_id}/events"

    @property
    def routing_notes(self) -> str:
        return f"refs/notes/swarm/{self.run_id}/routing"

    @property
    def base_ref(self) -> str:
        return f"refs/swarm/{self.run_id}/base"

    @property
    def next_ref(self) -> str:
        return f"refs/swarm/{self.run_id}/next"

    @property
    def approval_ref(self) -> str:
        """The current approval's commit; a view of the chain."""
        return f"refs/swarm/{self.run_id}/approval"

    @property
    def budget_ref(self) -> str:
        """How people changed the run's limits on `resume`: a commit for each time, the newest first."""
        return f"refs/swarm/{self.run_id}/budget"

    @property
    def upstream_ref(self) -> str:
        """Where the target of the run was when a reset looked last."""
        return f"refs/swarm/{self.run_id}/upstream"

    @property
    def lease_ref(self) -> str:
        """Who executes the run, and how it stands; only the hub has it."""
        return f"refs/swarm/{self.run_id}/lease"

    def without_lease(self, refs: Mapping[str, str]) -> dict[str, str]:
        """The refs of a run on a hub that every repository has."""
        return {name: to for name, to in refs.items() if name != self.lease_ref}

    @property
    def ref_patterns(self) -> tuple[str, str, str]:
        """What `git ls-remote` finds every ref of the run by."""
        return (self.branch, f"refs/notes/swarm/{self.run_id}/*", f"refs/swarm/{self.run_id}/*")

    def origin_ref(self, run: str) -> str:
        """Elsewhere: the decisions in a run that this one was forked from, which its first commits seal."""
        return f"refs/swarm/{self.run_id}/from/{run}"

    @property
    def views(self) -> tuple[str, str]:
        """Refs that come and go: only these are ever deleted because another repository has them no more."""
        return (self.next_ref, self.approval_ref)

    @property
    def rollback_prefix(self) -> str:
        return f"refs/swarm/{self.run_id}/rollback/"

    @property
    def fork_prefix(self) -> str:
        return f"refs/swarm/{self.run_id}/fork/"

    def sibling_ref(self, fork: str, step: str) -> str:
        """The commit of a parallel step, on the commit `fork`."""
        return f"{self.fork_prefix}{fork[:12]}/{step}"

    @property
    def spec(self) -> str:
        return f"{self.base}/spec.json"

    @property
    def specs(self) -> str:
        return f"{self.base}/specs"

    @property
    def attributes(self) -> str:
        """Keeps the project's own filters away from RUN_BASE: what lies there is what was stored."""
        return f"{self.base}/.gitattributes"

    @property
    def run_events(self) -> str:
        """Events of the `run` commit; those of the n-th `end` commit lie beside it."""
        return f"{self.base}/events/run.jsonl"

    def end_events(self, number: int) -> str:
        return f"{self.base}/events/end@{number}.jsonl"


def run_of(ref: str) -> str | None:
    """The run that a ref belongs to."""
    words = ref.split("/")
    named = words[2:3] if words[1] == "swarm" else words[3:4]
    return named[0] if named and RUN_ID.fullmatch(named[0]) else None


def agent_identity(agent: str) -> Person:
    """Who an agent is to git."""
    return Person(agent, f"{agent}@{AGENT_DOMAIN}")


def expired_events(execution: Execution, names: Iterable[str]) -> list[str]:
    """Paths of the files among `names` in the events folder that this execution pushes out of the tree."""
    expired = []
    for name in names:
        step, _at, rest = name.partition("@")
        iteration = rest.removesuffix(".jsonl")
        if step == execution.step and iteration.isdigit() and int(iteration) <= execution.iteration - EVENTS_KEPT:
            expired.append(f"{execution.events_folder}/{name}")
    return expired
