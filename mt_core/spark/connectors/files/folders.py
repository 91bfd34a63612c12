"""The folders and formats of file tables, from Spark's own catalog or from a CREATE statement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mt_core.spark.connectors.targets import temporary_tables
from mt_core.spark.driver.jvm_objects import scala_items
from mt_core.sql.catalog import CreateConnectorTable
from mt_core.sql.connectors.kinds import FORMATS, source_of

FILES = ("filesystem", *FORMATS)
"""The connectors of file tables."""
_PATH = "path"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFolder:
    """The location and format of a table's files."""

    folder: str
    format: str
    options: Mapping[str, str]
    partition_keys: tuple[str, ...]
    has_catalog_partitions: bool


def stored_folder(table: Any) -> FileFolder:
    """Return the folder of a table from its metadata in Spark's own catalog."""
    properties = table.storage().properties()
    keys = map(str, scala_items(properties.keys().toSeq()))
    return FileFolder(
        folder=str(table.location().toString()).rstrip("/"),
        format=str(table.provider().get()).lower(),
        options={key: str(properties.apply(key)) for key in keys if key.lower() != _PATH},
        partition_keys=tuple(map(str, scala_items(table.partitionColumnNames()))),
        has_catalog_partitions=bool(table.tracksPartitionsInCatalog()),
    )


def temporary_folders(temporary: Iterable[str]) -> dict[str, FileFolder]:
    """Return the folders of the file tables that the statements in *temporary* create, by lower-case name.

    Tables without a path are omitted.
    """
    tables = {name: table for name, table in temporary_tables(temporary).items() if table.connector in FILES}
    folders = {name: _folder(table) for name, table in tables.items()}
    return {name: folder for name, folder in folders.items() if folder is not None}


def _folder(table: CreateConnectorTable) -> FileFolder | None:
    source = source_of(".".join(table.name), table.options)
    paths = [value for key, value in source.options.items() if key.lower() == _PATH]
    if source.provider is None or not paths:
        return None
    return FileFolder(
        folder=paths[-1].rstrip("/"),
        format=source.provider,
        options={key: value for key, value in source.options.items() if key.lower() != _PATH},
        partition_keys=table.partition_keys,
        has_catalog_partitions=False,
    )
