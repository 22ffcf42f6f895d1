"""What people do to a repository with a run before they push."""

from __future__ import annotations

from collections.abc import Callable

from tests.safety.guard.world import World

Arrange = Callable[[World], object]
EVIDENCE = ".swarm/runs"


def tagged(world: World) -> None:
    world.git("tag", "light", world.shadow)
    world.git("tag", "-a", "-m", "heavy", "heavy", world.shadow)
    world.git("tag", "-a", "-m", "a tag of a tag", "double", "heavy")


def on_top(world: World) -> None:
    world.git("switch", "-q", "-c", "mine", world.shadow)
    world.project.commit({"mine.txt": "mine\n"}, "my own work")


def on_top_without_evidence(world: World) -> None:
    on_top(world)
    world.git("rm", "-q", "-r", EVIDENCE)
    world.git("commit", "-q", "-m", "tidy up")


def merged(world: World) -> None:
    world.git("merge", "-q", "--no-ff", "-m", "merge it", world.shadow)


def merged_by_squash(world: World) -> None:
    world.git("merge", "-q", "--squash", world.shadow)
    world.git("commit", "-q", "-m", "all at once")


def picked_file(world: World) -> None:
    (name, *_rest) = world.git("ls-tree", "-r", "--name-only", world.shadow, f"{EVIDENCE}/").split("\n")
    world.git("checkout", "-q", world.shadow, "--", name)
    world.git("commit", "-q", "-m", "one file of evidence")


def picked_step(world: World) -> None:
    step = world.steps()[1]
    world.git("cherry-pick", "--no-commit", step)
    world.git("commit", "-q", "-C", step)


def picked_run(world: World) -> None:
    world.git("cherry-pick", world.steps()[0])


def picked_end(world: World) -> None:
    step = world.steps()[-1]
    world.git("cherry-pick", "--no-commit", step)
    world.git("commit", "-q", "-C", step)


def amended(world: World) -> None:
    world.git("checkout", "-q", "--detach", world.steps()[2])
    world.git("commit", "-q", "--amend", "--no-edit", "--author", "Me <me@example.org>")


def rebased(world: World) -> None:
    world.project.commit({"other.txt": "other\n"}, "meanwhile")
    world.git("push", "-q", "--no-verify", "origin", "main")
    world.git("rebase", "-q", "--onto", "main", "main~1", world.shadow)


def stripped(world: World) -> None:
    """Trailers gone, papers still there."""
    tree = world.git("rev-parse", f"{world.shadow}^{{tree}}")
    commit = world.git("commit-tree", tree, "-p", "main", stdin="only my own work\n")
    world.git("update-ref", "refs/heads/stripped", commit)


def renamed_evidence(world: World) -> None:
    """A file that stood elsewhere moves below .swarm/runs."""
    world.project.commit({"paper.json": "{}\n" * 50}, "a paper")
    world.git("push", "-q", "--no-verify", "origin", "main")
    (world.project.root / EVIDENCE / "run-x").mkdir(parents=True)
    world.git("mv", "paper.json", f"{EVIDENCE}/run-x/paper.json")
    world.git("commit", "-q", "-m", "move it")


def evil_merge(world: World) -> None:
    world.git("switch", "-q", "-c", "side", "main~1")
    world.project.commit({"side.txt": "side\n"}, "beside")
    world.git("switch", "-q", "main")
    world.git("merge", "-q", "--no-ff", "--no-commit", "side")
    world.project.write({f"{EVIDENCE}/run-x/spec.json": "{}\n"})
    world.git("add", "-f", EVIDENCE)
    world.git("commit", "-q", "-m", "only a merge")


def root_commit(world: World) -> None:
    tree = world.git("rev-parse", f"{world.shadow}^{{tree}}")
    commit = world.git("commit-tree", tree, stdin="a new beginning\n")
    world.git("update-ref", "refs/heads/orphan", commit)


def deep_below(world: World) -> None:
    """The run's commits lie under many of the user's own."""
    on_top_without_evidence(world)
    for number in range(5):
        world.project.commit({f"{number}.txt": ""}, f"work {number}")


def landed_squash(world: World) -> None:
    world.land("squash")


def landed_merge(world: World) -> None:
    world.land("merge")


def landed_evidence(world: World) -> None:
    world.land("evidence")


def landed_twice(world: World) -> None:
    """A landing, and beside it a branch on top of the unfinished run."""
    landed_merge(world)
    on_top(world)


def with_work_on_top(land: Arrange) -> Arrange:
    def arrange(world: World) -> None:
        land(world)
        world.project.commit({"later.txt": "later\n"}, "later work")

    return arrange


def landed_and_brought_back(world: World) -> None:
    landed = world.land("evidence")
    world.git("push", "-q", "--no-verify", "origin", "main")
    world.git("revert", "--no-edit", landed)
    world.git("revert", "--no-edit", "HEAD")


def brought_back_more(world: World) -> None:
    landed_and_brought_back(world)
    world.project.commit({f"{EVIDENCE}/{world.run}/more.json": "{}\n"}, "and something else")


def quoting(body: str) -> Arrange:
    """An ordinary commit whose message says this; RUN and STEP in it are the run and a step of it."""

    def arrange(world: World) -> None:
        text = body.replace("RUN", world.run).replace("STEP", world.steps()[1])
        world.project.commit({"prose.txt": "prose\n"}, text)

    return arrange


def landed_as(body: str) -> Arrange:
    def arrange(world: World) -> None:
        text = body.replace("RUN", world.run).replace("STEP", world.steps()[2])
        world.land("squash", text)

    return arrange


TRAILERS = "Swarm-Format: 1\nSwarm-Kind: step\nSwarm-Run: RUN\nSwarm-Step: work"
GITHUB_BODY = f"""\
Say hello (#12)

* visit/work: write it

{TRAILERS}

* visit/polish: polish it

{TRAILERS}

---------

Co-authored-by: visitor <visitor@git-swarm.invalid>"""


def approved(world: World) -> None:
    world.git("update-ref", f"refs/swarm/{world.run}/approval", world.steps()[2])


def approved_and_discarded(world: World) -> None:
    name = f"refs/swarm/trash/{world.run}/swarm/{world.run}/approval"
    world.git("update-ref", name, world.steps()[2])


def ordinary(world: World) -> None:
    world.project.commit({"work.txt": "work\n"}, "ordinary work")


def ordinary_forced(world: World) -> None:
    ordinary(world)
    world.git("push", "-q", "--no-verify", "origin", "main")
    world.git("commit", "-q", "--amend", "-m", "better work")


def ordinary_branches(world: World) -> None:
    ordinary(world)
    world.git("branch", "-q", "side")
    world.git("tag", "-a", "-m", "heavy", "v1")


def with_blob_tags(world: World) -> None:
    world.git("tag", "tree", "main^{tree}")
    world.git("tag", "blob", "main:README.md")
    world.git("tag", "-a", "-m", "a blob", "heavy-blob", "main:README.md")


def hub_by_name(world: World) -> None:
    world.git("config", "swarm.hub", "hub")


def hub_by_url(world: World) -> None:
    world.git("config", "swarm.hub", "../hub.git")


def hub_with_the_url_of_upstream(world: World) -> None:
    """What is fetched from it comes from upstream; what is pushed goes elsewhere."""
    hub_by_name(world)
    world.git("remote", "set-url", "hub", str(world.upstream))
    world.git("remote", "set-url", "--push", "hub", str(world.hub))


def hub_named_below_upstream(world: World) -> None:
    world.git("remote", "rename", "hub", "origin/hub")
    world.git("config", "swarm.hub", "origin/hub")
    world.git("push", "-q", "origin/hub", world.shadow)


def second_hub(world: World) -> None:
    world.git("config", "swarm.hub", "elsewhere")
    world.git("config", "--add", "swarm.hub", "hub")


def already_there(world: World) -> None:
    world.git("push", "-q", "--no-verify", "origin", f"{world.shadow}:refs/heads/there")
    on_top(world)


def changed_only(world: World) -> None:
    landed_evidence(world)
    world.git("push", "-q", "--no-verify", "origin", "main")
    (name, *_rest) = world.git("ls-files", EVIDENCE).split("\n")
    world.git("rm", "-q", name)
    world.git("commit", "-q", "-m", "less evidence")


def tagged_and_merged(world: World) -> None:
    tagged(world)
    merged(world)


def quoted_and_merged(world: World) -> None:
    quoting("x\n\nSwarm-Landed: RUN STEP\n\ny")(world)
    merged(world)


def step_on_landed_evidence(world: World) -> None:
    """A commit that says it is a step, and changes no evidence of the run that is there."""
    landed_evidence(world)
    world.git("push", "-q", "--no-verify", "origin", "main")
    quoting(f"work\n\n{TRAILERS}")(world)


def step_among_many_runs(world: World) -> None:
    landed_evidence(world)
    world.project.commit({f"{EVIDENCE}/run-{number}/spec.json": "{}\n" for number in range(30)}, "many runs")
    world.git("push", "-q", "--no-verify", "origin", "main")
    quoting(f"work\n\n{TRAILERS}")(world)
