"""The kinds of sinks: the sink class for each connector, and the sinks of a job's tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import SparkSession

from mt_core.base.identifiers import display_name, sql_name
from mt_core.errors import Unsupported
from mt_core.model.stream import StreamDefinition, TableName
from mt_core.model.stream_plan import IcebergTarget, SinkTarget
from mt_core.model.table import TableIdentifier
from mt_core.plans.operators import ADDS, RowKind
from mt_core.spark.connectors.changelog import Changelog
from mt_core.spark.connectors.connector_names import ConnectorNames
from mt_core.spark.connectors.connector_tables import ConnectorSource
from mt_core.spark.connectors.files.folders import FILES, temporary_folders
from mt_core.spark.connectors.files.sink import FileSink
from mt_core.spark.connectors.jdbc.keyed_sink import KeyedJdbcSink
from mt_core.spark.connectors.jdbc.sink import JdbcSink
from mt_core.spark.connectors.kafka.sink import KafkaSink, UpsertKafkaSink
from mt_core.spark.connectors.repeating import RepeatingSink
from mt_core.spark.connectors.rowless import BlackholeSink, PrintSink
from mt_core.spark.connectors.sink import Sink, SinkAttempt
from mt_core.spark.connectors.targets import temporary_tables
from mt_core.spark.driver.conf import SESSION_CATALOG
from mt_core.spark.driver.jvm_objects import active_session, spark_identifier, state_of
from mt_core.spark.streams.sinks.created_table import CreatedTable
from mt_core.spark.streams.sinks.iceberg import IcebergSink
from mt_core.sql.connectors.kinds import KAFKA, UPSERT_KAFKA

JDBC = "jdbc"
KINDS: Mapping[str, type[FileSink | RepeatingSink]] = {
    **dict.fromkeys(FILES, FileSink),
    JDBC: JdbcSink,
    KAFKA: KafkaSink,
    UPSERT_KAFKA: UpsertKafkaSink,
    "print": PrintSink,
    "blackhole": BlackholeSink,
}
"""The sink class of each connector that accepts streams; Iceberg tables have no connector."""
KEYED_KINDS: Mapping[str, type[RepeatingSink]] = {JDBC: KeyedJdbcSink}
"""The sink class of each connector that has a different one for tables with a primary key."""


def kind_of(target: SinkTarget | None) -> type[Sink]:
    """Return the sink class of a target, or of an Iceberg table if *target* is None."""
    return IcebergSink if target is None else _kind_with_connector(target)


def keys_of(target: SinkTarget | None, table: IcebergTarget | None) -> tuple[str, ...]:
    """Return the key columns of a table whose written rows replace others; empty if it is append-only.

    The table is *target* or, if that is None, the Iceberg *table*.
    """
    if target is None:
        return () if table is None else table.keys
    return target.keys if _kind_with_connector(target).accepts_changelog else ()


def check_changes(table: str, target: SinkTarget | None, keys: Sequence[str], rows: Changelog) -> None:
    """Raise Unsupported if *rows* contain updates or deletes and *table* is append-only.

    The table is *target* or, if that is None, an Iceberg table with the primary key *keys*.
    """
    accepts_changelog = bool(keys) if target is None else _kind_with_connector(target).accepts_changelog
    if accepts_changelog or not rows.updates:
        return
    operator = next(each for each in rows.operator.all() if each.changes != ADDS)
    kinds = ", ".join(kind.value for kind in RowKind if kind in operator.changes)
    raise Unsupported(
        f"Table {table} only accepts new rows, and the query also updates and deletes rows: "
        f"{operator.type} produces {kinds} ({operator.description}). "
        "Create the table with a PRIMARY KEY (…) NOT ENFORCED, in an Iceberg catalog such as lake or "
        "with the connector 'jdbc' or 'upsert-kafka'; keep the result as a materialized table; "
        "or run the statement in batch mode: SET 'execution.runtime-mode' = 'batch'."
    )


def targets_with_connector(
    session: SparkSession, source: ConnectorSource, temporary: Iterable[str], tables: Iterable[TableName]
) -> dict[TableName, SinkTarget]:
    """Return the targets of those *tables* that have a connector to which streams can write.

    The statements in *temporary* create the tables with one-part names.
    """
    temporary = tuple(temporary)
    of_session, targets = _temporary_connectors(temporary), dict[TableName, SinkTarget]()
    keys = {name: table.all_keys for name, table in temporary_tables(temporary).items()}
    with active_session(session):
        names = ConnectorNames(session, source)
        for table in tables:
            named_table = names.named(table) if len(table) > 1 else None
            if len(table) == 1:
                connector = of_session.get(table[0].lower(), "")
            else:
                connector = _provider(session, table) if named_table is None else named_table.connector
            if connector in KINDS:
                targets[table] = SinkTarget(
                    table=table,
                    connector=connector,
                    stored_name=sql_name(table) if named_table is None else named_table.stored_name,
                    keys=named_table.keys
                    if named_table is not None
                    else keys.get(table[0].lower(), ())
                    if len(table) == 1
                    else (),
                )
    return targets


def planned_targets(definition: StreamDefinition) -> dict[TableName, SinkTarget]:
    """Return the result of `targets_with_connector` at the creation of the job."""
    return {target.table: target for target in definition.planned.sinks}


def sinks_of(attempt: SinkAttempt) -> dict[TableName, Sink]:
    """Return the sink of each table that a job writes."""
    created, targets = created_by(attempt), planned_targets(attempt.definition)
    tables = attempt.definition.planned.tables
    sinks = dict[TableName, Sink]()
    for table in attempt.definition.writes:
        if created is not None:
            sinks[table] = created
        elif table in targets:
            sinks[table] = _kind_with_connector(targets[table])(targets[table], attempt)
        else:
            identifier = TableIdentifier(table[0], table[1:-1], table[-1])
            planned = tables[display_name(table)]
            sinks[table] = IcebergSink(identifier, attempt, planned.uuid, planned.keys)
    return sinks


def created_by(attempt: SinkAttempt) -> CreatedTable | None:
    """Return the sink of the table that a job creates, or None if it does not create one."""
    reservation = attempt.definition.creates
    return None if reservation is None else CreatedTable(reservation, attempt)


def _kind_with_connector(target: SinkTarget) -> type[FileSink | RepeatingSink]:
    kind = KINDS[target.connector]
    return KEYED_KINDS.get(target.connector, kind) if target.keys else kind


def _temporary_connectors(temporary: Iterable[str]) -> dict[str, str]:
    """Return the connectors of the tables that the statements in *temporary* create, by lower-case name.

    Tables over files whose folder is not set are omitted.
    """
    temporary = tuple(temporary)
    tables, folders = temporary_tables(temporary), temporary_folders(temporary)
    return {
        name: table.connector
        for name, table in tables.items()
        if table.connector is not None and (table.connector not in FILES or name in folders)
    }


def _provider(session: SparkSession, table: TableName) -> str:
    """Return the data source of a table in Spark's own catalog, or an empty string for any other table."""
    if table[0] != SESSION_CATALOG or len(table) < 3:
        return ""
    plugin = state_of(session).catalogManager().catalog(SESSION_CATALOG)
    return str(plugin.loadTable(spark_identifier(session, table[1:])).properties().get("provider"))
