"""Held commits: the next snapshot of a table, written by a Spark job or by the driver.

A publish adds it to the table (`metadata.commit`). Until then, the catalog and other readers do not know it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from pyspark.sql import Column, DataFrame, SparkSession

from mt_core.errors import CommitConflict
from mt_core.model.storage import StorageMetadata
from mt_core.model.table import TableIdentifier
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.driver.jvm_objects import own_class
from mt_core.spark.iceberg.metadata import Base
from mt_core.spark.iceberg.written_files import FileWriter

log = logging.getLogger(__name__)
TARGET = "held"
"""The name of the table in the text of a MERGE."""
_HELD, _MANIFESTS = "freshtable.iceberg.HeldTable", "freshtable.iceberg.Manifests"
COMMANDS = "freshtable.iceberg.Commands"


@dataclass(kw_only=True)
class HeldCommit:
    """One commit to `table`, a version of the table *name* at which commits are held.

    `base` is the snapshot that the commit follows, or None for a table without snapshots. The summary of the
    new snapshot contains the properties *summary*. `options` are passed to Spark's writer.
    """

    session: SparkSession
    table: Any
    name: TableIdentifier
    base: str | None
    summary: Mapping[str, str]
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def on(
        cls,
        session: SparkSession,
        name: TableIdentifier,
        metadata: StorageMetadata,
        base: str | None,
        summary: Mapping[str, str],
        options: Mapping[str, str] | None = None,
    ) -> Self:
        """Return a commit with the next number of *metadata* that follows the snapshot *base*.

        *base* is usually main. A commit on an earlier snapshot replaces what has been committed since. Raises
        CommitConflict if the table no longer has the snapshot.
        """
        read: Base = metadata.base
        if base is not None and read.snapshot(base) is None:
            raise CommitConflict(f"Snapshot {base} of {name} has expired.")
        table = own_class(session, _HELD).of(read.table, read.metadata, None if base is None else int(base))
        return cls(session=session, table=table, name=name, base=base, summary=summary, options=options or {})

    @property
    def pending(self) -> Any:
        """Iceberg's Snapshot object, or None if nothing has been committed."""
        return self.table.pending()

    @cached_property
    def files(self) -> FileWriter:
        """The driver's file writer for the table."""
        return FileWriter.of(self.session, self.table)

    @property
    def before(self) -> str:
        """The SQL name of the table at `base`."""
        return f"{self.name.sql} VERSION AS OF {self.base}"

    def append(self, rows: DataFrame) -> None:
        """Add *rows*, written by Spark."""
        options = json.dumps(dict(self.options))
        self._commands.append(rows._jdf, self.table, self.name.catalog, options, self._summary)

    def overwrite(self, rows: DataFrame, where: Column) -> None:
        """Replace the rows that meet the condition *where* by *rows*, written by Spark."""
        options = json.dumps(dict(self.options))
        self._commands.overwrite(rows._jdf, self.table, self.name.catalog, where._jc, options, self._summary)

    def merge(self, session: SparkSession, text: str) -> None:
        """Carry out a MERGE into TARGET."""
        self._commands.merge(session._jsparkSession, self.table, self.name.catalog, text, self._summary)

    def make(self, update: Any, *, removes: bool = False) -> None:
        """Commit *update*, an Iceberg update of `table` that has all its files.

        *removes* says whether the update also removes files.
        """
        own_class(self.session, _MANIFESTS).update(self.table, update, self._summary, removes)

    def repeat(self, pending: Any) -> None:
        """Commit the change of files of another *pending* snapshot of the table."""
        self.table.repeat(pending, self._summary)

    @property
    def _commands(self) -> Any:
        return own_class(self.session, COMMANDS)

    @property
    def _summary(self) -> str:
        return json.dumps(dict(self.summary))


def discard(session: SparkSession, table: Any, pending: Any) -> None:
    """Delete the files of a *pending* snapshot of *table* that will never be published.

    Nothing is deleted if the table, which is refreshed, has the snapshot. Files that cannot be deleted are
    left to the removal of orphan files.
    """
    try:
        own_class(session, _HELD).discard(table, pending)
    except SPARK_ERRORS as error:
        log.info("unpublished files of %s were not deleted: %s", table.name(), error)
