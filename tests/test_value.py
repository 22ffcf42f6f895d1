"""Values behave as frozen dataclasses with slots do, whose methods they share."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace

from gitswarm.records.value import value


@dataclass(frozen=True, slots=True)
class Known:
    name: str
    parts: tuple[int, ...] = ()
    aside: str = field(default="", compare=False, repr=False)


@value
class Quick:
    name: str
    parts: tuple[int, ...] = ()
    aside: str = field(default="", compare=False, repr=False)


@value
class Other:
    name: str
    parts: tuple[int, ...] = ()


def test_a_value_is_equal_hashed_shown_and_changed_as_a_dataclass_is() -> None:
    for made in (Known, Quick):
        one = made("a", (1, 2), aside="x")
        others: list[object] = [made("a", (1, 2)), made("b", (1, 2)), ("a", (1, 2))]
        assert [one == other for other in others] == [True, False, False]
        assert len({one, made("a", (1, 2), aside="y"), made("b")}) == 2
        assert repr(one) == f"{made.__name__}(name='a', parts=(1, 2))"
        assert (replace(one, name="c").name, asdict(one)) == ("c", {"name": "a", "parts": (1, 2), "aside": "x"})
        assert not hasattr(one, "__dict__")
        match one:
            case Known(name, parts) | Quick(name, parts):
                assert (name, parts) == ("a", (1, 2))


def test_values_of_two_classes_are_never_equal() -> None:
    other: object = Other("a")
    assert other != Quick("a")
