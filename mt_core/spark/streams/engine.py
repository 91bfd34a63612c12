"""The stream engine on Spark: prepares, starts, watches, stops and copies streams."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from mt_core.base.identifiers import display_name
from mt_core.errors import (
    CatalogUnsupported,
    DefinitionInvalid,
    EngineError,
    MtError,
    QueryFailed,
    TableNotFound,
    Unsupported,
)
from mt_core.model.stream import StreamDefinition, StreamProgress, TableName
from mt_core.model.stream_plan import IcebergTarget, MemberPlan, Start, StreamPlan
from mt_core.model.table import TableIdentifier
from mt_core.plans.compiled import Topology
from mt_core.plans.states import check_policies
from mt_core.spark.catalogs.lookup import storage_missing
from mt_core.spark.connectors.connector_names import ConnectorNames
from mt_core.spark.connectors.connector_tables import ConnectorSource, no_connectors
from mt_core.spark.connectors.sink import Check, Sink, SinkAttempt
from mt_core.spark.connectors.stream_errors import StreamBroken, StreamFilesMissing
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.conf import SESSION_CATALOG
from mt_core.spark.driver.file_systems import check_file_system
from mt_core.spark.driver.jvm_objects import active_session
from mt_core.spark.driver.session_functions import FunctionUncallable
from mt_core.spark.files.jar_copies import JarCopies
from mt_core.spark.queries.relations import base_relations
from mt_core.spark.streams.attempt import StreamAttempt
from mt_core.spark.streams.checkpoints import Checkpoints
from mt_core.spark.streams.materialization import KeyedInsert, materialized_key
from mt_core.spark.streams.member_rows import MemberRows
from mt_core.spark.streams.needed_files import check_batches, check_files
from mt_core.spark.streams.operators.earlier_releases import LAYOUT, OPERATORS
from mt_core.spark.streams.query import (
    MemberQuery,
    StreamSessions,
    check_columns,
    check_first_rows,
    check_stateless,
    check_streamable,
    sources_of,
)
from mt_core.spark.streams.sinks.created_table import check_creation
from mt_core.spark.streams.sinks.iceberg import target_of
from mt_core.spark.streams.sinks.kinds import (
    check_changes,
    created_by,
    keys_of,
    kind_of,
    sinks_of,
    targets_with_connector,
)
from mt_core.spark.streams.sources.order import SOURCES, names_of, order_of
from mt_core.spark.streams.sources.starts import start_of
from mt_core.streaming.engine import StreamEngine

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """A `definition` with its plan, whose members were analysed in a session of its own.

    In the savepoint that it begins with its sources have the places `order`; None if these are the same.
    """

    definition: StreamDefinition
    members: Sequence[MemberQuery]
    order: Sequence[int] | None = None


class SparkStreams(StreamEngine):
    """Runs streams as queries of Structured Streaming in the gateway's Spark."""

    def __init__(
        self,
        spark: SparkContexts,
        *,
        connectors: ConnectorSource = no_connectors,
        jars: JarCopies | None = None,
        watch: Check = lambda _step: None,
    ) -> None:
        self._driver, self._catalogs, self._working = spark.driver, spark.catalogs, spark.working
        self._connectors, self._jars = connectors, jars or JarCopies()
        self._sessions = StreamSessions(driver=spark.driver, contexts=spark.queries, connectors=connectors)
        self._watch = watch
        self._attempts: dict[str, StreamAttempt] = {}
        # How far the streams came that were stopped.
        self._stopped: dict[str, StreamProgress] = {}
        # The jobs whose last attempt in this process did not find all that it needs.
        self._lacking: set[str] = set()
        # By job: to stop one stream may take a while.
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def prepare(self, definition: StreamDefinition, job_id: str) -> StreamDefinition:
        with self._driver.translating(), self._sessions.passing(definition) as session:
            check_file_system(session, definition.checkpoint, f"Checkpoint {definition.checkpoint}")
            if definition.restored_from is not None:
                check_file_system(session, definition.restored_from, f"Savepoint {definition.restored_from}")
            prepared = self._prepared(session, definition)
            if any(each.state_ttls is not None for each in definition.members):
                check_policies([each.state_ttls for each in definition.members], _topology(session, prepared))
            self._jars.keep(definition.jars, job_id)
            checkpoints = Checkpoints(session)
            if definition.restored_from is not None:
                checkpoints.restore(definition.restored_from, definition.checkpoint, prepared.order)
            checkpoints.begin(definition.checkpoint, job_id)
            return prepared.definition

    def topology(self, definition: StreamDefinition) -> Topology:
        with self._driver.translating(), self._sessions.passing(definition) as session:
            return _topology(session, self._prepared(session, definition))

    def _prepared(self, session: SparkSession, definition: StreamDefinition) -> _Prepared:
        members = [self._sessions.member(session, member, definition.settings) for member in definition.members]
        writes = tuple(dict.fromkeys(member.insert.table for member in members))
        creates = definition.creates is not None and members[0].insert.created
        targets = targets_with_connector(session, self._connectors, definition.temporary, () if creates else writes)
        replaces = creates and check_creation(self._catalogs, definition, writes[0])
        tables = {
            display_name(table): self._target(table, definition.keeps)
            for table in writes
            if table not in targets and not creates
        }
        keys = [
            keys_of(targets.get(each.insert.table), tables.get(display_name(each.insert.table))) for each in members
        ]
        for written, member, key in zip(definition.members, members, keys, strict=True):
            target = targets.get(member.insert.table)
            if kind_of(target).in_spark:
                check_columns(member, written.text, self._connectors)
            check_changes(display_name(member.insert.table), target, key, member.analysed)
        reads = self._reads(session, members)
        for table in writes:
            if _folded(table) in map(_folded, reads):
                raise Unsupported(
                    f"The statement reads {display_name(table)}, which it writes: as a stream it would read its own rows; "
                    "write another table."
                )
        plan, keeps_state = _planned(session, members, keys)
        plan = replace(plan, sinks=tuple(targets.values()), tables=tables)
        order = None
        if definition.restored_from is not None:
            read = {source.name: source.table for source in sources_of(members)}
            plan, order = _restored(session, definition.restored_from, plan, read, keeps_state=keeps_state)
        planned = replace(definition, plan=plan, reads=reads, writes=writes, replaces=replaces)
        return _Prepared(definition=planned, members=members, order=order)

    def check(self, definition: StreamDefinition) -> None:
        with self._driver.translating(), self._sessions.passing(definition) as session:
            for member in definition.members:
                check_stateless(self._sessions.member(session, member, definition.settings))

    def start(self, job_id: str, definition: StreamDefinition, attempt: int) -> None:
        with self._turns[job_id]:
            running = self._attempts.get(job_id)
            if running is not None and running.number == attempt and running.progress().running:
                return
            if running is not None:
                running.stop()
            sinks = self._sinks(job_id, definition, attempt)
            started = StreamAttempt(self._driver, self._sessions, definition, sinks, attempt, self._watch)
            try:
                with self._working() as session:
                    check_files(Checkpoints(session), definition)
                    for sink in sinks.values():
                        sink.open()
                started.start()
            except (StreamBroken, StreamFilesMissing) as error:
                started.fail(error)
            self._attempts[job_id] = started
            self._stopped.pop(job_id, None)
            self._lacking.discard(job_id)

    def progress(self, job_id: str) -> StreamProgress:
        attempt = self._attempts.get(job_id)
        return self._stopped.get(job_id, StreamProgress()) if attempt is None else attempt.progress()

    def stop(self, job_id: str, definition: StreamDefinition) -> None:
        with self._turns[job_id]:
            attempt = self._attempts.get(job_id)
            if attempt is not None:
                if attempt.progress().missing:
                    self._lacking.add(job_id)
                attempt.stop()
            self._close(job_id, definition)
            self._let_go(job_id)

    def savepoint(self, job_id: str, definition: StreamDefinition, folder: str, *, drain: bool = False) -> str:
        with self._turns[job_id]:
            attempt = self._attempts.get(job_id)
            with self._working() as session:
                check_files(Checkpoints(session), definition)
                if attempt is not None and drain:
                    Checkpoints(session).check_writable(folder)
            if attempt is not None:
                attempt.pause(drain=drain)
                if drain and attempt.keeps_state:
                    attempt = self._end_time(job_id, definition, attempt)
            with self._working() as session:
                sinks = self._sinks(job_id, definition)
                tables = [sink.last_batch() for sink in sinks.values() if sink.keeps_batch]
                began, committed = Checkpoints(session).batches(definition.checkpoint)
                self._let_go(job_id)
                # The tables of other connectors do not say what they have; the attempt does, if it was of this process.
                unknown = None in tables or len(tables) < len(sinks)
                begun = (
                    definition.planned.begun
                    or committed is not None
                    or (attempt.has_begun if attempt is not None else not unknown)
                )
                in_batch = began != committed and any(batch is not None and batch >= (began or 0) for batch in tables)
                if in_batch or (not begun and any(batch is not None for batch in tables)):
                    raise EngineError(
                        f"Job {job_id} failed in the middle of a batch, and has to finish it first; stop it again later."
                    )
                self._close(job_id, definition)
                facts = _savepoint_facts(definition.planned, begun=begun)
                Checkpoints(session).save(definition.checkpoint, folder, facts)
                return folder

    def created_rows(self, job_id: str, definition: StreamDefinition) -> int | None:
        with self._working():
            created = created_by(self._attempt(job_id, definition))
            return None if created is None else created.rows()

    def missing(self, job_id: str, definition: StreamDefinition) -> str | None:
        try:
            with self._working() as session:
                checkpoints, batches = Checkpoints(session), dict[TableName, int | None]()
                check_files(checkpoints, definition)
                for table, sink in self._sinks(job_id, definition).items():
                    with suppress(StreamBroken):
                        batches[table] = sink.last_batch()
                check_batches(definition, checkpoints.batches(definition.checkpoint)[0], batches)
            if job_id in self._lacking:
                # It may have been the file of a function.
                with self._driver.translating(), self._sessions.passing(definition) as session:
                    for member in definition.members:
                        _ = self._sessions.member(session, member, definition.settings).analysed
        except StreamFilesMissing as error:
            return error.message
        except FunctionUncallable as error:
            return StreamFilesMissing.of(definition, error.message).message
        except (QueryFailed, Unsupported) as error:
            # A start says what to do about it.
            log.info("job %s: %s", job_id, error, extra={"action": "stream_not_analysed"})
        return None

    def discard(self, job_id: str, definition: StreamDefinition, *, drop: bool) -> None:
        with self._turns[job_id], self._working() as session:
            created = created_by(self._attempt(job_id, definition))
            if created is None or created.discard(drop=drop):
                Checkpoints(session).delete(definition.checkpoint)

    def forget(self, job_id: str, definition: StreamDefinition) -> None:
        with self._working() as session:
            for sink in self._sinks(job_id, definition).values():
                sink.forget()
            Checkpoints(session).delete(definition.checkpoint)
        self._jars.forget(definition.jars, job_id)
        self._stopped.pop(job_id, None)
        self._lacking.discard(job_id)

    # ------------------------------------------------------------------------------------------------------- internal

    def _end_time(self, job_id: str, definition: StreamDefinition, paused: StreamAttempt) -> StreamAttempt:
        """Let a stream that was paused give what its windows and joins still hold; return the attempt that did."""
        with self._working() as session:
            last = Checkpoints(session).add_last_batch(definition.checkpoint)
            if last is None:
                return paused
            sinks = self._sinks(job_id, definition, paused.number)
            for sink in sinks.values():
                sink.open()
        attempt = StreamAttempt(self._driver, self._sessions, definition, sinks, paused.number, self._watch)
        attempt.follow(paused)
        self._attempts[job_id] = attempt
        attempt.start()
        try:
            attempt.wait_batch(last)
        except MtError:
            attempt.stop()
            with self._working() as session:
                Checkpoints(session).take_back(definition.checkpoint, last)
            raise
        attempt.pause(drain=False)
        return attempt

    def _let_go(self, job_id: str) -> None:
        attempt = self._attempts.get(job_id)
        if attempt is not None:
            self._stopped[job_id] = attempt.progress()
            self._attempts.pop(job_id)

    def _close(self, job_id: str, definition: StreamDefinition) -> None:
        with self._working():
            for sink in self._sinks(job_id, definition).values():
                sink.close()

    def _sinks(self, job_id: str, definition: StreamDefinition, number: int = 0) -> dict[TableName, Sink]:
        return sinks_of(self._attempt(job_id, definition, number))

    def _attempt(self, job_id: str, definition: StreamDefinition, number: int = 0) -> SinkAttempt:
        return SinkAttempt(
            job_id=job_id,
            number=number,
            definition=definition,
            catalogs=self._catalogs,
            connectors=self._connectors,
        )

    def _reads(self, session: SparkSession, members: Sequence[MemberQuery]) -> tuple[TableName, ...]:
        """Return all tables that the members read, as streams or not."""
        names: dict[TableName, None] = {}
        with active_session(session):
            connectors = ConnectorNames(session, self._connectors)
            for member in members:
                found: Iterable[TableName | None] = (
                    *(source.parts for source in member.text.sources),
                    *(base.parts for base in base_relations(member.analysed.plan)),
                )
                names |= dict.fromkeys(connectors.public_name(parts) for parts in found if parts is not None)
        return tuple(names)

    def _target(self, table: TableName, keeps: str | None) -> IcebergTarget:
        """Return a table, which may be the materialized one of the id *keeps*.

        Raises TableNotFound, StorageMissing of the materialized table, and Unsupported unless each batch gets into it once.
        """
        with suppress(CatalogUnsupported):
            if len(table) > 2 and table[0] != SESSION_CATALOG:
                identifier = _identifier(table)
                found = target_of(self._catalogs, identifier, keeps)
                if found is None:
                    raise _no_table(identifier) if keeps is None else storage_missing(identifier)
                return found
        raise Unsupported(
            f"{display_name(table)} cannot be written by a stream, which publishes each batch once by compare-and-set; INSERT into "
            "an Iceberg table of a catalog of type jdbc, such as lake."
        )


def _topology(session: SparkSession, prepared: _Prepared) -> Topology:
    rows = MemberRows(members=prepared.members, plans=prepared.definition.planned.members)
    sinks = rows.sinks([member.analysed for member in prepared.members])
    return Topology(spark_version=str(session.version), operators=tuple(sinks))


def _planned(
    session: SparkSession, members: Sequence[MemberQuery], keys: Sequence[Sequence[str]]
) -> tuple[StreamPlan, bool]:
    """Return where the sources of a job begin, which columns its queries give, and whether it keeps state.

    The tables that the members write have the *keys*.
    """
    with active_session(session):
        columns = [member.columns() for member in members]
        kept = [
            materialized_key(
                KeyedInsert(table=member.insert.table, columns=given, keys=key), member.analysed, member.settings
            )
            for member, given, key in zip(members, columns, keys, strict=True)
        ]
        keeps_state = True in [check_streamable(member) for member in members] or any(kept)
        starts = {
            source.name: start_of(source, keeps_state=keeps_state, in_order=any(keys))
            for source in sources_of(members)
            if source.table is not None
        }
        for member in members:
            check_first_rows(member, starts)
        plans = tuple(
            MemberPlan(columns=taken, given=member.given, materialized=key)
            for member, taken, key in zip(members, columns, kept, strict=True)
        )
        sources = names_of([member.analysed.plan for member in members])
        return StreamPlan(starts=starts, sources=sources, members=plans), keeps_state


def _folded(table: TableName) -> TableName:
    """Return a name as it is compared: that of a temporary table has no case."""
    return tuple(map(str.lower, table)) if len(table) == 1 else table


def _restored(
    session: SparkSession,
    savepoint: str,
    plan: StreamPlan,
    tables: Mapping[str, Any],
    *,
    keeps_state: bool,
) -> tuple[StreamPlan, Sequence[int] | None]:
    """Return the *plan* with what a savepoint decides, for a job that reads *tables*, which are those of Iceberg.

    Beside it: the places that the sources of the job have in the savepoint, None if they are the same.
    """
    checkpoints = Checkpoints(session)
    facts, layout = checkpoints.facts(savepoint), checkpoints.savepoint_layout(savepoint)
    # A set: the registry keeps no order of names.
    if facts["starts"].keys() != plan.starts.keys():
        raise DefinitionInvalid(
            f"Savepoint {savepoint} is of a job that reads {', '.join(facts['starts'])}; this one reads {', '.join(plan.starts)}."
        )
    if layout not in {None, LAYOUT}:
        raise DefinitionInvalid(
            f"Savepoint {savepoint} has states of operators in layout {layout}, and this release reads layout {LAYOUT}; start "
            "the statement without it."
        )
    names = list(plan.sources or ())
    stored = facts.get(SOURCES) or order_of(checkpoints.savepoint_offsets(savepoint), names, tables)
    order = None
    if stored != names and sorted(stored) == sorted(names):
        if keeps_state or len(set(names)) < len(names):
            raise DefinitionInvalid(
                f"Savepoint {savepoint} is of a query that reads {', '.join(stored)}, and this one reads them in another order: "
                f"{', '.join(names)}. Write them in the order of the savepoint, which its state has too."
            )
        order = [stored.index(name) for name in names]
    starts = {name: Start.from_json(body) for name, body in facts["starts"].items()}
    restored = replace(plan, starts=starts, begun=facts["begun"], own_operators=facts.get(OPERATORS, False))
    return restored, order


def _savepoint_facts(plan: StreamPlan, *, begun: bool) -> dict[str, Any]:
    """Return what a savepoint says of its job, whose rows up to its starts have been written if it has *begun*."""
    starts = {name: start.to_json() for name, start in plan.starts.items()}
    facts = {"starts": starts, "begun": begun, OPERATORS: plan.own_operators}
    return facts if plan.sources is None else {**facts, SOURCES: list(plan.sources)}


def _no_table(table: TableIdentifier) -> TableNotFound:
    return TableNotFound(
        f"There is no table {table}; create it by CREATE TABLE, or with the stream that fills it by CREATE TABLE {table} AS "
        "SELECT ….",
        table=str(table),
    )


def _identifier(table: TableName) -> TableIdentifier:
    return TableIdentifier(table[0], table[1:-1], table[-1])
