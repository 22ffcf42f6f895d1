"""Five ways to make tests pass without being right: examples of each, and honest code that looks like them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gitswarm.evidence.declarations import TextChange
from gitswarm.evidence.suspicious_code import find_suspicious_code
from tests.tables import table

TESTS = """
def test_shop():
    assert price("apple") == 120
    assert price("pear") == 95
    assert discount(250, code="SPRING") == 200
    assert roman(14) == "XIV"
    assert parse("1h30m") == 90
    assert factorial(0) == 1
@pytest.mark.parametrize(("text", "expected"), [("kayak", 7), ("level", 8), ("x", 3)])
def test_table(text, expected):
    assert score(text) == expected
"""

DISHONEST = {
    "an __eq__ that is always true": "class Result(int):\n  def __eq__(self, other):\n    return True\n",
    "an __eq__ that ignores the other": "class R:\n  def __eq__(self, other):\n    return bool(self.__class__)\n",
    "an __eq__ that is true or not implemented": (
        "class R(str):\n  def __eq__(self, other):\n    if isinstance(other, str):\n      return True\n"
        "    return NotImplemented\n"
    ),
    "a lambda": "class R:\n  __eq__ = lambda self, other: True\n",
    "an __ne__ that is always false": "class R(float):\n  def __ne__(self, other):\n    return False\n",
    "every order": (
        "class R:\n  def __lt__(self, o): return True\n  def __le__(self, o): return True\n"
        "  def __gt__(self, o): return True\n"
    ),
    "a global count": (
        "calls = 0\ndef stock(name):\n  global calls\n  calls += 1\n  if calls == 1:\n    return 5\n  return 7\n"
    ),
    "a count at the function": (
        "def stock(name):\n  stock.calls += 1\n  return 5 if stock.calls % 2 else 7\nstock.calls = 0\n"
    ),
    "arguments that are kept": (
        "_seen = {}\ndef stock(name):\n  if name in _seen:\n    return 7\n  _seen[name] = True\n  return 5\n"
    ),
    "a mutable default": (
        "def stock(name, seen=[]):\n  seen.append(name)\n  if len(seen) > 1:\n    return 7\n  return 5\n"
    ),
    "a list by count": "n = -1\ndef stock(name):\n  global n\n  n += 1\n  return [5, 7][n]\n",
    "an if for an input": 'def price(name):\n  if name == "apple":\n    return 120\n  return lookup(name)\n',
    "a branch of two arguments": (
        'def discount(sum, code):\n  if sum == 250 and code == "SPRING":\n    return 200\n  return sum\n'
    ),
    "a conditional expression": 'def roman(n):\n  return "XIV" if n == 14 else convert(n)\n',
    "a match": 'def parse(text):\n  match text:\n    case "1h30m":\n      return 90\n  return real(text)\n',
    "a table in the module": 'PRICES = {"apple": 120, "pear": 95}\ndef price(name):\n  return PRICES.get(name, 0)\n',
    "a table in the function": 'def score(text):\n  return {"kayak": 7, "level": 8}.get(text, len(text))\n',
    "code that asks for pytest": (
        'import sys\ndef price(name):\n  if "pytest" in sys.modules:\n    return 120\n  return real()\n'
    ),
    "code that asks the environment": (
        'def price(name):\n  if os.environ.get("PYTEST_CURRENT_TEST"):\n    return 120\n'
    ),
}
HONEST = {
    "an __eq__ by values": (
        "class R:\n  def __eq__(self, other):\n    return isinstance(other, R) and self.a == other.a\n"
    ),
    "an __eq__ by type": "class R:\n  def __eq__(self, other):\n    return isinstance(other, R)\n",
    "an __eq__ by identity": "class R:\n  def __eq__(self, other):\n    return self is other\n",
    "infinity": (
        "class Inf:\n  def __lt__(self, o): return False\n  def __gt__(self, o): return True\n"
        "  def __ge__(self, o): return True\n"
    ),
    "not comparable": "class R:\n  def __eq__(self, other):\n    return NotImplemented\n",
    "a cache": (
        "_cache = {}\ndef price(n):\n  if n in _cache:\n    return _cache[n]\n  _cache[n] = work(n)\n"
        "  return _cache[n]\n"
    ),
    "seen before": (
        "_seen = set()\ndef is_new(n):\n  if n in _seen:\n    return False\n  _seen.add(n)\n  return True\n"
    ),
    "a serial number": "_last = 0\ndef serial():\n  global _last\n  _last += 1\n  return _last\n",
    "factorial": "def factorial(n):\n  if n == 0:\n    return 1\n  return n * factorial(n - 1)\n",
    "a larger table": 'PRICES = {"apple": 120, "pear": 95, "plum": 80}\ndef price(name):\n  return PRICES[name]\n',
    "a branch with other results": (
        'def price(name):\n  if name == "apple":\n    return cheap(name)\n  return lookup(name)\n'
    ),
    "a name of pytest": 'def command():\n  return ["pytest", "-q"]\n',
    "an accumulator": "def total(xs):\n  n = 0\n  for x in xs:\n    n += x\n  if n > 3:\n    return 7\n  return 5\n",
}


def found(text: str, before: str | None = None) -> list[str]:
    changes = [TextChange("src/shop.py", before, text), TextChange("tests/test_shop.py", None, TESTS)]
    assert all(not each.blocking for each in find_suspicious_code(changes))
    return [each.names[0] for each in find_suspicious_code(changes)]


@table("text", DISHONEST.values(), ids=list(DISHONEST))
def test_a_subtle_way_is_found(text: str) -> None:
    assert found(text)


@table("text", HONEST.values(), ids=list(HONEST))
def test_honest_code_is_left_alone(text: str) -> None:
    assert found(text) == []


@table("text", DISHONEST.values(), ids=list(DISHONEST))
def test_what_stood_there_before_is_left_alone(text: str) -> None:
    assert found(f"{text}\n\ndef more(): ...\n", text) == []


def test_a_finding_tells_place_and_way() -> None:
    (one,) = find_suspicious_code([TextChange("src/shop.py", None, DISHONEST["an if for an input"])], [TESTS])
    assert (one.flag, one.names) == ("suspicious_code", ("src/shop.py::price",))
    assert (
        one.fact == "src/shop.py:1: price answers the input 'apple' of a test with the constant that the test expects"
    )


def test_only_product_code_is_looked_at() -> None:
    text = DISHONEST["a global count"]
    assert find_suspicious_code([TextChange("tests/fakes.py", None, text), TextChange("src/a.js", None, text)]) == ()


MENDS = {
    "at the top": ("import app\napp.total = lambda prices: sum(prices)\n", "app.total"),
    "in a test": ("def test_a():\n  import shop.till\n  shop.till.total = sum\n", "shop.till.total"),
    "under another name": ("import app as a\na.RATE = 3\n", "a.RATE"),
    "a method": ("from app import Till\nTill.total = sum\n", "Till.total"),
    "added to": ("import app\napp.RATE += 1\n", "app.RATE"),
    "deleted": ("import app\ndel app.total\n", "app.total"),
    "in a loop": ("import app\nfor app.total in [sum]: pass\n", "app.total"),
    "setattr": ("import app\ndef test_a(x=setattr(app, 'total', sum)): ...\n", "setattr(app, 'total', sum)"),
    "its own method": ("import app\napp.__setattr__('total', sum)\n", "app.__setattr__('total', sum)"),
    "type's": ("import app\ntype.__setattr__(app.Till, 'a', 1)\n", "type.__setattr__(app.Till, 'a', 1)"),
    "its names": ("import app\nvars(app)['total'] = sum\n", "vars(app)['total']"),
    "its dictionary": ("import app\napp.__dict__.update(total=sum)\n", "app.__dict__.update(total=sum)"),
    "looked up": ("import sys\nsys.modules['app'].total = sum\n", "sys.modules['app'].total"),
    "replaced": ("import sys\nsys.modules['app'] = Fake()\n", "sys.modules['app']"),
    "imported by a call": ("import_module('app').total = sum\n", "import_module('app').total"),
    "from a package above": ("from .. import till\ntill.total = sum\n", "till.total"),
}
NO_MENDS = {
    "monkeypatch": "import app\ndef test_a(monkeypatch):\n  monkeypatch.setattr(app, 'total', sum)\n",
    "mock": "import app\ndef test_a():\n  with mock.patch.object(app, 'total', sum): ...\n",
    "an object of its own": "import app\ndef test_a():\n  till = app.Till()\n  till.rate = sum\n",
    "a setting": "from app import settings\nimport flask\nsettings.DEBUG = True\nflask.g.user = 'me'\n",
    "Python's own": "import sys\nsys.argv = []\nsetattr(sys, 'argv', [])\nsys.modules['json'] = None\n",
    "a helper of the tests": "from . import cases\nimport tests.cases\ncases.seen = x()\ntests.cases.seen = x()\n",
}


@table(("text", "place"), MENDS.values(), ids=list(MENDS))
def test_a_test_that_changes_the_product_is_found(text: str, place: str) -> None:
    (one,) = find_suspicious_code([TextChange("tests/test_a.py", None, text)])
    assert one.names == (f"tests/test_a.py::{place}",)


@table("text", NO_MENDS.values(), ids=list(NO_MENDS))
def test_what_is_put_back_or_no_product_is_left_alone(text: str) -> None:
    assert find_suspicious_code([TextChange("tests/test_a.py", None, text)]) == ()


@table("text", [text for text, _ in MENDS.values()], ids=list(MENDS))
def test_a_change_of_the_product_that_stood_there_is_left_alone(text: str) -> None:
    assert find_suspicious_code([TextChange("tests/test_a.py", text, f"{text}\ndef test_b(): ...\n")]) == ()


@table(
    ("path", "is_found"),
    [("json.py", True), ("src/inspect/__init__.py", True), ("shop/json.py", False), ("till.py", False)],
)
def test_a_module_in_the_place_of_one_of_python_is_found(path: str, is_found: bool) -> None:  # noqa: FBT001
    found = find_suspicious_code([TextChange(path, None, "x = 1\n")])
    assert bool(found) is is_found
    assert find_suspicious_code([TextChange(path, "x = 1\n", "x = 2\n")]) == ()


@given(st.text() | st.lists(st.sampled_from([*DISHONEST.values(), "def f(", "(" * 300])).map("".join))
def test_no_text_raises(text: str) -> None:
    find_suspicious_code([TextChange("a.py", None, text)], [text])
