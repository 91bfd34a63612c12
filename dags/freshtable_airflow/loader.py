"""The loader: fills a DAG file's globals with the DAGs of shards.

If bundles cannot be configured, put a file such as this one into the DAGs folder. Airflow parses a file only
if it contains the words dag and airflow, hence the comment:

    # An Airflow DAG file: the materialized tables of a gateway.
    from freshtable_airflow.loader import load
    load(globals(), gateway="http://freshtable.example.com:8083")
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

from airflow.dag_processing.bundles.base import get_bundle_storage_root_path
from airflow.sdk import get_parsing_context

from freshtable_airflow.cache import ShardCache
from freshtable_airflow.factory import DagSettings, anchor_of, dag_of
from freshtable_airflow.shard import SHARDS
from freshtable_airflow.sync import GatewayChoice, pull_shards

CACHES = "freshtable-loader"


def load(
    namespace: dict[str, Any],
    *,
    gateway: str = "",
    token: str = "",
    settings: DagSettings = DagSettings(),  # noqa: B008 (frozen)
    shards: Iterable[int] = range(SHARDS),
) -> None:
    """Add the DAGs of the gateway's tables to *namespace*.

    The connection may provide the URL and the token instead. If several files load some of the *shards* each,
    Airflow parses them in parallel, which is worthwhile from a few hundred tables on.
    """
    choice = GatewayChoice(gateway=gateway, token=token, freshtable_conn_id=settings.freshtable_conn_id)
    owner = sha256(f"{choice.gateway} {choice.freshtable_conn_id}".encode()).hexdigest()[:16]
    cache = ShardCache(Path(get_bundle_storage_root_path()) / CACHES / owner)
    task_dag_id, numbers = get_parsing_context().dag_id, sorted(set(shards))
    if task_dag_id:
        number = cache.shard_with(task_dag_id)
        numbers = numbers if number is None else [number]
    pull_shards(choice, cache, numbers)
    for number in numbers:
        load_shard(namespace, cache, number, settings)


def load_shard(namespace: dict[str, Any], cache: ShardCache, number: int, settings: DagSettings) -> None:
    """Add the DAGs of a shard and its anchor to *namespace*; in a task, add only the task's own DAG."""
    task_dag_id = get_parsing_context().dag_id
    problems = [cache.problem] if cache.problem else []
    shard = cache.read(number)
    for body in shard.workflows:
        name = str(body.get("name")) if isinstance(body, dict) else repr(body)
        if task_dag_id not in (None, name):
            continue
        try:
            namespace[name] = dag_of(body, settings)
        # An error in one definition must not prevent the DAGs of the others.
        except Exception as error:  # noqa: BLE001
            problems.append(f"`{name}`: {type(error).__name__}: {error}")
    anchor = anchor_of(number, settings, problems, state=shard.state)
    if task_dag_id in (None, anchor.dag_id):
        namespace[anchor.dag_id] = anchor


def load_file(namespace: dict[str, Any], file: str, number: int, settings: DagSettings) -> None:
    """Load the shard of a file that the bundle wrote, and record in the cache that the file was parsed.

    The cache is in a folder next to the folder of the file.
    """
    cache = ShardCache(Path(file).resolve().parents[1] / "definitions")
    # It is unknown whether a change after this line is read, so it counts as not read.
    state = cache.state(number)
    load_shard(namespace, cache, number, settings)
    if get_parsing_context().dag_id is None:
        cache.note_parsed(number, state)
