"""Inside a sandbox: TCP ports of loopback that lead to a socket outside, and then the program itself.

Run by itself (`python -I -S bridge.py SOCKET PROXY,PORT,… PROGRAM …`), with little of the standard library: it starts
before every program. What comes to the port PROXY is passed on as it is; for the others the proxy is asked for the
port of the same number on this machine. Where there is a perl, `listen.pl` begins, and calls this only when somebody
connects: `bridge.py SOCKET PROXY=DESCRIPTOR,PORT=DESCRIPTOR,…`.
"""

import _socket  # `socket` takes as long to import as all the rest
import _thread
import os
import sys

_CHUNK = 1 << 16
_MOST_HEAD = 1 << 16

Listeners = list[tuple[int, _socket.socket]]


def main() -> None:
    door, ports, command = sys.argv[1], sys.argv[2].split(","), sys.argv[3:]
    if not command:
        pairs = [port.split("=") for port in ports]
        _serve(door, [(int(port), _socket.socket(fileno=int(number))) for port, number in pairs])
        return
    listeners = []
    for port in map(int, ports):
        for family, address in ((_socket.AF_INET, "127.0.0.1"), (_socket.AF_INET6, "::1")):
            try:
                listener = _socket.socket(family, _socket.SOCK_STREAM)
                listener.bind((address, port))
                listener.listen(128)
            except OSError:  # no IPv6, or a port that only root may take
                continue
            listeners.append((port, listener))
    # An orphan of the sandbox's first process: the program has no child that it does not know.
    if os.fork() == 0:
        try:
            if os.fork() == 0:
                os.setpgid(0, 0)  # `kill 0` of the program is not for us
                _serve(door, listeners)
        finally:
            os._exit(0)
    os.wait()
    try:
        os.execvp(command[0], command)  # noqa: S606 - no shell is wanted
    except OSError as error:
        sys.stderr.write(f"cannot start {command[0]}: {error.strerror}\n")
        sys.exit(127)


def _serve(door: str, listeners: Listeners) -> None:
    """It ends with the sandbox."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # the program's alone: whoever reads them waits for their end
        os.dup2(nothing, stream)
    proxy = listeners[0][0]
    for port, listener in listeners[1:]:
        _thread.start_new_thread(_accept, (door, port, port == proxy, listener))
    _accept(door, proxy, True, listeners[0][1])  # noqa: FBT003 - as above


def _accept(door: str, port: int, plain: bool, listener: _socket.socket) -> None:  # noqa: FBT001 - of a thread
    while True:
        try:
            descriptor, _address = listener._accept()  # type: ignore[attr-defined]  # noqa: SLF001 - as `socket` does
        except OSError:  # who connected is gone
            continue
        _thread.start_new_thread(_attend, (door, port, plain, _socket.socket(fileno=descriptor)))


def _attend(door: str, port: int, plain: bool, caller: _socket.socket) -> None:  # noqa: FBT001 - of a thread
    outside = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        outside.connect(door)
        if plain or _is_let_through(outside, port):
            answered = _thread.allocate_lock()
            answered.acquire()
            _thread.start_new_thread(_pass_on, (outside, caller, answered))
            _pass_on(caller, outside)
            answered.acquire()
    except OSError:
        pass
    finally:
        caller.close()
        outside.close()


def _is_let_through(outside: _socket.socket, port: int) -> bool:
    outside.sendall(b"CONNECT localhost:%d HTTP/1.1\r\n\r\n" % port)
    head = b""
    while not head.endswith(b"\r\n\r\n") and len(head) < _MOST_HEAD:
        piece = outside.recv(1)  # what follows is not ours
        if not piece:
            return False
        head += piece
    return b" 200 " in head.partition(b"\r\n")[0]


def _pass_on(source: _socket.socket, sink: _socket.socket, done: _thread.LockType | None = None) -> None:
    try:
        while chunk := source.recv(_CHUNK):
            sink.sendall(chunk)
        sink.shutdown(_socket.SHUT_WR)
    except OSError:
        _hang_up(source)  # the other direction has nobody left either
        _hang_up(sink)
    finally:
        if done is not None:
            done.release()


def _hang_up(wire: _socket.socket) -> None:
    try:  # noqa: SIM105 - contextlib would be one more import
        wire.shutdown(_socket.SHUT_RDWR)
    except OSError:
        pass


if __name__ == "__main__":
    main()
