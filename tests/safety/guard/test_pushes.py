"""The guard as `pre-push` and as `pre-receive`: which pushes it lets through."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from _pytest.mark import ParameterSet

from tests.safety.guard.arrangements import (
    GITHUB_BODY,
    TRAILERS,
    Arrange,
    already_there,
    amended,
    approved,
    approved_and_discarded,
    brought_back_more,
    changed_only,
    deep_below,
    evil_merge,
    hub_by_name,
    hub_by_url,
    hub_named_below_upstream,
    hub_with_the_url_of_upstream,
    landed_and_brought_back,
    landed_as,
    landed_evidence,
    landed_merge,
    landed_squash,
    landed_twice,
    merged,
    merged_by_squash,
    on_top,
    on_top_without_evidence,
    ordinary,
    ordinary_branches,
    ordinary_forced,
    picked_end,
    picked_file,
    picked_run,
    picked_step,
    quoted_and_merged,
    quoting,
    rebased,
    renamed_evidence,
    root_commit,
    second_hub,
    step_among_many_runs,
    step_on_landed_evidence,
    stripped,
    tagged,
    tagged_and_merged,
    with_blob_tags,
    with_work_on_top,
)
from tests.safety.guard.world import World, guard_pushes, guard_upstream

SEED = 6


@dataclass(frozen=True)
class Push:
    """`args` of `git push`; SHADOW in them is the shadow branch. `also_received`: pre-receive says the same."""

    name: str
    args: str
    arrange: Arrange = lambda _world: None
    also_received: bool = True
    hint: str = "git swarm approve"


BLOCKED = (
    Push("the shadow branch", "origin SHADOW"),
    Push("the shadow branch forced", "--force origin SHADOW"),
    Push("under another name", "origin SHADOW:refs/heads/innocent"),
    Push("as HEAD", "origin HEAD:refs/heads/innocent", lambda w: w.git("checkout", "-q", "--detach", w.shadow)),
    Push("by an expression with a blank", "origin :/polish@it:refs/heads/x"),
    Push("by URL", "../origin.git SHADOW:refs/heads/x"),
    Push("by another way to write the URL", "file://ROOT/../origin.git SHADOW:refs/heads/x"),
    Push("the first commit only", "origin SHADOW~3:refs/heads/x"),
    Push("a step without the end", "origin SHADOW~1:refs/heads/x"),
    Push("a light tag", "origin light", tagged),
    Push("an annotated tag", "origin heavy", tagged),
    Push("a tag of a tag", "origin double", tagged),
    Push("tags that follow", "--follow-tags origin main", tagged_and_merged),
    Push("--all", "--all origin"),
    Push("--tags", "--tags origin", tagged),
    Push("--mirror", "--mirror origin"),
    Push("beside ordinary work", "origin main SHADOW", ordinary),
    Push("a branch on top", "origin mine", on_top),
    Push("a branch on top without the papers", "origin mine", on_top_without_evidence),
    Push("deep below own work", "origin mine", deep_below),
    Push("a merge of it", "origin main", merged),
    Push("a squash of it", "origin main", merged_by_squash),
    Push("a picked file", "origin main", picked_file),
    Push("a picked step", "origin main", picked_step),
    Push("the picked first commit", "origin main", picked_run),
    Push("the picked end", "origin main", picked_end),
    Push("an amended step", "origin HEAD:refs/heads/x", amended),
    Push("rebased", "origin SHADOW", rebased),
    Push("stripped of its trailers", "origin stripped", stripped),
    Push("a file moved among the papers", "origin main", renamed_evidence),
    Push("added by a merge", "origin main", evil_merge),
    Push("added by a root", "origin orphan", root_commit),
    Push("steps after the approval", "origin SHADOW", approved, hint="git push REMOTE"),
    Push("approved and thrown away", "origin SHADOW", approved_and_discarded),
    Push(
        "a run that only quotes a landing",
        "origin main",
        quoted_and_merged,
    ),
    Push("on top beside a landing", "origin main mine", landed_twice),
    Push("more than was landed", "origin main", brought_back_more),
    Push("events notes", "origin refs/notes/swarm/RUN/events"),
    Push("events notes under another name", "origin refs/notes/swarm/RUN/events:refs/heads/x"),
    Push("routing notes by id", "origin refs/notes/swarm/RUN/routing~0:refs/heads/x"),
    Push("refs of a run", "origin refs/swarm/*:refs/swarm/*"),
    Push("another name of its base", "origin main:refs/swarm/RUN/base"),
    Push("all notes", "origin refs/notes/*:refs/notes/*"),
    Push("a step that changes no evidence", "origin main", step_on_landed_evidence),
    Push("a step where many runs were landed", "origin main", step_among_many_runs),
    Push("another remote than the hub", "origin SHADOW", hub_by_name),
    Push("where the hub only fetches from", "origin SHADOW", hub_with_the_url_of_upstream),
    Push("what a hub has that is named below the remote", "origin SHADOW", hub_named_below_upstream),
)
PASSED = (
    Push("nothing new", "origin main"),
    Push("ordinary work", "origin main", ordinary),
    Push("ordinary work by URL", "../origin.git main", ordinary),
    Push("a new branch", "origin main:refs/heads/new", ordinary),
    Push("to an empty remote", "hub main", ordinary),
    Push("forced", "--force origin main", ordinary_forced),
    Push("with a lease", "--force-with-lease=main:main@{1} origin main", ordinary_forced),
    Push("branches and tags", "--follow-tags origin main side", ordinary_branches),
    Push("tags of trees and blobs", "origin tree blob heavy-blob", with_blob_tags),
    Push("the base of a run as a branch", "origin refs/swarm/RUN/base:refs/heads/x"),
    Push("landed by squash", "origin main", landed_squash),
    Push("landed by merge", "origin main", landed_merge),
    Push("landed with evidence", "origin main", landed_evidence),
    Push("work on a landed squash", "origin main", with_work_on_top(landed_squash)),
    Push("work on a landed merge", "origin main", with_work_on_top(landed_merge)),
    Push("work on landed evidence", "origin main", with_work_on_top(landed_evidence)),
    Push("a landed merge by URL", "../origin.git main", with_work_on_top(landed_merge)),
    Push("landed evidence to a new remote", "hub main", with_work_on_top(landed_evidence)),
    Push("a branch of what was landed", "origin main~1:refs/heads/x", with_work_on_top(landed_merge)),
    Push("landed evidence that came back", "origin main", landed_and_brought_back),
    Push("evidence that was taken away", "origin main", changed_only),
    Push("approved, up to there", "origin SHADOW~1:refs/heads/x", approved, also_received=False),
    Push("trailers in the middle", "origin main", quoting(f"x\n\n{TRAILERS}\n\nand more prose")),
    Push("trailers without papers", "origin main", quoting(f"x\n\n{TRAILERS}")),
    Push(
        "prose like trailers", "origin main", quoting("x\n\nThe key is Swarm-Format: 1\nand Swarm-Step: work is next")
    ),
    Push("trailers as the subject", "origin main", quoting("Swarm-Step: work")),
    Push("indented trailers", "origin main", quoting(f"x\n\n    {TRAILERS.replace(chr(10), chr(10) + '    ')}")),
    Push("a squash as GitHub makes it", "origin main", landed_as(GITHUB_BODY)),
    Push("a squash that quotes its landing", "origin main", landed_as("x\n\nSwarm-Landed: RUN STEP\n\n(#3)")),
    Push("a landing of what is not here", "origin main", landed_as(f"x\n\nSwarm-Landed: RUN {'12' * 20}")),
    Push(
        "deletes a branch",
        "origin :refs/heads/old",
        lambda w: w.git("push", "-q", "--no-verify", "origin", "main:old"),
    ),
    Push("deletes a shadow branch", "origin :refs/heads/there", already_there),
    Push("on top of what is there", "origin mine", already_there, also_received=True),
    Push("the hub by name", "hub SHADOW", hub_by_name),
    Push("the hub that only pushes go to", "hub SHADOW", hub_with_the_url_of_upstream),
    Push("the hub by its whole name", "origin/hub SHADOW", hub_named_below_upstream),
    Push("the hub by its path", "../hub.git SHADOW", hub_by_name),
    Push("the hub by its whole path", "ROOT/../hub.git/ SHADOW", hub_by_name),
    Push("the hub that a URL names", "hub SHADOW", hub_by_url),
    Push("everything to the hub", "--mirror hub", hub_by_name),
    Push("one of two hubs", "hub refs/swarm/*:refs/swarm/* refs/notes/*:refs/notes/* SHADOW", second_hub),
)


def arguments(push: Push, world: World) -> list[str]:
    words = {"SHADOW": world.shadow, "RUN": world.run, "ROOT": str(world.project.root), "@it": " it"}
    text = push.args
    filled = []
    for word in text.split():
        for name, value in words.items():
            word = word.replace(name, value)  # noqa: PLW2901 - a word is filled in step by step
        filled.append(word)
    return filled


def name_of(push: Push) -> str:
    return push.name


def received(pushes: tuple[Push, ...]) -> list[ParameterSet]:
    """Those that a hook on the upstream sees and judges alike. It is the same file: a sample of them runs always."""
    seen = [push for push in pushes if push.also_received and "hub" not in push.args]
    sample = random.Random(SEED).sample(seen, 12)
    return [pytest.param(push, id=push.name, marks=[] if push in sample else [pytest.mark.soak]) for push in seen]


@pytest.mark.parametrize("push", BLOCKED, ids=name_of)
def test_pre_push_blocks(world: World, push: Push) -> None:
    push.arrange(world)
    guard_pushes(world)
    before = world.refs_of(world.upstream)
    done = world.push(*arguments(push, world))
    assert (done.returncode, world.refs_of(world.upstream)) == (1, before), done.stderr
    assert f"\nhint: {push.hint} " in done.stderr


@pytest.mark.parametrize("push", PASSED, ids=name_of)
def test_pre_push_lets_through(world: World, push: Push) -> None:
    push.arrange(world)
    guard_pushes(world)
    done = world.push(*arguments(push, world))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("push", received(BLOCKED))
def test_pre_receive_blocks(world: World, push: Push) -> None:
    push.arrange(world)
    guard_upstream(world)
    before = world.refs_of(world.upstream)
    done = world.push(*arguments(push, world))
    assert (done.returncode, world.refs_of(world.upstream)) == (1, before), done.stderr
    assert "remote: hint: git swarm approve " in done.stderr


@pytest.mark.parametrize("push", received(PASSED))
def test_pre_receive_lets_through(world: World, push: Push) -> None:
    push.arrange(world)
    guard_upstream(world)
    done = world.push(*arguments(push, world))
    assert (done.returncode, done.stderr) == (0, "")
