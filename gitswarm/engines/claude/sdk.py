"""Mode `sdk`: the Claude Agent SDK, in a thread with an event loop of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from gitswarm.engines.claude.gate import Gate
from gitswarm.engines.claude.order import SessionOrder, Tell
from gitswarm.engines.claude.profile import INSTALL_SDK
from gitswarm.engines.claude.said import Gone

_GRACE_S = 1.0
_JOIN_S = 10.0


class SdkTransport:
    mode = "sdk"

    @contextmanager
    def hold(self, order: SessionOrder, gate: Gate, tell: Tell) -> Iterator[None]:
        try:
            from gitswarm.engines.claude.sdk_session import Cancel, talk  # noqa: PLC0415 - half a second
        except ImportError:
            tell(Gone(None, f"claude-agent-sdk is not installed: {INSTALL_SDK}", missing=True))
            yield
            return
        order.write_system()
        cancel = Cancel()
        talking = threading.Thread(target=talk, args=(order, gate, tell, cancel), daemon=True)
        talking.start()
        try:
            yield
        finally:
            # The caller has ended its processes. It ends with them, unless it waits for an answer of theirs, or has
            # more to read than anybody wants to hear.
            talking.join(_GRACE_S)
            cancel()
            talking.join(_JOIN_S)
