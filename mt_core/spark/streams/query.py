"""The query of a stream: the members of its definition in a session of their own, as batches and as streams.

The same text must be read in three ways: analysed without options to check and describe it (`analysed`), as
a stream with the reader options that select its start (`changelog`), and as a batch at fixed snapshots of
its sources (`pinned`) for the first rows. `StreamedText` renders the text for each of them. Several callers
use the analysis without options, so it is made once and cached.

Our operators are inserted into a streaming plan before Spark plans it (`with_operators`). Spark's Append
mode rejects most queries whose results change; the rewritten plan contains a changelog instead, with the
row kind as its last column. Spark's own checker then checks the plan, so that an unsupported query is
rejected when it is submitted and not when its job starts. Sessions are never shared with users, because a
stream must start in the same way after its user's session is closed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mt_core.base.identifiers import sql_name
from mt_core.errors import QueryFailed, Unsupported
from mt_core.model.stream import StreamDefinition, StreamMember
from mt_core.model.stream_plan import Start
from mt_core.spark.catalogs.plugins import close_plugins
from mt_core.spark.connectors.changelog import ROW_KIND, Changelog
from mt_core.spark.connectors.connector_names import ConnectorNames
from mt_core.spark.connectors.connector_tables import ConnectorSource, no_connectors
from mt_core.spark.connectors.files.temporary_files import streamed_files
from mt_core.spark.connectors.generated import streamed_rows
from mt_core.spark.connectors.kafka.insert import columns_of_insert
from mt_core.spark.connectors.kafka.source import TopicTable, streamed
from mt_core.spark.connectors.temporary import create_temporary
from mt_core.spark.driver.conf import LARGE_VALUES
from mt_core.spark.driver.failures import SPARK_ERRORS, translate
from mt_core.spark.driver.jvm_objects import (
    active_session,
    class_name,
    java_dataset,
    scala_items,
    state_of,
    static_member,
)
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.queries.contexts import QueryContexts
from mt_core.spark.streams.inserts import Insert, query_of, read_insert
from mt_core.spark.streams.operators.rewriting import with_operators
from mt_core.spark.streams.operators.state_ttls import hinted_views, read_ttls
from mt_core.spark.streams.operators.watermarks import of_all_rows
from mt_core.spark.streams.sources.order import names_of
from mt_core.spark.streams.sources.starts import snapshots_of
from mt_core.spark.streams.sources.streamed_text import StreamedText, StreamSource, read_sources
from mt_core.tables.engine import Query

no_settings: Mapping[str, str] = MappingProxyType({})
_KEEPS_STATE = frozenset(
    {
        "Aggregate",
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "Distinct",
        "GlobalLimit",
        "LocalLimit",
        "FlatMapGroupsWithState",
        "TransformWithState",
    }
)
_STREAM_IN_SUBQUERY = "INVALID_SUBQUERY_EXPRESSION.STREAMING_QUERY"
_NO_SUBQUERY = (
    "A subquery reads a table as a stream, which Spark cannot run; use a JOIN instead, or let it "
    "read the table as it stands at each batch: /*+ OPTIONS('streaming' = 'false') */ after the name."
)
_WAY_OUT = (
    "Keep the result as a materialized table, whose refreshes may replace rows, "
    "or run the statement in batch mode: SET 'execution.runtime-mode' = 'batch'."
)
_STATELESS = (
    "A job that maintains a table may filter, project and union the rows of its streams and join them with "
    "tables; it may not use aggregates, DISTINCT, windows, LIMIT, or joins of two streams."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Analysis:
    """The plan of a query as analysed by Spark, and its changelog."""

    plan: Any
    changelog: Changelog


# Without slots, because cached properties need a __dict__.
@dataclass(frozen=True, kw_only=True)
class StreamedQuery:
    """A query in its session, with its sources.

    `settings` are session properties. `ttls` are the TTLs of a compiled plan, or None without one.
    """

    text: StreamedText
    session: SparkSession = field(repr=False)
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    ttls: Sequence[Sequence[str]] | None = None

    @property
    def analysed(self) -> Changelog:
        """The `changelog` of the query without reader options. It is analysed only once."""
        return self._without_options.changelog

    @property
    def plan(self) -> Any:
        """Spark's plan of `analysed`, without our operators."""
        return self._without_options.plan

    @cached_property
    def given(self) -> tuple[str, ...]:
        """The columns of the query."""
        return tuple(name for name in self.stream_of(self.analysed).columns if name != ROW_KIND)

    @cached_property
    def _without_options(self) -> _Analysis:
        return self._analysis({})

    def stream_of(self, changelog: Changelog) -> DataFrame:
        """Return the rows of a `changelog` of the query.

        The last column is `ROW_KIND`, unless the changelog only adds rows.
        """
        with active_session(self.session):
            return DataFrame(java_dataset(self.session, changelog.plan), self.session)

    def changelog(self, options: Mapping[str, Mapping[str, str]]) -> Changelog:
        """Return the query as a stream; *options* contains the reader options of each source, by source name.

        Raises Unsupported if a subquery reads a stream, or if no operator supports a part of the query.
        """
        return self._analysis(options).changelog

    def _analysis(self, options: Mapping[str, Mapping[str, str]]) -> _Analysis:
        try:
            with (
                active_session(self.session),
                streamed(self.session, self.text.topics),
                streamed_files(self.session, self.text.files),
                streamed_rows(self.session, self.text.generated),
            ):
                return self._analysis_of(self.text.streaming(options))
        except SPARK_ERRORS as cause:
            error = translate(cause)
            if isinstance(error, QueryFailed) and error.error_class == _STREAM_IN_SUBQUERY:
                raise Unsupported(_NO_SUBQUERY) from cause
            raise

    def pinned(self, snapshots: Mapping[str, str]) -> DataFrame:
        """Return the rows of the query at *snapshots* of its sources."""
        return self._frame(self.text.pinned(self.session, snapshots))

    def is_stream_at(self, snapshots: Mapping[str, str]) -> bool:
        """Return whether the query still reads a stream when its sources are read at *snapshots*.

        Raises Unsupported for a table whose old rows cannot be converted to its current columns.
        """
        text = self.text.pinned(self.session, snapshots)
        # If every stream is a table with a snapshot, no analysis is needed.
        return not set(names_of([self.plan])) <= snapshots.keys() and self._frame(text).isStreaming

    def _analysis_of(self, text: str) -> _Analysis:
        parsed = query_of(self.session, text)
        analysed = java_dataset(self.session, parsed).queryExecution().analyzed()
        ttls = read_ttls(text, parsed, self.settings, self.ttls, hinted_views(self.session, analysed))
        changelog = with_operators(self.session, analysed, ttls)
        if analysed.isStreaming():
            ttls.check()
            if _keeps_state(changelog.plan):
                changelog = replace(changelog, plan=of_all_rows(self.session, changelog.plan))
        return _Analysis(plan=analysed, changelog=changelog)

    def _frame(self, text: str) -> DataFrame:
        with active_session(self.session):
            return DataFrame(java_dataset(self.session, query_of(self.session, text)), self.session)


@dataclass(frozen=True, kw_only=True)
class MemberQuery(StreamedQuery):
    """One INSERT of a stream; `topic` is the target table if it is a Kafka topic."""

    insert: Insert
    topic: TopicTable | None = None

    def columns(self) -> tuple[str, ...]:
        """Return the table columns into which the query's columns are inserted, in the query's order."""
        if self.topic is not None:
            by_name = self.insert.by_name
            return columns_of_insert(self.topic.topic, self.insert.columns, self.given, by_name=by_name)
        if self.insert.by_name:
            return self.given
        return self.insert.columns or tuple(self.session.table(sql_name(self.insert.table)).columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSessions:
    """Creates the sessions in which streams run, and reads the members of streams in them."""

    driver: SparkDriver
    contexts: QueryContexts
    connectors: ConnectorSource = no_connectors

    def session(self, definition: StreamDefinition) -> SparkSession:
        """Return a new Spark session with everything that *definition* sets."""
        settings = {key: value for key, value in definition.settings.items() if key != LARGE_VALUES}
        query = Query(
            text="",
            catalog=definition.catalog,
            namespace=definition.namespace,
            zone=definition.zone,
            settings=settings,
        )
        session = self.contexts.new_session(query)
        # Without this, a stateful stream would run an empty batch at each trigger.
        session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        # An attempt that was killed while it wrote its first offset leaves a temporary file. Spark would take
        # it for a file of another stream.
        session.conf.set("spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart", "false")
        for jar in definition.jars:
            self.driver.added_jars.add(session, jar)
        with active_session(session):
            for statement in definition.temporary:
                create_temporary(self.driver, session, statement)
            if definition.temporary:
                # The statements set their own current namespace.
                session.sql(f"USE {sql_name((definition.catalog, *definition.namespace))}")
        return session

    @contextmanager
    def passing(self, definition: StreamDefinition) -> Iterator[SparkSession]:
        """Provide a separate session for the stream within the block and close its catalogs afterwards."""
        session = self.session(definition)
        try:
            yield session
        finally:
            close_plugins(session, self.driver.session)

    def member(self, session: SparkSession, member: StreamMember, settings: Mapping[str, str]) -> MemberQuery:
        """Return an INSERT of a stream, with its sources.

        *settings* are the properties of the user's session. Raises Unsupported, and Spark's errors.
        """
        with active_session(session):
            insert = read_insert(session, member.text)
            text = read_sources(
                session,
                member.text,
                insert.plan,
                member.hints,
                self.connectors,
                endless_only=member.endless_only,
            )
            topic = None if insert.created else ConnectorNames(session, self.connectors).topic(insert.table)
        return MemberQuery(
            insert=insert, text=text, session=session, topic=topic, settings=settings, ttls=member.state_ttls
        )


def read_query(
    session: SparkSession,
    member: StreamMember,
    connectors: ConnectorSource = no_connectors,
    settings: Mapping[str, str] = no_settings,
) -> StreamedQuery:
    """Return the query of a SELECT or INSERT, with its sources; *settings* are session properties.

    Raises Unsupported, and Spark's errors.
    """
    with active_session(session):
        text = read_sources(session, member.text, query_of(session, member.text), member.hints, connectors)
    return StreamedQuery(text=text, session=session, settings=settings)


def sources_of(members: Sequence[MemberQuery]) -> tuple[StreamSource, ...]:
    """Return the sources of all members, without duplicates."""
    return tuple({source.name: source for member in members for source in member.text.sources}.values())


def check_stateless(member: StreamedQuery) -> None:
    """Raise Unsupported if the result for a row depends on rows of other batches."""
    if member.analysed.updates or check_streamable(member, way_out=_STATELESS):
        raise Unsupported(f"Its query combines rows of several batches. {_STATELESS}")


def check_streamable(member: StreamedQuery, *, way_out: str = _WAY_OUT) -> bool:
    """Return whether the query is stateful.

    Raises Unsupported for a query that neither our operators nor Spark can run.
    """
    plan = member.analysed.plan
    if not plan.isStreaming():
        raise Unsupported(
            "The query reads no table as a stream; run the statement in batch mode: "
            "SET 'execution.runtime-mode' = 'batch'."
        )
    session = member.session
    append = static_member(session, "org.apache.spark.sql.streaming.OutputMode.Append")()
    check = static_member(
        session, "org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming"
    )
    try:
        check(plan, append)
    except SPARK_ERRORS as cause:
        error = translate(cause)
        if not isinstance(error, QueryFailed):
            raise
        raise Unsupported(f"A stream cannot run the query: {error.message.rstrip('.')}. {way_out}") from cause
    return _keeps_state(plan)


def check_first_rows(member: StreamedQuery, starts: Mapping[str, Start]) -> None:
    """Raise Unsupported if the query reads both a table with snapshots and a stream without them.

    Its first rows cannot be computed, because only the table can be read at its starting snapshot.
    """
    snapshots = snapshots_of(starts)
    if any(source.name in snapshots for source in member.text.sources) and member.is_stream_at(snapshots):
        raise Unsupported(
            "The query reads a table and an unbounded temporary table, so its first rows cannot be read; "
            "use one INSERT for each, or read the table as it stands at each batch: "
            "/*+ OPTIONS('streaming' = 'false') */ after its name."
        )


def check_columns(member: MemberQuery, text: str, connectors: ConnectorSource) -> None:
    """Raise Spark's error if a batch INSERT of *member*'s query into the target would be rejected.

    *text* is the statement of *member*. Errors in the query are reported with their position in it.
    """
    with active_session(member.session):
        try:
            query = member.plan
        except SPARK_ERRORS:
            _check_analysed(member.session, state_of(member.session).sqlParser().parsePlan(text), connectors)
            raise
        _check_analysed(member.session, member.insert.of(member.session, query), connectors)


def _check_analysed(session: SparkSession, statement: Any, connectors: ConnectorSource) -> None:
    """Raise Spark's error if the parsed *statement* cannot be analysed; *session* must be active."""
    skip = static_member(session, "org.apache.spark.sql.execution.CommandExecutionMode.SKIP")
    adapted = ConnectorNames(session, connectors).adapted(statement)
    state_of(session).executePlan(adapted, skip()).assertAnalyzed()


def _keeps_state(plan: Any) -> bool:
    """Return whether a streaming plan joins, aggregates or limits rows across batches."""
    if not plan.isStreaming():
        return False
    kind, children = class_name(plan), list(scala_items(plan.children()))
    if kind in _KEEPS_STATE or (kind == "Join" and all(child.isStreaming() for child in children)):
        return True
    return any(map(_keeps_state, children))
