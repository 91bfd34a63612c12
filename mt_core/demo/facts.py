"""Facts about the demo's tables: their rows, and whether a refresh of them would be skipped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mt_core.client.http import GatewayClient


def ask(client: GatewayClient, statement: str) -> list[Mapping[str, Any]]:
    """Run a statement and return its rows, keyed by column name."""
    rows: list[Mapping[str, Any]] = []
    for page in client.pages(client.execute(statement)):
        names = [column.name for column in page.columns]
        rows.extend(dict(zip(names, row, strict=True)) for row in page.rows)
    return rows


def read_decision(client: GatewayClient, target: str) -> str:
    """Return what a refresh of *target* would do now: `refresh` or `skip`.

    *target* is a table, optionally with PARTITION.
    """
    text: str = ask(client, f"EXPLAIN REFRESH {target}")[0]["result"]
    lines = (line.partition(":") for line in text.splitlines())
    decision = {name.strip(): value for name, _, value in lines}["decision"]
    return decision.partition(":")[0].strip()
