"""What a tree holds already, however it is written there and here."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pygit2
import pytest

from gitswarm.git.incoming import EarlierContent, Incoming
from gitswarm.git.repository import open_repository
from tests.conftest import Project
from tests.safety.redact.corpus import SHAPED, Dice
from tests.tables import table

KEY, OTHER = (SHAPED["rsa-key"](Dice(seed)) for seed in (80, 81))
TOKEN = SHAPED["jwt"](Dice(82))
Hold = Callable[..., EarlierContent]


@pytest.fixture
def hold(tmp_path: Path) -> Hold:
    pygit2.init_repository(str(tmp_path), bare=True)
    repository = open_repository(tmp_path, os.environ)

    def former(**files: str) -> EarlierContent:
        objects = repository.objects
        ids = {f"src/{name}.txt": objects.write_blob(content.encode()) for name, content in files.items()}
        return EarlierContent(repository.git, objects, (objects.with_files(None, ids),))

    return former


def lines(text: str, width: int, before: str = "", behind: str = "\n") -> str:
    return "".join(f"{before}{text[at : at + width]}{behind}" for at in range(0, len(text), width))


BARE = "".join(KEY.splitlines()[1:-1])
WRITTEN = {
    "as it is": KEY,
    "crlf": KEY.replace("\n", "\r\n"),
    "indented": lines(KEY, 10_000).replace("\n", "\n      "),
    "repr": repr(KEY),
    "at 76": f"-----BEGIN RSA PRIVATE KEY-----\n{lines(BARE, 76)}-----END RSA PRIVATE KEY-----",
    "at 30": lines(BARE, 30),
    "as bytes": lines(BARE, 64, before="b'", behind="'\n").removeprefix("b'"),
    "added": lines(BARE, 50, before='"', behind='" +\n'),
    "commented": lines(BARE, 64, before="# "),
    "one line": BARE,
    "escaped twice": KEY.replace("\n", "\\\\n"),
}


@table("here", list(WRITTEN))
@table("there", list(WRITTEN))
def test_a_key_is_known_however_it_is_written(hold: Hold, there: str, here: str) -> None:
    assert hold(a=f"x\n{WRITTEN[there]}\n").held({WRITTEN[here], OTHER}) == {WRITTEN[here]}


def test_a_short_value_is_known_as_it_is(hold: Hold) -> None:
    former = hold(a="password = 'ab-c1!x9z'\n", b="nothing\n")
    assert former.held({"ab-c1!x9z", "abc1x9z", "b1-c!x9z"}) == {"ab-c1!x9z"}


def test_a_token_is_known_across_lines(hold: Hold) -> None:
    assert hold(a=lines(TOKEN, 40, before='  "', behind='"\n')).held({TOKEN, TOKEN[:-4] + "abcd"}) == {TOKEN}


def test_the_name_of_a_file_counts_and_what_a_run_stored_does_not(hold: Hold, tmp_path: Path) -> None:
    former = hold(**{TOKEN.replace(".", "-"): "x"})
    assert former.held({TOKEN.replace(".", "-")}) == {TOKEN.replace(".", "-")}
    repository = open_repository(tmp_path, os.environ)
    blob = repository.objects.write_blob(TOKEN.encode())
    tree = repository.objects.with_files(None, {".swarm/runs/r/a.txt": blob})
    assert EarlierContent(repository.git, repository.objects, (tree,)).held({TOKEN}) == set()


def test_nothing_is_held_by_no_tree(hold: Hold, tmp_path: Path) -> None:
    repository = open_repository(tmp_path, os.environ)
    assert EarlierContent(repository.git, repository.objects, ()).held({TOKEN}) == set()
    assert hold(a="x").held(set()) == set()


def test_a_prune_beside_takes_nothing_that_is_looked_at_away(project: Project) -> None:
    with Incoming(project.root / ".git" / "objects", "run") as incoming:
        incoming.index.touch()
        project.git("prune", "--expire=now")
        assert incoming.index.exists()
