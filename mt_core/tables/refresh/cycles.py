"""Cycles: materialized tables that would read themselves, directly or through views and other tables."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from mt_core.errors import DefinitionInvalid, MtError
from mt_core.model.table import TableIdentifier
from mt_core.tables.engine import SourceReader, SourceVector
from mt_core.tables.registry import Registry, in_transaction
from mt_core.tables.runs.upstream import materialized
from mt_core.tables.services import query_of

Path = tuple[str, ...]


def refuse_cycle(
    registry: Registry, sources: SourceReader, identifier: TableIdentifier, vector: SourceVector
) -> None:
    """Raise DefinitionInvalid if the sources in *vector* are, or indirectly read, the table itself."""
    start = str(identifier)
    paths = [(start, *path) for path in _paths_of(vector)]
    seen: set[str] = set()
    while paths:
        path = paths.pop(0)
        name = path[-1]
        if name == start:
            raise DefinitionInvalid(
                f"{identifier} would read itself: {' reads '.join(path)}; "
                "a refresh would compute its rows from those of the previous one. "
                "Leave one of them out of the query or view that reads it, or read the tables below."
            )
        if name not in seen:
            seen.add(name)
            paths += [(*path, *below) for below in _paths_below(registry, sources, name)]


def refuse_new_cycle(
    registry: Registry, sources: SourceReader, identifier: TableIdentifier, vector: SourceVector
) -> None:
    """Raise DefinitionInvalid like `refuse_cycle`, for a query that CREATE or ALTER has accepted.

    Since then, only the replacement of a view can have created a cycle.
    """
    if any(len(path) > 1 for path in _paths_of(vector)):
        refuse_cycle(registry, sources, identifier, vector)


def _paths_of(vector: SourceVector) -> Iterable[Path]:
    return (source.path for source in vector.sources if source.path)


def _paths_below(registry: Registry, sources: SourceReader, name: str) -> Iterable[Path]:
    """Return the paths to the sources of the materialized table *name*, or nothing for any other table.

    These are the sources that it reads now, or those at its definition if the query cannot be analysed.
    """
    table = in_transaction(registry, lambda tx: materialized(tx, name))
    if table is None:
        return ()
    with suppress(MtError):  # the query cannot be analysed now
        return _paths_of(sources.read_vector(query_of(table.definition)))
    return ((source,) for source in table.definition.sources)
