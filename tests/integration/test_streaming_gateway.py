"""A streaming job in a real gateway: kill -9 of the gateway and of its Spark, and a savepoint;
each row arrives exactly once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from mt_core.errors import GatewayError
from tests.support.added_jar import words_jar
from tests.support.gateway.own_process import GatewayUnderTest, Row, rows_of, wait_until
from tests.support.ports import HANGS_UP, SASL, TOKEN, refusals

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.kills, pytest.mark.timeout(600)]
WAIT_S = 180.0


class Airport:
    """A gateway with a source `flights` that grows by numbers, and a sink `arrivals`."""

    def __init__(self, gateway: GatewayUnderTest) -> None:
        self.gateway, self.numbers = gateway, 0
        for table in ("flights", "arrivals"):
            gateway.sql(f"CREATE TABLE {table} (number INT)")

    def depart(self) -> None:
        """Add two rows to the source, in a batch session."""
        self.gateway.sql(f"INSERT INTO flights VALUES ({self.numbers}), ({self.numbers + 1})")
        self.numbers += 2

    def submit(self, jar: Path, *properties: str) -> str:
        """Begin the streaming job, which calls a class of *jar*, in a session that is closed at once,
        and return its id.
        """
        with self.gateway.client() as client:
            rows_of(client, f"ADD JAR '{jar}'")
            for each in ("'execution.runtime-mode' = 'streaming'", *properties):
                rows_of(client, f"SET {each}")
            [answer] = rows_of(
                client,
                "INSERT INTO arrivals SELECT * FROM flights WHERE reflect('shop.Words', 'shout', 'a') = 'a!'",
            )
        return str(answer["job id"])

    def arrived(self) -> Sequence[int]:
        return sorted(row["number"] for row in self.gateway.sql("SELECT number FROM arrivals"))

    def wait_arrived(self) -> None:
        """Wait until every row of the source is in the sink, and check that each is there once."""
        wait_until(lambda: len(self.arrived()) >= self.numbers, f"rows are missing: {self.numbers}", WAIT_S)
        assert self.arrived() == list(range(self.numbers))

    def job(self, job_id: str) -> Row:
        [job] = self.gateway.sql(f"DESCRIBE JOB '{job_id}'")
        return job


def assert_closed_ports(gateway: GatewayUnderTest) -> None:
    """Check that whatever listens in both processes, but for the gateway's own address,
    refuses who has no secret.
    """
    own = frozenset({urlsplit(gateway.url).port or 0})

    # py4j, the endpoints of the driver, and the block manager.
    assert refusals(gateway.jvm_pid) == [SASL, SASL, TOKEN]
    # The accumulators, and the server that foreachBatch calls.
    assert refusals(gateway.process.pid, known=own) == [TOKEN, HANGS_UP]


def test_a_streaming_job_survives_the_death_of_its_gateway_and_of_spark_and_goes_on_from_its_savepoint(
    tmp_path: Path,
) -> None:
    with GatewayUnderTest(tmp_path / "home") as gateway:
        gateway.start()
        airport, jar = Airport(gateway), words_jar(tmp_path, "Words")
        airport.depart()
        job_id = airport.submit(jar)
        airport.wait_arrived()
        assert_closed_ports(gateway)
        jar.unlink()

        airport.depart()
        gateway.kill()
        gateway.start()
        airport.depart()
        airport.wait_arrived()

        airport.depart()
        psutil.Process(gateway.jvm_pid).kill()
        wait_until(lambda: _answers(gateway), "Spark never came back", WAIT_S)
        airport.depart()
        airport.wait_arrived()
        with pytest.raises(GatewayError, match=f"lake.default.arrivals is written by streaming job {job_id}"):
            gateway.sql("DROP TABLE arrivals")

        [saved] = gateway.sql(f"STOP JOB '{job_id}' WITH SAVEPOINT")
        stopped = airport.job(job_id)
        airport.depart()
        next_id = airport.submit(
            words_jar(tmp_path, "Words"), f"'execution.savepoint.path' = '{saved['savepoint path']}'"
        )
        airport.wait_arrived()
        gateway.sql(f"STOP JOB '{next_id}'")

        assert (stopped["status"], stopped["savepoint path"]) == ("FINISHED", saved["savepoint path"])
        assert stopped["restarts"] >= 2
        assert Path(saved["savepoint path"]).is_relative_to(gateway.home / "savepoints")
        assert airport.job(next_id)["status"] == "CANCELED"


def _answers(gateway: GatewayUnderTest) -> bool:
    try:
        return gateway.sql("SELECT 1 AS a") == [{"a": 1}]
    except GatewayError:
        return False
