"""Compares the demo's tables with the results of plain Spark queries over the same data."""

from __future__ import annotations

from mt_core.base.plural import plural
from mt_core.client.facts import read_refreshes, read_tables
from mt_core.client.http import GatewayClient
from mt_core.demo.facts import ask
from mt_core.demo.story import ARRIVING_DAYS, DAILY, DAYS_AT_START, NAMESPACE, TABLES
from mt_core.errors import GatewayError


def verify(client: GatewayClient) -> list[str]:
    """Return a description of each verified fact; raise GatewayError for the first wrong result."""
    verified = []
    for table in TABLES:
        rows = ask(client, f"SELECT count(*) AS n FROM {table.full_name}")[0]["n"]
        stored, computed = f"SELECT * FROM {table.full_name}", table.query
        wrong = ask(
            client,
            f"SELECT count(*) AS n FROM (({stored} EXCEPT ALL ({computed})) "
            f"UNION ALL (({computed}) EXCEPT ALL {stored}))",
        )[0]["n"]
        if wrong or not rows:
            raise GatewayError(
                f"{table.full_name} is wrong: {wrong} of its {rows} {plural(rows, 'row')} "
                f"{plural(wrong, 'differs', 'differ')} from its query."
            )
        equal = plural(rows, "its 1 row equals", f"all {rows} rows equal")
        verified.append(f"{table.full_name}: {equal} a plain Spark run of its query")
    days = ask(client, f"SELECT count(DISTINCT ds) AS n FROM {DAILY.full_name}")[0]["n"]
    if days != DAYS_AT_START + ARRIVING_DAYS:
        raise GatewayError(f"{DAILY.full_name} has {days} days, not {DAYS_AT_START + ARRIVING_DAYS}.")
    verified.append(f"{DAILY.full_name}: {days} daily partitions, none missing")
    for facts in read_tables(client, inside=NAMESPACE).tables:
        for refresh in read_refreshes(client, facts.table_id, 1000):
            if refresh.status == "FAILED":
                raise GatewayError(f"A refresh of {facts.name} failed: {refresh.error}")
    verified.append(f"no refresh in {NAMESPACE} failed")
    return verified
