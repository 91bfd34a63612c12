"""Syncs shards from the gateway into a cache, which retains its content while the gateway is unreachable."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

import httpx
from airflow.sdk import get_parsing_context
from airflow.sdk.exceptions import AirflowNotFoundException

from freshtable_airflow.address import GatewayAddress
from freshtable_airflow.cache import EMPTY, ShardCache
from freshtable_airflow.errors import GatewayRefused, GatewayUnavailable
from freshtable_airflow.hook import DEFAULT_CONNECTION, FreshtableHook
from freshtable_airflow.shard import pull_shard

# The gateway's error code if its `workflow-scheduler.type` is not airflow.
NOT_USED = "SCHEDULER_NOT_USED"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GatewayChoice:
    """The configured gateway; `gateway` and `token` take precedence over the connection."""

    gateway: str = ""
    token: str = ""
    freshtable_conn_id: str = DEFAULT_CONNECTION

    def address(self) -> GatewayAddress:
        """Return the gateway's address.

        Raises GatewayRefused if neither the configuration nor the connection has one.
        """
        try:
            address = FreshtableHook(self.freshtable_conn_id).address
        except (AirflowNotFoundException, GatewayRefused) as cause:
            if not self.gateway:
                raise GatewayRefused(
                    "The gateway's address is not configured. Set `gateway`, or create the connection "
                    f"{self.freshtable_conn_id}: {cause}"
                ) from cause
            address = GatewayAddress(url=self.gateway)
        return replace(
            address, url=self.gateway.rstrip("/") or address.url, token=self.token or address.token
        )


def pull_shards(choice: GatewayChoice, cache: ShardCache, numbers: Iterable[int]) -> None:
    """Update shards of the cache.

    An error is logged and recorded in the cache, which retains its content. If the gateway reports that it
    uses another scheduler, the DAGs of its tables are removed; a running task still completes its refresh.
    """
    problem = ""
    numbers = list(numbers)
    try:
        with httpx.Client(**choice.address().options()) as client:
            for number in numbers:
                shard = pull_shard(client, number, cache.read(number).etag)
                if shard is not None:
                    cache.store(number, shard)
    except (GatewayUnavailable, GatewayRefused) as error:
        problem = str(error)
        if getattr(error, "code", "") == NOT_USED and get_parsing_context().dag_id is None:
            log.warning("The gateway now uses another scheduler for the materialized tables: %s", problem)
            for number in numbers:
                if cache.read(number).workflows:
                    cache.store(number, EMPTY)
        else:
            log.warning("The definitions of materialized tables remain unchanged: %s", problem)
    cache.problem = problem
