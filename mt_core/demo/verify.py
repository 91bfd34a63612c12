"""Checks the demo's tables against plain Spark queries over the same data."""

from __future__ import annotations

from mt_core.client.http import GatewayClient
from mt_core.demo.board import ask
from mt_core.demo.story import ARRIVING_DAYS, DAILY, DAYS_AT_START, NAMESPACE, TABLES
from mt_core.errors import GatewayError


def verify(client: GatewayClient) -> list[str]:
    """Return what was verified, in words; raises GatewayError naming the first answer that is wrong."""
    verified = []
    for table in TABLES:
        rows = ask(client, f"SELECT count(*) AS n FROM {table.full_name}")[0]["n"]
        wrong = ask(client, _difference(table.full_name, table.query))[0]["n"]
        if wrong or not rows:
            raise GatewayError(f"{table.full_name} is wrong: {wrong} of its {rows} rows differ from its query.")
        verified.append(f"{table.full_name}: all {rows} rows equal a plain Spark run of its query")
    days = ask(client, f"SELECT count(DISTINCT ds) AS n FROM {DAILY.full_name}")[0]["n"]
    if days != DAYS_AT_START + ARRIVING_DAYS:
        raise GatewayError(f"{DAILY.full_name} has {days} days, not {DAYS_AT_START + ARRIVING_DAYS}.")
    verified.append(f"{DAILY.full_name}: {days} daily partitions, none missing")
    failed = [run for run in ask(client, "SHOW REFRESHES LIMIT 1000") if run["status"] == "FAILED"]
    if failed:
        raise GatewayError(f"A refresh of {failed[0]['materialized table']} failed: {failed[0]['error']}")
    verified.append(f"no refresh in {NAMESPACE} failed")
    return verified


def _difference(table: str, query: str) -> str:
    stored, computed = f"SELECT * FROM {table}", query
    return (
        f"SELECT count(*) AS n FROM (({stored} EXCEPT ALL ({computed})) UNION ALL (({computed}) EXCEPT ALL {stored}))"
    )
