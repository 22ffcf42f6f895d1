"""A web server outside, and a proxy of the user's that knows hosts by names of ours."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar
from urllib.parse import urlsplit

import pytest

from tests.safety.sandbox.conftest import confined as confined  # noqa: PLC0414 - a fixture

Server = TypeVar("Server", bound=ThreadingHTTPServer)


class Outside(ThreadingHTTPServer):
    """Answers `reached` to everybody. As a proxy it takes every name for itself; `asked` are those names."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.asked: list[str] = []

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class _Answer(BaseHTTPRequestHandler):
    server: Outside

    def do_GET(self) -> None:
        self.server.asked.append(urlsplit(self.path).netloc)
        self.send_response(200)
        self.send_header("Content-Length", "7")
        self.end_headers()
        self.wfile.write(b"reached")

    def do_POST(self) -> None:
        """How many bytes came."""
        counted = str(len(self.rfile.read(int(self.headers["Content-Length"])))).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(counted)))
        self.end_headers()
        self.wfile.write(counted)

    def do_CONNECT(self) -> None:
        """To ourselves, whatever the name: no resolver knows it."""
        self.server.asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        with socket.create_connection(("127.0.0.1", self.server.port)) as there:
            threading.Thread(target=_pass_on, args=(self.connection, there), daemon=True).start()
            _pass_on(there, self.connection)
        self.close_connection = True

    def log_message(self, *_arguments: object) -> None:
        """Says nothing."""


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(65536):
            sink.sendall(chunk)
        sink.shutdown(socket.SHUT_WR)


@pytest.fixture
def outside() -> Iterator[Outside]:
    with started(Outside()) as server:
        yield server


@contextmanager
def started(server: Server) -> Iterator[Server]:
    """It answers while the block lasts."""
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
