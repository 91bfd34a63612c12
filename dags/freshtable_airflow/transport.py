"""Transports for conversations: a blocking one and an asynchronous one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import TypeVar

import httpx

from freshtable_airflow.address import GatewayAddress
from freshtable_airflow.conversation import Conversation, HttpRequest, Wait
from freshtable_airflow.errors import GatewayUnavailable

T = TypeVar("T")
Move = Callable[[], HttpRequest | Wait]


class Gateway:
    """Carries out conversations with a gateway, blocking until they end; use it in a `with` statement."""

    def __init__(self, address: GatewayAddress) -> None:
        self._url = address.url
        self._client = httpx.Client(**address.options())

    def __enter__(self) -> Gateway:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._client.close()

    def hold(self, conversation: Conversation[T]) -> T:
        """Carry out a conversation and return its result.

        If a request gets no response, GatewayUnavailable is raised in the conversation.
        """
        move: Move = partial(next, conversation)
        while True:
            try:
                step = move()
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Wait):
                time.sleep(step.seconds)
                move = partial(next, conversation)
                continue
            try:
                response = self._client.request(
                    step.method, step.path, json=step.json, headers=dict(step.headers)
                )
                move = partial(conversation.send, response)
            except httpx.HTTPError as cause:
                move = partial(conversation.throw, _unreachable(self._url, cause))


class AsyncGateway:
    """Carries out conversations with a gateway without blocking the event loop.

    Use it in an `async with` statement.
    """

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
        """Carry out a conversation and return its result.

        If a request gets no response, GatewayUnavailable is raised in the conversation.
        """
        move: Move = partial(next, conversation)
        while True:
            try:
                step = move()
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Wait):
                await asyncio.sleep(step.seconds)
                move = partial(next, conversation)
                continue
            try:
                response = await self._client.request(
                    step.method, step.path, json=step.json, headers=dict(step.headers)
                )
                move = partial(conversation.send, response)
            except httpx.HTTPError as cause:
                move = partial(conversation.throw, _unreachable(self._url, cause))


def _unreachable(url: str, cause: httpx.HTTPError) -> GatewayUnavailable:
    error = GatewayUnavailable(
        f"The gateway at {url} cannot be reached: {type(cause).__name__}: {cause}. "
        "Is it running, and is the host of the connection correct?"
    )
    error.__cause__ = cause
    return error
