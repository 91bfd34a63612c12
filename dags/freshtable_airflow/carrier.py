"""Carriers of conversations: one that waits, one for an event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

import httpx

from freshtable_airflow.address import GatewayAddress
from freshtable_airflow.conversation import Ask, Conversation, Wait
from freshtable_airflow.errors import GatewayUnavailable

T = TypeVar("T")
Move = Callable[[], Ask | Wait]


class Gateway:
    """Holds conversations with a gateway and waits for the answers; closed with `with`."""

    def __init__(self, address: GatewayAddress) -> None:
        self._url = address.url
        self._client = httpx.Client(**address.options())

    def __enter__(self) -> Gateway:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()

    def hold(self, conversation: Conversation[T]) -> T:
        """Return what the conversation comes to; the conversation meets GatewayUnavailable when no answer comes."""
        move: Move = partial(next, conversation)
        while True:
            try:
                step = move()
            except StopIteration as end:
                result: T = end.value
                return result
            move = self._carry(step, conversation)

    def _carry(self, step: Ask | Wait, conversation: Conversation[T]) -> Move:
        if isinstance(step, Wait):
            time.sleep(step.seconds)
            return partial(next, conversation)
        try:
            return partial(conversation.send, self._client.request(**_request(step)))
        except httpx.HTTPError as cause:
            return partial(conversation.throw, _unreachable(self._url, cause))


class AsyncGateway:
    """Holds conversations with a gateway without keeping an event loop waiting; closed with `async with`."""

    def __init__(self, address: GatewayAddress) -> None:
        self._url = address.url
        self._client = httpx.AsyncClient(**address.options())

    async def __aenter__(self) -> AsyncGateway:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def hold(self, conversation: Conversation[T]) -> T:
        """Return what the conversation comes to; the conversation meets GatewayUnavailable when no answer comes."""
        move: Move = partial(next, conversation)
        while True:
            try:
                step = move()
            except StopIteration as end:
                result: T = end.value
                return result
            move = await self._carry(step, conversation)

    async def _carry(self, step: Ask | Wait, conversation: Conversation[T]) -> Move:
        if isinstance(step, Wait):
            await asyncio.sleep(step.seconds)
            return partial(next, conversation)
        try:
            return partial(conversation.send, await self._client.request(**_request(step)))
        except httpx.HTTPError as cause:
            return partial(conversation.throw, _unreachable(self._url, cause))


def _request(ask: Ask) -> dict[str, Any]:
    return {"method": ask.method, "url": ask.path, "json": ask.json, "headers": dict(ask.headers)}


def _unreachable(url: str, cause: httpx.HTTPError) -> GatewayUnavailable:
    error = GatewayUnavailable(
        f"The gateway at {url} cannot be reached: {type(cause).__name__}: {cause}. Is it running, and is the host of the "
        "connection right?"
    )
    error.__cause__ = cause
    return error
