"""The state tables of a materialized table: how they are found, which of their snapshots are in use, and how
they are dropped with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from mt_core.errors import StorageMissing
from mt_core.model.storage import STATE, STATE_OF, state_table_name
from mt_core.model.table import TableIdentifier
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.jvm_objects import own_class
from mt_core.spark.files.catalog_files import CatalogFiles

_CATALOGS, _METADATA = "freshtable.iceberg.Catalogs", "freshtable.iceberg.Metadata"


def state_tables(
    spark: SparkContexts, of: TableIdentifier, table_id: str
) -> Iterator[tuple[TableIdentifier, Any]]:
    """Yield names and loaded tables of the states of the materialized table *of*, which need not exist."""
    core = spark.catalogs.iceberg_catalog(of.catalog)
    names = own_class(spark.catalogs.session, _CATALOGS).tables(
        core, json.dumps(of.namespace), state_table_name(table_id)
    )
    for name in sorted(json.loads(names)):
        identifier = TableIdentifier(of.catalog, of.namespace, name)
        try:
            table = spark.catalogs.load_table(identifier)
        except StorageMissing:
            continue
        if table.properties().get(STATE_OF) == table_id:
            yield identifier, table


def names_of_states(session: SparkSession, table: Any) -> frozenset[str]:
    """Return the snapshots of state tables that any snapshot of the materialized *table* names."""
    values = own_class(session, _METADATA).values(table.operations().current(), STATE)
    return frozenset(json.loads(values))


def drop_states(spark: SparkContexts, of: TableIdentifier, table_id: str) -> None:
    """Drop all state tables of a materialized table, which has no runs any more, with their files."""
    for name, table in state_tables(spark, of, table_id):
        location = str(table.location())
        files = CatalogFiles.of_table(spark.catalogs.session, table)
        spark.table_catalogs.drop(name, table, with_files=True)
        # Snapshots that were never committed have left files that no metadata refers to.
        if name.name in location:
            files.delete_folder(location)
