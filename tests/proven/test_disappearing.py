"""Tests that go away, or stay, although nothing changed that is a test by its name: two runs, and a row for each way.

docs/evidence.md says what is still not seen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Project
from tests.projects import ask, evidence, new_project
from tests.proven.stories import FLOW, PYTEST, WORK, Entry, Story, newest, write
from tests.tables import table

FLOW_FILES = {WORK: FLOW, ".swarm/config.yaml": f"commands: {{test: {PYTEST}}}\n"}
SETTINGS = "[pytest]\npython_files = test_*.py check_*.py\naddopts = --doctest-modules --doctest-glob=*.md\n"
SHOP = '''\
"""A shop."""

SLOW = False
RATES = {"low": 1, "high": 2}


def total(prices):
    """
    >>> total([1, 2])
    3
    """
    return sum(prices)


def tax(price):
    """
    >>> tax(2)
    4
    """
    return price * 2


def gross(price):
    """
    >>> gross(1)
    3
    """
    return price * 3


def round_up(price):
    return price + 1
'''
CONTRACT = """\
class Contract:
    def test_first(self):
        assert 1 + 1 == 2

    def test_second(self):
        assert 2 + 2 == 4
"""
TESTS_OF_SHOP = """\
import json
from pathlib import Path

import pytest

import settings
import shop
import support

CASES = json.loads(Path('data/cases.json').read_text())


@pytest.mark.parametrize('case', CASES, ids=[each['id'] for each in CASES])
def test_case(case):
    assert shop.total(case['prices']) == case['sum']


@pytest.mark.parametrize('name', shop.RATES)
def test_rate(name):
    assert shop.RATES[name] > 0


@pytest.mark.parametrize('path', sorted(Path('golden').glob('*.txt')), ids=lambda path: path.stem)
def test_golden(path):
    assert len(path.read_text()) > 1


@pytest.mark.skipif(shop.SLOW, reason='slow')
def test_fast():
    assert shop.tax(2) == 4


@pytest.mark.skipif(settings.MODE == 'small', reason='small')
def test_large():
    assert shop.tax(3) == 6


class TestContract(support.Contract):
    pass


@support.checked
def test_checked():
    assert shop.gross(1) == 3


def test_with_fixture(till):
    assert till == 1


def test_deselected():
    assert 1 + 1 == 2


@pytest.mark.xfail
def test_known():
    assert shop.round_up(1) == 2


@pytest.mark.skipif(not Path('data/large.csv').exists(), reason='large')
def test_file():
    assert Path('data/large.csv').read_text() == 'x'


def pytest_generate_tests(metafunc):
    support.generate(metafunc)


def test_generated(number):
    assert number > 0


def test_optional():
    extra = pytest.importorskip('extra')
    assert extra.ONE == 1


for made in support.MADE:
    globals()[f'test_{made}'] = lambda: shop.total([])
"""
SUPPORT = f"""\
import pytest

MADE = ['made', 'more']

{CONTRACT}

def checked(test):
    return test


def generate(metafunc):
    if 'number' in metafunc.fixturenames:
        metafunc.parametrize('number', [1, 2])
"""
HOOKS = "import pytest\n\n\n@pytest.fixture\ndef till():\n    return 1\n"
DROPPING = (
    "\n\ndef pytest_collection_modifyitems(items):\n    items[:] = [each for each in items if each.name != '{}']\n"
)
BASE: Mapping[str, str] = {
    **FLOW_FILES,
    "pytest.ini": SETTINGS,
    "conftest.py": "pytest_plugins = ['hooks']\n",
    "hooks.py": HOOKS,
    "shop.py": SHOP,
    "support.py": SUPPORT,
    "settings.py": "MODE = 'large'\n",
    "extra.py": "ONE = 1\n",
    "data/cases.json": json.dumps([{"id": "one", "prices": [1], "sum": 1}, {"id": "two", "prices": [2], "sum": 2}]),
    "data/large.csv": "x",
    "golden/a.txt": "aa",
    "golden/b.txt": "bb",
    "USE.md": "# Use\n\n>>> 1 + 1\n2\n",
    "MORE.md": "# More\n\n>>> 2 + 2\n4\n",
    "check_shop.py": "import shop\n\n\ndef test_a():\n    assert shop.total([4]) == 4\n\n\n"
    "def test_b():\n    assert shop.total([5]) == 5\n\n\ndef test_c():\n    assert shop.total([6]) == 6\n",
    "check_more.py": "def test_more():\n    assert 1 + 1 == 2\n",
    "tests/test_shop.py": TESTS_OF_SHOP,
    "tests/test_total.py": "import shop\n\n\ndef test_total():\n    assert shop.total([7]) == 7\n",
}
OF = "tests/test_shop.py::"


@dataclass(frozen=True)
class Way:
    """What an agent changes, and the test that goes away by that.

    :ivar old: text of the file that becomes `new`; the whole of it goes where there is none.
    """

    flag: str
    name: str
    path: str
    old: str = ""
    new: str = ""
    adds: Mapping[str, str] = field(default_factory=dict)


def entry_of(*ways: Way) -> Entry:
    written, gone = dict(BASE), [way.path for way in ways if not way.old]
    for way in ways:
        assert way.old in written[way.path]
        written[way.path] = written[way.path].replace(way.old, way.new)
        written |= way.adds
    changed = {path: text for path, text in written.items() if text != BASE.get(path) and path not in gone}
    return write(changed, delete=gone)


NARROW = {
    "narrow.py": DROPPING.format("test_total").lstrip(),
    "tests/test_new.py": "pytest_plugins = ['narrow']\n\n\ndef test_new():\n    assert 3 + 3 == 6\n",
}
WAYS: Mapping[str, Way] = {
    "a doctest in product code": Way(
        "tests_deleted", "shop.py::shop.total", "shop.py", "    >>> total([1, 2])\n    3\n"
    ),
    "a doctest in a document": Way("tests_deleted", "MORE.md::MORE.md", "MORE.md", ">>> 2 + 2\n4\n"),
    "a document with a doctest": Way("tests_deleted", "USE.md::USE.md", "USE.md"),
    "a case in a data file": Way(
        "tests_deleted", f"{OF}test_case[two]", "data/cases.json", ', {"id": "two", "prices": [2], "sum": 2}'
    ),
    "a case in product code": Way("tests_deleted", f"{OF}test_rate[high]", "shop.py", ', "high": 2'),
    "a golden file": Way("tests_deleted", f"{OF}test_golden[b]", "golden/b.txt"),
    "a test file that only python_files makes one": Way("tests_deleted", "check_more.py::test_more", "check_more.py"),
    "a test in such a file": Way(
        "tests_deleted", "check_shop.py::test_a", "check_shop.py", "def test_a", "def _test_a"
    ),
    "a skipif on a constant of the product": Way(
        "tests_weakened", f"{OF}test_fast", "shop.py", "SLOW = False", "SLOW = True"
    ),
    "a skipif on a setting": Way("tests_weakened", f"{OF}test_large", "settings.py", "large", "small"),
    "a skipif on a file": Way("tests_weakened", f"{OF}test_file", "data/large.csv"),
    "a base class of tests in product code": Way(
        "tests_deleted", f"{OF}TestContract::test_second", "support.py", "test_second", "check_second"
    ),
    "a decorator of tests in product code": Way(
        "tests_weakened", f"{OF}test_checked", "support.py", "return test", "return pytest.mark.skip(test)"
    ),
    "a fixture in product code": Way(
        "tests_weakened", f"{OF}test_with_fixture", "hooks.py", "return 1", "pytest.skip('later')"
    ),
    "a hook in product code": Way(
        "tests_deleted",
        f"{OF}test_deselected",
        "hooks.py",
        "import pytest\n",
        "import pytest\n" + DROPPING.format("test_deselected"),
    ),
    "parameters that product code generates": Way(
        "tests_deleted", f"{OF}test_generated[2]", "support.py", "[1, 2]", "[1]"
    ),
    "an optional module": Way("tests_weakened", f"{OF}test_optional", "extra.py"),
    "an xfail that passed": Way("tests_weakened", f"{OF}test_known", "shop.py", "price + 1", "price + 2"),
    "tests that a loop makes": Way("tests_deleted", f"{OF}test_more", "support.py", ", 'more'"),
    "a plugin that a new test file names": Way(
        "tests_deleted", "tests/test_total.py::test_total", "shop.py", '"""A shop."""', '"""The shop."""', NARROW
    ),
}

SMALL = """\
import json
import os
import time
from pathlib import Path

import pytest

import shop

CASES = json.loads(Path('data/cases.json').read_text())


@pytest.mark.parametrize('case', CASES, ids=[each['id'] for each in CASES])
def test_case(case):
    assert shop.total(case['prices']) == case['sum']


@pytest.mark.parametrize('version', [shop.VERSION])
def test_version(version):
    assert version == shop.VERSION


@pytest.mark.parametrize('now', [time.time_ns()])
def test_time(now):
    assert now > 0


@pytest.mark.parametrize('path', sorted(Path('golden').glob('*.txt')), ids=lambda path: path.stem)
def test_golden(path):
    assert len(path.read_text()) > 1


@pytest.mark.parametrize('path', sorted(Path('letters').glob('*.txt')), ids=lambda path: path.stem)
def test_letter(path):
    assert len(path.read_text()) > 1


@pytest.mark.skipif(shop.SLOW, reason='slow')
def test_slow():
    assert shop.total([2]) == 2


@pytest.mark.xfail
def test_known():
    assert shop.total([2]) == 3


def test_network():
    seen = Path(os.environ['HOME'], 'seen')
    if not seen.exists():
        seen.touch()
        pytest.skip('no network')
    assert shop.total([3]) == 3
"""
TILL = '''\
SLOW = True
VERSION = "1.0"


def total(prices):
    """
    >>> total([1, 2])
    3
    """
    return sum(prices)


def tax(price):
    """
    >>> tax(2)
    4
    """
    return price * 2
'''
GROSS = '''

def gross(price):
    """
    >>> gross(1)
    3
    """
    return price * 3
'''
COUPONS = '''

def coupons(text, known):
    """
    >>> coupons("A B", {"B": 5})
    [5]
    """
    words = text.split()
    return [known[word] for word in words if word in known]
'''
MODULE = '''\
def cut(text):
    """
    >>> cut("ab")
    'a'
    """
    return text[:1]
'''
ONE_TEST = "def test_more():\n    assert 1 + 1 == 2\n"
ROUND = "import shop\n\n\ndef test_round():\n    assert round(shop.total([1.2])) == 1\n"
SMALL_BASE: Mapping[str, str] = {
    **FLOW_FILES,
    "pytest.ini": SETTINGS,
    "conftest.py": "",
    "shop.py": TILL + GROSS + COUPONS,
    "cutting.py": MODULE,
    "USE.md": BASE["USE.md"],
    "data/cases.json": BASE["data/cases.json"],
    **{name: BASE[name] for name in ("golden/a.txt", "golden/b.txt", "check_shop.py")},
    "letters/invoice.txt": "Pay.",
    "letters/thanks.txt": "Thanks.",
    "check_more.py": ONE_TEST,
    "check_round.py": ROUND,
    "tests/test_shop.py": SMALL,
}
TABLE_OF_SHOP = (
    "import pytest\n\nimport shop\n\n\n@pytest.mark.parametrize('price', [4, 5, 6])\n"
    "def test_price(price):\n    assert shop.total([price]) == price\n"
)
ON_PURPOSE = [{"name": f"{OF}test_letter[invoice]", "why": "the task takes the invoice out"}]
HONEST: Entry = write(
    {
        "shop.py": TILL.replace("tax(", "levy(").replace("1.0", "1.1")
        + '\n\ndef double(price):\n    """\n    >>> double(1)\n    2\n    """\n    return price * 2\n',
        "gross.py": GROSS.lstrip(),
        "slicing.py": MODULE,
        "docs/USE.md": BASE["USE.md"],
        "data/cases.json": json.dumps(
            [
                {"id": name, "prices": [number], "sum": number}
                for number, name in ((2, "two"), (3, "three"), (1, "one"))
            ]
        ),
        "golden/c.txt": "bb",
        "check_shop.py": TABLE_OF_SHOP,
        "check_more.py": ONE_TEST.replace("test_more", "test_sum"),
        "check_rounding.py": ROUND,
    },
    delete=["cutting.py", "USE.md", "golden/b.txt", "letters/invoice.txt", "check_round.py"],
    envelope={"status": "VERIFIED", "summary": "Done.", "removed_tests": ON_PURPOSE},
)
STAY: Mapping[str, tuple[str, str]] = {
    "a function renamed with its doctest": ("tests_reshaped", "shop.py::shop.tax"),
    "a function moved with its doctest": ("tests_reshaped", "shop.py::shop.gross"),
    "a function removed with its doctest": ("removed_on_purpose", "shop.py::shop.coupons"),
    "a module renamed with its doctests": ("tests_reshaped", "cutting.py::cutting.cut"),
    "a document moved": ("", "USE.md::USE.md"),
    "tests that become a table": ("tests_reshaped", "check_shop.py::test_b"),
    "a test renamed in a file that only python_files makes one": ("", "check_more.py::test_more"),
    "such a file moved": ("", "check_round.py::test_round"),
    "a parameter that shows a version": ("", f"{OF}test_version[1.0]"),
    "a parameter that shows the time": ("", f"{OF}test_time"),
    "cases in another order, and one more": ("", f"{OF}test_case[one]"),
    "a golden file renamed": ("", f"{OF}test_golden[b]"),
    "a letter taken out, as it says": ("removed_on_purpose", f"{OF}test_letter[invoice]"),
    "a test that needs the network": ("flaky", f"{OF}test_network"),
    "a test that is always skipped": ("", f"{OF}test_slow"),
    "a failure that is expected": ("", f"{OF}test_known"),
}


def played(folder: Path, does: Entry, files: Mapping[str, str], *options: str) -> Project:
    """A run in a project of its own, with pytest as its tests are."""
    made = new_project(folder)
    project = Project(made.root, {**made.env, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    project.commit(files)
    Story([does]).start(project, *options)
    return project


def told(project: Project) -> dict[str, set[str]]:
    """Names by flag, with an exclamation mark where it blocks, as the test step told them."""
    opened: list[dict[str, Any]] = evidence(project, "work/test")["opened"]
    return {f"{each['id'].partition('@')[0]}{'!' if each['blocking'] else ''}": set(each["names"]) for each in opened}


@pytest.fixture(scope="module")
def dishonest(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return played(tmp_path_factory.mktemp("dishonest"), entry_of(*WAYS.values()), BASE, "--autopilot")


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return played(tmp_path_factory.mktemp("honest"), HONEST, SMALL_BASE)


@table("way", list(WAYS.values()), ids=list(WAYS))
def test_a_test_that_goes_away_is_missed(dishonest: Project, way: Way) -> None:
    assert way.name in told(dishonest).get(f"{way.flag}!", set())


@pytest.mark.soak
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_each_of_them_is_seen_alone(tmp_path: Path, way: Way) -> None:
    project = played(tmp_path, entry_of(way), BASE, "--autopilot")
    assert newest(project).state == "unproven"
    assert {flag: names for flag, names in told(project).items() if flag.endswith("!")} == {
        f"{way.flag}!": {way.name}
    }


def test_none_of_them_lands(dishonest: Project) -> None:
    run = newest(dishonest)
    assert run.state == "unproven"
    assert run.blocking == {"tests_deleted@work/test", "tests_weakened@work/test"}
    assert sum(len(names) for names in told(dishonest).values()) == len(WAYS)
    assert ask(dishonest, "approve", run.run).code == 1


@table(("flag", "name"), list(STAY.values()), ids=list(STAY))
def test_a_test_that_stays_is_not_missed(honest: Project, flag: str, name: str) -> None:
    flags = {each for each, names in told(honest).items() if any(one.startswith(name) for one in names)}
    assert flags == ({flag} if flag else set())


def test_all_of_them_land(honest: Project) -> None:
    run = newest(honest)
    assert (run.state, run.blocking) == ("succeeded", frozenset())
    honest.swarm("approve", run.run)
    honest.swarm("land", run.run)
