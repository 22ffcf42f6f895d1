"""The contract of engines, for the tests of who brings one: `from gitswarm.testing import EngineContract, Orders`."""

import pytest

pytest.register_assert_rewrite("gitswarm.testing.contract", "gitswarm.testing.orders")

from gitswarm.testing.contract import EngineContract  # noqa: E402 - its asserts are to be told in full
from gitswarm.testing.orders import EngineFixture, Fault, Orders  # noqa: E402

__all__ = ["EngineContract", "EngineFixture", "Fault", "Orders"]
