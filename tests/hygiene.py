"""Fails a test that leaves the process of all tests otherwise than it was. A pytest plugin."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import pygit2
import pytest
from pygit2.enums import ConfigLevel

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD, signal.SIGALRM)
_LEVELS = (ConfigLevel.GLOBAL, ConfigLevel.XDG)
_PYTEST_S_OWN = "PYTEST_CURRENT_TEST"


def _state() -> Mapping[str, object]:
    """Whatever a command, called in this process, could have changed for the tests behind it."""
    umask = os.umask(0)
    os.umask(umask)
    return {
        "folder": Path.cwd(),
        "umask": umask,
        "environment": {name: value for name, value in os.environ.items() if name != _PYTEST_S_OWN},
        "git's configuration": [pygit2.settings.search_path[level] for level in _LEVELS],
        "signals": [signal.getsignal(number) for number in _SIGNALS],
        "logging": (logging.root.level, logging.root.disabled),
    }


@pytest.fixture(autouse=True)
def leaves_the_process_as_it_was() -> Iterator[None]:
    before = _state()
    yield
    assert _state() == before
