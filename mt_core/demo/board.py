"""The live table: what every materialized table is doing, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from mt_core.client.http import GatewayClient
from mt_core.demo.story import ARRIVING_DAYS, DAILY, DAYS_AT_START, NAMESPACE, TABLES, day

Row = Mapping[str, Any]
TITLE = "Materialized tables, kept fresh"
_ENDED = ("SUCCEEDED", "SKIPPED", "FAILED", "CANCELED")


def ask(client: GatewayClient, statement: str) -> list[Row]:
    """Return the rows of a statement as dictionaries."""
    found: list[Row] = []
    for page in client.pages(client.execute(statement)):
        names = [column.name for column in page.columns]
        found.extend(dict(zip(names, row, strict=True)) for row in page.rows)
    return found


class Board:
    """Asks the gateway and draws. Row counts are read again only when a table was published since."""

    def __init__(self, client: GatewayClient) -> None:
        self._client = client
        self._counts: dict[str, tuple[str | None, int]] = {}

    def draw(self, caption: str) -> Table:
        """Return the table as it is now."""
        table = Table(title=TITLE, caption=caption, expand=True)
        for column in ("table", "mode", "freshness", "schedule time", "stale for", "rows"):
            table.add_column(column, no_wrap=True)
        table.add_column("last refresh", overflow="fold", min_width=21, ratio=1)
        table.add_column("why", overflow="fold", ratio=1)
        states = {
            row["materialized table"]: row for row in ask(self._client, f"SHOW MATERIALIZED TABLES IN {NAMESPACE}")
        }
        for name, state in states.items():
            table.add_row(*self._cells(name, state))
        return table

    def _cells(self, name: str, state: Row) -> Iterable[Text | str]:
        runs = ask(self._client, f"SHOW REFRESHES FOR {NAMESPACE}.{name} LIMIT 20")
        ended = [run for run in runs if run["status"] in _ENDED]
        last = ended[0] if ended else None
        periodic = next((run["schedule time"] for run in ended if run["schedule time"]), None)
        return (
            name,
            state["refresh mode"],
            _spoken(str(state["freshness"])),
            periodic or "-",
            str(state["stale for"] or "-").partition(" (")[0],
            str(self._rows(name, runs)),
            _did(last),
            str(last["error"] or last["reason"] or "") if last else "",
        )

    def _rows(self, name: str, runs: Iterable[Row]) -> int:
        published = next((run["snapshot"] for run in runs if run["status"] == "SUCCEEDED"), None)
        known = self._counts.get(name)
        if known is None or known[0] != published:
            count = ask(self._client, f"SELECT count(*) AS n FROM {NAMESPACE}.{name}")[0]["n"]
            known = self._counts[name] = (published, count)
        return known[1]


def _spoken(interval: str) -> str:
    """Return INTERVAL '10' SECOND as 10 seconds."""
    _, number, unit = interval.replace("'", "").lower().split()
    return f"{number} {unit}" if number == "1" else f"{number} {unit}s"


def _did(run: Row | None) -> Text:
    if run is None:
        return Text("waiting", style="dim")
    match run["status"]:
        case "SUCCEEDED":
            return Text(f"refreshed {run['partitions']}", style="green")
        case "SKIPPED":
            return Text(f"skipped {run['partitions']}", style="cyan")
        case status:
            return Text(str(status).lower(), style="red")


def is_settled(client: GatewayClient) -> bool:
    """Whether a refresh of every table (of the newest partition, where it has some) would find nothing to do now."""
    newest = f"PARTITION (ds = '{day(DAYS_AT_START + ARRIVING_DAYS - 1)}')"
    asked = [f"{table.full_name} {newest if table is DAILY else ''}" for table in TABLES]
    return all("decision: skip" in str(ask(client, f"EXPLAIN REFRESH {name}")[0]["result"]) for name in asked)
