"""Sources of a stream: the relations of a query that are read as streams, and the SQL that reads them.

Spark cannot decide which relations are read as streams: users would have to write its STREAM keyword, and
the same query must also be readable as a batch at fixed snapshots. The text of the query is therefore cut
at each relation that is read as a stream (`Reading`), with views expanded in place. It is rendered again
for each purpose: with STREAM and the reader options, or with VERSION AS OF. The rest of the text remains
exactly as the user wrote it.

A relation remains unchanged if it is a CTE, selects a version, has the hint 'streaming' = 'false', or is
neither an Iceberg table nor a table with a streaming connector. The depth of view expansion is limited, and
cycles are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from mt_core.base.identifiers import display_name, quote, sql_name
from mt_core.errors import Unsupported
from mt_core.model.stream import SourceHint
from mt_core.spark.catalogs.columns import columns_of
from mt_core.spark.connectors.connector_names import ConnectorNames, topic_of
from mt_core.spark.connectors.connector_tables import ConnectorSource, no_connectors
from mt_core.spark.connectors.files.temporary_files import FileView, file_view
from mt_core.spark.connectors.generated import GeneratedTable, generated_table
from mt_core.spark.connectors.kafka.source import TopicTable, stream_name, topic_table
from mt_core.spark.connectors.relations import FILES, stream_of
from mt_core.spark.driver.conf import SESSION_CATALOG
from mt_core.spark.driver.jvm_objects import spark_identifier, state_of
from mt_core.spark.queries.relations import ParsedQuery, RelationName, parse
from mt_core.spark.queries.views import Names, View
from mt_core.spark.streams.sources.past_rows import past_rows

STREAMING = "streaming"
MAX_VIEW_DEPTH = 50
_WATERMARK = re.compile(r"(?:\s|/\*.*?\*/|--[^\n]*\n)*WATERMARK\b", re.IGNORECASE | re.DOTALL)
_PLAIN_TABLE = "org.apache.iceberg.BaseTable"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSource:
    """A table that a query reads as a stream.

    `table` is Iceberg's table, `topic` a Kafka table, `files` a temporary table over files, and `generated` a
    temporary table with a limited number of generated rows. `reading` is the relation that replaces the
    table's name, or empty if the name itself is read.
    """

    parts: tuple[str, ...]
    table: Any = field(default=None, repr=False, compare=False)
    reading: str = field(default="", repr=False, compare=False)
    topic: TopicTable | None = field(default=None, repr=False, compare=False)
    files: FileView | None = field(default=None, repr=False, compare=False)
    generated: GeneratedTable | None = field(default=None, repr=False, compare=False)

    @property
    def name(self) -> str:
        return display_name(self.parts)

    @property
    def view(self) -> str:
        """The temporary view that represents the stream during analysis; empty if there is none."""
        if self.topic is not None:
            return stream_name(self.topic)
        view = self.files or self.generated
        return "" if view is None else view.stream_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A place in SQL that reads a source as a stream; `aliased` means that an alias follows."""

    source: StreamSource
    aliased: bool


Piece = str | Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedText:
    """SQL, cut where it reads streams, with views expanded in place of their names.

    `reads_endless` means that its relations include an unbounded temporary table, which is already a
    stream.
    """

    pieces: tuple[Piece, ...]
    reads_endless: bool = False

    @property
    def is_stream(self) -> bool:
        """True if the query certainly reads a stream."""
        return self.reads_endless or any(isinstance(piece, Reading) for piece in self.pieces)

    @property
    def sources(self) -> tuple[StreamSource, ...]:
        """The sources in the order of the text, without duplicates."""
        sources = [piece.source for piece in self.pieces if isinstance(piece, Reading)]
        return tuple({source.name: source for source in sources}.values())

    @property
    def topics(self) -> tuple[TopicTable, ...]:
        """The Kafka sources."""
        return tuple(source.topic for source in self.sources if source.topic is not None)

    @property
    def files(self) -> tuple[FileView, ...]:
        """The sources that are temporary tables over files."""
        return tuple(source.files for source in self.sources if source.files is not None)

    @property
    def generated(self) -> tuple[GeneratedTable, ...]:
        """The sources that are temporary tables with a limited number of generated rows."""
        return tuple(source.generated for source in self.sources if source.generated is not None)

    def streaming(self, options: Mapping[str, Mapping[str, str]]) -> str:
        """Return the SQL that reads its sources as streams.

        *options* contains the reader options of each source, by source name.
        """
        return "".join(_streaming(piece, options) for piece in self.pieces)

    def pinned(self, session: SparkSession, snapshots: Mapping[str, str]) -> str:
        """Return the text that reads its sources at *snapshots*. Sources without a snapshot are empty."""
        return "".join(_pinned(session, piece, snapshots) for piece in self.pieces)


def read_sources(
    session: SparkSession,
    text: str,
    plan: Any,
    hints: Iterable[SourceHint] = (),
    connectors: ConnectorSource = no_connectors,
    *,
    endless_only: bool = False,
) -> StreamedText:
    """Return *text*, whose parsed query is *plan*, with its sources; *session* must be active.

    A relation is read as a stream if it is an Iceberg table, a table over files or an unbounded table,
    unless the text selects a version or has a hint against it. With *endless_only*, only unbounded tables
    that do not retain their rows are read as streams. Raises Unsupported for a hint with an unknown option.
    """
    reader = _Reader(session, {hint.start: hint for hint in hints}, connectors, endless_only)
    pieces = tuple(reader.pieces(parse(session, text, plan)))
    return StreamedText(pieces=pieces, reads_endless=reader.reads_endless)


class _Reader:
    def __init__(
        self,
        session: SparkSession,
        hints: Mapping[int, SourceHint],
        connectors: ConnectorSource,
        endless_only: bool,
    ) -> None:
        self._endless_only = endless_only
        self._session, self._hints, self._names = session, hints, Names(session)
        self._connectors = ConnectorNames(session, connectors)
        self.reads_endless = False

    def pieces(self, parsed: ParsedQuery) -> Iterator[Piece]:
        yield from self._pieces(parsed, *self._names.current(), ())

    def _pieces(
        self, parsed: ParsedQuery, catalog: str, namespace: tuple[str, ...], path: tuple[tuple[str, ...], ...]
    ) -> Iterator[Piece]:
        position = 0
        for relation in parsed.relations:
            static = relation.cte or relation.travel is not None
            if not path and relation.start in self._hints:
                static = static or not _is_stream(relation, self._hints[relation.start])
            source = None if static else self._relation(relation.parts, catalog, namespace)
            if source is None:
                continue
            yield parsed.text[position : relation.begin]
            # `TABLE t` does not accept options or an alias.
            yield "SELECT * FROM " if relation.table_word is not None else ""
            # An alias follows WATERMARK, so an alias must not be added before it.
            aliased = relation.aliased or _WATERMARK.match(parsed.text, relation.stop) is not None
            if isinstance(source, View):
                yield from self._expanded(source, path, aliased=aliased)
            else:
                yield Reading(source=source, aliased=aliased)
            position = relation.stop
        yield parsed.text[position:]

    def _relation(
        self, parts: tuple[str, ...], catalog: str, namespace: tuple[str, ...]
    ) -> StreamSource | View | None:
        """Return the source or view with that name.

        Return None if the relation is not read as a stream, or if it already is one.
        """
        raw = state_of(self._session).catalog().getRawTempView(parts[0]) if len(parts) == 1 else None
        if raw is not None and raw.isDefined():
            self.reads_endless |= _is_endless(raw.get())
            return self._names.temporary_view(parts[0]) or self._temporary(parts)
        full = self._names.qualify(parts, catalog, namespace)
        if len(full) < 3 or not self._names.is_catalog(full[0]):
            return None
        table = self._connectors.named(full)
        if table is not None and table.topic is not None:
            return _topic(full, topic_of(table))
        if table is not None and (table.unbounded is not None or not self._endless_only):
            reading = stream_of(self._session, table)
            return None if reading is None else StreamSource(parts=full, reading=reading)
        view = self._names.view(full)
        return view if view is not None or self._endless_only else self._table(full)

    def _temporary(self, parts: tuple[str, ...]) -> StreamSource | None:
        """Return the source of a temporary table, which has files, generated rows or a topic."""
        files = file_view(self._session, parts[0])
        generated = None if files is not None else generated_table(self._session, parts[0])
        if files is None and generated is None:
            return _topic(parts, topic_table(self._session, parts[0]))
        return None if self._endless_only else StreamSource(parts=parts, files=files, generated=generated)

    def _table(self, full: tuple[str, ...]) -> StreamSource | None:
        plugin = state_of(self._session).catalogManager().catalog(full[0])
        identifier = spark_identifier(self._session, full[1:])
        if not plugin.tableExists(identifier):
            return None
        table = plugin.loadTable(identifier)
        if str(table.getClass().getName()).startswith("org.apache.iceberg."):
            # Any other class is a metadata table.
            is_plain = str(table.table().getClass().getName()) == _PLAIN_TABLE
            return StreamSource(parts=full, table=table.table()) if is_plain else None
        provider = table.properties().get("provider") if full[0] == SESSION_CATALOG else None
        return StreamSource(parts=full) if str(provider).lower() in FILES else None

    def _expanded(self, view: View, path: tuple[tuple[str, ...], ...], *, aliased: bool) -> Iterator[Piece]:
        if view.parts in path or len(path) >= MAX_VIEW_DEPTH:
            raise Unsupported(f"View {display_name(view.parts)} reads itself; a stream cannot read it.")
        catalog, namespace = (view.catalog, view.namespace) if view.catalog else self._names.current()
        body = list(self._pieces(parse(self._session, view.text), catalog, namespace, (*path, view.parts)))
        names = [quote(column.name) for column in view.columns]
        if view.query_columns:
            columns = [
                f"{quote(each)} AS {name}" for each, name in zip(view.query_columns, names, strict=True)
            ]
            yield f"(SELECT {', '.join(columns)} FROM ("
            yield from body
            # On a new line, because the view's text may end with a comment.
            yield "\n) AS `_v`)"
        else:
            yield "(SELECT * FROM ("
            yield from body
            yield f"\n) AS `_v`({', '.join(names)}))"
        if not aliased:
            yield f" AS {quote(view.parts[-1])}"


def _is_endless(view: Any) -> bool:
    """Return whether a temporary view is an unbounded stream and not an SQL text."""
    return view.plan().isDefined() and bool(view.plan().get().isStreaming())


def _topic(parts: tuple[str, ...], table: TopicTable | None) -> StreamSource | None:
    """Return the source of a topic, or None for a bounded topic, which is read as a batch."""
    return None if table is None or table.topic.is_bounded else StreamSource(parts=parts, topic=table)


def _is_stream(relation: RelationName, hint: SourceHint) -> bool:
    others = hint.options.keys() - {STREAMING}
    if others:
        raise Unsupported(
            f"OPTIONS of {display_name(relation.parts)}: {', '.join(sorted(others))} is not an option of a "
            f"stream; the only option is '{STREAMING}'."
        )
    return hint.options.get(STREAMING, "true").lower() != "false"


def _streaming(piece: Piece, options: Mapping[str, Mapping[str, str]]) -> str:
    if isinstance(piece, str):
        return piece
    if piece.source.reading:
        return piece.source.reading + ("" if piece.aliased else f" AS {quote(piece.source.parts[-1])}")
    if piece.source.view:
        name = quote(piece.source.view)
        return name if piece.aliased else f"{name} AS {quote(piece.source.parts[-1])}"
    written = ", ".join(f"'{key}' = '{value}'" for key, value in options.get(piece.source.name, {}).items())
    return f"STREAM {sql_name(piece.source.parts)}" + (f" WITH ({written})" if written else "")


def _pinned(session: SparkSession, piece: Piece, snapshots: Mapping[str, str]) -> str:
    if isinstance(piece, str):
        return piece
    source = piece.source
    if source.name in snapshots:
        version = snapshots[source.name]
        query = past_rows(session, source.parts, source.table, version)
        if query is None:
            return f"{sql_name(source.parts)} VERSION AS OF {version}"
    else:
        columns = columns_of(session.table(sql_name(source.parts))._jdf.schema())
        nulls = ", ".join(f"CAST(NULL AS {column.type}) AS {quote(column.name)}" for column in columns)
        query = f"SELECT {nulls} WHERE false"
    return f"({query})" + ("" if piece.aliased else f" AS {quote(source.parts[-1])}")
