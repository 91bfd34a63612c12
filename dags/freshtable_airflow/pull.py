"""Pulling shards from the gateway into a cache, which keeps what it has while the gateway is away."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

from airflow.sdk.exceptions import AirflowNotFoundException

from freshtable_airflow.address import GatewayAddress
from freshtable_airflow.cache import ShardCache
from freshtable_airflow.errors import GatewayRefused, GatewayUnavailable
from freshtable_airflow.hook import DEFAULT_CONNECTION, FreshtableHook
from freshtable_airflow.shard import ShardSource

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GatewayChoice:
    """The gateway that was named in a configuration: `gateway` and `token` win over what the connection says."""

    gateway: str = ""
    token: str = ""
    freshtable_conn_id: str = DEFAULT_CONNECTION

    def address(self) -> GatewayAddress:
        """Return where the gateway is; raises GatewayRefused when nobody has said it."""
        try:
            known = FreshtableHook(self.freshtable_conn_id).address
        except (AirflowNotFoundException, GatewayRefused) as cause:
            if not self.gateway:
                raise GatewayRefused(
                    f"Where is the gateway? Give `gateway`, or make the connection {self.freshtable_conn_id}: {cause}"
                ) from cause
            known = GatewayAddress(url=self.gateway)
        return replace(known, url=self.gateway.rstrip("/") or known.url, token=self.token or known.token)


def pull_shards(choice: GatewayChoice, cache: ShardCache, numbers: Iterable[int]) -> None:
    """Bring shards of the cache up to date. Whatever goes wrong is logged and noted there, and what is there stays."""
    problem = ""
    try:
        with ShardSource(choice.address()) as source:
            for number in numbers:
                shard = source.pull(number, cache.read(number).etag)
                if shard is not None:
                    cache.store(number, shard)
    except (GatewayUnavailable, GatewayRefused) as error:
        problem = str(error)
        log.warning("The definitions of materialized tables stay as they are: %s", problem)
    cache.problem = problem
