"""EXPLAIN of streams: where their sources begin, what they keep from batch to batch, how their rows arrive, and their plans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pyspark.sql import SparkSession

from mt_core.identifiers import display_name, sql_name
from mt_core.model.reservation import Atomicity
from mt_core.model.stream import StreamMember
from mt_core.plans.operator_tree import changelog_mode, state_lines, tree_lines
from mt_core.spark.catalogs.connector_tables import ConnectorSource
from mt_core.spark.driver.jvm_objects import active_session, java_dataset, static_member
from mt_core.spark.queries.connector_names import ConnectorNames
from mt_core.spark.queries.relations import base_relations, identifier_fields
from mt_core.spark.storage.table_creations import creation_of
from mt_core.spark.streams.inserts import is_insert, read_insert
from mt_core.spark.streams.operators.changelog import Changelog
from mt_core.spark.streams.query import StreamedQuery, check_first_rows, check_streamable, read_query
from mt_core.spark.streams.sinks.created_table import CreatedTable, not_created
from mt_core.spark.streams.sinks.kinds import check_changes, kind_of, targets_with_connector
from mt_core.spark.streams.sources.starts import Start, rows_at, start_of
from mt_core.spark.streams.sources.streamed_text import StreamSource

_JSON = "json"


def explained_streams(
    session: SparkSession,
    members: Sequence[StreamMember],
    temporary: Sequence[str],
    mode: str,
    connectors: ConnectorSource,
    settings: Mapping[str, str],
) -> str:
    """Return the explanation of queries, tables of these or INSERT statements that read streams, in a *mode* of EXPLAIN or as json.

    *settings* are the properties of the session. Raises what running them would.
    """
    with active_session(session):
        parts = []
        for member in members:
            query = read_query(session, member, connectors, settings)
            keeps_state, changelog = check_streamable(query), query.changelog({})
            lines = ["== Stream ==", *_sources(session, query, changelog, connectors, keeps_state=keeps_state)]
            sink = _sink(session, member, temporary, connectors, changelog)
            lines += [*_state(changelog, keeps_state=keeps_state), *sink, ""]
            if mode != _JSON:
                lines += ["== Operators ==", *tree_lines(changelog.operator), ""]
            parts.append("\n".join([*lines, _plan(session, changelog, mode)]))
        if len(parts) == 1:
            return parts[0]
        return "\n\n".join(f"== Statement {number} ==\n{part}" for number, part in enumerate(parts, 1))


def _sources(
    session: SparkSession, query: StreamedQuery, changelog: Changelog, connectors: ConnectorSource, *, keeps_state: bool
) -> Iterator[str]:
    starts = {
        source.name: start_of(source, keeps_state=keeps_state)
        for source in query.text.sources
        if source.table is not None
    }
    check_first_rows(query, {name: start.to_json() for name, start in starts.items()})
    names = ConnectorNames(session, connectors)
    for source in query.text.sources:
        if source.name in starts:
            yield f"Source {source.name}: {_start(starts[source.name], source.table)}"
        else:
            yield f"Source {source.name}: {_connector(source, names)}"
    streamed = {source.parts for source in query.text.sources}
    for parts in _as_they_stand(changelog, names):
        if parts not in streamed:
            yield f"Table {display_name(parts)}: as it stands at each batch"


def _state(changelog: Changelog, *, keeps_state: bool) -> Iterator[str]:
    yield f"State: {'kept from batch to batch, in the checkpoint' if keeps_state else 'none'}"
    yield from state_lines(changelog.operator)
    if changelog.updates:
        yield f"Changes: rows take back and replace others that were given before {changelog_mode(changelog.changes)}"


def _connector(source: StreamSource, names: ConnectorNames) -> str:
    if source.topic is not None:
        return "the records of its topic, from where its options begin"
    table = names.named(source.parts)
    return (
        "generated rows, without end"
        if table is not None and table.unbounded is not None
        else "each file of its folder once"
    )


def _start(start: Start, table: object) -> str:
    if start.snapshot is None:
        return "from its first snapshot on"
    return (
        f"the {rows_at(table, start.snapshot)} rows of snapshot {start.snapshot} first, then what is appended after it"
    )


def _as_they_stand(changelog: Changelog, names: ConnectorNames) -> Iterable[tuple[str, ...]]:
    found = (names.public_name(base.parts) for base in base_relations(changelog.plan) if base.parts is not None)
    return dict.fromkeys(found)


def _sink(
    session: SparkSession,
    member: StreamMember,
    temporary: Iterable[str],
    connectors: ConnectorSource,
    changelog: Changelog,
) -> Iterator[str]:
    creation = creation_of(session, member.text)
    if creation is not None:
        name = display_name(creation.parts)
        if creation.atomicity is not Atomicity.ATOMIC:
            raise not_created(name)
        check_changes(name, None, (), changelog)
        first = "its first batch that has rows creates it, as one commit (level 3, atomic)"
        yield f"Table {name}: {first}; then {CreatedTable.guarantee}"
        return
    if not is_insert(session, member.text):
        return
    table = read_insert(session, member.text).table
    target = targets_with_connector(session, connectors, temporary, [table]).get(table)
    keys = identifier_fields(session.table(sql_name(table))) if target is None else target.keys
    check_changes(display_name(table), target, keys, changelog)
    by_key = f"; a row replaces the one with its {', '.join(keys)}" if target is None and keys else ""
    yield f"Sink {display_name(table)}: {kind_of(target).guarantee}{by_key}"


def _plan(session: SparkSession, changelog: Changelog, mode: str) -> str:
    # Spark plans a stream for a plan that is known to be one, and refuses any other.
    execution = java_dataset(session, changelog.plan).queryExecution()
    if mode == _JSON:
        return str(execution.analyzed().prettyJson())
    explain_mode = static_member(session, "org.apache.spark.sql.execution.ExplainMode.fromString")
    return str(execution.explainString(explain_mode(mode)))
