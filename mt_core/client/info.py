"""What a gateway says about itself: its version, whether Spark accepts work, and its time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import httpx

from mt_core.base.address import Address
from mt_core.base.protocol import (
    ENGINE_HEADER,
    ENGINE_NOTE_HEADER,
    SCHEDULER_HEADER,
    WORK_HEADER,
    read_error,
)
from mt_core.client.http import GatewayRefused

PRODUCT = "Freshtable"
READY, UNKNOWN = "READY", "UNKNOWN"
# The error code of a gateway that rejects the token.
UNAUTHORIZED = "UNAUTHORIZED"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayInfo:
    """The response of GET /info.

    `engine` is READY or the reason why Spark does not accept work. `scheduler` is READY, UNKNOWN, or the
    reason why it starts no refreshes. `engine_note` says what makes Spark slower than it could be, or is
    empty. `date` is the Date header. `work` is what an embedded gateway continues to do without clients, or
    None for any other gateway.
    """

    version: str
    engine: str
    date: str | None
    work: str | None = None
    engine_note: str = ""
    scheduler: str = UNKNOWN

    @classmethod
    def from_answer(cls, url: str, headers: Mapping[str, str], body: object) -> GatewayInfo:
        """Parse a response. Raises GatewayRefused if it is not from a Freshtable gateway."""
        if not isinstance(body, dict) or body.get("productName") != PRODUCT:
            raise GatewayRefused(f"{url} is not a Freshtable gateway; check address and port.")
        return cls(
            version=str(body.get("version", "")),
            engine=headers.get(ENGINE_HEADER, READY),
            date=headers.get("date"),
            work=headers.get(WORK_HEADER),
            engine_note=headers.get(ENGINE_NOTE_HEADER, ""),
            scheduler=headers.get(SCHEDULER_HEADER, UNKNOWN),
        )


def read_info(url: str, token: str | None, timeout_s: float) -> GatewayInfo:
    """Return what the gateway at *url* says about itself.

    Raises GatewayRefused if no gateway responds within *timeout_s* seconds or if it rejects *token*.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    address = Address.of(url)
    transport = None if address.socket is None else httpx.HTTPTransport(uds=address.socket, verify=False)
    try:
        with httpx.Client(transport=transport, headers=headers, timeout=timeout_s) as client:
            answer = client.get(f"{address.base_url}/info")
    except (httpx.HTTPError, httpx.InvalidURL) as cause:
        raise GatewayRefused(f"No gateway answers at {url}: {cause}") from cause
    try:
        body = answer.json()
    except ValueError:
        body = None
    if answer.status_code != httpx.codes.OK:
        error = read_error(body, answer.headers)
        raise GatewayRefused(f"{url} refused GET /info: {error.message}", code=error.code)
    return GatewayInfo.from_answer(url, answer.headers, body)
