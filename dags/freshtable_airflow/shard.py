"""A shard of workflow definitions, as the gateway serves it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from freshtable_airflow.error_response import ErrorResponse
from freshtable_airflow.errors import GatewayRefused, GatewayUnavailable

SHARDS = 32
VERSION = 1
# The DAG processor is blocked during the request, and an outdated definition is better than a long wait.
TIMEOUT = httpx.Timeout(10.0, connect=3.0)


@dataclass(frozen=True)
class Shard:
    """The definitions of a shard and their ETag.

    `state` is the gateway's own version of the definitions, or "" if it sends none.
    """

    etag: str
    workflows: Sequence[Mapping[str, Any]]
    state: str = ""

    @classmethod
    def of(cls, body: Any, etag: str, url: str) -> Shard:
        """Return the shard in a response; raise GatewayRefused if this package cannot read the response."""
        if not isinstance(body, dict) or not isinstance(body.get("workflows"), list):
            raise GatewayRefused(f"{url} does not return workflow definitions; is that the URL of a gateway?")
        if body.get("version") != VERSION:
            raise GatewayRefused(
                f"{url} returns definitions of version {body.get('version')}; this freshtable-airflow reads "
                f"version {VERSION}: upgrade the package in Airflow and restart its components."
            )
        return cls(etag=etag, workflows=body["workflows"], state=str(body.get("state") or ""))


def pull_shard(client: httpx.Client, number: int, etag: str) -> Shard | None:
    """Return a shard, or None if it still has the ETag *etag*; raise GatewayUnavailable or GatewayRefused."""
    path = f"/v3/workflows/airflow/shards/{number}"
    try:
        response = client.get(path, headers={"If-None-Match": f'"{etag}"'} if etag else {}, timeout=TIMEOUT)
    except httpx.HTTPError as cause:
        raise GatewayUnavailable(
            f"The gateway at {client.base_url} cannot be reached: {type(cause).__name__}: {cause}."
        ) from cause
    if response.status_code == httpx.codes.NOT_MODIFIED:
        return None
    if not response.is_success:
        raise ErrorResponse.of(response).as_error(f"GET {response.url}")
    try:
        body = response.json()
    except ValueError:
        body = None
    return Shard.of(body, response.headers.get("ETag", "").removeprefix("W/").strip('"'), str(response.url))
