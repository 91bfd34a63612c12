"""Catalog plug-ins of Spark sessions: shares them between sessions, and closes their connections."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession

from mt_core.base.background import start_thread
from mt_core.spark.driver.jvm_objects import java_class, scala_items, state_of

log = logging.getLogger(__name__)

_HAS_ICEBERG = "org.apache.iceberg.spark.source.HasIcebergCatalog"
_CACHING = "org.apache.iceberg.CachingCatalog"


def plugins_of(session: SparkSession) -> Any:
    """Return Spark's mutable map of the catalog plug-ins that *session* has loaded, by name.

    Spark loads a plug-in at the first use of its catalog, and has no API to replace or remove it.
    """
    return _field(state_of(session).catalogManager(), "catalogs")


def share_plugins(owner: SparkSession, session: SparkSession, names: Iterable[str]) -> None:
    """Share the plug-ins in *names* of *owner* with *session*, except for those already loaded there."""
    shared, loaded = plugins_of(owner), plugins_of(session)
    for name in names:
        if shared.contains(name) and not loaded.contains(name):
            loaded.put(name, shared.apply(name))


def close_plugins(session: SparkSession, owner: SparkSession) -> None:
    """Close the Iceberg catalogs of *session*, in another thread, except for those that *owner* shares.

    Closing waits for connections in use. If the session uses a catalog afterwards, Spark loads it again.
    """
    start_thread(
        "catalog-close",
        lambda: _close(session, owner),
        lambda error: log.warning(
            "the catalogs of a session were not closed: %s", error, extra={"action": "catalogs_not_closed"}
        ),
    )


def _close(session: SparkSession, owner: SparkSession) -> None:
    shared, loaded = plugins_of(owner), plugins_of(session)
    has_iceberg, closeable = java_class(session, _HAS_ICEBERG), java_class(session, "java.io.Closeable")
    for name in list(scala_items(loaded.keySet().toSeq())):
        plugin = loaded.apply(name)
        if not has_iceberg.isInstance(plugin) or (
            shared.contains(name) and shared.apply(name).equals(plugin)
        ):
            continue
        loaded.remove(name)
        catalog = plugin.icebergCatalog()
        if str(catalog.getClass().getName()) == _CACHING:
            catalog = _field(catalog, "catalog")
        if closeable.isInstance(catalog):
            catalog.close()


def _field(target: Any, name: str) -> Any:
    field = target.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(target)
