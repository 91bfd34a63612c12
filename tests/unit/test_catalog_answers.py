from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mt_core.base.rowset import INT, Column, LogicalType, RowSet
from mt_core.errors import (
    Canceled,
    DefinitionInvalid,
    EngineError,
    IllegalStatus,
    MtError,
    OperationNotFound,
    QueryFailed,
)
from mt_core.jobs.store import JobStore
from mt_core.model.job import JobStatus
from mt_core.model.table import TableIdentifier
from mt_core.sessions.catalog.catalog_commands import CatalogCommands
from mt_core.sessions.catalog.catalog_statements import CatalogStatements
from mt_core.sessions.catalog.connector_table_statements import ConnectorTableStatements
from mt_core.sessions.catalog.connector_tables import ConnectorTables
from mt_core.sessions.catalog.created_catalogs import CreatedCatalogs
from mt_core.sessions.catalog.created_functions import CreatedFunctions
from mt_core.sessions.catalog.function_commands import FunctionCommands
from mt_core.sessions.operations.jobs import Jobs, job_name
from mt_core.sessions.operations.operation import Operation, OperationResult, OperationStatus, ResultKind
from mt_core.sessions.ports import StatementResult
from mt_core.sessions.session import Session
from mt_core.sessions.statements.catalog_requests import Answers
from mt_core.sessions.statements.handlers import one_table
from mt_core.sessions.statements.listings import CatalogRequest
from mt_core.sessions.statements.translation import in_spark
from mt_core.sessions.streaming.job_statements import JobStatements
from mt_core.sql.parser import ReadStatement, parse
from mt_core.sql.statements import DescribeTable
from mt_core.tables.views.continuous_job import ContinuousJob
from mt_core.testing.fake_clock import FakeClock
from tests.support.fake_commands import FakeRuns
from tests.support.fake_statements import FakeStatementEngine
from tests.support.memory_registry import MemoryRegistry

NOW = datetime(2026, 7, 2, 10, 4, 5, 120000, tzinfo=UTC)
CREATE = "CREATE CATALOG c WITH ('type' = 'iceberg', 'catalog-type' = 'hadoop', 'token' = 't')"


class World:
    """A session over fakes, and what it is answered."""

    def __init__(self) -> None:
        self.clock, self.engine = FakeClock(NOW), FakeStatementEngine()
        self.runs = FakeRuns(self.clock)
        self.registry = MemoryRegistry(self.clock)
        self.store = JobStore(self.registry, owner="gateway", clock=self.clock)
        self.jobs = Jobs(self.clock, self.runs, self.store, remembered=3)
        self.catalogs = CreatedCatalogs(self.registry, reserved=("lake", "spark_catalog"))
        self.engine.shared_catalogs = self.catalogs.settings
        defaults = {"table.local-time-zone": "Europe/Berlin"}
        self.session = Session("s", name=None, defaults=defaults, properties={}, opened_at=NOW)
        self.answers = self.answers_of(self.jobs)

    def answers_of(self, jobs: Jobs) -> Answers:
        tables = ConnectorTableStatements(engine=self.engine, tables=ConnectorTables(self.registry))
        functions = FunctionCommands(self.engine, CreatedFunctions(self.registry))
        catalogs = CatalogStatements(self.engine, jobs, tables, functions)
        return one_table(
            {DescribeTable: catalogs.describe},
            catalogs.answers,
            CatalogCommands(self.engine, self.catalogs).answers,
            JobStatements(jobs=jobs).answers,
            functions.answers,
        )

    @property
    def asking(self) -> CatalogRequest:
        return CatalogRequest(session=self.session, context=self.session.context(), job_id="j")

    def kept(self) -> dict[str, dict[str, str]]:
        """Return the catalogs of the registry with their options."""
        with self.registry.transaction() as transaction:
            return {catalog.name: dict(catalog.options) for catalog in transaction.catalogs.all()}

    def table(self, sql: str, columns: tuple[str, ...], *rows: list[Any], is_query: bool = False) -> None:
        """Let Spark answer *sql*."""
        rowset = RowSet(columns=tuple(Column(name=name) for name in columns), rows=rows)
        self.engine.answers[sql] = StatementResult(is_query=is_query, rows=rowset)

    def run(self, sql: str) -> OperationResult:
        statement = parse(sql)
        return self.answers[type(statement)](statement, self.asking)

    def answer(self, sql: str) -> tuple[list[str], list[list[Any]]]:
        found = self.run(sql)
        return [column.name for column in found.rows.columns], found.rows.page(0, 100)

    def operation(self, job_id: str) -> Operation:
        found = Operation(
            f"operation of {job_id}", ReadStatement(""), self.clock.now(), planned_job_id=job_id
        )
        found.advance(OperationStatus.PENDING)
        found.advance(OperationStatus.RUNNING)
        return found


@pytest.fixture
def world() -> World:
    return World()


def test_what_the_gateway_knows_is_shown_without_a_statement_in_spark(world: World) -> None:
    answers = [
        world.answer(sql)
        for sql in (
            "SHOW CATALOGS",
            "SHOW CATALOGS LIKE 'l%'",
            "SHOW CURRENT CATALOG",
            "SHOW CURRENT DATABASE",
            "SHOW MODULES",
            "SHOW FULL MODULES",
            "SHOW MODELS",
            "SHOW JARS",
        )
    ]

    assert answers == [
        (["catalog name"], [["lake"], ["spark_catalog"]]),
        (["catalog name"], [["lake"]]),
        (["current catalog name"], [["lake"]]),
        (["current database name"], [["default"]]),
        (["module name"], [["core"]]),
        (["module name", "used"], [["core", True]]),
        (["model name"], []),
        (["jars"], []),
    ]
    assert world.engine.executed == []


def test_lists_of_sparks_are_shown_in_flinks_columns_and_in_order(world: World) -> None:
    world.table("SHOW NAMESPACES IN `lake`", ("namespace",), ["z"], ["default"])
    world.engine.relations_of = {("d",): ["t", "v", "a", "v"]}
    world.table(
        "SHOW VIEWS IN `d`", ("namespace", "viewName", "isTemporary"), ["d", "a", False], ["", "v", True]
    )
    world.table("SHOW USER FUNCTIONS", ("function",), ["g"], ["f"])
    world.table("SHOW PROCEDURES", ("catalog", "namespace", "schema", "procedure_name"), ["c", [], "", "p"])

    answers = [
        world.answer(sql)
        for sql in (
            "SHOW DATABASES",
            "SHOW TABLES IN d",
            "SHOW VIEWS IN d NOT LIKE 'a'",
            "SHOW USER FUNCTIONS",
            "SHOW PROCEDURES",
        )
    ]

    assert answers == [
        (["database name"], [["default"], ["z"]]),
        (["table name"], [["a"], ["t"], ["v"]]),
        (["view name"], [["v"]]),
        (["function name"], [["f"], ["g"]]),
        (["procedure name"], [["p"]]),
    ]


def test_tables_are_shown_without_a_statement_in_spark(world: World) -> None:
    world.engine.relations_of = {(): ["v", "t"], ("c", "d"): ["a", "ab"]}

    assert world.answer("SHOW TABLES") == (["table name"], [["t"], ["v"]])
    assert world.answer("SHOW TABLES IN c.d NOT LIKE 'a'") == (["table name"], [["ab"]])
    assert world.engine.executed == []


def test_a_catalog_without_views_shows_none(world: World) -> None:
    world.engine.answers["SHOW VIEWS"] = QueryFailed("Catalog c does not support VIEWS.")

    assert world.answer("SHOW VIEWS") == (["view name"], [])


def test_a_missing_database_is_named_and_a_catalog_that_is_still_empty_has_none(world: World) -> None:
    world.engine.answers["SHOW NAMESPACES IN `c`"] = EngineError(
        "NoSuchNamespaceException: Namespace does not exist:"
    )

    with pytest.raises(DefinitionInvalid, match="Database nope does not exist; SHOW DATABASES"):
        world.run("SHOW TABLES IN nope")

    assert world.answer("SHOW DATABASES IN c") == (["database name"], [])


def test_partitions_are_told_by_spark_or_read_from_icebergs_metadata(world: World) -> None:
    world.table("SHOW PARTITIONS `v1`", ("partition",), ["ds=b"], ["ds=a"])
    for table in ("ice", "plain"):
        world.engine.answers[f"SHOW PARTITIONS `{table}`"] = QueryFailed(
            "no", error_class="INVALID_PARTITION_OPERATION.PARTITION_MANAGEMENT_IS_UNSUPPORTED"
        )
    world.engine.answers["SHOW PARTITIONS `ice` PARTITION (`ds` = 'x')"] = world.engine.answers[
        "SHOW PARTITIONS `ice`"
    ]
    world.table(
        "SELECT DISTINCT partition FROM `lake`.`default`.`ice`.`partitions`",
        ("partition",),
        [{"ds": "y", "h": 2}],
        [{"ds": "x", "h": 1}],
        is_query=True,
    )

    assert world.answer("SHOW PARTITIONS v1") == (["partition name"], [["ds=a"], ["ds=b"]])
    assert world.answer("SHOW PARTITIONS ice") == (["partition name"], [["ds=x/h=1"], ["ds=y/h=2"]])
    assert world.answer("SHOW PARTITIONS ice PARTITION (ds = 'x')") == (["partition name"], [["ds=x/h=1"]])
    with pytest.raises(DefinitionInvalid, match="Table plain is not partitioned"):
        world.run("SHOW PARTITIONS plain")


def test_a_table_is_described_in_flinks_columns_with_comments_only_if_there_are_any(world: World) -> None:
    decimal = LogicalType(root="DECIMAL", nullable=False, extras={"precision": 10, "scale": 2})
    world.engine.tables = {
        "t": (Column(name="a", type=INT), Column(name="d", type=decimal)),
        "d.u": (Column(name="a", type=INT, comment="an a"), Column(name="b")),
    }
    world.table(
        "DESCRIBE TABLE EXTENDED `t`",
        ("col_name", "data_type", "comment"),
        ["a", "int", None],
        ["", "", ""],
        ["Owner", "me", ""],
    )
    names = ["name", "type", "null", "key", "extras", "watermark"]

    assert world.answer("DESCRIBE t") == (
        names,
        [["a", "INT", True, None, None, None], ["d", "DECIMAL(10, 2)", False, None, None, None]],
    )
    assert world.answer("DESC EXTENDED t")[1][2:] == [
        ["", "", None, None, None, None],
        ["Owner", "me", None, None, None, None],
    ]
    assert world.answer("SHOW COLUMNS FROM d.u LIKE 'a'") == (
        [*names, "comment"],
        [["a", "INT", True, None, None, None, "an a"]],
    )
    with pytest.raises(QueryFailed, match="nope cannot be found"):
        world.run("DESCRIBE nope")


def test_texts_come_as_one_row(world: World) -> None:
    world.table("SHOW CREATE TABLE `d`.`t`", ("createtab_stmt",), ["CREATE TABLE …"])

    assert world.answer("SHOW CREATE TABLE d.t") == (["result"], [["CREATE TABLE …"]])
    assert world.answer("EXPLAIN JSON_EXECUTION_PLAN SELECT 1") == (
        ["result"],
        [["json plan of " + " " * 28 + "SELECT 1"]],
    )


def test_a_database_is_described_by_name_and_value(world: World) -> None:
    world.table("DESCRIBE NAMESPACE EXTENDED `d`", ("info_name", "info_value"), ["Namespace Name", "d"])

    assert world.answer("DESCRIBE DATABASE EXTENDED d") == (
        ["info name", "info value"],
        [["Namespace Name", "d"]],
    )


# --------------------------------------------------------------------------------------------------- catalogs


def test_a_created_catalog_is_kept_and_shown_without_its_secrets(world: World) -> None:
    result = world.run(CREATE)
    world.session.overrides = {}

    assert (result.result_kind, result.rows.page(0, 2)) == (ResultKind.SUCCESS, [["OK"]])
    assert world.answer("SHOW CATALOGS") == (["catalog name"], [["c"], ["lake"], ["spark_catalog"]])
    assert world.kept() == {"c": {"type": "iceberg", "catalog-type": "hadoop", "token": "t"}}
    assert not any("catalog.c" in key for key in world.session.context().properties)
    assert world.answer("DESCRIBE CATALOG EXTENDED c") == (
        ["info name", "info value"],
        [
            ["name", "c"],
            ["type", "iceberg"],
            ["comment", None],
            ["option:catalog-type", "hadoop"],
            ["option:token", "***"],
        ],
    )
    assert world.answer("SHOW CREATE CATALOG c")[1] == [
        [
            (
                "CREATE CATALOG `c`\nWITH (\n  'catalog-type' = 'hadoop',\n  'token' = '***',\n"
                "  'type' = 'iceberg'\n)\n"
            )
        ]
    ]


def test_secrets_of_a_configured_catalog_are_not_shown(world: World) -> None:
    assert "hidden" not in str(world.answer("DESCRIBE CATALOG EXTENDED lake"))
    assert "hidden" not in str(world.answer("SHOW CREATE CATALOG lake"))


def test_a_catalog_is_created_once_and_dropped_once(world: World) -> None:
    world.run(CREATE)

    with pytest.raises(DefinitionInvalid, match="Catalog c exists already"):
        world.run(CREATE)
    world.run(CREATE.replace("CATALOG c", "CATALOG IF NOT EXISTS c"))
    world.run("DROP CATALOG c")
    with pytest.raises(
        DefinitionInvalid, match=r"Catalog c does not exist; the catalogs are lake, spark_catalog\."
    ):
        world.run("DROP CATALOG c")
    world.run("DROP CATALOG IF EXISTS c")

    assert world.kept() == {}
    assert world.answer("SHOW CATALOGS")[1] == [["lake"], ["spark_catalog"]]


def test_a_catalog_that_cannot_be_opened_is_not_created(world: World) -> None:
    world.engine.broken_catalogs.add("c")

    with pytest.raises(
        DefinitionInvalid, match="Catalog c cannot be opened, and was not created: Cannot find catalog"
    ):
        world.run(CREATE)

    assert (world.kept(), world.answer("SHOW CATALOGS")[1]) == ({}, [["lake"], ["spark_catalog"]])


def test_the_reason_why_a_catalog_cannot_be_opened_tells_no_secret(world: World) -> None:
    world.engine.broken_catalogs.add("c")
    secrets = "'password' = 'pass.w*rd', 'uri' = 'jdbc:postgresql://u:hidden@h/d?user=u&password=hidden'"

    with pytest.raises(DefinitionInvalid, match=r"password': '\*\*\*'") as refusal:
        world.run(f"CREATE CATALOG c WITH ('type' = 'iceberg', 'catalog-type' = 'jdbc', {secrets})")

    assert "hidden" not in str(refusal.value)
    assert "pass.w*rd" not in str(refusal.value)


@pytest.mark.parametrize("name", ["lake", "spark_catalog"])
@pytest.mark.parametrize(
    "sql",
    [
        "DROP CATALOG {}",
        "DROP CATALOG IF EXISTS {}",
        "ALTER CATALOG {} SET ('a' = 'b')",
        "CREATE CATALOG {} WITH ('type' = 'iceberg', 'catalog-type' = 'hadoop')",
    ],
)
def test_a_configured_catalog_cannot_be_changed(world: World, name: str, sql: str) -> None:
    with pytest.raises(
        DefinitionInvalid, match=f"Catalog {name} is a setting of the gateway .* change the gateway's"
    ):
        world.run(sql.format(name))

    assert world.kept() == {}


def test_a_catalog_which_the_session_set_is_not_the_statements_to_change(world: World) -> None:
    world.session.overrides = {"spark.sql.catalog.mine": "org.example.Catalog"}

    with pytest.raises(
        DefinitionInvalid, match="Catalog mine is a setting of the gateway or of this session"
    ):
        world.run("DROP CATALOG mine")
    with pytest.raises(DefinitionInvalid, match="Catalog mine exists already"):
        world.run(CREATE.replace("CATALOG c", "CATALOG mine"))


def test_options_and_comment_of_a_catalog_are_altered(world: World) -> None:
    world.run(CREATE)

    world.run("ALTER CATALOG c SET ('token' = 'u', 'warehouse' = '/w')")
    world.run("ALTER CATALOG c COMMENT 'old orders'")
    world.run("ALTER CATALOG c RESET ('token', 'absent')")

    assert world.kept() == {"c": {"type": "iceberg", "catalog-type": "hadoop", "warehouse": "/w"}}
    assert world.answer("SHOW CREATE CATALOG c")[1][0][0].startswith(
        "CREATE CATALOG `c`\nCOMMENT 'old orders'\nWITH ("
    )
    assert [settings.get("spark.sql.catalog.c.token") for _, settings in world.engine.opened_catalogs] == [
        "t",
        "u",
        None,
    ]


def test_a_catalog_that_cannot_be_opened_so_is_not_altered(world: World) -> None:
    world.run(CREATE)
    before = world.kept()
    world.engine.broken_catalogs.add("c")

    with pytest.raises(
        DefinitionInvalid, match="Catalog c cannot be opened, and was not altered: Cannot find"
    ):
        world.run("ALTER CATALOG c SET ('warehouse' = '/w')")
    for sql in ("ALTER CATALOG c SET ('type' = 'jdbc')", "ALTER CATALOG c RESET ('type')"):
        with pytest.raises(DefinitionInvalid, match="its 'type' cannot be changed"):
            world.run(sql)
    with pytest.raises(DefinitionInvalid, match="Catalog nope does not exist"):
        world.run("ALTER CATALOG nope COMMENT 'x'")

    assert world.kept() == before


def test_an_unknown_catalog_cannot_be_used(world: World) -> None:
    world.engine.answers["SET CATALOG `spark_catalog`"] = StatementResult(is_query=False, rows=None)

    assert world.run("USE CATALOG spark_catalog").rows.page(0, 1) == [["OK"]]
    with pytest.raises(DefinitionInvalid, match="Catalog nope does not exist"):
        world.run("USE CATALOG nope")


def test_rows_of_a_query_are_refused_where_the_catalog_would_make_an_iceberg_table_of_them(
    world: World,
) -> None:
    options = "(a INT) WITH ('connector' = 'csv', 'path' = '/x')"
    context = world.session.context()

    with pytest.raises(
        DefinitionInvalid, match=r"of a query in Iceberg tables only.*without AS.*spark_catalog\.default\.t"
    ):
        in_spark(
            ReadStatement("CREATE TABLE t WITH ('connector' = 'csv') AS SELECT 1 AS a"), world.engine, context
        )

    passed = [f"CREATE TABLE spark_catalog.default.t {options}", f"CREATE TEMPORARY TABLE t {options}"]
    assert all("USING csv" in in_spark(ReadStatement(text), world.engine, context)[0] for text in passed)
    assert in_spark(ReadStatement("SELECT 1"), world.engine, context) == ("SELECT 1",)


def test_jars_are_shown_in_the_order_in_which_they_were_added(world: World) -> None:
    for jar in ("b.jar", "a.jar", "b.jar"):
        world.run(f"ADD JAR '{jar}'")

    assert world.answer("SHOW JARS") == (["jars"], [["/jars/b.jar"], ["/jars/a.jar"]])


# ------------------------------------------------------------------------------------------------------- jobs


def test_jobs_are_shown_with_the_sessions_wall_clock(world: World) -> None:
    at, insert = "2026-07-02T12:04:05.120Z", ReadStatement("INSERT INTO t SELECT 1")

    with world.jobs.running(world.operation("1"), [insert], world.engine.cancel, session="s"):
        running = world.answer("DESCRIBE JOB '1'")

    assert running == (
        [
            *("job id", "job name", "status", "start time", "kind", "end time", "session", "user", "target"),
            *("rows read", "affected rows", "checkpoint", "restarts", "error", "hooks"),
            *("statement", "offsets", "savepoint path", "states"),
        ],
        [
            [
                *(
                    "1",
                    "insert-t",
                    "RUNNING",
                    at,
                    "INSERT",
                    None,
                    "s",
                    None,
                    "t",
                    None,
                    None,
                    None,
                    0,
                    None,
                    None,
                ),
                *("INSERT INTO t SELECT 1", None, None, None),
            ]
        ],
    )
    assert world.answer("SHOW JOBS") == (
        ["job id", "job name", "status", "start time", "kind", "end time"],
        [["1", "insert-t", "FINISHED", at, "INSERT", at]],
    )
    with pytest.raises(OperationNotFound, match="Job nope is not known; SHOW JOBS"):
        world.run("DESCRIBE JOB 'nope'")


def test_show_jobs_lists_those_whose_name_matches(world: World) -> None:
    for number, text in enumerate(("INSERT INTO t SELECT 1", "INSERT INTO u SELECT 1", "SELECT 1")):
        with world.jobs.running(world.operation(str(number)), [ReadStatement(text)], print):
            pass

    assert [row[1] for row in world.answer("SHOW JOBS LIKE 'insert-%'")[1]] == ["insert-t", "insert-u"]
    assert [row[1] for row in world.answer("SHOW JOBS NOT LIKE '%-t'")[1]] == ["insert-u", "collect"]


def test_a_change_of_data_is_stored_with_its_text_without_secrets_and_a_query_is_not(world: World) -> None:
    text = "INSERT INTO t /*+ OPTIONS('password'='hidden-1') */ SELECT 'a' FROM u"

    with world.jobs.running(
        world.operation("1"), [ReadStatement(text), ReadStatement("INSERT INTO v.w SELECT 1")], print
    ):
        pass
    with world.jobs.running(world.operation("2"), [ReadStatement("SELECT 1")], print):
        pass

    [job] = world.store.newest(10)
    assert (job.kind, job.name, job.target, job.owner) == ("STATEMENT SET", "insert-t", "t, v.w", "gateway")
    assert job.statement == f"{text.replace('hidden-1', '***')};\nINSERT INTO v.w SELECT 1"


def test_a_job_that_failed_says_why(world: World) -> None:
    with (
        pytest.raises(Canceled),
        world.jobs.running(world.operation("1"), [ReadStatement("DELETE FROM t")], print),
    ):
        raise Canceled("stopped")
    with (
        pytest.raises(MtError),
        world.jobs.running(world.operation("2"), [ReadStatement("DELETE FROM t")], print),
    ):
        raise MtError("no access to https://u:hidden-1@host")

    assert [world.answer(f"DESCRIBE JOB '{job}'")[1][0][2::11] for job in "12"] == [
        ["CANCELED", None], ["FAILED", "no access to https://u:***@host"],
    ]  # fmt: skip


def test_a_change_that_has_not_ended_is_listed_once_however_many_began_after_it(world: World) -> None:
    with world.jobs.running(world.operation("first"), [ReadStatement("DELETE FROM t")], print):
        listed = [[row[0] for row in world.answer("SHOW JOBS")[1]]]
        for number in range(4):
            world.clock.advance(timedelta(seconds=1))
            with world.jobs.running(world.operation(str(number)), [ReadStatement("DELETE FROM t")], print):
                pass
        listed.append([row[0] for row in world.answer("SHOW JOBS")[1]])

    assert listed == [["first"], ["first", "1", "2", "3"]]
    assert [row[0] for row in world.answer("SHOW JOBS")[1]] == ["1", "2", "3"]


def test_a_job_of_an_earlier_process_is_known_and_cannot_be_stopped(world: World) -> None:
    with world.jobs.running(world.operation("1"), [ReadStatement("DELETE FROM t")], print):
        pass
    world.jobs = Jobs(world.clock, world.runs, JobStore(world.registry, owner="next", clock=world.clock))
    world.answers = world.answers_of(world.jobs)

    assert world.answer("SHOW JOBS")[1][0][:3] == ["1", "delete-t", "FINISHED"]
    assert world.answer("DESCRIBE JOB '1'")[1][0][:3] == ["1", "delete-t", "FINISHED"]
    with pytest.raises(IllegalStatus, match="Job 1 is FINISHED and cannot be stopped any more"):
        world.run("STOP JOB '1'")


def test_a_job_that_is_done_says_how_many_rows_it_wrote(world: World) -> None:
    with world.jobs.running(world.operation("1"), [ReadStatement("INSERT INTO t SELECT 1")], print) as follow:
        follow(StatementResult(is_query=False, rows=None, affected_rows=7))

    assert world.answer("DESCRIBE JOB '1'")[1][0][2:11:8] == ["FINISHED", 7]


def test_a_stopped_job_is_cancelled_and_ends_so(world: World) -> None:
    operation = world.operation("1")

    def work() -> None:
        with world.jobs.running(operation, [ReadStatement("SELECT 1")], world.engine.cancel):
            world.run("STOP JOB '1'")
            raise Canceled("Job 1 was cancelled.")

    with pytest.raises(Canceled):
        work()

    assert (operation.status, world.engine.canceled) == (OperationStatus.CANCELED, ["1"])
    assert world.answer("SHOW JOBS")[1][0][1:3] == ["collect", "CANCELED"]
    with pytest.raises(IllegalStatus, match="Job 1 is CANCELED"):
        world.run("STOP JOB '1'")


def test_a_table_that_is_refreshed_continuously_is_a_job_that_can_be_stopped() -> None:
    world = World()
    table = TableIdentifier("lake", ("shop",), "live")
    world.runs.continuous.append(ContinuousJob(job_id="c0ffee", table=table, started_at=NOW))
    at = "2026-07-02T12:04:05.120Z"
    listed = ["c0ffee", "refresh-lake.shop.live", "RUNNING", at, "CONTINUOUS REFRESH", None]

    assert world.answer("SHOW JOBS")[1] == [listed]
    assert world.answer("DESCRIBE JOB 'c0ffee'")[1] == [
        [*listed, None, None, "lake.shop.live", None, None, None, 0, None, None, None, None, None, None]
    ]
    world.run("STOP JOB 'c0ffee'")
    assert world.answer("SHOW JOBS")[1] == []


def test_a_job_whose_operation_was_closed_can_still_be_stopped(world: World) -> None:
    operation = world.operation("1")

    with world.jobs.running(operation, [ReadStatement("INSERT INTO t VALUES (1)")], world.engine.cancel):
        operation.close()
        world.run("STOP JOB '1'")

    assert (operation.status, world.engine.canceled) == (OperationStatus.CLOSED, ["1"])


def test_a_failed_job_says_so_and_old_ones_are_forgotten_but_for_those_that_run(world: World) -> None:
    with world.jobs.running(world.operation("0"), [ReadStatement("SELECT 0")], world.engine.cancel):
        for number in range(1, 6):
            with (
                pytest.raises(QueryFailed),
                world.jobs.running(world.operation(f"{number}"), [ReadStatement("SELECT 1")], print),
            ):
                raise QueryFailed("no")
        with world.jobs.running(world.operation("x"), [ReadStatement("CREATE TABLE t (a INT)")], print):
            pass

    assert [(job.job_id, job.status) for job in world.jobs.jobs()] == [
        ("0", JobStatus.FINISHED),
        ("4", JobStatus.FAILED),
        ("5", JobStatus.FAILED),
    ]


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SELECT 1", "collect"),
        ("WITH x AS (SELECT 1) SELECT * FROM x", "collect"),
        ("/* c */ INSERT INTO c.`d e`.t SELECT 1", "insert-c.d e.t"),
        ("INSERT OVERWRITE TABLE t VALUES (1)", "insert-t"),
        ("CREATE TABLE IF NOT EXISTS t AS SELECT 1", "create-table-as-t"),
        ("CREATE OR REPLACE TABLE d.t AS SELECT 1", "replace-table-as-d.t"),
        ("DELETE FROM t WHERE a = 1", "delete-t"),
        ("UPDATE t SET a = 1", "update-t"),
        ("MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE", "merge-t"),
    ],
)
def test_a_job_is_called_by_what_it_does_to_which_table(sql: str, name: str) -> None:
    assert job_name(ReadStatement(sql)) == name


def test_a_refresh_whose_process_was_lost_is_restarting_and_can_be_stopped(world: World) -> None:
    run = world.runs.queue(job_id="r" * 32, attempt=2)

    described = world.answer(f"DESCRIBE JOB '{'r' * 32}'")[1]
    world.run(f"STOP JOB '{'r' * 32}'")

    assert described[0][1:3] == ["refresh-lake.default.table", "RESTARTING"]
    assert world.runs.canceled == [run.run_id]
