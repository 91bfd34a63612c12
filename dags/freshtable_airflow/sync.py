"""The sync of shards from the gateway into a cache, which keeps what it has while the gateway is away."""

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

# What a gateway answers whose `workflow-scheduler.type` is not airflow.
NOT_USED = "SCHEDULER_NOT_USED"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GatewayChoice:
    """The gateway that a configuration names: `gateway` and `token` take precedence over the connection."""

    gateway: str = ""
    token: str = ""
    freshtable_conn_id: str = DEFAULT_CONNECTION

    def address(self) -> GatewayAddress:
        """Return where the gateway is; raises GatewayRefused if neither the configuration nor
        the connection says so.
        """
        try:
            address = FreshtableHook(self.freshtable_conn_id).address
        except (AirflowNotFoundException, GatewayRefused) as cause:
            if not self.gateway:
                raise GatewayRefused(
                    "Where is the gateway? Give `gateway`, or make the connection "
                    f"{self.freshtable_conn_id}: {cause}"
                ) from cause
            address = GatewayAddress(url=self.gateway)
        return replace(
            address, url=self.gateway.rstrip("/") or address.url, token=self.token or address.token
        )


def pull_shards(choice: GatewayChoice, cache: ShardCache, numbers: Iterable[int]) -> None:
    """Bring shards of the cache up to date.

    An error is logged and noted in the cache, and what the cache has stays.

    If the gateway says that it uses another scheduler, the DAGs of its tables are removed;
    a running task still ends its refresh.
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
            log.warning("The materialized tables have another scheduler now: %s", problem)
            for number in numbers:
                if cache.read(number).workflows:
                    cache.store(number, EMPTY)
        else:
            log.warning("The definitions of materialized tables stay as they are: %s", problem)
    cache.problem = problem
