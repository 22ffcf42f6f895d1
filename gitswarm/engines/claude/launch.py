"""Starts the CLI for the SDK, which has no way to say two things: a session of its own, so that a Ctrl-C in the
terminal is ours to handle, and an environment that is exactly the one it is given.

Run by itself: `python -I -S launch.py CLI …`. `SWARM_KEEP_ENV`: names of the variables to keep, separated by spaces.
"""

import os
import sys

_NAMES = "SWARM_KEEP_ENV"
_SDK = ("CLAUDE_CODE_ENTRYPOINT", "CLAUDE_AGENT_SDK_", "CLAUDE_CODE_SDK_", "PWD")


def main() -> None:
    kept = frozenset(os.environ.get(_NAMES, "").split())
    env = {name: value for name, value in os.environ.items() if name in kept or name.startswith(_SDK)}
    if os.getpid() != os.getpgid(0):
        os.setsid()
    os.execve(sys.argv[1], sys.argv[1:], env)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()
