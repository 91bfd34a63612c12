"""A person sits before Flink's SQL client, in a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from mt_core.client.http import GatewayClient
from tests.integration.flink_client.sql_client import DONE, TABLEAU, SqlClient, column, error, rows
from tests.support.gateway.own_process import rows_of, wait_until
from tests.support.terminal import CTRL_C, CTRL_D, PROMPT, TAB, Terminal

pytestmark = [pytest.mark.spark, pytest.mark.flink, pytest.mark.slow]

# Spark asks between its rows whether it is to go on; nobody waits for the end of them.
ENDLESS = "SELECT count(*) AS n FROM range(100000000000) a JOIN range(100) b ON a.id <> b.id"


class Seat:
    """A client that the tests sit before one after the other; if one leaves it without a prompt,
    the next gets another.
    """

    def __init__(self, client: SqlClient) -> None:
        self._client, self._opened = client, ExitStack()
        self._terminal: Terminal | None = None

    def take(self) -> Terminal:
        """Return the client at its prompt, with the properties of a new session but results
        as text tables.
        """
        if self._terminal is None or not re.search(PROMPT, self._terminal.shown):
            self.close()
            self._terminal = self._opened.enter_context(self._client.terminal())
            self._terminal.wait_for(PROMPT)
        self._terminal.enter("RESET;")
        self._terminal.enter(TABLEAU)
        return self._terminal

    def close(self) -> None:
        self._opened.close()


@pytest.fixture(scope="module")
def seat(client: SqlClient) -> Iterator[Seat]:
    with closing(Seat(client)) as seat:
        yield seat


@pytest.fixture
def terminal(seat: Seat) -> Terminal:
    """The client at a prompt, results as text tables."""
    return seat.take()


@pytest.fixture
def watcher(client: SqlClient) -> Iterator[GatewayClient]:
    """A session of another client, which sees what runs."""
    with GatewayClient(client.url) as watcher:
        yield watcher


def test_errors_are_readable_and_the_session_goes_on(terminal: Terminal) -> None:
    told = {
        statement: error(terminal.enter(f"{statement};"))
        for statement in (
            "SELECT 1,\r  2 3",
            "SELECT a FROM VALUES (1) AS t(b)",
            "SELECT * FROM nowhere",
            "SELECT 1 / (id - 5) FROM range(10)",
            "USE CATALOG nope",
            "DROP MATERIALIZED TABLE nope",
            "CREATE MATERIALIZED TABLE bad FRESHNESS = INTERVAL '1' DAY AS SELECT nothing FROM range(1)",
            "STOP JOB 'nope'",
        )
    }
    after = terminal.enter("SELECT 1 AS one;")

    assert [text.split("\n")[0] for text in told.values()] == [
        (
            "QueryFailed: [PARSE_SYNTAX_ERROR] Syntax error at or near '3': extra input '3'. "
            "SQLSTATE: 42601 (line 2, position 5)"
        ),
        "QueryFailed: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, "
        "or function parameter with name `a` cannot be resolved. Did you mean one of the following? [`b`]. "
        "SQLSTATE: 42703 (line 1, position 8)",
        "QueryFailed: [TABLE_OR_VIEW_NOT_FOUND] The table or view `nowhere` cannot be found. "
        "Verify the spelling and correctness of the schema and catalog.",
        "QueryFailed: [DIVIDE_BY_ZERO] Division by zero. "
        "Use `try_divide` to tolerate divisor being 0 and return NULL instead. "
        'If necessary set "spark.sql.ansi.enabled" to "false" to bypass this error. '
        "SQLSTATE: 22012 (line 1, position 8)",
        (
            "DefinitionInvalid: Catalog nope does not exist; the catalogs are lake, spark_catalog. "
            "CREATE CATALOG adds one."
        ),
        (
            "TableNotFound: Materialized table lake.default.nope does not exist; "
            "SHOW MATERIALIZED TABLES lists the existing ones."
        ),
        "QueryFailed: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter "
        "with name `nothing` cannot be resolved. Did you mean one of the following? [`id`]. "
        "SQLSTATE: 42703 (line 1, position 70)",
        "OperationNotFound: Job nope is not known; SHOW JOBS lists the jobs.",
    ]
    assert not any(re.search(r"\bat [\w.]+\(|java\.|Exception", text) for text in told.values())
    assert column(after) == ["1"]


def test_a_verbose_client_sees_the_whole_error(terminal: Terminal) -> None:
    terminal.enter("SET 'sql-client.verbose' = 'true';")

    told = terminal.enter("SELECT * FROM nowhere;")

    assert "<Exception on server side:\nSqlGatewayException: " in told
    assert "\nCaused by: QueryFailed: [TABLE_OR_VIEW_NOT_FOUND]" in told
    assert "\tat org.apache.flink.runtime.rest.RestClient" in told


def test_properties_are_set_shown_and_reset(terminal: Terminal) -> None:
    terminal.enter("RESET;")
    opened = rows(terminal.enter("SET;"))[1:]
    terminal.enter("SET 'sql-client.execution.result-mode' = 'tableau';")
    terminal.enter("SET 'table.local-time-zone' = 'Asia/Tokyo';")
    unknown = error(terminal.enter("SET execution.runtime-mode = sometimes;"))
    misspelt = error(terminal.enter("SET 'table.exec.state.tll' = '1 h';"))
    batch = terminal.enter("SELECT TIMESTAMP '2024-01-02 03:04:05Z' AS moment;")
    terminal.enter("RESET;")
    left = rows(terminal.enter("SET;"))[1:]

    assert "expected batch or streaming" in unknown
    assert "There is no property table.exec.state.tll; did you mean table.exec.state.ttl?" in misspelt
    assert column(batch) == ["2024-01-02 12:04:05.000000"]
    assert "1 row in set" in batch
    assert left == opened
    assert ["table.local-time-zone", "Asia/Kolkata"] in left


def test_thousands_of_rows_come_in_order(terminal: Terminal) -> None:
    shown = terminal.enter("SELECT id, 'row' AS text FROM range(7000) ORDER BY id;")

    assert column(shown) == [str(number) for number in range(7000)]
    assert "7000 rows in set" in shown


def test_tab_completes_keywords_tables_and_columns(terminal: Terminal) -> None:
    terminal.enter("CREATE TABLE lettuce (crispness INT) USING iceberg;")
    terminal.enter("INSERT INTO lettuce VALUES (7);")

    terminal.type(f"SHOW TABL{TAB}")
    terminal.wait_for("SHOW TABLES")
    tables = terminal.enter(";")
    terminal.type(f"SELECT max(crispness) AS most FROM lettu{TAB}")
    terminal.wait_for("lettuce")
    most = terminal.enter(";")
    terminal.enter("DROP TABLE lettuce;")
    terminal.type(f"SHOW CURRENT {TAB}")
    offered = terminal.wait_for(r"CATALOG +DATABASE")
    terminal.type(CTRL_C)
    terminal.wait_for(PROMPT)

    assert "lettuce" in column(tables)
    assert column(most) == ["7"]
    assert offered


def test_the_table_view_pages_through_a_result(terminal: Terminal) -> None:
    terminal.enter("RESET 'sql-client.execution.result-mode';")

    terminal.enter("SELECT id AS number FROM range(3000) ORDER BY id;", until=r"SQL Query Result \(Table\)")
    terminal.wait_for(r"2999\b")
    terminal.type("q")

    assert "Result retrieval cancelled" in terminal.wait_for(PROMPT)


def test_ctrl_c_stops_a_query(terminal: Terminal, watcher: GatewayClient) -> None:
    terminal.type(f"{ENDLESS};\r")
    wait_until(lambda: "RUNNING" in jobs(watcher, "collect"), "the query never ran")

    terminal.type(CTRL_C)
    terminal.wait_for(PROMPT)
    wait_until(lambda: "RUNNING" not in jobs(watcher, "collect"), "the query was never stopped")

    assert jobs(watcher, "collect")[-1] == "CANCELED"
    assert column(terminal.enter("SELECT 1 AS one;")) == ["1"]


def test_ctrl_c_lets_go_of_an_insert_which_stop_job_ends(terminal: Terminal, watcher: GatewayClient) -> None:
    terminal.enter("CREATE TABLE brook (n BIGINT) USING iceberg;")
    terminal.type(f"INSERT INTO brook {ENDLESS};\r")
    wait_until(lambda: jobs(watcher, "insert-brook") == ["RUNNING"], "the INSERT never ran")

    terminal.type(CTRL_C)
    terminal.wait_for(PROMPT)
    terminal.enter("SET 'my.key' = 'mine';")
    [[job, _, status, *_]] = [row for row in rows(terminal.enter("SHOW JOBS;")) if row[1] == "insert-brook"]
    terminal.enter(f"STOP JOB '{job}';")
    wait_until(lambda: jobs(watcher, "insert-brook") == ["CANCELED"], "the INSERT was never stopped")
    described = terminal.enter(f"DESCRIBE JOB '{job}';")

    assert status == "RUNNING"
    assert rows(described)[1][:3] == [job, "insert-brook", "CANCELED"]
    assert column(terminal.enter("SELECT count(*) AS n FROM brook;")) == ["0"]
    assert DONE in terminal.enter("DROP TABLE brook;")


def test_ctrl_c_stops_an_insert_that_is_waited_for(terminal: Terminal, watcher: GatewayClient) -> None:
    terminal.enter("CREATE TABLE rill (n BIGINT) USING iceberg;")
    terminal.enter("SET 'table.dml-sync' = 'true';")
    terminal.type(f"INSERT INTO rill {ENDLESS};\r")
    wait_until(lambda: jobs(watcher, "insert-rill") == ["RUNNING"], "the INSERT never ran")

    terminal.type(CTRL_C)
    terminal.wait_for(PROMPT)
    wait_until(lambda: jobs(watcher, "insert-rill") == ["CANCELED"], "the INSERT was never stopped")

    assert column(terminal.enter("SELECT count(*) AS n FROM rill;")) == ["0"]
    assert DONE in terminal.enter("DROP TABLE rill;")


@pytest.mark.parametrize("leave", ["QUIT;\r", CTRL_D])
def test_leaving_closes_the_session(terminal: Terminal, leave: str) -> None:
    terminal.type(leave)
    code = terminal.wait_end()

    assert code == 0
    assert terminal.shown.rstrip().endswith("Shutting down the session...\ndone.")


def jobs(watcher: GatewayClient, name: str) -> list[str]:
    """Return how the jobs of that name stand, oldest first."""
    return [row["status"] for row in rows_of(watcher, "SHOW JOBS") if row["job name"] == name]
