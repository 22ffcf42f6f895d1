"""`web`: serves the page on loopback until Ctrl-C."""

from __future__ import annotations

import os
import socket
import sys
import threading
import webbrowser
from typing import Annotated

from gitswarm.cli.arguments import Option
from gitswarm.cli.console import err, out
from gitswarm.cli.opened import folder_here, reader_here
from gitswarm.errors import UsageError
from gitswarm.web.installed import need

_LOOPBACK = "127.0.0.1"


def web(
    port: Annotated[str | None, Option(metavar="NUMBER", help="The port on 127.0.0.1; else a free one.")] = None,
    opens: Annotated[bool, Option("--open", help="Open the page in your browser.")] = False,
) -> None:
    """Follow, judge and steer runs in a browser, on this machine only."""
    need("the page", "starlette", "uvicorn", "jinja2")
    repository = reader_here()
    bound = _bound(port)
    with bound:
        _serve(bound, str(repository.main_folder), opens=opens)


def _bound(port: str | None) -> socket.socket:
    """
    :raises UsageError: it is no port, or somebody has it.
    """
    if port is not None and not (port.isdecimal() and int(port) < 65_536):
        raise UsageError(f"--port {port}: no port", hint="git swarm web")
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((_LOOPBACK, int(port or 0)))
    except OSError as error:
        found.close()
        raise UsageError(f"--port {port}: {error.strerror}", hint="git swarm web   (takes a free port)") from error
    found.listen()
    return found


def _serve(bound: socket.socket, name: str, *, opens: bool) -> None:
    import uvicorn  # noqa: PLC0415 - of the extra

    from gitswarm.web.admission import Keys  # noqa: PLC0415
    from gitswarm.web.pages import application  # noqa: PLC0415
    from gitswarm.web.site import Site  # noqa: PLC0415

    keys = Keys(bound.getsockname()[1], lambda address: err(f"again      {address}   (another browser; good once)"))
    app = application(Site(folder_here(), dict(os.environ)), keys, lambda: server.should_exit)
    # A stream that is still open must not hold up Ctrl-C.
    config = uvicorn.Config(
        app, log_level="error", access_log=False, ws="none", lifespan="off", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    out(f"page       {keys.address}")
    out(f"shows      {name}; Ctrl-C ends the page, runs continue")
    sys.stdout.flush()
    if opens:
        threading.Thread(target=webbrowser.open, args=(keys.address,), daemon=True).start()
    server.run(sockets=[bound])
