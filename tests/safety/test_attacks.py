"""What a script of an agent tries, in the sandbox and without it: the same lines, measured from outside."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import pytest

from tests.fingerprint import fingerprint
from tests.safety.attack_scene import Attack, attacks, scene
from tests.safety.sandbox.conftest import needs_bwrap

pytestmark = needs_bwrap

ALL = [row for row in attacks().values() if all(map(shutil.which, row.needs))]
BY_CATEGORY = {name: list(rows) for name, rows in groupby(ALL, lambda row: row.category)}
CHOSEN = random.Random(20261122)
QUICK = [quick for rows in BY_CATEGORY.values() if (quick := [row for row in rows if not row.late])]
SAMPLE = [CHOSEN.choice(rows) for rows in CHOSEN.sample(QUICK, 12)]
SECURITY = Path(__file__).parents[2] / "SECURITY.md"


def assert_harmless(folder: Path, rows: Sequence[Attack]) -> None:
    with scene(folder, sandbox="require") as played:
        before = fingerprint(played.world)
        run, answer = played.play(rows)
        # Some change what a person has to agree to, or leave a secret: the run waits for that person.
        assert answer.code in (0, 5), answer.stderr
        assert {name: harm for name, harm in played.harmed(run, rows).items() if harm != "stopped"} == {}
        assert fingerprint(played.world).entries == before.entries
        played.project.swarm("verify", run)
        assert list((played.project.root / ".git/swarm/sessions").glob("*/*")) == []
        receipt = json.loads(played.project.swarm("show", "one", "--receipt", "--run", run).stdout)
        assert sum(call["tool_name"] == "Bash" for call in receipt["tool_calls"]) == len(rows) + 2
        assert not any(call.get("blocked") for call in receipt["tool_calls"])


def outcomes(folder: Path, rows: Sequence[Attack]) -> Mapping[str, str]:
    with scene(folder, sandbox="off") as played:
        run, _answer = played.play(rows, keep_watch=True)
        return played.harmed(run, rows)


def expected(rows: Sequence[Attack]) -> Mapping[str, str]:
    return {row.id: row.without for row in rows}


def test_a_sample_is_harmless_in_the_sandbox(tmp_path: Path) -> None:
    assert_harmless(tmp_path, SAMPLE)


def test_a_sample_does_without_it_what_the_table_says(tmp_path: Path) -> None:
    assert outcomes(tmp_path, SAMPLE) == expected(SAMPLE)


def test_security_md_claims_what_is_measured() -> None:
    """A row of its table that links categories: what the rows of these do without a sandbox."""
    claims = dict(row for line in SECURITY.read_text(encoding="utf-8").splitlines() for row in _claims(line))
    found = {name: _claim({row.without for row in attacks().values() if row.category == name}) for name in claims}
    assert claims == found
    assert set(claims) == {row.category for row in attacks().values()}


def _claims(line: str) -> Iterator[tuple[str, str]]:
    cells = line.strip("|").split(" | ")
    for name in re.findall(r"\(tests/safety/attacks/([\w-]+)\.yaml\)", cells[-1]):
        assert cells[1].startswith("yes"), line
        yield name, re.split(r"\W+", cells[2].strip("* "))[0]


def _claim(outcomes: set[str]) -> str:
    """The worst of them, in the words of SECURITY.md."""
    return "no" if "happens" in outcomes else "after" if "after" in outcomes else "yes"


def test_a_person_can_do_what_an_agent_cannot(tmp_path: Path) -> None:
    """The lines do what they are for: it is the layers that stop them."""
    rows = [*BY_CATEGORY["push"], *BY_CATEGORY["environment"]]
    with scene(tmp_path, sandbox="off") as played:
        played.play_as_person(rows)
        approved = BY_CATEGORY["approve"][0]
        played.project.swarm("approve", played.other)
        found = played.harmed(played.other, [*rows, approved])
        assert {name for name, harm in found.items() if harm != "happens"} == set()


@pytest.mark.soak
@pytest.mark.parametrize("category", BY_CATEGORY)
def test_every_attack_is_harmless_in_the_sandbox(tmp_path: Path, category: str) -> None:
    assert_harmless(tmp_path, BY_CATEGORY[category])


@pytest.mark.soak
@pytest.mark.parametrize("category", BY_CATEGORY)
def test_every_attack_does_without_it_what_the_table_says(tmp_path: Path, category: str) -> None:
    """So that the test above can fail."""
    rows = BY_CATEGORY[category]
    assert outcomes(tmp_path, rows) == expected(rows)
