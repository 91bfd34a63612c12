"""The table that a stream creates: its first batch with rows creates or replaces it, later batches append.

The first batch is a single commit.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from mt_core.base.identifiers import display_name
from mt_core.errors import CatalogUnsupported, Unsupported
from mt_core.model.catalog import CatalogAbilities
from mt_core.model.fence import Mark
from mt_core.model.reservation import Reservation
from mt_core.model.storage import BATCH, JOB_ID
from mt_core.model.stream import StreamDefinition, TableName
from mt_core.model.table import TableIdentifier
from mt_core.spark.catalogs.namespaces import check_namespace
from mt_core.spark.connectors.sink import PUBLISHED, Check, SinkAttempt
from mt_core.spark.connectors.stream_errors import StreamBroken
from mt_core.spark.ctas.table_creations import Facts, filled, settle
from mt_core.spark.driver.jvm_objects import active_session
from mt_core.spark.iceberg.catalog_probe import TableCatalogs
from mt_core.spark.streams.checkpoints import Checkpoints
from mt_core.spark.streams.sinks.iceberg import IcebergSink, target_of


class CreatedTable(IcebergSink):
    """One attempt of a job to write the table that it creates.

    The table itself shows whether the job has published it, because the job's mark is in the same commit as
    the rows of its first batch.
    """

    def __init__(self, reservation: Reservation, attempt: SinkAttempt) -> None:
        name = reservation.table
        super().__init__(TableIdentifier(name[0], name[1:-1], name[-1]), attempt)
        self._definition, self._reservation = attempt.definition, reservation
        self._table_catalogs = attempt.table_catalogs

    def open(self) -> None:
        """Take over the table, or remove the files of an earlier attempt that did not publish it.

        Raises StreamBroken if the table cannot be created.
        """
        if self.rows() is not None:
            super().open()
            # Record this before Spark commits the batch. Until it is recorded, a repeated batch creates the
            # table again if it was dropped.
            Checkpoints(self._session).note_created(self._definition.checkpoint)
            return
        name = display_name(self._reservation.table)
        if Checkpoints(self._session).has_created(self._definition.checkpoint):
            raise StreamBroken(f"Table {name}, which the job created, was dropped. Create it again.")
        if self._exists() and not self._definition.replaces:
            raise StreamBroken(
                f"Table {name} was created by another statement before the first batch of the job."
            )
        settle(self._session, self._reservation)

    def publish(self, rows: DataFrame, batch: int, check: Check) -> int:
        if self.batch is not None:
            return super().publish(rows, batch, check)
        check("write")
        if rows.isEmpty():
            # Spark requires that the state of a batch be read.
            rows.write.format("noop").mode("overwrite").save()
            return 0
        mark = Mark(number=self._writer.number, published=batch)
        facts = Facts(
            properties=self._writer.properties_of(mark), summary={JOB_ID: self._job_id, BATCH: str(batch)}
        )
        [member] = self._definition.members
        with active_session(rows.sparkSession):
            filled(rows.sparkSession, member.text, self._reservation, rows, facts)
        check(PUBLISHED)
        # IF NOT EXISTS has no effect if another statement created the table first; open() detects that.
        self.open()
        return self.rows() or 0

    def discard(self, *, drop: bool) -> bool:
        """Delete the files that the job wrote and, with *drop*, the table that it published. May be
        repeated.

        Return whether everything was removed. Without *drop*, a published table remains unchanged.
        """
        if self.rows() is not None:
            if not drop:
                return False
            # In a folder that the job does not own, delete only the files of the table.
            self._table_catalogs.drop(self.table, self._load(), with_files=self._reservation.folder is None)
        settle(self._session, self._reservation)
        return True

    def _exists(self) -> bool:
        catalog = self._catalogs.iceberg_catalog(self.table.catalog)
        return bool(catalog.tableExists(self._catalogs.iceberg_identifier(self.table)))


def check_creation(catalogs: TableCatalogs, definition: StreamDefinition, table: TableName) -> bool:
    """Return whether *table*, which a stream will create, replaces an existing table.

    Raises Unsupported if the first batch cannot create the table, CatalogUnsupported with what its catalog
    lacks, and TableProtected for a materialized table.
    """
    name = display_name(table)
    if definition.restored_from is not None:
        raise Unsupported(
            f"A job continues from its savepoint, so table {name} would only have the rows after it; "
            "RESET 'execution.savepoint.path', or "
            "INSERT INTO the table that the job of the savepoint wrote."
        )
    identifier = TableIdentifier(table[0], table[1:-1], table[-1])
    try:
        catalogs.catalogs.iceberg_catalog(table[0])
    except CatalogUnsupported as cause:
        raise not_created(name) from cause
    check_namespace(catalogs.catalogs.session, table)
    abilities = catalogs.check(identifier)
    if not abilities.creates_with_snapshot:
        raise Unsupported(
            f"A stream cannot create {name}: catalog {table[0]} does not create a table together with its "
            "first rows. CREATE TABLE first and INSERT INTO it."
        )
    if not _has_own_folder(definition, abilities):
        raise Unsupported(
            f"Table {name}: LOCATION does not go with a stream, which needs a folder of its own until its "
            "first batch; leave it out, or CREATE TABLE first and INSERT INTO it."
        )
    return target_of(catalogs.catalogs, identifier) is not None


def _has_own_folder(definition: StreamDefinition, abilities: CatalogAbilities) -> bool:
    """Return whether the table's folder belongs to the job, or to the table because its server chose it."""
    reservation = definition.creates
    if reservation is None or (reservation.folder is None and abilities.chooses_locations):
        return True
    return (reservation.folder or "").endswith(reservation.job_id)


def not_created(name: str) -> Unsupported:
    """Return the error for a table that cannot be created by the first batch of a stream."""
    return Unsupported(
        f"A stream cannot create {name}: only an Iceberg table of a catalog of type jdbc or rest, such as "
        "lake, appears with its first batch. Name one of these, or CREATE TABLE first and INSERT INTO it."
    )
