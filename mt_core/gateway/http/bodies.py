"""Limits of request bodies: the bytes of one body and of all in memory, and the time between chunks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from mt_core.base.protocol import ERROR_CODE_HEADER
from mt_core.errors import GatewayBusy, RequestInvalid

MAX_BODY_BYTES = 104_857_600
ALL_BODIES_BYTES = 268_435_456
PAUSE_S = 30.0
SHORT_BYTES = 65_536
# The key under which a request's scope has its BufferedBody until the response is sent.
BUFFERED = "freshtable.body"


@dataclass(slots=True, kw_only=True)
class BodyLimits:
    """The limits and the byte count that all requests share. Used only from the event loop.

    `one` is the limit of a single body and `together` that of all bodies, in bytes. `buffered` is the current
    count. `pause_s` is the longest time in seconds for which a client may send nothing.
    """

    one: int = MAX_BODY_BYTES
    together: int = ALL_BODIES_BYTES
    pause_s: float = PAUSE_S
    buffered: int = 0


@dataclass(slots=True, kw_only=True)
class BufferedBody:
    """The bytes of one request body.

    `most` is the limit of this body if it is lower than that of any. `length` is the number of bytes
    received; `charge` is the number that counts towards the limits until `release`.
    """

    limits: BodyLimits
    most: int | None = None
    length: int = 0
    charge: int = 0

    def release(self) -> None:
        """Stop counting the bytes towards the limits. Idempotent."""
        self.limits.buffered -= self.charge
        self.length = self.charge = 0

    async def read(self, request: Request) -> bytes:
        """Return the whole body.

        A body whose Content-Length is too large is rejected before its first byte, although the server still
        reads and discards it. Raises RequestInvalid, GatewayBusy, and HTTPException 408 if the body stops
        arriving.
        """
        self._check(int(request.headers.get("content-length", 0)))
        body, chunks = bytearray(), request.stream()
        while (chunk := await self._next(chunks)) is not None:
            self._count(len(chunk))
            body += chunk
        return bytes(body)

    async def _next(self, chunks: AsyncIterator[bytes]) -> bytes | None:
        try:
            async with asyncio.timeout(self.limits.pause_s):
                return await anext(chunks, None)
        except TimeoutError as cause:
            raise HTTPException(
                408,
                f"The body stopped arriving after {self.length} bytes; "
                f"send it without pauses of {self.limits.pause_s:g} s.",
                {"Connection": "close", ERROR_CODE_HEADER: "REQUEST_TIMEOUT"},
            ) from cause
        except ClientDisconnect as cause:
            raise RequestInvalid("The client disconnected before it had sent its request.") from cause

    def _check(self, length: int) -> None:
        most = self.limits.one if self.most is None else min(self.most, self.limits.one)
        if length > most:
            raise RequestInvalid(f"The request is longer than {most} bytes; send the work in smaller parts.")

    def _count(self, more: int) -> None:
        """Count *more* bytes. Raises RequestInvalid, GatewayBusy."""
        limits, length = self.limits, self.length + more
        self._check(length)
        # Short bodies are not counted, so that long bodies cannot cause ordinary requests to be rejected.
        charge = max(0, length - SHORT_BYTES)
        if limits.buffered + charge - self.charge > limits.together:
            raise GatewayBusy(
                f"The requests of all clients together are longer than {limits.together} bytes at present; "
                "send this one again in a while, or in smaller parts."
            )
        limits.buffered += charge - self.charge
        self.length, self.charge = length, charge
