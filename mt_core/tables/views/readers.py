"""Readers: the materialized tables whose queries read a given table, directly or through views."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial

from mt_core.errors import MtError
from mt_core.model.run import RunStatus
from mt_core.model.storage import PIN
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.tables.pages import on_each_page
from mt_core.tables.registry import Registry, Transaction
from mt_core.tables.runs.upstream import read_source
from mt_core.tables.services import TableServices, query_of

_RECENT = 5


def readers_of(services: TableServices, identifier: TableIdentifier) -> list[TableIdentifier]:
    """Return the other materialized tables that read *identifier*, sorted by name.

    The sources of a table are those that its latest refresh read. If it has not been refreshed since it was
    created or altered, its query is analysed; without Spark, the sources in its definition are used.
    """
    recorded = on_each_page(services.registry, partial(_with_sources, identifier=identifier))
    return [
        table.identifier
        for table, sources in recorded
        if any(_is(each, identifier) for each in (_analysed(services, table) if sources is None else sources))
    ]


def recorded_readers(registry: Registry, names: Collection[tuple[str, ...]]) -> list[TableIdentifier]:
    """Return the materialized tables whose definition or latest refresh read one of *names*, sorted by name.

    *names* are tables or views.
    """

    def readers(tx: Transaction, tables: Iterable[MaterializedTable]) -> list[TableIdentifier]:
        return [
            table.identifier
            for table in tables
            if any(read_source(each)[0] in names for each in _read(tx, table))
        ]

    return on_each_page(registry, readers)


def _read(tx: Transaction, table: MaterializedTable) -> set[str]:
    runs = tx.runs.newest(table_id=table.table_id, limit=_RECENT)
    vector = next((run.vector for run in runs if run.vector), ())
    return {*table.definition.sources, *(str(source["name"]) for source in vector)}


def versions_read(services: TableServices, identifier: TableIdentifier) -> frozenset[str]:
    """Return the versions of *identifier* that other materialized tables show.

    The next refreshes of these tables continue from these versions.
    """
    return frozenset(on_each_page(services.registry, partial(_versions, identifier=identifier)))


def _versions(tx: Transaction, tables: Iterable[MaterializedTable], identifier: TableIdentifier) -> list[str]:
    name = str(identifier)
    readers = [
        table for table in tables if table.identifier != identifier and name in table.definition.sources
    ]
    runs = [
        run
        for table in readers
        # The rows of a table are from its last successful run; later runs may have been skipped or may have
        # failed.
        for statuses in (None, {RunStatus.SUCCEEDED})
        for run in tx.runs.newest(table_id=table.table_id, statuses=statuses, limit=_RECENT)
    ]
    read = [source for run in runs for source in run.vector or () if _is(source["name"], identifier)]
    # If the query names a version, the source has no pin.
    versions = [
        (source["version"] or {}).get(PIN, (source["version"] or {}).get("snapshot")) for source in read
    ]
    # If the query names a branch, a time or a deleted tag, the version is a metadata file, which no expiry
    # deletes.
    return [str(version) for version in versions if str(version).isdigit()]


def _is(source: str, identifier: TableIdentifier) -> bool:
    """Return whether a source of a vector is this table, at any version."""
    return read_source(source)[0] == identifier.parts


def _with_sources(
    tx: Transaction, tables: Iterable[MaterializedTable], identifier: TableIdentifier
) -> list[tuple[MaterializedTable, set[str] | None]]:
    sources: list[tuple[MaterializedTable, set[str] | None]] = []
    for table in tables:
        if table.identifier != identifier:
            runs = tx.runs.newest(table_id=table.table_id, limit=_RECENT) if table.rebuild_due is None else ()
            vector = next((run.vector for run in runs if run.vector), None)
            sources.append((table, None if vector is None else {str(source["name"]) for source in vector}))
    return sources


def _analysed(services: TableServices, table: MaterializedTable) -> set[str]:
    try:
        return {
            source.name for source in services.engine.sources.read_vector(query_of(table.definition)).sources
        }
    except MtError:
        return set(table.definition.sources)
