"""Makes a new repository out of a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gitswarm.git.commits import Person
from gitswarm.git.process import Git, scrubbed


def create_repository(folder: Path, env: Mapping[str, str], author: Person, message: str) -> None:
    """`git init` in `folder`, and one commit by `author` of everything that lies there.

    Nothing of the user's git configuration takes part: no identity, template, hook, signature or ignore file,
    no object or ref format that libgit2 cannot read.

    :raises GitFailedError: git said no.
    """
    clean = scrubbed(env)
    formats = ("-c", "init.defaultRefFormat=files", "init", "--object-format=sha1")
    Git(clean).output(*formats, "--quiet", "--template=", "--initial-branch=main", "--", str(folder))
    git = Git(clean, git_dir=folder / ".git", work_tree=folder)
    git.output("add", "--all", "--force", "--", ".")
    who = {
        "GIT_AUTHOR_NAME": author.name,
        "GIT_AUTHOR_EMAIL": author.email,
        "GIT_COMMITTER_NAME": author.name,
        "GIT_COMMITTER_EMAIL": author.email,
    }
    git.output("commit", "--quiet", "--no-gpg-sign", "--no-status", "-m", message, extra_env=who)
