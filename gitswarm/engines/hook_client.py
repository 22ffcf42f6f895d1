"""The hook of an agent's CLI: takes its question to the owner's socket. No answer means no.

Run by itself (`python -I -S hook_client.py SOCKET PID`): nothing but the standard library, and little of that, as it
starts before every tool call. Exit code 2 denies, whatever else goes wrong.
"""

from __future__ import annotations

import os
import socket
import struct
import sys

_DENY = 2
_PATIENCE_S = 45.0


def main() -> int:
    try:
        path, owner = sys.argv[1], int(sys.argv[2])
        question = sys.stdin.buffer.read()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            server.settimeout(_PATIENCE_S)
            folder, name = os.path.split(path)
            os.chdir(folder)  # the address of a socket has room for about 100 characters
            server.connect(name)
            if _listener(server) not in (owner, None):
                return _no("another process listens on the socket of git-swarm")
            server.sendall(question)
            server.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: server.recv(65536), b""))
    except Exception as error:  # noqa: BLE001 - fails closed
        return _no(f"git-swarm cannot be reached: {error}")
    if not answer.endswith(b"\n"):  # the owner went away before it had said everything
        return _no("git-swarm gave no answer")
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()
    return 0


def _listener(server: socket.socket) -> int | None:
    """Process that listens there; None where the system does not tell."""
    if hasattr(socket, "SO_PEERCRED"):
        credentials = server.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", credentials)[0])
    if sys.platform == "darwin":  # SOL_LOCAL, LOCAL_PEERPID
        return int(struct.unpack("i", server.getsockopt(0, 2, 4))[0])
    return None


def _no(why: str) -> int:
    sys.stderr.write(f"denied: {why}\n")
    return _DENY


if __name__ == "__main__":
    try:
        code = main()
    except BaseException as error:  # noqa: BLE001 - fails closed
        code = _no(f"the hook broke: {type(error).__name__}")
    os._exit(code)
