"""The contract of engines, for the tests of who brings one: `from gitswarm.testing import EngineContract, Orders`."""

import pytest

pytest.register_assert_rewrite("gitswarm.testing.contract", "gitswarm.testing.played")

from gitswarm.testing.contract import EngineContract  # noqa: E402 - its asserts are to be told in full
from gitswarm.testing.played import Fault, Orders, Staged  # noqa: E402

__all__ = ["EngineContract", "Fault", "Orders", "Staged"]
