"""The bytes of request bodies: how many one may have, how many are kept of all together, and how long they may take."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from mt_core.errors import GatewayBusy, RequestInvalid
from mt_core.protocol import ERROR_CODE_HEADER

MAX_BODY_BYTES = 104_857_600
ALL_BODIES_BYTES = 268_435_456
PAUSE_S = 30.0
SHORT_BYTES = 65_536
# Where a request keeps its KeptBody until it has been answered.
KEPT = "freshtable.body"


class BodyLimits:
    """What all requests of a gateway share: `one` and `together` are bytes, `pause_s` is how long no byte may come.

    Used from the event loop alone.
    """

    def __init__(
        self, *, one: int = MAX_BODY_BYTES, together: int = ALL_BODIES_BYTES, pause_s: float = PAUSE_S
    ) -> None:
        self.one, self.together, self.pause_s = one, together, pause_s
        self.kept = 0


class KeptBody:
    """The bytes of one request, which count against the limits until `release`."""

    def __init__(self, limits: BodyLimits) -> None:
        self._limits, self._own, self._counted = limits, 0, 0

    def release(self) -> None:
        """Stop counting them; twice is harmless."""
        self._limits.kept -= self._counted
        self._own = self._counted = 0

    async def read(self, request: Request) -> bytes:
        """Return the whole body; raises RequestInvalid, GatewayBusy, or HTTPException 408 when it stops arriving.

        A body whose Content-Length is too long is refused before its first byte; the server reads and drops what the
        client sends all the same.
        """
        self._check(int(request.headers.get("content-length", 0)))
        received, chunks = bytearray(), request.stream()
        while True:
            chunk = await self._next(chunks)
            if chunk is None:
                return bytes(received)
            self._check(self._own + len(chunk))
            self._take(len(chunk))
            received += chunk

    async def _next(self, chunks: AsyncIterator[bytes]) -> bytes | None:
        try:
            async with asyncio.timeout(self._limits.pause_s):
                return await anext(chunks, None)
        except TimeoutError as cause:
            raise HTTPException(
                408,
                f"The body stopped arriving after {self._own} bytes; send it without pauses of {self._limits.pause_s:g} s.",
                {"Connection": "close", ERROR_CODE_HEADER: "REQUEST_TIMEOUT"},
            ) from cause
        except ClientDisconnect as cause:
            raise RequestInvalid("The client disconnected before it had sent its request.") from cause

    def _check(self, length: int) -> None:
        if length > self._limits.one:
            raise RequestInvalid(
                f"The request is longer than {self._limits.one} bytes; send the work in smaller parts."
            )

    def _take(self, length: int) -> None:
        limits = self._limits
        # Short bodies are not counted, so that long ones cause no refusal of ordinary requests.
        counted = max(0, self._own + length - SHORT_BYTES)
        if limits.kept + counted - self._counted > limits.together:
            raise GatewayBusy(
                f"The requests of all clients together are longer than {limits.together} bytes at present; send this one "
                "again in a while, or in smaller parts."
            )
        limits.kept += counted - self._counted
        self._own, self._counted = self._own + length, counted
