"""A gateway on a real Spark cluster: executors and the cluster itself die, and what was asked
for is done all the same.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psutil
import pytest

from mt_core.client.http import GatewayClient, Refresh
from mt_core.errors import GatewayError
from tests.integration.standalone_cluster import StandaloneCluster
from tests.support.added_jar import words_jar
from tests.support.function_code import function_jar, greeting
from tests.support.gateway.own_process import WAIT_S, GatewayUnderTest, Row, rows_of, wait_until
from tests.support.ports import SASL, TOKEN, refusals

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
LOST_AFTER_S = 5
BACK_S = 180.0
# Some seconds in eight tasks.
SLOW = (
    "SELECT count(*) AS n, max(source.v) AS v FROM range(0, 300000000, 1, 8) r CROSS JOIN source "
    "WHERE hash(r.id) % 7 = 3"
)

# Deduplication, an aggregate, a join, and a rank of what these change.
FIRSTS = (
    "(SELECT n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY n ORDER BY now()) AS first "
    "FROM flights) WHERE first = 1)"
)
TOTALS = f"(SELECT n % 4 AS k, sum(n) AS total FROM {FIRSTS} GROUP BY 1)"
TOPS = (
    "SELECT town, rn, k, total FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY town ORDER BY total DESC) "
    f"AS rn FROM (SELECT town, s.k, total FROM {TOTALS} AS s JOIN towns AS t ON s.k = t.k)) WHERE rn <= 2"
)


@pytest.fixture(scope="module")
def gateway(
    cluster: StandaloneCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayUnderTest]:
    python = f"spark.pyspark.python={sys.executable}"
    settings = (*cluster.settings, python, f"sql-gateway.engine.lost-after={LOST_AFTER_S} s")
    with GatewayUnderTest(tmp_path_factory.mktemp("on-cluster") / "home", settings) as gateway:
        gateway.start()
        gateway.sql("CREATE TABLE source (v INT)")
        # Of no rows, which takes no time.
        gateway.sql(
            f"CREATE MATERIALIZED TABLE kept FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS {SLOW}"
        )
        yield gateway


class Functions:
    """An added jar, functions of two jars with a class of one name, and two of a Python file
    that has changed since.
    """

    def __init__(self, gateway: GatewayUnderTest, cluster: StandaloneCluster, folder: Path) -> None:
        self._gateway, self._cluster = gateway, cluster
        gateway.sql(f"ADD JAR '{words_jar(folder, 'Heard')}'")
        for name in ("hello", "ciao"):
            jar = function_jar(folder, f"{name}.jar", **greeting(name))
            gateway.sql(
                f"CREATE FUNCTION {'greet' if name == 'hello' else name} AS 'shop.Greet' USING JAR '{jar}'"
            )
        self._file = folder / "scores.py"
        for name, value in (("score", 1), ("more", 2)):
            self._file.write_text(f"def f(x: int) -> int:\n    return {value}\n")
            gateway.sql(f"CREATE FUNCTION {name} AS 'scores.f' LANGUAGE PYTHON USING FILE '{self._file}'")
        self._file.write_text("def f(x: int) -> int:\n    return 3\n")
        self.versions: list[Row] = [
            {"w": "hello0"},
            {"greet": "hello0", "ciao": "ciao0", "score": 1, "more": 2},
        ]

    def scores_while_another_is_replaced(self) -> list[Row]:
        """Return what a query in many tasks gets of one version, while the other one is replaced."""
        query = "SELECT DISTINCT score(CAST(id * 0 AS INT)) AS s FROM range(0, 2000000, 1, 16)"
        with ThreadPoolExecutor(1) as pool:
            slow = pool.submit(self._gateway.sql, query)
            self._gateway.sql(
                f"CREATE OR REPLACE FUNCTION more AS 'scores.f' LANGUAGE PYTHON USING FILE '{self._file}'"
            )
            self.versions[1]["more"] = 3
            return slow.result()

    def called(self) -> list[Row]:
        """Call both versions of the functions on the driver, which computes what is constant,
        and on the executors.
        """
        calls = ", ".join(
            f"{each}(CAST(id * 0 AS INT)) AS {each}" for each in ("greet", "ciao", "score", "more")
        )
        texts = ("SELECT greet(0) AS w", f"SELECT DISTINCT {calls} FROM range(0, 64, 1, 8)")
        return [row for text in texts for row in self._gateway.sql(text)]

    def are_on_executors(self) -> bool:
        """Whether a method of the added jar was called on the executors alone."""
        executors = {str(each.pid) for each in self._cluster.executors()}
        pids = self._gateway.sql(
            "SELECT DISTINCT reflect('shop.Heard', 'pid') AS pid FROM range(0, 64, 1, 8)"
        )
        return {row["pid"] for row in pids} <= executors


@pytest.fixture(scope="module")
def functions(
    gateway: GatewayUnderTest, cluster: StandaloneCluster, tmp_path_factory: pytest.TempPathFactory
) -> Functions:
    return Functions(gateway, cluster, tmp_path_factory.mktemp("functions"))


def change(gateway: GatewayUnderTest, value: int) -> str:
    """Change the source, ask for a refresh, and return its handle once it runs on the cluster."""
    gateway.sql(f"INSERT INTO source VALUES ({value})")
    with GatewayClient(gateway.url) as client:
        handle = client.refresh(Refresh(identifier="lake.default.kept"))
    wait_until(lambda: gateway.run("kept", handle)["status"] == "RUNNING", "the refresh never began")
    return handle


def engine(gateway: GatewayUnderTest) -> str:
    return httpx.get(f"{gateway.url}/v3/info", timeout=WAIT_S).headers["Freshtable-Engine"]


def fact(gateway: GatewayUnderTest, key: str) -> str | None:
    rows = gateway.sql("DESCRIBE EXTENDED kept")
    return next((str(row["type"]) for row in rows if row["name"] == key), None)


def test_driver_and_executors_ask_for_the_secret_of_the_cluster_which_is_shown_nowhere(
    gateway: GatewayUnderTest, cluster: StandaloneCluster
) -> None:
    wait_until(lambda: len(cluster.executors()) == 2, "no executors")
    pids = [gateway.jvm_pid, *(executor.pid for executor in cluster.executors())]

    asked = [refusals(pid) for pid in pids]
    commands = [" ".join(psutil.Process(pid).cmdline()) for pid in pids]
    sets = ("SET", "SET -v", "SET spark.authenticate.secret")
    rows = [str(row) for statement in sets for row in gateway.sql(statement)]
    logs = [path.read_text(encoding="utf-8", errors="replace") for path in gateway.home.glob("logs/*.log")]

    assert asked == [[SASL, SASL, TOKEN], [SASL], [SASL]]
    assert rows
    assert logs
    assert not [text for text in (*commands, *rows, *logs, cluster.log()) if cluster.secret in text]


def test_a_large_partition_comes_from_executors_in_parts(gateway: GatewayUnderTest) -> None:
    received = 0
    with gateway.client() as client:
        for batch in client.fetch_arrow_batches(client.execute("SELECT id FROM range(0, 5000000, 1, 1)")):
            assert batch.column(0).to_pylist() == list(range(received, received + batch.num_rows))
            received += batch.num_rows

    assert received == 5_000_000


class Job:
    """A streaming job that copies the numbers of flights, and ranks towns by what lands there."""

    def __init__(self, gateway: GatewayUnderTest) -> None:
        self._gateway = gateway
        gateway.sql("CREATE TABLE flights (n INT)")
        gateway.sql("CREATE TABLE towns (k INT, town STRING)")
        gateway.sql("INSERT INTO towns VALUES (0, 'Rome'), (1, 'Oslo'), (2, 'Rome'), (3, 'Rome')")
        gateway.sql("CREATE TABLE arrivals (n INT)")
        gateway.sql("CREATE TABLE tops (town STRING NOT NULL, rn INT NOT NULL, k INT, total BIGINT)")
        gateway.sql("ALTER TABLE tops SET IDENTIFIER FIELDS town, rn")
        inserts = f"INSERT INTO arrivals SELECT n FROM flights; INSERT INTO tops {TOPS};"
        with gateway.client() as client:
            rows_of(client, "SET 'execution.runtime-mode' = 'streaming'")
            [answer] = rows_of(client, f"EXECUTE STATEMENT SET BEGIN {inserts} END")
        self._job_id = answer["job id"]

    def fly(self, *numbers: int) -> None:
        self._gateway.sql(f"INSERT INTO flights VALUES {', '.join(f'({number})' for number in numbers)}")

    def wait_arrived(self, *numbers: int) -> None:
        def arrived() -> list[int]:
            return sorted(row["n"] for row in self._gateway.sql("SELECT n FROM arrivals"))

        wait_until(lambda: len(arrived()) >= len(numbers), "rows are missing", BACK_S)
        assert arrived() == sorted(numbers)

    def stop(self) -> Path:
        """Stop the job once it has written all rows, and return its savepoint."""
        [stopped] = self._gateway.sql(f"STOP JOB '{self._job_id}' WITH SAVEPOINT WITH DRAIN")
        return Path(str(stopped["savepoint path"]))


def test_the_driver_computes_a_small_change_and_the_rows_are_those_of_the_query(
    gateway: GatewayUnderTest,
) -> None:
    query = "SELECT city, count(*) AS n, sum(price) AS price, max(items) AS items FROM sold GROUP BY city"
    gateway.sql("CREATE TABLE sold (city STRING, price DECIMAL(9, 2), items ARRAY<INT>)")
    gateway.sql("INSERT INTO sold VALUES ('Rome', 1.50, array(1)), ('Oslo', 2, NULL), (NULL, 3, array(3))")
    gateway.sql(
        "CREATE MATERIALIZED TABLE sales WITH ('refresh.strategy' = 'incremental') "
        f"FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS {query}"
    )
    gateway.sql(
        "INSERT INTO sold VALUES ('Rome', 10, array(7)), ('Paris', 0.25, array(2, 2)), (NULL, 4, array(4))"
    )
    before = inline_plans(gateway)

    with gateway.client() as client:
        due = Refresh(
            identifier="lake.default.sales", is_periodic=True, schedule_time=f"{datetime.now(UTC):%F %T}"
        )
        run = gateway.wait_ended("sales", client.refresh(due))

    assert run["status"] == "SUCCEEDED"
    assert gateway.sql("SELECT * FROM sales ORDER BY city") == gateway.sql(f"{query} ORDER BY city")
    assert inline_plans(gateway) > before


def inline_plans(gateway: GatewayUnderTest) -> int:
    """Return how many inline plans have run, by the log."""
    return (gateway.home / "logs" / "gateway.log").read_text(encoding="utf-8").count('"inline_plan"')


@pytest.mark.kills
def test_an_executor_that_dies_costs_no_attempt_of_a_refresh_no_row_of_a_job_and_no_version_of_a_function(
    gateway: GatewayUnderTest, cluster: StandaloneCluster, functions: Functions
) -> None:
    job = Job(gateway)
    job.fly(1, 2, 3, 4, 6)
    job.wait_arrived(1, 2, 3, 4, 6)
    scores = functions.scores_while_another_is_replaced()
    at_first = functions.called(), functions.are_on_executors()
    handle = change(gateway, 2)
    wait_until(lambda: len(cluster.executors()) == 2, "no executors")

    cluster.kill_executor()
    job.fly(3, 4, 7, 8, 5)
    run = gateway.wait_ended("kept", handle)
    job.wait_arrived(1, 2, 3, 3, 4, 4, 5, 6, 7, 8)
    savepoint = job.stop()
    wait_until(lambda: len(cluster.executors()) == 2, "no new executor", BACK_S)

    assert (run["status"], run["attempt"]) == ("SUCCEEDED", 1)
    assert gateway.published("kept", handle) == 1
    assert gateway.sql("SELECT v FROM kept") == [{"v": 2}]
    assert savepoint.is_dir()
    assert gateway.sql("SELECT * FROM tops ORDER BY town, rn") == [
        {"town": "Oslo", "rn": 1, "k": 1, "total": 6},
        {"town": "Rome", "rn": 1, "k": 0, "total": 12},
        {"town": "Rome", "rn": 2, "k": 3, "total": 10},
    ]
    assert scores == [{"s": 1}]
    assert at_first == (functions.called(), functions.are_on_executors()) == (functions.versions, True)


@pytest.mark.kills
def test_executors_call_jars_and_each_version_of_a_function_after_a_lost_jvm(
    gateway: GatewayUnderTest, functions: Functions
) -> None:
    gateway.sql("INSERT INTO source VALUES (1)")
    gateway.sql(
        "CREATE MATERIALIZED TABLE heard FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS "
        "SELECT reflect('shop.Heard', 'shout', CAST(v AS STRING)) AS word FROM source WHERE v = 1"
    )
    os.kill(gateway.jvm_pid, signal.SIGKILL)
    wait_until(lambda: engine(gateway) != "READY", "the lost JVM was not noticed", BACK_S)
    with GatewayClient(gateway.url) as client:
        handle = client.refresh(Refresh(identifier="lake.default.heard"))
    wait_until(lambda: engine(gateway) == "READY", "Spark did not come back", BACK_S)
    run = gateway.wait_ended("heard", handle)

    assert (functions.called(), functions.are_on_executors()) == (functions.versions, True)
    assert run["status"] == "SUCCEEDED"
    assert gateway.sql("SELECT word FROM heard") == [{"word": "1!"}]
    gateway.sql("DROP MATERIALIZED TABLE heard")


def test_a_cluster_that_is_lost_is_said_everywhere_and_work_goes_on_once_one_is_back(
    gateway: GatewayUnderTest, cluster: StandaloneCluster, functions: Functions
) -> None:
    before = engine(gateway), fact(gateway, "engine")
    handle = change(gateway, 3)

    cluster.stop()
    with (
        GatewayClient(gateway.url) as client,
        pytest.raises(GatewayError, match="accepted no work") as caught,
    ):
        rows_of(client, "SELECT count(*) AS n FROM range(0, 1000, 1, 8)")
    with pytest.raises(GatewayError, match="accepted no work"):
        fact(gateway, "engine")
    said = engine(gateway)
    cluster.start()
    wait_until(lambda: engine(gateway) == "READY", "Spark did not come back", BACK_S)
    run = gateway.wait_ended("kept", handle)

    assert before == ("READY", None)
    assert cluster.url in str(caught.value)
    assert f"Spark's cluster {cluster.url} has accepted no work for {LOST_AFTER_S} s" in said
    assert run["status"] == "SUCCEEDED"
    assert gateway.published("kept", handle) == 1
    assert gateway.sql("SELECT v FROM kept") == [{"v": 3}]
    assert (functions.called(), functions.are_on_executors()) == (functions.versions, True)
    log = (gateway.home / "logs" / "gateway.log").read_text(encoding="utf-8")
    assert "cluster_lost" in log
    assert "refresh of lake.default.kept QUEUED: attempt 1: Spark's cluster" in log
