"""Pulling shards from the gateway into a cache, which keeps what it has while the gateway is away."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

from airflow.sdk import get_parsing_context
from airflow.sdk.exceptions import AirflowNotFoundException

from freshtable_airflow.address import GatewayAddress
from freshtable_airflow.cache import EMPTY, ShardCache
from freshtable_airflow.errors import GatewayRefused, GatewayUnavailable
from freshtable_airflow.hook import DEFAULT_CONNECTION, FreshtableHook
from freshtable_airflow.shard import ShardSource

# What a gateway answers whose `workflow-scheduler.type` is not airflow.
NOT_USED = "SCHEDULER_NOT_USED"
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
    """Bring shards of the cache up to date. Whatever goes wrong is logged and noted there, and what is there stays,
    unless the gateway says that it uses another scheduler."""
    problem = ""
    numbers = list(numbers)
    try:
        with ShardSource(choice.address()) as source:
            for number in numbers:
                shard = source.pull(number, cache.read(number).etag)
                if shard is not None:
                    cache.store(number, shard)
    except (GatewayUnavailable, GatewayRefused) as error:
        problem = str(error)
        if getattr(error, "code", "") == NOT_USED and get_parsing_context().dag_id is None:
            log.warning("The materialized tables have another scheduler now: %s", problem)
            _let_go(cache, numbers)
        else:
            log.warning("The definitions of materialized tables stay as they are: %s", problem)
    cache.problem = problem


def _let_go(cache: ShardCache, numbers: Iterable[int]) -> None:
    """Have no DAGs of tables whose refreshes another scheduler asks for; a task that runs already goes on to its end."""
    for number in numbers:
        if cache.read(number).workflows:
            cache.store(number, EMPTY)
