"""A real gateway whose tables a real Airflow refreshes with a real Spark;
tests can kill it, and make refreshes last.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from mt_core.client.http import GatewayClient
from tests.airflow.rest import ANSWERS_S, SOON_S
from tests.airflow.settings import SERVICE_PASSWORD, SERVICE_USER
from tests.airflow.stack import AirflowStack
from tests.support.gateway.own_process import GatewayUnderTest, Row, wait_until

PREFIX = "lake__"
DAILY = "FRESHNESS = INTERVAL '1' DAY"
# For tables whose runs a test begins: a midnight that passes meanwhile would refresh a daily one too.
SELDOM = "SCHEDULE CRON '0 0 6 10 *'"


def dag_id_of(name: str) -> str:
    """Return the id of the DAG of a table of `lake.default`."""
    return f"{PREFIX}lake.default.{name}"


class Lake(GatewayUnderTest):
    """Tables of `lake.default`; `paced` makes one whose refresh lasts as long as a test wants."""

    def __init__(self, home: Path, airflow: AirflowStack, *, host: str, port: int, token: str) -> None:
        super().__init__(
            home,
            (
                f"sql-gateway.endpoint.rest.address={host}",
                f"sql-gateway.endpoint.rest.port={port}",
                f"sql-gateway.security.tokens={token}",
                "table.local-time-zone=Europe/Berlin",
                "materialized-table.refresh-mode.freshness-threshold=0 s",
                "workflow-scheduler.type=airflow",
                f"workflow-scheduler.airflow.endpoint={airflow.url}",
                f"workflow-scheduler.airflow.dag-id-prefix={PREFIX}",
                f"workflow-scheduler.airflow.request-timeout={ANSWERS_S} s",
                f"workflow-scheduler.airflow.user-name={SERVICE_USER}",
                f"workflow-scheduler.airflow.password={SERVICE_PASSWORD}",
            ),
        )
        self._token = token

    @contextmanager
    def client(self) -> Iterator[GatewayClient]:
        with GatewayClient(self.url, self._token) as client:
            yield client

    def values(self, query: str) -> list[tuple[object, ...]]:
        """Return the rows of a query without the names of their columns."""
        return [tuple(row.values()) for row in self.sql(query)]

    def create(self, name: str, *, query: str, when: str = SELDOM, with_: str = "") -> str:
        """Make a materialized table in FULL mode and return the id of its DAG."""
        self.sql(
            f"CREATE MATERIALIZED TABLE lake.default.{name} {with_} {when} REFRESH_MODE = FULL AS {query}"
        )
        return dag_id_of(name)

    def paced(self, name: str, *, when: str = SELDOM) -> str:
        """Make a table that counts the rows of a source of its own, and return the id of its DAG."""
        self.sql(f"CREATE TABLE lake.default.{name}_source (lasts_ms BIGINT) USING iceberg")
        self.sql(f"INSERT INTO lake.default.{name}_source VALUES (0)")
        nap = "java_method('java.lang.Thread', 'sleep', max(lasts_ms))"
        query = f"SELECT count(*) AS n, {nap} AS nap FROM lake.default.{name}_source"
        return self.create(name, query=query, when=when)

    def pace(self, name: str, seconds: float) -> None:
        """Add a row to the source of a paced table; its next refresh lasts *seconds*,
        and no less after that.
        """
        self.sql(f"INSERT INTO lake.default.{name}_source VALUES ({int(seconds * 1000)})")

    def hasten(self, name: str) -> None:
        """Let the next refreshes of a paced table last no time."""
        self.sql(f"UPDATE lake.default.{name}_source SET lasts_ms = 0")

    def count(self, name: str) -> int:
        """Return what a paced table shows."""
        ((n,),) = self.values(f"SELECT n FROM lake.default.{name}")
        return int(str(n))

    def drop(self, name: str) -> None:
        self.sql(f"DROP MATERIALIZED TABLE lake.default.{name}")

    def refreshes(self, name: str) -> list[Row]:
        """Return the ledger of a table without its first refresh, that of CREATE."""
        return self.runs(f"lake.default.{name}")[1:]

    def running(self, name: str) -> Row:
        """Return the refresh of a table that Spark works on, as soon as there is one."""
        found: list[Row] = []

        def look() -> bool:
            found[:] = [run for run in self.refreshes(name) if run["status"] == "RUNNING"]
            return bool(found)

        wait_until(look, f"no refresh of {name} runs", SOON_S)
        return found[0]

    def running_jobs(self) -> list[Row]:
        """Return the jobs that Spark works on for refreshes."""
        return [
            job
            for job in self.sql("SHOW JOBS")
            if job["status"] == "RUNNING" and "SHOW JOBS" not in job["job name"]
        ]

    def facts(self, name: str) -> dict[str, str]:
        """Return what DESCRIBE EXTENDED says of a table."""
        rows = self.sql(f"DESCRIBE EXTENDED lake.default.{name}")
        return {str(row["name"]): str(row["type"]) for row in rows}

    def listed(self, name: str) -> Row:
        """Return the line of SHOW MATERIALIZED TABLES EXTENDED about a table."""
        found = self.sql("SHOW MATERIALIZED TABLES FROM lake.default EXTENDED")
        return next(row for row in found if name in str(row["materialized table"]).split("."))

    def stored_status(self, name: str) -> str:
        """Return the status of a table as the registry has it, without the look at Airflow
        that statements take.
        """
        with closing(sqlite3.connect(self.home / "registry.db", timeout=30)) as registry:
            ((status,),) = registry.execute("SELECT status FROM materialized_tables WHERE name = ?", (name,))
        return str(status)

    def exists(self, name: str) -> bool:
        """Whether there is anything of that name: a materialized table, or storage."""
        return any(name in row.values() for row in self.sql("SHOW TABLES IN lake.default"))
