"""The commands `web`, which serves the page on loopback until Ctrl-C, and `report`."""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
import threading
import webbrowser
from typing import Annotated

from msgspec import to_builtins

from gitswarm.cli.arguments import Option
from gitswarm.cli.console import err, out, out_json, out_verbatim
from gitswarm.cli.run_report import report_of
from gitswarm.cli.runs import RunArgument, folder_here, open_run, reader_here
from gitswarm.errors import SwarmError, UsageError

_LOOPBACK = "127.0.0.1"
FORMATS = ("md", "html", "json")


def web(
    port: Annotated[str | None, Option(metavar="NUMBER", help="The port on 127.0.0.1; else a free one.")] = None,
    opens: Annotated[bool, Option("--open", help="Open the page in your browser.")] = False,
) -> None:
    """Follow, judge and steer runs in a browser, on this machine only."""
    if any(importlib.util.find_spec(name) is None for name in ("starlette", "uvicorn")):
        what = "the page needs packages that are not installed"
        raise SwarmError(what, hint="pip install 'git-swarm[web]'")
    repository = reader_here()
    bound = _bound(port)
    with bound:
        _serve(bound, str(repository.main_folder), opens=opens)


def report(
    run: RunArgument = None,
    shape: Annotated[
        str,
        Option(
            "--format",
            metavar="FORMAT",
            help="md fits a pull request, html is one file, json for programs.",
        ),
    ] = "md",
) -> None:
    """A run on one page, for its reviewer: what is proven, where to look, what it cost."""
    if shape not in FORMATS:
        raise UsageError(f"--format {shape}: {', '.join(FORMATS)}", hint="git swarm report --format md")
    opened = open_run(run)
    if shape == "json":
        out_json(to_builtins(report_of(opened)))
        return
    from gitswarm.web.rendering import frozen_page, markdown_of  # noqa: PLC0415 - not for the page, nor for JSON

    text = frozen_page(opened) if shape == "html" else markdown_of(report_of(opened))
    out_verbatim(text.rstrip("\n"))


def _bound(port: str | None) -> socket.socket:
    """
    :raises UsageError: it is no port, or somebody has it.
    """
    if port is not None and not (port.isdecimal() and len(port) < 6 and int(port) < 65_536):
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
