"""Keys that the kernel keeps for the user's session."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys

import pytest

from tests.conftest import Project
from tests.safety.sandbox.conftest import needs_bwrap

pytestmark = needs_bwrap

LOOK = """
import ctypes
libc = ctypes.CDLL(None)
key = libc.syscall({keyctl}, 10, -3, b"user", b"git-swarm-test", 0)
held = ctypes.create_string_buffer(100)
length = libc.syscall({keyctl}, 11, key, held, 100)
print(held.raw[:length].decode() if length > 0 else "nothing")
"""
NUMBERS = {"x86_64": (250, 248), "aarch64": (219, 217)}


def test_a_step_does_not_find_the_keys_of_the_session(confined: Project) -> None:
    keyctl, add_key = NUMBERS.get(os.uname().machine, (0, 0))
    libc = ctypes.CDLL(None)
    if libc.syscall(keyctl, 1, None) < 0 or libc.syscall(add_key, b"user", b"git-swarm-test", b"PLANTED", 7, -3) < 0:
        pytest.skip("the kernel keeps no keys here")
    look = LOOK.format(keyctl=keyctl)
    outside = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert outside.stdout == "PLANTED\n"
    script = {"steps": {"build/implement": [{"write": {"look.py": look}, "run": ["python3 look.py > seen.txt"]}]}}
    run = confined.start(json.dumps(script), "--until", "implement")
    assert (confined.worktree(run) / "seen.txt").read_text(encoding="utf-8") == "nothing\n"
