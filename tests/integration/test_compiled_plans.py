"""Compiled plans on a real Spark: what a statement gives is the same each time,
and the TTLs of a plan act on its state.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest

from mt_core.app.statement_wiring import StatementPorts, wire_statements
from mt_core.clock import SystemClock
from mt_core.jobs.store import JobStore
from mt_core.model.job import Job, JobStatus
from mt_core.sessions.catalog.created_catalogs import CreatedCatalogs
from mt_core.sessions.catalog.created_functions import CreatedFunctions
from mt_core.sessions.operations.operation import Operation
from mt_core.sessions.properties.stream_properties import StreamDefaults
from mt_core.sessions.session import Session
from mt_core.sessions.streaming.streaming_statements import Streams
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.files.plan_files import StoredPlans
from mt_core.spark.statements.spark_statements import SparkStatements
from mt_core.streaming.owner import StreamOwner
from tests.integration.stream_world import StreamWorld
from tests.support.fake_commands import FakeRuns, FakeTableCommands
from tests.support.memory_registry import MemoryRegistry
from tests.support.plans import FIRST_EXAMPLE

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

FIRSTS = (
    "INSERT INTO firsts SELECT city, n FROM (SELECT {hint} city, n, ROW_NUMBER() OVER (PARTITION BY city "
    "ORDER BY p) AS rn FROM (SELECT *, current_timestamp() AS p FROM clicks) AS c) WHERE rn = 1"
)


class Gateway:
    """A session of a gateway that keeps plans and runs detached jobs, in a namespace of its own."""

    def __init__(self, driver: SparkDriver, folder: Path) -> None:
        self.world = StreamWorld(driver, folder)
        self.world.sql("CREATE TABLE clicks (city STRING, n INT)")
        self.world.sql("CREATE TABLE firsts (city STRING, n INT)")
        clock = SystemClock()
        registry = MemoryRegistry(clock)
        store = self.store = JobStore(registry, owner="plans", clock=clock)
        self.owner = StreamOwner(store, self.world.engine, clock=clock, ready=lambda: True)
        self.plans = StoredPlans(driver, folder / "sessions")
        self.executor = wire_statements(
            StatementPorts(
                engine=SparkStatements(SparkContexts(driver), connectors=self.world.connectors.all),
                commands=FakeTableCommands(),
                runs=FakeRuns(clock),
                clock=clock,
                cluster_info=dict,
                catalogs=CreatedCatalogs(registry, reserved=("lake", "spark_catalog")),
                jobs=store,
                connector_tables=self.world.connectors,
                functions=CreatedFunctions(registry),
                streams=Streams(
                    engine=self.world.engine,
                    owner=self.owner,
                    defaults=StreamDefaults(checkpoints=str(folder / "c"), savepoints=str(folder / "s")),
                ),
                plans=self.plans,
                threads=8,
            )
        ).executor
        self.clock = clock
        self.session = self.opened(f"plans-{folder.name}")
        self.file = folder / "sessions" / self.session.handle / "plan.json"
        for statement in (f"USE lake.{self.world.namespace}", "SET 'execution.runtime-mode' = 'streaming'"):
            self.sql(statement)

    def opened(self, handle: str) -> Session:
        """Return a new session, whose current database is the default one."""
        return Session(handle, name=None, defaults={}, properties={}, opened_at=self.clock.now())

    def perform(self, text: str) -> Operation:
        operation = self.executor.submit(self.session, text)
        while not operation.wait(0.1):
            wait(self.owner.pass_over())
        return operation

    def sql(self, text: str) -> list[list[Any]]:
        operation = self.perform(text)
        assert operation.error is None, operation.error
        assert operation.result is not None
        rows = operation.result.rows.page(0, 10)
        wait(self.owner.pass_over())
        return rows

    def refused(self, text: str) -> str:
        return str(self.perform(text).error)

    def set_ttl(self, ttl: str, name: str) -> None:
        """Edit the file of a plan with one state of that name."""
        body = json.loads(self.file.read_text(encoding="utf-8"))
        [state] = [
            state for node in body["nodes"] for state in node.get("state", ()) if state["name"] == name
        ]
        state["ttl"] = ttl
        self.file.write_text(json.dumps(body), encoding="utf-8")

    def wait_finished(self, job_id: str) -> Job:
        """Wait until a job has read all that its sources will ever have."""

        def job() -> Job:
            wait(self.owner.pass_over())
            found = self.store.get(job_id)
            assert found is not None
            return found

        self.world.wait(lambda: job().status is JobStatus.FINISHED)
        return job()

    def click(self, *rows: tuple[str, int]) -> None:
        self.world.sql(f"INSERT INTO clicks VALUES {', '.join(f'({city!r}, {n})' for city, n in rows)}")

    def wait_firsts(self, *expected: tuple[str, int]) -> None:
        def firsts() -> list[tuple[str, int]]:
            return sorted(tuple(row) for row in self.world.sql("SELECT * FROM firsts"))

        self.world.wait(lambda: len(firsts()) >= len(expected))
        assert firsts() == sorted(expected)


@pytest.fixture
def gateway(spark_driver: SparkDriver, tmp_path: Path) -> Iterator[Gateway]:
    made = Gateway(spark_driver, tmp_path)
    yield made
    made.world.stop_all()
    made.executor.close()


@pytest.mark.slow
def test_the_ttl_that_a_user_writes_into_a_plan_acts_on_the_state_of_a_savepoint(gateway: Gateway) -> None:
    gateway.click(("Rome", 1))
    hinted = FIRSTS.format(hint="/*+ STATE_TTL('c' = '7 d') */")

    compiled = gateway.sql(f"COMPILE PLAN 'plan.json' FOR {hinted}")
    [[explained]] = gateway.sql("EXPLAIN PLAN 'plan.json'")
    [[first]] = gateway.sql("EXECUTE PLAN 'plan.json'")
    gateway.wait_firsts(("Rome", 1))
    [[savepoint]] = gateway.sql(f"STOP JOB '{first}' WITH SAVEPOINT")
    gateway.set_ttl("1 ms", "deduplicateState")
    gateway.sql(f"SET 'execution.savepoint.path' = '{savepoint}'")
    [[_second]] = gateway.sql("EXECUTE PLAN 'plan.json'")
    # The state of Rome is older than a millisecond: it was written when it was to be kept for days,
    # and holds; Oslo's expires.
    gateway.click(("Oslo", 2))
    gateway.wait_firsts(("Rome", 1), ("Oslo", 2))
    gateway.click(("Oslo", 3))

    gateway.wait_firsts(("Rome", 1), ("Oslo", 2), ("Oslo", 3))
    assert compiled == [["OK"]]
    assert "state=[deduplicateState: 7 d]" in explained
    assert "The statements still have these operators: the plan can be executed." in explained


@pytest.mark.slow
def test_the_first_example_of_flip_292_runs_with_an_hour_and_a_day(gateway: Gateway, tmp_path: Path) -> None:
    gateway.sql(
        "CREATE TEMPORARY TABLE Orders (order_id STRING, user_id STRING, product_id STRING, "
        "num BIGINT, proctime AS PROCTIME()) WITH ('connector' = 'datagen', 'rows-per-second' = '100', "
        "'fields.product_id.length' = '1', 'fields.num.min' = '1', 'fields.num.max' = '9')"
    )
    gateway.sql(
        "CREATE TEMPORARY TABLE Stats (product_id STRING, buy_uv BIGINT, order_cnt BIGINT, "
        "quantity_cnt BIGINT) WITH ('connector' = 'blackhole')"
    )
    uri, gateway.file = f"file:{tmp_path}/bar/example.json", tmp_path / "bar" / "example.json"

    gateway.sql(f"""COMPILE PLAN '{uri}' FOR
INSERT INTO Stats
{FIRST_EXAMPLE}""")
    gateway.set_ttl("1 h", "deduplicateState")
    gateway.set_ttl("24 h", "groupAggregateState")
    [[explained]] = gateway.sql(f"EXPLAIN PLAN '{uri}'")
    [[job_id]] = gateway.sql(f"EXECUTE PLAN '{uri}'")

    gateway.world.wait(lambda: (gateway.world.engine.progress(job_id).rows_written or 0) > 100)
    [member] = gateway.world.engine.started[job_id].members
    assert member.state_ttls == (("1 h",), ("1 d",))
    assert "state=[groupAggregateState: 1 d]" in explained
    assert "state=[deduplicateState: 1 h]" in explained


@pytest.mark.slow
def test_the_second_example_of_flip_292_keeps_orders_for_seven_days_and_shipments_for_one(
    gateway: Gateway,
) -> None:
    ending = "'connector' = 'datagen', 'rows-per-second' = '50', 'number-of-rows' = '60'"
    number = (
        "'fields.order_id.kind' = 'sequence', 'fields.order_id.start' = '1', 'fields.order_id.end' = '60'"
    )
    for statement in (
        "CREATE TEMPORARY TABLE Orders (gmt_create TIMESTAMP(3), gmt_modified TIMESTAMP(3), "
        f"order_id STRING NOT NULL, PRIMARY KEY (order_id) NOT ENFORCED) WITH ({ending}, {number})",
        "CREATE TEMPORARY TABLE Logistics (gmt_create TIMESTAMP(3), "
        "gmt_modified TIMESTAMP(3), order_line_id STRING NOT NULL, "
        "order_id STRING NOT NULL, product_id STRING NOT NULL, shipment_status STRING, "
        f"PRIMARY KEY (order_id, order_line_id) NOT ENFORCED) WITH ({ending}, {number})",
        "CREATE TEMPORARY TABLE EnrichedOrders (order_line_id STRING NOT NULL, order_id STRING NOT NULL, "
        "product_id STRING NOT NULL, order_placed_ts TIMESTAMP(3), order_shipped_ts TIMESTAMP(3), "
        "PRIMARY KEY (order_line_id, order_id) NOT ENFORCED) WITH ('connector' = 'blackhole')",
        # No generated status is SHIPPED; here each is another one than CANCELED.
        "CREATE TEMPORARY VIEW order_shipped AS SELECT gmt_modified AS order_shipped_ts, order_line_id, "
        "order_id, product_id FROM Logistics WHERE shipment_status <> 'CANCELED'",
        "CREATE TEMPORARY VIEW enriched_view AS SELECT tmp_b.order_line_id, tmp_a.order_id, "
        "tmp_b.product_id, tmp_a.gmt_create AS order_placed_ts, tmp_b.order_shipped_ts "
        "FROM Orders tmp_a JOIN order_shipped tmp_b ON tmp_a.order_id = tmp_b.order_id",
        "SET 'table.exec.state.ttl' = '7d'",
        "COMPILE PLAN 'plan.json' FOR INSERT INTO EnrichedOrders SELECT * FROM enriched_view",
    ):
        gateway.sql(statement)
    gateway.set_ttl("1 d", "rightState")

    [[explained]] = gateway.sql("EXPLAIN PLAN 'plan.json'")
    [[job_id]] = gateway.sql("EXECUTE PLAN 'plan.json'")
    job = gateway.wait_finished(job_id)

    [member] = gateway.world.engine.started[job_id].members
    assert job.rows_written == 60
    assert member.state_ttls == (("7 d", "1 d"),)
    assert "state=[leftState: 7 d, rightState: 1 d]" in explained


def test_a_plan_whose_table_was_altered_is_refused_before_anything_starts(gateway: Gateway) -> None:
    insert = FIRSTS.format(hint="").replace("city, n FROM (", "city, n FROM (", 1)
    gateway.sql(
        f"COMPILE PLAN 'plan.json' FOR STATEMENT SET BEGIN {insert}; INSERT INTO arrivals "
        "SELECT row FROM flights; END"
    )
    gateway.world.sql("ALTER TABLE clicks ALTER COLUMN n TYPE BIGINT")
    gateway.world.sql("ALTER TABLE firsts ALTER COLUMN n TYPE BIGINT")

    refused = gateway.refused("EXECUTE PLAN 'plan.json'")

    assert "Plan plan.json: the statement has other operators than when it was compiled" in refused
    assert "`n` int" in refused
    assert gateway.sql("SHOW JOBS") == []


def test_a_batch_plan_is_the_same_each_time_and_runs_its_statements(gateway: Gateway) -> None:
    gateway.sql("SET 'execution.runtime-mode' = 'batch'")
    gateway.click(("Rome", 1))

    gateway.sql("COMPILE PLAN 'plan.json' FOR INSERT INTO firsts SELECT city, n + 1 FROM clicks")
    gateway.sql("EXECUTE PLAN 'plan.json'")

    gateway.wait_firsts(("Rome", 2))
    body = json.loads(gateway.file.read_text(encoding="utf-8"))
    assert (body["mode"], body["nodes"][0]["type"]) == ("batch", "batch-exec-table-source-scan_2")


def test_a_batch_plan_runs_in_another_session_with_its_database_and_its_temporary_objects(
    gateway: Gateway, tmp_path: Path
) -> None:
    gateway.sql("SET 'execution.runtime-mode' = 'batch'")
    gateway.click(("Rome", 1))
    gateway.sql("CREATE TEMPORARY VIEW doubled AS SELECT city, n * 2 AS n FROM clicks")
    uri = (tmp_path / "plan.json").as_uri()
    gateway.sql(
        f"COMPILE PLAN '{uri}' FOR STATEMENT SET BEGIN INSERT INTO firsts SELECT city, n FROM doubled; "
        "INSERT INTO firsts SELECT city, n * 2 FROM doubled; END"
    )
    gateway.session = gateway.opened(f"other-{tmp_path.name}")

    [[explained]] = gateway.sql(f"EXPLAIN PLAN '{uri}'")
    gateway.sql(f"EXECUTE PLAN '{uri}'")

    gateway.wait_firsts(("Rome", 2), ("Rome", 4))
    assert "the plan can be executed" in explained
    assert "doubled" not in [row[0] for row in gateway.sql("SHOW VIEWS")]
    assert "[TABLE_OR_VIEW_NOT_FOUND]" in gateway.refused("SELECT * FROM doubled")


def test_a_plan_on_a_file_system_of_hadoop_is_written_read_and_replaced(
    gateway: Gateway, tmp_path: Path
) -> None:
    hadoop = gateway.world.session.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.viewfs.mounttable.plans.link./dir", tmp_path.as_uri())
    uri, insert = "viewfs://plans/dir/plan.json", "INSERT INTO arrivals SELECT row FROM flights"

    gateway.sql(f"COMPILE PLAN '{uri}' FOR {insert}")
    refused = gateway.refused(f"COMPILE PLAN '{uri}' FOR {insert}")
    gateway.sql("SET 'table.plan.force-recompile' = 'true'")
    gateway.sql(f"COMPILE PLAN '{uri}' FOR {insert} WHERE row IS NOT NULL")
    gateway.sql(f"EXECUTE PLAN '{uri}'")
    gateway.world.append("x")

    gateway.world.wait_rows(["x"])
    assert f"Cannot overwrite the plan file {uri}" in refused
    assert "IS NOT NULL" in (tmp_path / "plan.json").read_text(encoding="utf-8")
    assert [each.name for each in tmp_path.glob("plan.json*")] == ["plan.json"]


def test_a_job_whose_checkpoints_have_no_file_system_is_refused_before_it_starts(gateway: Gateway) -> None:
    gateway.sql("SET 'execution.checkpointing.dir' = 's3a://bucket/c'")

    refused = gateway.refused("INSERT INTO arrivals SELECT row FROM flights")

    assert "Checkpoint s3a://bucket/c/" in refused
    assert "Spark has no file system for s3a://" in refused
    assert "run `freshtable jars add s3a`" in refused
    assert gateway.sql("SHOW JOBS") == []


def test_a_plan_on_a_file_system_without_its_jar_is_refused_naming_the_jar(gateway: Gateway) -> None:
    refused = gateway.refused("EXECUTE PLAN 'oss://bucket/plan.json'")

    assert "Plan oss://bucket/plan.json: Spark has no file system for oss://" in refused
    assert "add hadoop-aliyun" in refused
