"""Steps that run at the same time, and how they come together."""

from __future__ import annotations

from gitswarm.routing.options import Ways
from gitswarm.routing.situation import Situation
from gitswarm.specs.flow import Fork


def at_fork(situation: Situation, routing: Fork) -> Ways:
    raise NotImplementedError


def after_branch(situation: Situation) -> Ways:
    raise NotImplementedError
