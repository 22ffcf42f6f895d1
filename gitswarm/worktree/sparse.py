"""What a run made outside of a sparse checkout stays on disk, as its steps left it; the rest stays away."""

from __future__ import annotations

from gitswarm.worktree.shadow import Shadow


def is_sparse(shadow: Shadow) -> bool:
    if not (shadow.git_dir / "info" / "sparse-checkout").exists():
        return False
    return shadow.git.run("config", "--type=bool", "--get", "core.sparseCheckout").stdout.strip() == b"true"


def reveal(shadow: Shadow, tree: str) -> None:
    """Writes out what differs between the run's base and `tree` and was left out by the sparse patterns.

    `git read-tree -u` takes away every file that the patterns do not name, also one that an agent just wrote there.
    """
    if not is_sparse(shadow):
        return
    changed = shadow.git.output("diff-tree", "-r", "-z", "--name-only", "--diff-filter=AMT", shadow.base, tree)
    listed = shadow.git.output("ls-files", "-t", "-z").split(b"\0")
    hidden = {line[2:] for line in listed if line[:1] == b"S"}
    names = b"".join(name + b"\0" for name in changed.split(b"\0") if name in hidden)
    if names:
        shadow.git.output("update-index", "--no-skip-worktree", "-z", "--stdin", stdin=names)
        shadow.git.output("checkout-index", "--force", "--index", "-z", "--stdin", stdin=names)
