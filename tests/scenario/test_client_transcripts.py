"""The transcripts in docs/client.md are what the prompt shows."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from mt_core.errors import QueryFailed
from mt_core.model.run import RunKind
from mt_core.model.table import TableIdentifier
from mt_core.sql.statements import ShowLineage, ShowRefreshes, Statement
from mt_core.tables.overview.facts import Read
from mt_core.tables.runs.decide import SKIP
from mt_core.tables.table_commands import CommandContext, CommandOutcome
from mt_core.tables.views.lineage_rows import lineage_rows
from mt_core.tables.views.run_rows import run_rows
from mt_core.tables.views.run_view import RunView
from tests.support.client_page import transcript
from tests.support.client_screen import Open, answered, at_prompt
from tests.support.gateway.statements import Gateway
from tests.support.registry_facts import HOUR, NOON
from tests.support.screen import ScreenTerminal
from tests.support.table_facts import table_facts, table_named
from tests.support.terminal import CTRL_Z

pytestmark = pytest.mark.processes

INSERT = "INSERT INTO lake.shop.orders SELECT * FROM lake.shop.arrivals"
TABLES = (
    table_facts(
        "daily",
        cadence="INTERVAL '1' DAY",
        shows=NOON - 2 * HOUR,
        reads=(
            Read(name="lake.shop.hourly", kind="table"),
            Read(name="lake.shop.paid", kind="view"),
            Read(name="lake.shop.rates", kind="table"),
        ),
    ),
    table_facts("hourly", "orders", shows=NOON - timedelta(minutes=25)),
)


def shown(terminal: ScreenTerminal, line: str) -> list[str]:
    """Return the output of *line*, without the duration of a statement."""
    return [each for each in answered(terminal, line) if not re.fullmatch(r"[0-9.]+ s", each)]


def test_why_and_lineage_are_as_on_the_page(
    gateway: Gateway, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = datetime(2026, 1, 2, 0, 0, 4, tzinfo=UTC)
    run = replace(
        gateway.runs.queue(),
        kind=RunKind.PERIODIC,
        decision=SKIP,
        reason="sources unchanged",
        started_at=began,
    )

    def execute(statement: Statement, context: CommandContext) -> CommandOutcome:
        if isinstance(statement, ShowRefreshes):
            view = RunView(run=run, table=TableIdentifier("lake", ("shop",), "daily"))
            return CommandOutcome(rows=run_rows([view], extended=statement.extended))
        assert isinstance(statement, ShowLineage)
        return CommandOutcome(rows=lineage_rows(TABLES, NOON, statement, table_named("daily")))

    monkeypatch.setattr(gateway.commands, "execute", execute)
    terminal = opened()

    assert [(line, shown(terminal, line)) for line, _ in transcript(r"\why")] == transcript(r"\why")


def test_a_statement_that_is_put_aside_is_as_on_the_page(gateway: Gateway, opened: Open) -> None:
    hold, terminal = gateway.engine.hold(INSERT), opened()
    (insert, aside), (jobs, listed) = transcript(r"\jobs")

    terminal.type(f"{insert}\r")
    hold.wait_entered()
    terminal.type(CTRL_Z)
    seen = terminal.see(lambda lines: at_prompt(lines) and any("[1]" in line for line in lines))
    told = shown(terminal, jobs)
    hold.release()

    # The terminal itself shows the key.
    assert seen[-2].removeprefix("^Z") == aside[0]
    assert [re.sub(r"  [0-9]+ s  ", "  12 s  ", line) for line in told] == listed


def test_an_error_with_a_place_is_as_on_the_page(gateway: Gateway, opened: Open) -> None:
    [(statement, lines)] = transcript("amout")
    message = f"{lines[0].removeprefix('Error: ')} {lines[-1]}"
    gateway.engine.answers[statement.rstrip(";")] = QueryFailed(message, line=1, position=14)

    assert shown(opened(), statement) == lines
