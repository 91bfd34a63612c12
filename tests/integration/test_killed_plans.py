"""kill -9 while a compiled plan is executed: its job is there once, and each row is in the table once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mt_core.client.http import GatewayClient
from mt_core.errors import GatewayError
from tests.integration.held_copy import held_copy
from tests.support.gateway.own_process import GatewayUnderTest, Victim, rows_of, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

FIRSTS = (
    "INSERT INTO {to} SELECT city, n FROM (SELECT city, n, ROW_NUMBER() OVER (PARTITION BY city "
    "ORDER BY p) AS rn FROM (SELECT *, current_timestamp() AS p FROM {source}) AS c) WHERE rn = 1"
)
# Before its job is stored, and after: then it is a job as any other.
# In CI a plan is killed as it copies a savepoint.
MOMENTS: list[tuple[str, Victim]] = [
    ("begun", "jvm"),
    ("begun", "gateway"),
    ("stored", "jvm"),
    ("stored", "gateway"),
]


class Plan:
    """A compiled plan that writes the first row of each city of a source into a table."""

    def __init__(self, gateway: GatewayUnderTest, name: str) -> None:
        self.gateway, self._source, self.table = gateway, f"clicks_{name}", f"firsts_{name}"
        self.uri = (gateway.home / f"{name}.json").as_uri()
        gateway.sql(f"CREATE TABLE {self._source} (city STRING, n INT)")
        gateway.sql(f"CREATE TABLE {self.table} (city STRING, n INT)")
        with self.session() as client:
            rows_of(
                client, f"COMPILE PLAN '{self.uri}' FOR {FIRSTS.format(to=self.table, source=self._source)}"
            )

    def session(self, *settings: str) -> GatewayClient:
        client = GatewayClient(self.gateway.url)
        for setting in ("'execution.runtime-mode' = 'streaming'", *settings):
            rows_of(client, f"SET {setting}")
        return client

    def execute(self, *settings: str) -> str:
        """Return the id of its job."""
        with self.session(*settings) as client:
            [answer] = rows_of(client, f"EXECUTE PLAN '{self.uri}'")
        return str(answer["job id"])

    def click(self, *rows: tuple[str, int]) -> None:
        self.gateway.sql(
            f"INSERT INTO {self._source} VALUES {', '.join(f'({city!r}, {n})' for city, n in rows)}"
        )

    def jobs(self) -> Sequence[str]:
        """Return the ids of the jobs that have not ended."""
        shown = self.gateway.sql("SHOW JOBS")
        return [
            str(job["job id"]) for job in shown if job["status"] not in {"FINISHED", "FAILED", "CANCELED"}
        ]

    def wait_firsts(self, *expected: tuple[str, int]) -> None:
        def firsts() -> list[tuple[str, int]]:
            return sorted((row["city"], row["n"]) for row in self.gateway.sql(f"SELECT * FROM {self.table}"))

        wait_until(lambda: len(firsts()) >= len(expected), f"{self.table} lacks rows")
        assert firsts() == sorted(expected)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayUnderTest]:
    with GatewayUnderTest(tmp_path_factory.mktemp("plans") / "home") as gateway:
        gateway.start()
        yield gateway


@pytest.mark.kills
@pytest.mark.parametrize(("moment", "victim"), MOMENTS)
def test_a_plan_whose_execution_is_killed_has_a_job_or_can_be_executed_again(
    gateway: GatewayUnderTest, moment: str, victim: Victim
) -> None:
    plan = Plan(gateway, f"{moment}_{victim}")
    plan.click(("Rome", 1), ("Oslo", 2))
    with plan.session() as client, suppress(GatewayError):
        handle = client.execute(f"EXECUTE PLAN '{plan.uri}'")
        reached: dict[str, Callable[[], bool]] = {
            "begun": lambda: client.status(handle) != "PENDING",
            "stored": lambda: plan.jobs() != [],
        }
        wait_until(reached[moment], "the plan is not executed")
        gateway.lose(victim)
        # A gateway that lives on says what became of the statement.
        list(client.pages(handle))

    if not plan.jobs():
        plan.execute()
    plan.wait_firsts(("Rome", 1), ("Oslo", 2))
    plan.click(("Oslo", 3), ("Bern", 4))

    plan.wait_firsts(("Rome", 1), ("Oslo", 2), ("Bern", 4))
    [job] = plan.jobs()
    gateway.sql(f"STOP JOB '{job}'")


@pytest.mark.kills
def test_a_plan_that_goes_on_from_a_savepoint_is_killed_while_it_copies_it_and_repeats_no_row(
    gateway: GatewayUnderTest,
) -> None:
    plan = Plan(gateway, "saved")
    plan.click(("Rome", 1))
    first = plan.execute()
    plan.wait_firsts(("Rome", 1))
    [answer] = gateway.sql(f"STOP JOB '{first}' WITH SAVEPOINT")
    [savepoint] = answer.values()
    plan.click(("Rome", 2), ("Oslo", 3))

    goes_on = f"'execution.savepoint.path' = '{savepoint}'"
    copied = Path(urlsplit(savepoint).path) / "checkpoint"
    with held_copy(copied) as held, plan.session(goes_on) as client, suppress(GatewayError):
        client.execute(f"EXECUTE PLAN '{plan.uri}'")
        wait_until(held.has_begun, "the savepoint is not copied")
        gateway.kill()
        held.release()
        gateway.start()
    gateway.wait_for_spark()

    # A job is stored once its savepoint is copied: the statement that was killed before has left none.
    assert plan.jobs() == []
    second = plan.execute(goes_on)
    plan.wait_firsts(("Rome", 1), ("Oslo", 3))
    plan.click(("Oslo", 4), ("Bern", 5))

    plan.wait_firsts(("Rome", 1), ("Oslo", 3), ("Bern", 5))
    assert plan.jobs() == [second]
    gateway.sql(f"STOP JOB '{second}'")
