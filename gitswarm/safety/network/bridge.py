"""Inside a sandbox: TCP ports of loopback that lead to a socket outside, and then the program itself.

Run by itself (`python -I -S bridge.py SOCKET PROXY,PORT,… PROGRAM …`), with the standard library alone: it starts
before every program. What comes to the port PROXY is passed on as it is; for the others the proxy is asked for the
port of the same number on this machine. Where there is a perl, `listen.pl` begins, and calls this only when somebody
connects: `bridge.py SOCKET PROXY=DESCRIPTOR,PORT=DESCRIPTOR,…`.
"""

import _socket  # `socket` takes as long to import as all the rest
import os
import sys

_CHUNK = 1 << 16

Listeners = list[tuple[int, _socket.socket]]


def main() -> None:
    door, ports, command = sys.argv[1], sys.argv[2].split(","), sys.argv[3:]
    if not command:
        _serve(door, [(int(port), _socket.socket(fileno=int(number))) for port, number in _pairs(ports)])
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


def _pairs(ports: list[str]) -> list[list[str]]:
    return [port.split("=") for port in ports]


def _serve(door: str, listeners: Listeners) -> None:
    """It ends with the sandbox."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # the program's alone: whoever reads them waits for their end
        os.dup2(nothing, stream)
    _await_somebody(listeners)
    # 50 ms, which most programs never need
    import asyncio  # noqa: PLC0415
    import socket  # noqa: PLC0415
    from contextlib import closing, suppress  # noqa: PLC0415
    from functools import partial  # noqa: PLC0415

    async def pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await source.read(_CHUNK):
                sink.write(chunk)
                await sink.drain()
            sink.write_eof()

    async def attend(plain: bool, port: int, caller: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:  # noqa: FBT001
        with suppress(OSError, EOFError, asyncio.LimitOverrunError), closing(answer):
            there, outside = await asyncio.open_unix_connection(door)
            with closing(outside):
                if not plain:
                    outside.write(b"CONNECT localhost:%d HTTP/1.1\r\n\r\n" % port)
                if plain or b" 200 " in (await there.readuntil(b"\r\n\r\n")).partition(b"\r\n")[0]:
                    await asyncio.gather(pass_on(caller, outside), pass_on(there, answer))

    async def serve() -> None:
        for port, listener in listeners:
            answer = partial(attend, port == listeners[0][0], port)
            await asyncio.start_server(answer, sock=socket.socket(fileno=listener.detach()))
        await asyncio.Event().wait()

    asyncio.run(serve())


def _await_somebody(listeners: Listeners) -> None:
    """Whoever connects waits in the queue."""
    import select  # noqa: PLC0415  after the program has begun

    poll = select.poll()
    for _port, listener in listeners:
        poll.register(listener.fileno(), select.POLLIN)
    poll.poll()


if __name__ == "__main__":
    main()
