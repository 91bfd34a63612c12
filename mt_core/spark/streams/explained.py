"""EXPLAIN of streams: sources with their starts, operator states, delivery to tables, and plans.

EXPLAIN must describe what running the statement would do, and reject what running it would reject. It does
not interpret the text separately, but performs the same analysis and checks as the preparation of a job
(`read_query`, `start_of`, `check_changes`, `materialized_key`) and only prints the results. Nothing is
written and no job is created. The plan at the end is Spark's plan of the query with our operators inserted.
The operators above it have Flink's names, as in compiled plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from mt_core.base.identifiers import display_name, sql_name
from mt_core.base.plural import plural
from mt_core.model.reservation import Atomicity
from mt_core.model.stream import StreamMember, TableName
from mt_core.model.stream_plan import IcebergTarget, SinkTarget, Start
from mt_core.plans.operator_tree import changelog_mode, state_lines, tree_lines
from mt_core.plans.operators import Operator, OperatorState
from mt_core.spark.connectors.changelog import Changelog
from mt_core.spark.connectors.connector_names import ConnectorNames
from mt_core.spark.connectors.connector_tables import ConnectorSource
from mt_core.spark.ctas.table_creations import creation_of
from mt_core.spark.driver.jvm_objects import active_session, java_dataset, static_member
from mt_core.spark.queries.relations import base_relations, identifier_fields
from mt_core.spark.streams.inserts import Insert, is_insert, read_insert
from mt_core.spark.streams.materialization import KeyedInsert, materialized_key, states_of
from mt_core.spark.streams.operators.operator_nodes import sink_of
from mt_core.spark.streams.query import StreamedQuery, check_first_rows, check_streamable, read_query
from mt_core.spark.streams.sinks.created_table import CreatedTable, not_created
from mt_core.spark.streams.sinks.kinds import check_changes, keys_of, kind_of, targets_with_connector
from mt_core.spark.streams.sources.starts import rows_at, start_of
from mt_core.spark.streams.sources.streamed_text import StreamSource

_JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """How the sources of a query are read."""

    keeps_state: bool
    in_order: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """The table that an INSERT writes.

    `stored` are its columns, and `keys` the columns of its primary key.
    """

    insert: Insert
    target: SinkTarget | None
    keys: tuple[str, ...]
    stored: tuple[str, ...]

    @property
    def table(self) -> TableName:
        return self.insert.table

    def sink_states(self, changelog: Changelog, query: StreamedQuery) -> tuple[OperatorState, ...]:
        """Return the states of the table's upsert materialization; empty if there is none."""
        given = query.given if self.insert.by_name else self.insert.columns or self.stored
        keyed = KeyedInsert(table=self.table, columns=given, keys=self.keys)
        return states_of(materialized_key(keyed, changelog, query.settings), query)

    def lines(self, changelog: Changelog) -> Iterator[str]:
        check_changes(display_name(self.table), self.target, self.keys, changelog)
        by_key = (
            f"; a row replaces the one with its {', '.join(self.keys)}"
            if self.target is None and self.keys
            else ""
        )
        yield f"Sink {display_name(self.table)}: {kind_of(self.target).guarantee}{by_key}"


def explained_streams(
    session: SparkSession,
    members: Sequence[StreamMember],
    temporary: Sequence[str],
    mode: str,
    connectors: ConnectorSource,
    settings: Mapping[str, str],
) -> str:
    """Return the explanation, in *mode*, of statements that read streams.

    They are queries, CREATE TABLE … AS or INSERT statements. *settings* are the properties of the session.
    Raises the errors that running the statements would raise.
    """
    with active_session(session):
        parts = []
        for member in members:
            query = read_query(session, member, connectors, settings)
            changelog, written = query.analysed, _written(session, member, temporary, connectors)
            keys = written.keys if written is not None else ()
            sink_states = written.sink_states(changelog, query) if written is not None else ()
            keeps_state = check_streamable(query) or bool(sink_states)
            operator = (
                sink_of(written.table, changelog.operator, sink_states)
                if written and sink_states
                else changelog.operator
            )
            reading = _Reading(keeps_state=keeps_state, in_order=bool(keys))
            lines = ["== Stream ==", *_sources(session, query, changelog, connectors, reading)]
            sink = _creation(session, member, changelog) if written is None else written.lines(changelog)
            lines += [*_state(changelog, operator, keeps_state=keeps_state), *sink, ""]
            if mode != _JSON:
                lines += ["== Operators ==", *tree_lines(operator), ""]
            parts.append("\n".join([*lines, _plan(session, changelog, mode)]))
        if len(parts) == 1:
            return parts[0]
        return "\n\n".join(f"== Statement {number} ==\n{part}" for number, part in enumerate(parts, 1))


def _sources(
    session: SparkSession,
    query: StreamedQuery,
    changelog: Changelog,
    connectors: ConnectorSource,
    reading: _Reading,
) -> Iterator[str]:
    starts = {
        source.name: start_of(source, keeps_state=reading.keeps_state, in_order=reading.in_order)
        for source in query.text.sources
        if source.table is not None
    }
    check_first_rows(query, starts)
    names = ConnectorNames(session, connectors)
    for source in query.text.sources:
        if source.name in starts:
            yield f"Source {source.name}: {_start(starts[source.name], source.table)}"
        else:
            yield f"Source {source.name}: {_connector(source, names)}"
    streamed = {source.parts for source in query.text.sources}
    for parts in _as_they_stand(session, changelog, names):
        if parts not in streamed:
            yield f"Table {display_name(parts)}: as it stands at each batch"


def _state(changelog: Changelog, operator: Operator, *, keeps_state: bool) -> Iterator[str]:
    yield f"State: {'retained from batch to batch, in the checkpoint' if keeps_state else 'none'}"
    yield from state_lines(operator)
    if changelog.updates:
        yield (
            "Changes: rows retract and replace rows that were emitted before "
            f"{changelog_mode(changelog.changes)}"
        )


def _connector(source: StreamSource, names: ConnectorNames) -> str:
    if source.topic is not None:
        return "the records of its topic, from where its options begin"
    table = names.named(source.parts)
    if table is not None and table.unbounded is not None:
        return "generated rows, unbounded"
    ends = source.generated is not None or (table is not None and table.bounded is not None)
    return "generated rows, up to the last one" if ends else "each file of its folder once"


def _start(start: Start, table: object) -> str:
    if start.snapshot is None:
        return "from its first snapshot on"
    rows = rows_at(table, start.snapshot)
    return (
        f"the {rows} {plural(rows, 'row')} of snapshot {start.snapshot} first, then what is appended after it"
    )


def _as_they_stand(
    session: SparkSession, changelog: Changelog, names: ConnectorNames
) -> Iterable[tuple[str, ...]]:
    tables = (
        names.public_name(base.parts)
        for base in base_relations(session, changelog.plan)
        if base.parts is not None
    )
    return dict.fromkeys(tables)


def _creation(session: SparkSession, member: StreamMember, changelog: Changelog) -> Iterator[str]:
    """Yield the line about the table that *member* creates, or nothing if it does not create one."""
    creation = creation_of(session, member.text)
    if creation is None:
        return
    name = display_name(creation.parts)
    if creation.atomicity is not Atomicity.ATOMIC:
        raise not_created(name)
    check_changes(name, None, (), changelog)
    first = "its first batch that has rows creates it, as one commit (level 3, atomic)"
    yield f"Table {name}: {first}; then {CreatedTable.guarantee}"


def _written(
    session: SparkSession, member: StreamMember, temporary: Iterable[str], connectors: ConnectorSource
) -> _Written | None:
    """Return the table that *member* inserts into, or None if it is not an INSERT."""
    if creation_of(session, member.text) is not None or not is_insert(session, member.text):
        return None
    insert = read_insert(session, member.text)
    target = targets_with_connector(session, connectors, temporary, [insert.table]).get(insert.table)
    stored = session.table(sql_name(insert.table))
    table = None if target is not None else IcebergTarget(uuid="", keys=identifier_fields(stored))
    return _Written(insert=insert, target=target, keys=keys_of(target, table), stored=tuple(stored.columns))


def _plan(session: SparkSession, changelog: Changelog, mode: str) -> str:
    # Spark plans a stream only in a query execution that is marked as streaming.
    execution = java_dataset(session, changelog.plan).queryExecution()
    if mode == _JSON:
        return str(execution.analyzed().prettyJson())
    explain_mode = static_member(session, "org.apache.spark.sql.execution.ExplainMode.fromString")
    return str(execution.explainString(explain_mode(mode)))
