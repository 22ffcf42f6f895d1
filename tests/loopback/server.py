"""The server: many scenarios on one port, told apart by the first part of the path."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from msgspec import Struct, field

from tests.loopback import google, responses
from tests.loopback.api import ApiRequest, Model, Reply, error_body, message, stream


class Loopback(Struct):
    """`asked`: every request to a model, in order."""

    port: int
    models: dict[str, Model] = field(default_factory=dict)
    asked: list[ApiRequest] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _closing: threading.Event = field(default_factory=threading.Event)

    def play(self, scenario: str, model: Model) -> str:
        """The base URL behind which `model` answers."""
        self.models[scenario] = model
        return f"http://127.0.0.1:{self.port}/{scenario}"

    def of(self, scenario: str) -> list[ApiRequest]:
        return [asked for asked in self.asked if asked.scenario == scenario]

    def take(
        self, kind: type[ApiRequest], scenario: str, body: dict[str, Any], headers: dict[str, str]
    ) -> tuple[ApiRequest, Reply]:
        with self._lock:
            number = 1 + len(self.of(scenario))
            asked = kind(scenario, number, body, headers)
            self.asked.append(asked)
        return asked, self.models[scenario](asked)

    def wait(self, seconds: float) -> None:
        """Says nothing for a time; not longer than the server lives."""
        self._closing.wait(seconds)

    def close(self) -> None:
        self._closing.set()


@contextmanager
def serving() -> Iterator[Loopback]:
    server = _Server(("127.0.0.1", 0), _Handler)
    server.loopback = Loopback(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.loopback
    finally:
        server.loopback.close()
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    loopback: Loopback

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is the point of many tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD  # noqa: N815 - the base class looks for this name

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if google.METHOD in self.path:
            self._google(body)
            return
        scenario, _version, wire = self.path.split("?")[0].lstrip("/").partition("/v1/")
        if scenario not in self.server.loopback.models:
            self._whole(404, json.dumps({"type": "error", "error": {"type": "not_found_error", "message": "?"}}))
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        kind = responses.ApiRequest if wire == "responses" else ApiRequest
        asked, reply = self.server.loopback.take(kind, scenario, body, headers)
        self.server.loopback.wait(reply.hang_s)
        with suppress(ConnectionError):
            if reply.status != 200:
                self._whole(reply.status, json.dumps(error_body(reply)), reply.headers)
            elif isinstance(asked, responses.ApiRequest):
                self._stream(responses.stream(asked, reply), reply.headers)
            elif body.get("stream"):
                self._stream(stream(asked, reply), reply.headers)
            else:
                self._whole(200, json.dumps(message(asked, reply)), reply.headers)

    def _google(self, body: dict[str, Any]) -> None:
        """The same scenarios, as Google's API asks and answers."""
        scenario, _slash, rest = self.path.lstrip("/").partition("/v1beta/models/")
        asked, reply = self.server.loopback.take(
            ApiRequest, scenario, google.as_messages(body, rest.partition(":")[0]), dict(self.headers.items())
        )
        self.server.loopback.wait(reply.hang_s)
        with suppress(ConnectionError):
            if reply.status != 200:
                self._whole(reply.status, json.dumps(google.error_body(reply)), reply.headers)
            else:
                self._stream(google.stream(asked, reply), reply.headers)

    def _whole(self, status: int, text: str, headers: Any = ()) -> None:
        raw = text.encode()
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _stream(self, events: list[bytes], headers: Mapping[str, str]) -> None:
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in events:
            self.wfile.write(event)
            self.wfile.flush()
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        del format, args
