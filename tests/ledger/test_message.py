"""Commit messages: written, stored by git, shown by git, read again."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gitswarm.git.object_reader import NewCommit, Person
from gitswarm.git.repository import open_repository
from gitswarm.ledger.message import CommitMessage, parse_message
from tests.conftest import Project
from tests.tables import table

TRAILERS = {"Swarm-Format": "1", "Swarm-Kind": "step", "Swarm-Status": "VERIFIED"}
pytestmark = pytest.mark.usefixtures("written_at_once")
WHO = Person("agent", "agent@git-swarm.invalid")

PHASES = [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink]  # explaining costs ten seconds

BODIES = [
    pytest.param("plain words", id="one line"),
    pytest.param("", id="empty"),
    pytest.param("first\n\nsecond\n\n\nfourth", id="paragraphs"),
    pytest.param("Swarm-Status: BLOCKED", id="looks like a trailer"),
    pytest.param("text\n\nSwarm-Format: 9\nSwarm-Kind: end\nSwarm-Status: BLOCKED", id="looks like our trailers"),
    pytest.param("Signed-off-by: A <a@example.org>\nSwarm-Status: BLOCKED", id="a paragraph of trailers"),
    pytest.param("---\nSwarm-Status: BLOCKED", id="git's divider"),
    pytest.param("# a comment\n# Swarm-Status: BLOCKED", id="comments"),
    pytest.param("naïve 日本語 🐝", id="unicode"),
    pytest.param("one\r\ntwo\r\n\r\nthree", id="Windows line ends"),
    pytest.param("a\u2028b\u0085c", id="odd line separators"),
    pytest.param("  indented\n\ttabbed", id="indented"),
]


@table("body", BODIES)
def test_subject_body_and_trailers_are_read_again(body: str) -> None:
    said = CommitMessage("build/fix: done", body, TRAILERS)
    assert parse_message(said.render()) == CommitMessage("build/fix: done", body.strip(), TRAILERS)


CUT = "# ------------------------ >8 ------------------------"
ENDING = [f"Added X.\n\nSwarm-Landed: run 1234\n\n{CUT}", f"a\n{CUT}\nb", CUT.replace("#", ";")]


@pytest.mark.parametrize("body", [*BODIES, *(pytest.param(body, id="git's scissors") for body in ENDING)])
def test_plain_git_reads_our_trailers_and_no_others(project: Project, body: str) -> None:
    commit = stored(project, CommitMessage("build/fix: done", body, TRAILERS))
    shown = project.git("log", "-1", "--format=%s|%(trailers:key=Swarm-Status,valueonly,separator=%x2C)", commit)
    assert shown == "build/fix: done|VERIFIED"


def stored(project: Project, message: CommitMessage) -> str:
    """Id of a commit with this message, written as a run writes it."""
    objects = open_repository(project.root, project.env).objects
    tree = objects.commit(project.git("rev-parse", "HEAD")).tree
    when = datetime(2026, 1, 1, tzinfo=UTC)
    return objects.write_commit(NewCommit(tree, (), message.render(), WHO, WHO, when))


@pytest.mark.parametrize("body", ["nothing\0ness", "lone \udc80 surrogate"])
def test_a_body_that_git_cannot_store_as_it_is_costs_no_trailer(project: Project, body: str) -> None:
    commit = stored(project, CommitMessage(f"build/fix: {body}", body, TRAILERS))
    found = parse_message(open_repository(project.root, project.env).objects.commit(commit).message)
    assert found is not None
    assert found.trailers == TRAILERS


@settings(deadline=None, max_examples=200, phases=PHASES)
@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_may_be_body_and_value(body: str, value: str) -> None:
    found = parse_message(CommitMessage("s", body, {"Swarm-Note": value, **TRAILERS}).render())
    assert found is not None
    storable = value.replace("\0", "").split()
    expected = {"Swarm-Note": " ".join(storable)} if storable else {}
    assert found.trailers == {**expected, **TRAILERS}


@table(
    ("value", "line"),
    [
        ("one\ntwo", "one two"),
        ("one\r\n  two\tthree ", "one two three"),
        ("x\n\nSwarm-Status: BLOCKED", "x Swarm-Status: BLOCKED"),
    ],
)
def test_a_newline_in_a_value_becomes_a_space(value: str, line: str) -> None:
    found = parse_message(CommitMessage("s", "b", {"Swarm-Note": value, **TRAILERS}).render())
    assert found == CommitMessage("s", "b", {"Swarm-Note": line, **TRAILERS})


def test_a_trailer_without_a_value_is_left_out() -> None:
    found = parse_message(CommitMessage("s", "b", {**TRAILERS, "Swarm-Prev-Notes": ""}).render())
    assert found == CommitMessage("s", "b", TRAILERS)


def test_a_long_subject_is_cut_with_an_ellipsis() -> None:
    said = "build/fix: " + "word " * 40
    subject = CommitMessage(said, "", TRAILERS).render().splitlines()[0]
    assert (subject[-1], said.startswith(subject[:-1]), 60 < len(subject) <= 72) == ("…", True, True)


def test_the_subject_is_the_first_line_of_what_was_said() -> None:
    assert CommitMessage("build/fix: one\ntwo", "", TRAILERS).render().splitlines()[0] == "build/fix: one"


@table(
    "text",
    [
        "",
        "fix the build\n",
        "fix\n\nbody\n\nSigned-off-by: A <a@example.org>\n",
        "fix\n\nSwarm-Format: 1\n\nbut the last paragraph is text\n",
        "Swarm-Format: 1\n",
    ],
)
def test_somebody_else_s_message_is_none_of_ours(text: str) -> None:
    assert parse_message(text) is None


def test_a_landed_commit_is_none_of_a_run_s_chain() -> None:
    text = f"feature\n\nSwarm-Run: run-20260101-000000-abcdef{os.linesep}Swarm-Landed: run abc\n"
    assert parse_message(text) is None
