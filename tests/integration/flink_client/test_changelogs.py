"""Flink's SQL client shows a query whose rows change in each of its views."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from mt_core.client.http import GatewayClient
from tests.integration.flink_client.sql_client import TABLEAU, SqlClient, rows
from tests.support.gateway.own_process import rows_of
from tests.support.terminal import CTRL_C, PROMPT, Terminal

pytestmark = [pytest.mark.spark, pytest.mark.flink, pytest.mark.slow, pytest.mark.timeout(300)]

SUMS = "SELECT city, sum(n) AS total FROM pond GROUP BY city"


@pytest.fixture
def insert(client: SqlClient) -> Iterator[Callable[..., None]]:
    """Add rows to the table of the query, which has some, in another session."""
    with GatewayClient(client.url) as writer:

        def insert(*values: str) -> None:
            rows_of(writer, f"INSERT INTO lake.default.pond VALUES {', '.join(values)}")

        rows_of(writer, "CREATE TABLE lake.default.pond (city STRING, n INT) USING iceberg")
        insert("('Rome', 11111)", "('Oslo', 22222)")
        yield insert
        rows_of(writer, "DROP TABLE lake.default.pond")


def test_the_sum_of_a_group_changes_in_every_view(client: SqlClient, insert: Callable[..., None]) -> None:
    with client.terminal() as terminal:
        terminal.wait_for(PROMPT)
        terminal.enter("SET 'execution.runtime-mode' = 'streaming';")

        terminal.enter(TABLEAU)
        terminal.type(f"{SUMS};\r")
        tableau = terminal.wait_for(r"\| \+I \| +Rome \| +11111 \|\n")
        insert("('Rome', 22222)")
        tableau += terminal.wait_for(r"\+U \| +Rome \| +33333 \|\n")
        terminal.type(CTRL_C)
        terminal.wait_for(PROMPT)
        table = in_view(terminal, "table", lambda: insert("('Rome', 44444)"), "33333", "77777")
        changelog = in_view(terminal, "changelog", lambda: insert("('Rome', 11111)"), "77777", "88888")

    header, *changes = rows(tableau)
    assert header == ["op", "city", "total"]
    # The groups of a batch come in any order, the changes of one in this.
    assert sorted(changes[:2]) == [["+I", "Oslo", "22222"], ["+I", "Rome", "11111"]]
    assert changes[2:] == [["-U", "Rome", "11111"], ["+U", "Rome", "33333"]]
    assert sorted(table) == [["Oslo", "22222"], ["Rome", "77777"]]
    assert sorted(changelog[:2]) == [["+I", "Oslo", "22222"], ["+I", "Rome", "77777"]]
    assert changelog[2:] == [["-U", "Rome", "77777"], ["+U", "Rome", "88888"]]


def in_view(
    terminal: Terminal, mode: str, change: Callable[[], None], before: str, after: str
) -> list[list[str]]:
    """Return the rows that the client shows in full screen after *change*,
    by which the sum of Rome becomes *after*.
    """
    terminal.enter(f"SET 'sql-client.execution.result-mode' = '{mode}';")
    terminal.enter(f"{SUMS};", until=f"SQL Query Result \\({mode.capitalize()}\\)")
    terminal.wait_for(rf"Rome +{before}\b[^Q]*Q Quit")
    change()
    # The whole screen is drawn again and again.
    screens = terminal.wait_for(rf"Rome +{after}\b[^Q]*Q Quit")
    terminal.type("q")
    terminal.wait_for(PROMPT)
    shown = re.findall(r" total\b([^Q]*)Q Quit", screens)[-1]
    return [line.split() for line in shown.splitlines() if line.strip()]
