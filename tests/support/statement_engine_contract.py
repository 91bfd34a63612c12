"""StatementEngineContract: the contract of statement engines, as tests for subclasses.

The subclass prepares the statement `SELECT 1 AS a`, a table, an endless statement and a path at which there
is no jar.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from mt_core.errors import Canceled, DefinitionInvalid, MtError, QueryFailed, TableNotFound
from mt_core.model.reservation import Reservation
from mt_core.model.table import Column
from mt_core.sessions.ports import SessionContext, StatementEngine
from mt_core.sql.catalog import CreateConnectorTable
from mt_core.sql.parser import parse

ONE = "SELECT 1 AS a"
WAIT_S = 60.0
_numbers = itertools.count(1)


class StatementEngineContract:
    """The tests."""

    @pytest.fixture
    def engine(self) -> StatementEngine:
        """Return the engine under test, which must be ready."""
        raise NotImplementedError("Give the contract a fixture engine.")

    @pytest.fixture
    def table(self, engine: StatementEngine) -> Sequence[str]:
        """Return the name parts of a table with the columns `id` and `city`."""
        raise NotImplementedError("Give the contract a fixture table.")

    @pytest.fixture
    def endless(self, engine: StatementEngine) -> str:
        """Return a statement that runs until it is cancelled."""
        raise NotImplementedError("Give the contract a fixture endless.")

    @pytest.fixture
    def created(self, engine: StatementEngine) -> str:
        """Return the name of a missing table in the current namespace."""
        raise NotImplementedError("Give the contract a fixture created.")

    @pytest.fixture
    def missing_jar(self, engine: StatementEngine) -> str:
        """Return a path at which there is no jar."""
        raise NotImplementedError("Give the contract a fixture missing_jar.")

    def test_a_query_gives_its_rows(self, engine: StatementEngine) -> None:
        ends: list[MtError | None] = []

        result = engine.execute(session(), ONE, job_id=job())
        assert result.rows is not None
        page = result.rows.page(0, 10)
        result.rows.on_end(ends.append)

        assert result.is_query
        assert [column.name for column in result.rows.columns] == ["a"]
        assert page == [[1]]
        assert not result.rows.running
        assert ends == [None]

    def test_a_page_behind_the_last_row_is_empty(self, engine: StatementEngine) -> None:
        rows = engine.execute(session(), ONE, job_id=job()).rows

        assert rows is not None
        assert rows.available(1, 10, WAIT_S) == 0
        assert rows.page(1, 10) == []

    def test_a_statement_that_only_has_an_effect_gives_no_rows(self, engine: StatementEngine) -> None:
        result = engine.execute(session(), "USE lake.default", job_id=job())

        assert not result.is_query
        assert result.rows is None

    def test_text_that_is_no_statement_is_refused_with_the_place(self, engine: StatementEngine) -> None:
        with pytest.raises(QueryFailed, match="PARSE_SYNTAX_ERROR"):
            engine.execute(session(), "SELEKT 1", job_id=job())

    def test_a_cancelled_statement_ends_as_cancelled(self, engine: StatementEngine, endless: str) -> None:
        job_id, ended = job(), threading.Event()

        with ThreadPoolExecutor(1) as pool:
            work = pool.submit(engine.execute, session(), endless, job_id=job_id)
            work.add_done_callback(lambda _: ended.set())
            # A statement that has not begun when it is cancelled must be cancelled again.
            cancels = 0
            while not ended.wait(0.05) and cancels < WAIT_S / 0.05:
                engine.cancel(job_id)
                cancels += 1

        assert isinstance(work.exception(), Canceled)

    def test_what_is_not_there_can_be_cancelled_and_closed(self, engine: StatementEngine) -> None:
        engine.cancel("no-such-job")
        engine.close_session("no-such-session")

        assert engine.progress("no-such-job") is None

    def test_a_new_session_looks_names_up_in_lake_default(self, engine: StatementEngine) -> None:
        state = engine.session_state(session())

        assert (state.catalog, state.namespace) == ("lake", ("default",))

    def test_a_session_has_variables_of_its_own(self, engine: StatementEngine) -> None:
        own, other = session(), session()
        engine.execute(own, "DECLARE VARIABLE Lim INT DEFAULT 1", job_id=job())

        found = [
            engine.has_variable(context, name)
            for context, name in [(own, "LIM"), (own, "li"), (other, "lim")]
        ]

        assert found == [True, False, False]

    def test_a_session_that_is_kept_stays_as_it_is_although_it_is_closed(
        self, engine: StatementEngine
    ) -> None:
        context, catalogs = session(), list[str]()
        engine.execute(context, "USE spark_catalog.default", job_id=job())

        with engine.keeping(context.session_id):
            with engine.keeping(context.session_id):
                engine.close_session(context.session_id)
                catalogs.append(engine.session_state(context).catalog)
            catalogs.append(engine.session_state(context).catalog)
        catalogs.append(engine.session_state(context).catalog)

        assert catalogs == ["spark_catalog", "spark_catalog", "lake"]

    def test_a_session_has_a_zone_of_its_own(self, engine: StatementEngine) -> None:
        zones = [
            engine.session_state(session({"table.local-time-zone": zone})).zone
            for zone in ("Asia/Tokyo", "Europe/Oslo")
        ]

        assert zones == ["Asia/Tokyo", "Europe/Oslo"]

    def test_a_session_sees_the_catalogs_of_all_and_those_it_has_configured(
        self, engine: StatementEngine
    ) -> None:
        mine = {
            "spark.sql.catalog.mine": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.mine.type": "hadoop",
        }

        configured, other = engine.catalogs(session(mine)), engine.catalogs(session())

        assert {"lake", "spark_catalog"} <= set(other)
        assert set(configured) - set(other) == {"mine"}
        assert all(options["type"] for options in configured.values())

    def test_the_columns_of_a_table(self, engine: StatementEngine, table: Sequence[str]) -> None:
        assert [column.name for column in engine.relation(session(), table).columns] == ["id", "city"]

    def test_the_columns_of_what_is_not_there_are_refused(self, engine: StatementEngine) -> None:
        with pytest.raises(QueryFailed, match="nowhere"):
            engine.relation(session(), ("lake", "default", "nowhere"))

    def test_a_table_without_a_primary_key_has_no_keys(
        self, engine: StatementEngine, table: Sequence[str]
    ) -> None:
        assert list(engine.relation(session(), table).keys) == []

    def test_the_plan_of_a_statement(self, engine: StatementEngine) -> None:
        assert engine.explain(session(), ONE, "simple")

    def test_the_operators_of_a_statement_are_the_same_each_time(self, engine: StatementEngine) -> None:
        topologies = [engine.topology(session(), [ONE, ONE]) for _ in range(2)]

        assert topologies[0] == topologies[1]
        assert len(topologies[0].operators) == 2

    def test_a_jar_that_is_not_there_is_refused(self, engine: StatementEngine, missing_jar: str) -> None:
        with pytest.raises(DefinitionInvalid, match="jar"):
            engine.add_jar(session(), missing_jar)

    def test_a_table_without_end_takes_its_name_in_its_session_once(self, engine: StatementEngine) -> None:
        first, other = session(), session()
        table = parse("CREATE TEMPORARY TABLE endless_rows (n BIGINT) WITH ('connector' = 'datagen')")
        assert isinstance(table, CreateConnectorTable)

        engine.create_unbounded(first, table)
        engine.create_unbounded(other, table)
        engine.create_unbounded(first, replace(table, or_replace=True))

        with pytest.raises(QueryFailed, match="endless_rows"):
            engine.create_unbounded(first, table)

    def test_a_catalog_without_a_class_does_not_open(self, engine: StatementEngine) -> None:
        with pytest.raises(QueryFailed):
            engine.open_catalog("unknown", {"spark.sql.catalog.unknown.type": "hadoop"})

        assert "unknown" not in engine.catalogs(session())

    # -------------------------------------------------------------------------------------- tables of queries

    def test_a_query_reserves_nothing(self, engine: StatementEngine) -> None:
        assert engine.reserve(session(), ONE, job_id=job()) is None

    def test_a_reservation_alone_leaves_nothing(self, engine: StatementEngine, created: str) -> None:
        reservation = reserved(engine, f"CREATE TABLE {created} AS {ONE}")

        assert not engine.settle(reservation)
        assert not engine.settle(Reservation.from_json(json.loads(json.dumps(reservation.to_json()))))

    def test_a_published_table_stays_when_it_is_settled(self, engine: StatementEngine, created: str) -> None:
        context, sql = session(), f"CREATE TABLE {created} AS {ONE}"
        reservation = reserved(engine, sql)

        engine.execute(context, sql, job_id=reservation.job_id, reservation=reservation)

        assert engine.settle(reservation)
        assert engine.settle(reservation)

    def test_a_table_that_is_there_is_not_reserved_for_creation(
        self, engine: StatementEngine, created: str
    ) -> None:
        context, sql = session(), f"CREATE TABLE {created} AS {ONE}"
        reservation = reserved(engine, sql)
        engine.execute(context, sql, job_id=reservation.job_id, reservation=reservation)

        again = f"CREATE TABLE IF NOT EXISTS {created} AS {ONE}"

        assert engine.reserve(session(), again, job_id=job()) is None

    def test_a_replacement_that_was_given_up_leaves_the_table(
        self, engine: StatementEngine, created: str
    ) -> None:
        context, sql = session(), f"CREATE TABLE {created} AS {ONE}"
        first = reserved(engine, sql)
        engine.execute(context, sql, job_id=first.job_id, reservation=first)

        second = reserved(engine, f"REPLACE TABLE {created} AS {ONE}")

        assert not engine.settle(second)
        assert engine.settle(first)

    def test_a_table_that_is_not_there_cannot_be_replaced(
        self, engine: StatementEngine, created: str
    ) -> None:
        with pytest.raises(TableNotFound, match=created):
            engine.reserve(session(), f"REPLACE TABLE {created} AS {ONE}", job_id=job())

    def test_the_columns_of_a_query(self, engine: StatementEngine) -> None:
        assert list(engine.query_columns(session(), ONE)) == [Column(name="a", type="int")]

    def test_a_text_is_not_stored_as_a_number(self, engine: StatementEngine) -> None:
        engine.check_assignable(session(), Column(name="a", type="int"), Column(name="a", type="bigint"))

        with pytest.raises(DefinitionInvalid, match=r"(?i)Column a is declared int, its query gives string"):
            engine.check_assignable(session(), Column(name="a", type="string"), Column(name="a", type="int"))


def reserved(engine: StatementEngine, sql: str) -> Reservation:
    """Return the reservation of a new job."""
    reservation = engine.reserve(session(), sql, job_id=job())
    assert reservation is not None
    return reservation


def session(properties: Mapping[str, str] | None = None) -> SessionContext:
    """Return a new session."""
    return SessionContext(session_id=f"contract-{next(_numbers)}", properties=properties or {})


def job() -> str:
    """Return a new job id."""
    return f"contract-job-{next(_numbers)}"
