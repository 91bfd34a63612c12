"""Client connections, which close if the head of a request is too slow or too long.

Idle clients therefore occupy no connections.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.auto import AutoHTTPProtocol

_Protocol: Any = AutoHTTPProtocol


class Connection(_Protocol):  # type: ignore[misc]
    """A client connection that waits up to `HEAD_S` for the head of a request of up to `HEAD_BYTES`.

    The time to receive the rest of a rejected body counts towards the next head.
    """

    HEAD_S: ClassVar[float] = 60.0
    HEAD_BYTES: ClassVar[int] = 65_536

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._given_up: asyncio.TimerHandle | None = None
        self._in_head, self._head = False, 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        else:
            self._wait_for_head()
        if self._in_head:
            self._head += len(data)
            if self._head > self.HEAD_BYTES:
                self.send_400_response("Invalid HTTP request received.")

    def connection_lost(self, error: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(error)

    # Called by the httptools parser; h11 has a limit of its own.
    def on_message_begin(self) -> None:
        self._in_head, self._head = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def _wait_for_head(self) -> None:
        if self._given_up is None:
            self._given_up = self.loop.call_later(self.HEAD_S, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._given_up is not None:
            self._given_up.cancel()
            self._given_up = None
