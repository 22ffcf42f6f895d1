"""What plain git pays for the refs of very many runs on one hub: to list them, and to push a step, also where the hub
hides the runs of other teams (a namespace of its own).

    python -m benchmarks.hub_refs [--runs 10000 100000 1000000] [--ref-format reftable]

Five refs a run, packed or (git 2.45 and later) in a reftable, each of a commit of its own. CPU of git, both sides.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.projects import Checkout, environment

_REFS = (
    ("refs/heads/shadow/{}",),
    ("refs/notes/swarm/{}/events", "refs/notes/swarm/{}/routing"),
    ("refs/swarm/{}/base", "refs/swarm/{}/lease"),
)
"""Of a run; in the order of names, over all runs."""
_HIDE = "-c receive.hideRefs=^refs/ -c receive.hideRefs=!^refs/namespaces/own/"


def make_hub(folder: Path, runs: int, prefix: str, ref_format: str) -> Checkout:
    """A clone; beside it `hub.git` with the refs, below `prefix`."""
    env = environment(folder / "home")
    clone, hub = Checkout(folder / "clone", env), Checkout(folder / "hub.git", env)
    clone.root.mkdir()
    clone.git("init", "-q")
    reftable = ["--ref-format=reftable"] if ref_format == "reftable" else []
    clone.git("init", "-q", "--bare", *reftable, str(hub.root))
    clone.git("commit", "-q", "--allow-empty", "-m", "first")
    count = runs * sum(map(len, _REFS))
    with (folder / "stream").open("w+b") as stream:
        for number in range(1, 1 + count):
            stream.write(
                b"commit refs/heads/x\nmark :%d\ncommitter a <a@b> %d +0000\ndata 2\nx\n\n" % (number, number)
            )
        stream.seek(0)
        words = ["git", "fast-import", "--quiet", f"--export-marks={folder}/marks"]
        subprocess.run(words, cwd=hub.root, env=dict(env), stdin=stream, check=True)
    hub.git("update-ref", "-d", "refs/heads/x")
    with (folder / "marks").open() as marks:
        refs = [(mark.split()[1], prefix + name) for mark, name in zip(marks, names(runs), strict=True)]
    if reftable:
        created = "".join(f"create {name} {commit}\n" for commit, name in refs)
        subprocess.run(
            ["git", "update-ref", "--stdin"], cwd=hub.root, env=dict(env), input=created, text=True, check=True
        )
    else:
        lines = ["# pack-refs with: peeled fully-peeled sorted \n", *(f"{commit} {name}\n" for commit, name in refs)]
        (hub.root / "packed-refs").write_text("".join(lines))
    return clone


def names(runs: int) -> Iterator[str]:
    for folder in _REFS:
        for number in range(runs):
            yield from (form.format(f"run-20261125-120000-{number:06x}") for form in folder)


def measured(project: Checkout, *words: str) -> str:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    project.git(*words)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return f"{spent:.2f}"


def push_words(project: Checkout, run: str) -> list[str]:
    """Of a step: all refs of its run but the base, which only the first push has."""
    project.git("commit", "-q", "--allow-empty", "-m", "step")
    return [f"HEAD:{form.format(run)}" for folder in _REFS for form in folder if not form.endswith("base")]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--ref-format", choices=["files", "reftable"], default="files")
    asked = parser.parse_args(arguments)
    print("| runs | what | git's CPU, s |")
    print("|---:|---|---:|", flush=True)
    for runs in asked.runs:
        with tempfile.TemporaryDirectory(prefix="git-swarm-bench-") as name:
            project = make_hub(Path(name), runs, "", asked.ref_format)
            print(f"| {runs:,} | `git ls-remote` | {measured(project, 'ls-remote', '../hub.git')} |", flush=True)
            words = ("push", "-q", "--atomic", "../hub.git")
            for _push in range(2):
                step = measured(project, *words, *push_words(project, "run-20261125-130000-000000"))
                print(f"| {runs:,} | push of a step | {step} |", flush=True)
        with tempfile.TemporaryDirectory(prefix="git-swarm-bench-") as name:
            project = make_hub(Path(name), runs, "refs/namespaces/other/", asked.ref_format)
            url = f"ext::git {_HIDE} --namespace=own %s {name}/hub.git"
            over = ("-c", "protocol.ext.allow=always", "push", "-q", "--atomic", url)
            for _push in range(2):
                step = measured(project, *over, *push_words(project, "run-20261125-130000-000000"))
                print(f"| {runs:,} | push of a step to a namespace of its own | {step} |", flush=True)


if __name__ == "__main__":
    main()
