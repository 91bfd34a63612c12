"""The live display of the demo: the state of every materialized table, and the reason for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from rich.table import Table
from rich.text import Text

from mt_core.base.plural import plural
from mt_core.client.http import GatewayClient
from mt_core.demo.facts import ENDED, RunFacts, TableFacts, ask, read_decision, read_runs, read_tables
from mt_core.demo.story import ARRIVING_DAYS, DAILY, DAYS_AT_START, NAMESPACE, TABLES, ZONE, day

TITLE = "Materialized tables, kept fresh"
_RUNS = 20
_STYLES = {"SUCCEEDED": ("refreshed", "green"), "SKIPPED": ("skipped", "cyan")}
_UNITS = {
    "day": timedelta(days=1),
    "hour": timedelta(hours=1),
    "minute": timedelta(minutes=1),
    "second": timedelta(seconds=1),
}


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
        for table in read_tables(self.client):
            runs = read_runs(self.client, f"{NAMESPACE}.{table.name}", _RUNS)
            board.add_row(*_cells(table, runs, self._count(table, runs)))
        return board

    def _count(self, table: TableFacts, runs: Sequence[RunFacts]) -> int:
        snapshot = next((run.snapshot for run in runs if run.status == "SUCCEEDED"), None)
        counted, rows = self._counts.get(table.name, (None, 0))
        if table.name not in self._counts or counted != snapshot:
            rows = ask(self.client, f"SELECT count(*) AS n FROM {NAMESPACE}.{table.name}")[0]["n"]
            self._counts[table.name] = (snapshot, rows)
        return rows


def _cells(table: TableFacts, runs: Sequence[RunFacts], rows: int) -> tuple[Text | str, ...]:
    ended = [run for run in runs if run.status in ENDED]
    last, refresh = next(iter(ended), None), Text("waiting", style="dim")
    if last is not None and last.status in _STYLES:
        verb, style = _STYLES[last.status]
        refresh = Text(f"{verb} {last.partitions}", style=style)
    elif last is not None:
        refresh = Text(last.status.lower(), style="red")
    unit, number = next(
        (unit, table.freshness // span) for unit, span in _UNITS.items() if not table.freshness % span
    )
    return (
        table.name,
        table.refresh_mode,
        f"{number} {plural(number, unit)}",
        next((str(run.schedule_time) for run in ended if run.schedule_time), "-"),
        "-" if table.stale_for is None else _age(table.stale_for),
        str(rows),
        refresh,
        last.why if last is not None else "",
    )


def _age(age: timedelta) -> str:
    return (
        f"{age.total_seconds():.0f} s" if age < timedelta(minutes=2) else f"{age // timedelta(minutes=1)} min"
    )


def is_settled(client: GatewayClient) -> bool:
    """Return whether a refresh of any table (for `daily`, of its newest partition) would be skipped."""
    newest = f"PARTITION (ds = '{day(DAYS_AT_START + ARRIVING_DAYS - 1)}')"
    targets = (f"{table.full_name} {newest if table is DAILY else ''}" for table in TABLES)
    return all(read_decision(client, target) == "skip" for target in targets)
