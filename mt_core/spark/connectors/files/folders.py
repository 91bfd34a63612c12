"""Folders of tables of files: where and how a stream writes its files,
as Spark has stored it or a statement says it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mt_core.spark.connectors.targets import temporary_tables
from mt_core.spark.driver.jvm_objects import scala_items
from mt_core.sql.catalog import CreateConnectorTable
from mt_core.sql.connectors.kinds import FORMATS, source_of

FILES = ("filesystem", *FORMATS)
"""The connectors of tables of files."""
_PATH = "path"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFolder:
    """Where and how the files of a table are stored."""

    folder: str
    format: str
    options: Mapping[str, str]
    partition_keys: tuple[str, ...]
    keeps_partitions: bool


def stored_folder(table: Any) -> FileFolder:
    """Return the folder of a table as Spark's own catalog has it."""
    properties = table.storage().properties()
    keys = map(str, scala_items(properties.keys().toSeq()))
    return FileFolder(
        folder=str(table.location().toString()).rstrip("/"),
        format=str(table.provider().get()).lower(),
        options={key: str(properties.apply(key)) for key in keys if key.lower() != _PATH},
        partition_keys=tuple(map(str, scala_items(table.partitionColumnNames()))),
        keeps_partitions=bool(table.tracksPartitionsInCatalog()),
    )


def temporary_folders(temporary: Iterable[str]) -> dict[str, FileFolder]:
    """Return the folder of each table of files that the statements *temporary* create,
    by its name in lower case.

    A table without a path has none.
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
        keeps_partitions=False,
    )
