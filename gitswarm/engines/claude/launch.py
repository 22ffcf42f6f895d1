"""Starts the CLI in a session of its own, so that a Ctrl-C in the terminal is ours to handle. It ends with its owner,
also when that one is killed, and its environment is exactly the one that it is given: the SDK has no way to say so.

Run by itself: `python -I -S launch.py OWNER NAMES CLI …`. OWNER: its process; NAMES: the variables to keep,
separated by commas.
"""

import ctypes
import os
import signal
import sys

_SDK = ("CLAUDE_CODE_ENTRYPOINT", "CLAUDE_AGENT_SDK_", "CLAUDE_CODE_SDK_")
_PR_SET_PDEATHSIG = 1


def main() -> None:
    owner, names, program = int(sys.argv[1]), frozenset(sys.argv[2].split(",")), sys.argv[3]
    env = {name: value for name, value in os.environ.items() if name in names or name.startswith(_SDK)}
    if os.getpid() != os.getpgid(0):
        os.setsid()
    if sys.platform == "linux":
        # Elsewhere nobody tells it: whoever resumes the run ends it.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != owner:
            os._exit(1)
    os.execve(program, sys.argv[3:], env)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()
