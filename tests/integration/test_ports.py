"""The ports of Spark: what listens in the gateway's process and in its JVM refuses a client
without a secret.
"""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest
from pyspark.sql import DataFrame
from pyspark.sql.functions import udf

from mt_core.spark.driver.spark_driver import SparkDriver
from tests.support.gateway.own_process import wait_until
from tests.support.ports import SASL, TOKEN, listening_ports, refusal, refusals

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


class Batches:
    """A stream whose batches call Python."""

    def __init__(self, driver: SparkDriver) -> None:
        self.count = 0
        rows = driver.new_session().readStream.format("rate").load()
        self.query = rows.writeStream.foreachBatch(self._take).start()

    def wait_next(self) -> None:
        """Wait until a batch has come."""
        before = self.count
        wait_until(lambda: self.count > before, f"no batch came: {self.query.exception()}")

    def _take(self, rows: DataFrame, _number: int) -> None:
        rows.count()
        self.count += 1


@pytest.fixture
def ports_of_others(spark_driver: SparkDriver) -> frozenset[int]:
    """Ports that earlier tests left open in the JVM.

    Spark's state server for programs in Python stays open. It accepts one client, and answers no other.
    """
    context = spark_driver.session.sparkContext
    environment = context._jvm.org.apache.spark.SparkEnv.get()
    of_the_driver = {
        context._gateway.gateway_parameters.port,
        int(context.getConf().get("spark.driver.port")),
        environment.blockManager().blockManagerId().port(),
    }
    return listening_ports(spark_driver.pid or 0) - of_the_driver


@pytest.fixture
def batches(spark_driver: SparkDriver) -> Iterator[Batches]:
    batches = Batches(spark_driver)
    yield batches
    batches.query.stop()


def test_every_port_of_the_jvm_refuses_who_has_no_secret_while_a_stream_runs(
    spark_driver: SparkDriver, ports_of_others: frozenset[int], batches: Batches
) -> None:
    batches.wait_next()

    # py4j, the endpoints of the driver, and the block manager.
    assert refusals(spark_driver.pid or 0, known=ports_of_others) == [SASL, SASL, TOKEN]

    batches.wait_next()


def test_the_port_of_the_workers_of_python_functions_refuses_who_has_no_secret(
    spark_driver: SparkDriver,
) -> None:
    session = spark_driver.new_session()
    one_more = udf(lambda number: number + 1, "long")
    counted = session.range(3).select(one_more("id").alias("n")).toArrow().column("n").to_pylist()
    living = [
        each for each in psutil.Process(spark_driver.pid).children() if each.status() != psutil.STATUS_ZOMBIE
    ]
    daemons = [each for each in living if "pyspark.daemon" in each.cmdline()]

    asked = [refusals(daemon.pid) for daemon in daemons]

    assert counted == [1, 2, 3]
    assert asked
    assert asked == [[TOKEN]] * len(daemons)
    assert session.range(3).select(one_more("id").alias("n")).toArrow().column("n").to_pylist() == counted


def test_the_port_that_foreach_batch_calls_refuses_who_has_no_token(
    spark_driver: SparkDriver, batches: Batches
) -> None:
    batches.wait_next()
    port = spark_driver.session.sparkContext._gateway._callback_server.get_listening_port()

    assert refusal(port) == TOKEN

    batches.wait_next()
