"""A shard of workflow definitions, and the gateway as the source of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import httpx

from freshtable_airflow.address import GatewayAddress
from freshtable_airflow.errors import GatewayRefused, GatewayUnavailable
from freshtable_airflow.refusal import read_refusal

SHARDS = 32
VERSION = 1
# The dag-processor does nothing else while it asks: better an old definition for once than a processor that stands still.
TIMEOUT = httpx.Timeout(10.0, connect=3.0)


@dataclass(frozen=True)
class Shard:
    """The definitions of a shard as they were served, and the ETag that they have; `state` is the gateway's own mark of them."""

    etag: str
    workflows: Sequence[Mapping[str, Any]]
    state: str = ""

    @classmethod
    def of(cls, body: Any, etag: str, url: str) -> Shard:
        """Return the shard of a served body; raises GatewayRefused for one that this package cannot read."""
        if not isinstance(body, dict) or not isinstance(body.get("workflows"), list):
            raise GatewayRefused(f"{url} answers no workflow definitions; is that the URL of a gateway?")
        if body.get("version") != VERSION:
            raise GatewayRefused(
                f"{url} answers definitions of version {body.get('version')}; this freshtable-airflow reads version {VERSION}: "
                "upgrade the package in Airflow and restart its components."
            )
        return cls(etag=etag, workflows=body["workflows"], state=str(body.get("state") or ""))


class ShardSource:
    """Asks a gateway for shards; closed with `with`."""

    def __init__(self, address: GatewayAddress) -> None:
        self._client = httpx.Client(**address.options() | {"timeout": TIMEOUT})

    def __enter__(self) -> ShardSource:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()

    def pull(self, number: int, etag: str) -> Shard | None:
        """Return the shard, or None while it has *etag* still; raises GatewayUnavailable and GatewayRefused."""
        path = f"/v3/workflows/airflow/shards/{number}"
        try:
            response = self._client.get(path, headers={"If-None-Match": f'"{etag}"'} if etag else {})
        except httpx.HTTPError as cause:
            raise GatewayUnavailable(
                f"The gateway at {self._client.base_url} cannot be reached: {type(cause).__name__}: {cause}."
            ) from cause
        if response.status_code == httpx.codes.NOT_MODIFIED:
            return None
        if not response.is_success:
            raise read_refusal(response).as_error(f"GET {response.url}")
        try:
            body = response.json()
        except ValueError:
            body = None
        return Shard.of(body, response.headers.get("ETag", "").removeprefix("W/").strip('"'), str(response.url))
