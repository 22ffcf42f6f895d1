"""The fields that conditions may ask for, where it is known which there are."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Union, get_args, get_origin

from gitswarm.records.envelope import Envelope
from gitswarm.records.evidence import Evidence
from gitswarm.records.lazy_re import lazy_re
from gitswarm.records.receipt import Receipt
from gitswarm.records.record import Record
from gitswarm.routing.conditions import bound_names
from gitswarm.specs.yaml_source import did_you_mean

RUN_FIELDS = (
    *("run_id", "flow", "flows", "journey", "task", "steps_executed", "iteration", "tokens", "cost_usd"),
    *("routing_mode", "human", "depth", "sidequests", "stall", "verdict"),
)
STALL_FIELDS = ("passes", "is_stalled", "same_failure")

_RECORDS: dict[str, type[Record]] = {"receipt": Receipt, "envelope": Envelope, "evidence": Evidence}
_TEXT = lazy_re(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'')
_FIELDS = lazy_re(r"(?<![\w.])(receipt|envelope|evidence|run)((?:\s*\.\s*[A-Za-z_]\w*)+)(?!\w)(\s*\()?")


def field_problem(expression: str) -> str | None:
    """The first field that no step ever has, with the nearest of those that there are; None: there is none.

    Only chains of names count (`evidence.tests.passed`). Below a list or a mapping anything may stand.
    """
    bound = bound_names(expression)
    for found in _FIELDS.finditer(_TEXT.sub('""', expression)):
        names = [name.strip() for name in found[2].split(".")[1:]]
        problem = None if found[1] in bound else _unknown(found[1], names[:-1] if found[3] else names)
        if problem:
            return problem
    return None


def _unknown(root: str, names: list[str]) -> str | None:
    """
    :param names: the fields below `root`, the function that is called on the last of them left out.
    """
    model = _RECORDS.get(root)
    known: tuple[str, ...] = tuple(model.model_fields) if model is not None else RUN_FIELDS
    where = root
    for name in names:
        if name not in known:
            return f"no field '{name}' in {where}{did_you_mean(name, list(known))}"
        where = f"{where}.{name}"
        model = _model(model.model_fields[name].annotation) if model is not None else None
        known = tuple(model.model_fields) if model is not None else STALL_FIELDS if where == "run.stall" else ()
        if not known:
            return None
    return None


def _model(annotation: object) -> type[Record] | None:
    """The model of a field that holds one, or nothing."""
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    kinds = tuple(kind for kind in kinds if kind is not NoneType)
    only = kinds[0] if len(kinds) == 1 else None
    return only if isinstance(only, type) and issubclass(only, Record) else None
