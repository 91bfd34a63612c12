"""The live display of the demo: the state of every materialized table, and the reason for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from rich.table import Table
from rich.text import Text

from mt_core.base.ages import age_text
from mt_core.client.facts import RefreshFacts, TableFacts, read_refreshes, read_tables
from mt_core.client.http import GatewayClient
from mt_core.demo.facts import ask, read_decision
from mt_core.demo.story import ARRIVING_DAYS, DAILY, DAYS_AT_START, NAMESPACE, TABLES, ZONE, day

TITLE = "Materialized tables, kept fresh"
_REFRESHES = 20
_ENDED = frozenset({"SUCCEEDED", "SKIPPED", "FAILED", "CANCELED"})
_STYLES = {"SUCCEEDED": ("refreshed", "green"), "SKIPPED": ("skipped", "cyan")}


@dataclass
class Board:
    """Draws the current state of the gateway.

    The rows of a table are counted again only after a refresh has published a snapshot.
    """

    client: GatewayClient
    caption: str
    _counts: dict[str, tuple[str | None, int]] = field(default_factory=dict)

    def draw(self) -> Table:
        """Return the current state as a table."""
        board = Table(title=TITLE, caption=self.caption, expand=True)
        for column in ("table", "mode", "freshness", f"schedule time\n{ZONE}", "stale for", "rows"):
            board.add_column(column, no_wrap=True)
        board.add_column("last refresh", overflow="fold", min_width=21, ratio=1)
        board.add_column("why", overflow="fold", ratio=1)
        found = read_tables(self.client, inside=NAMESPACE)
        for table in found.tables:
            refreshes = read_refreshes(self.client, table.table_id, _REFRESHES)
            stale_for = None if table.shows is None else max(timedelta(), found.as_of - table.shows)
            board.add_row(*_cells(table, stale_for, refreshes, self._count(table, refreshes)))
        return board

    def _count(self, table: TableFacts, refreshes: Sequence[RefreshFacts]) -> int:
        snapshot = next((each.snapshot for each in refreshes if each.status == "SUCCEEDED"), None)
        counted, rows = self._counts.get(table.name, (None, 0))
        if table.name not in self._counts or counted != snapshot:
            rows = ask(self.client, f"SELECT count(*) AS n FROM {table.name}")[0]["n"]
            self._counts[table.name] = (snapshot, rows)
        return rows


def _cells(
    table: TableFacts, stale_for: timedelta | None, refreshes: Sequence[RefreshFacts], rows: int
) -> tuple[Text | str, ...]:
    ended = [each for each in refreshes if each.status in _ENDED]
    last, outcome = next(iter(ended), None), Text("waiting", style="dim")
    if last is not None and last.status in _STYLES:
        verb, style = _STYLES[last.status]
        outcome = Text(f"{verb} {last.partitions}", style=style)
    elif last is not None:
        outcome = Text(last.status.lower(), style="red")
    return (
        table.table,
        table.mode,
        table.freshness,
        next((_local(each.schedule_time) for each in ended if each.schedule_time), "-"),
        "-" if stale_for is None else age_text(stale_for),
        str(rows),
        outcome,
        (last.error or last.reason or "") if last is not None else "",
    )


def _local(schedule_time: datetime) -> str:
    return f"{schedule_time.astimezone(ZoneInfo(ZONE)):%Y-%m-%d %H:%M:%S}"


def is_settled(client: GatewayClient) -> bool:
    """Return whether a refresh of any table (for `daily`, of its newest partition) would be skipped."""
    newest = f"PARTITION (ds = '{day(DAYS_AT_START + ARRIVING_DAYS - 1)}')"
    targets = (f"{table.full_name} {newest if table is DAILY else ''}" for table in TABLES)
    return all(read_decision(client, target) == "skip" for target in targets)
