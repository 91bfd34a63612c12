"""Preparation of a stream: analyses its statements, resolves its tables and decides its plan. Nothing runs.

Each statement is analysed once, in a separate session. A later start has only the definition, and an
analysis in the user's session would hide what the definition lacks. The columns of the query, its operators
and its sources all come from this one analysis. So does the check that the table accepts the columns, which
analyses the INSERT on top of the analysed query.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from mt_core.base.identifiers import display_name
from mt_core.errors import CatalogUnsupported, TableNotFound, Unsupported
from mt_core.model.stream import StreamDefinition, TableName
from mt_core.model.stream_plan import IcebergTarget, MemberPlan, StreamPlan
from mt_core.model.table import TableIdentifier
from mt_core.plans.compiled import Topology
from mt_core.spark.catalogs.storage_catalogs import storage_missing
from mt_core.spark.connectors.connector_names import ConnectorNames
from mt_core.spark.connectors.connector_tables import ConnectorSource
from mt_core.spark.driver.conf import SESSION_CATALOG
from mt_core.spark.driver.jvm_objects import active_session
from mt_core.spark.iceberg.catalog_probe import TableCatalogs
from mt_core.spark.queries.relations import base_relations
from mt_core.spark.streams.materialization import KeyedInsert, materialized_key
from mt_core.spark.streams.member_rows import MemberRows
from mt_core.spark.streams.query import (
    MemberQuery,
    check_columns,
    check_first_rows,
    check_streamable,
    sources_of,
)
from mt_core.spark.streams.savepoints import restored
from mt_core.spark.streams.sinks.created_table import check_creation
from mt_core.spark.streams.sinks.iceberg import target_of
from mt_core.spark.streams.sinks.kinds import check_changes, keys_of, kind_of, targets_with_connector
from mt_core.spark.streams.sources.order import names_of
from mt_core.spark.streams.sources.starts import start_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedStream:
    """A `definition` with its plan, and its members, analysed in a session of their own.

    `order` contains the position of each source in the savepoint from which the stream starts. It is None if
    the positions are the same.
    """

    definition: StreamDefinition
    members: Sequence[MemberQuery]
    order: Sequence[int] | None = None

    def topology(self, session: SparkSession) -> Topology:
        """Return the operators of each member with the TTLs of their states."""
        rows = MemberRows(members=self.members, plans=self.definition.planned.members)
        sinks = rows.sinks([member.analysed for member in self.members])
        return Topology(spark_version=str(session.version), operators=tuple(sinks))


def prepared_stream(
    session: SparkSession,
    definition: StreamDefinition,
    members: Sequence[MemberQuery],
    catalogs: TableCatalogs,
    connectors: ConnectorSource,
) -> PreparedStream:
    """Return *definition*, whose *members* were read in *session*, with the plan of its job.

    Raises Unsupported and DefinitionInvalid, whose messages say what to do instead, TableNotFound, and
    Spark's errors.
    """
    writes = tuple(dict.fromkeys(member.insert.table for member in members))
    creates = definition.creates is not None and members[0].insert.created
    targets = targets_with_connector(session, connectors, definition.temporary, () if creates else writes)
    replaces = creates and check_creation(catalogs, definition, writes[0])
    tables = {
        display_name(table): _target(catalogs, table, definition.keeps)
        for table in writes
        if table not in targets and not creates
    }
    keys = [
        keys_of(targets.get(each.insert.table), tables.get(display_name(each.insert.table)))
        for each in members
    ]
    for written, member, key in zip(definition.members, members, keys, strict=True):
        target = targets.get(member.insert.table)
        if kind_of(target).in_spark:
            check_columns(member, written.text, connectors)
        check_changes(display_name(member.insert.table), target, key, member.analysed)
    reads = _reads(session, members, connectors)
    _check_apart(reads, writes)
    with active_session(session):
        plans = tuple(_member_plan(member, key) for member, key in zip(members, keys, strict=True))
        stateful = [check_streamable(member) for member in members]
        keeps_state = any(stateful) or any(plan.materialized for plan in plans)
        starts = {
            source.name: start_of(source, keeps_state=keeps_state, in_order=any(keys))
            for source in sources_of(members)
            if source.table is not None
        }
        for member in members:
            check_first_rows(member, starts)
    plan = StreamPlan(
        starts=starts,
        sources=names_of([member.analysed.plan for member in members]),
        members=plans,
        sinks=tuple(targets.values()),
        tables=tables,
    )
    order = None
    if definition.restored_from is not None:
        read = {source.name: source.table for source in sources_of(members)}
        plan, order = restored(session, definition.restored_from, plan, read, keeps_state=keeps_state)
    planned = replace(definition, plan=plan, reads=reads, writes=writes, replaces=replaces)
    return PreparedStream(definition=planned, members=members, order=order)


def _member_plan(member: MemberQuery, keys: Sequence[str]) -> MemberPlan:
    """Return the plan of an INSERT into a table with the primary key *keys*."""
    columns = member.columns()
    insert = KeyedInsert(table=member.insert.table, columns=columns, keys=keys)
    key = materialized_key(insert, member.analysed, member.settings)
    return MemberPlan(columns=columns, given=member.given, materialized=key)


def _check_apart(reads: Sequence[TableName], writes: Sequence[TableName]) -> None:
    for table in writes:
        if _folded(table) in map(_folded, reads):
            raise Unsupported(
                f"The statement reads {display_name(table)}, which it writes: "
                "as a stream it would read its own rows; write another table."
            )


def _reads(
    session: SparkSession, members: Sequence[MemberQuery], source: ConnectorSource
) -> tuple[TableName, ...]:
    """Return all tables that the members read, as streams or as batches."""
    names: dict[TableName, None] = {}
    with active_session(session):
        connectors = ConnectorNames(session, source)
        for member in members:
            found: Iterable[TableName | None] = (
                *(source.parts for source in member.text.sources),
                *(base.parts for base in base_relations(session, member.analysed.plan)),
            )
            names |= dict.fromkeys(connectors.public_name(parts) for parts in found if parts is not None)
    return tuple(names)


def _target(catalogs: TableCatalogs, table: TableName, keeps: str | None) -> IcebergTarget:
    """Return a target table, which may be the materialized table with the id *keeps*.

    Raises TableNotFound, StorageMissing for the materialized table, Unsupported if a stream cannot write
    each batch to the table exactly once, and CatalogUnsupported with what its catalog lacks for that.
    """
    found, identifier = None, _identifier(table)
    try:
        is_iceberg = len(table) > 2 and table[0] != SESSION_CATALOG
        if is_iceberg:
            found = target_of(catalogs.catalogs, identifier, keeps)
    except CatalogUnsupported:
        is_iceberg = False
    if not is_iceberg:
        raise Unsupported(
            f"{display_name(table)} cannot be written by a stream, which publishes each batch once by "
            "compare-and-set; INSERT into an Iceberg table of a catalog of type jdbc or rest, such as lake."
        )
    if found is None:
        raise _no_table(identifier) if keeps is None else storage_missing(identifier)
    catalogs.check(identifier)
    return found


def _folded(table: TableName) -> TableName:
    """Return a table name in comparable form. The names of temporary tables are case-insensitive."""
    return tuple(map(str.lower, table)) if len(table) == 1 else table


def _no_table(table: TableIdentifier) -> TableNotFound:
    return TableNotFound(
        f"There is no table {table}; create it by CREATE TABLE, or with the stream that fills it by CREATE "
        f"TABLE {table} AS SELECT ….",
        table=str(table),
    )


def _identifier(table: TableName) -> TableIdentifier:
    return TableIdentifier(table[0], table[1:-1], table[-1])
