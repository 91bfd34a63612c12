"""The demo from beginning to end."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.live import Live

from mt_core.client.http import GatewayClient, Refresh
from mt_core.demo.board import Board, ask, is_settled
from mt_core.demo.flights import FlightFiles, write_files
from mt_core.demo.process import GatewayProcess
from mt_core.demo.story import ARRIVING_DAYS, DAILY, DAYS_AT_START, TABLES, arrival, day, next_midnight, sources
from mt_core.demo.verify import verify
from mt_core.errors import GatewayError, MtError

ARRIVES_EVERY_S = 4.0
SETTLES_WITHIN_S = 60.0
SETTINGS = ("sql-gateway.endpoint.rest.port=0", "table.local-time-zone=America/New_York")


def run_demo(console: Console, *, keep: bool) -> int:
    """Run the demo and return the exit code: 0 if every answer was right."""
    home = Path(tempfile.mkdtemp(prefix="freshtable-demo-"))
    gateway = GatewayProcess(home, SETTINGS)
    try:
        console.print(f"Starting a gateway with Spark on {home} …")
        url = gateway.start()
        _tell(console, url)
    except MtError as error:
        console.print(f"[red]The demo failed:[/red] {error}")
        console.print(f"The gateway's log is in {home}/logs.")
        gateway.stop()
        return 1
    if keep:
        console.print(f'Connect with: freshtable sql --gateway {url} -e "SHOW MATERIALIZED TABLES IN lake.demo"')
        console.print(f"The gateway goes on (process {gateway.pid}); stop it with: kill {gateway.pid}")
        return 0
    console.print("Stopping the gateway; `freshtable demo --keep` leaves it running, to be asked.")
    gateway.stop()
    shutil.rmtree(home, ignore_errors=True)
    return 0


def _tell(console: Console, url: str) -> None:
    with GatewayClient(url) as client, tempfile.TemporaryDirectory(prefix="freshtable-flights-") as folder:
        console.print(f"Gateway: {url}. Loading the flights of New York, 2013 …")
        files = write_files(Path(folder))
        for statement in sources(files):
            ask(client, statement)
        for table in TABLES:
            console.print(f"\n{table.create}", style="bold", highlight=False)
            ask(client, table.create)
        _watch(console, client, url, files)
        for line in verify(client):
            console.print(f"[green]verified[/green] {line}")


def _watch(console: Console, client: GatewayClient, url: str, files: FlightFiles) -> None:
    """Show the tables while days arrive, and until every table has caught up."""
    arrivals = Arrivals(url, files)
    arrivals.start()
    board = Board(client)
    with Live(board.draw("waiting for flights"), console=console, refresh_per_second=4, transient=False) as live:
        _until(
            lambda: _redraw(live, board, arrivals.news) and not arrivals.is_alive(), arrivals.lasts_s + SETTLES_WITHIN_S
        )
        arrivals.check()
        _until(lambda: _redraw(live, board, "all days arrived") and is_settled(client), SETTLES_WITHIN_S)
    if not console.is_terminal:
        # Into a file the table is written without the end of its last line.
        console.print()


def _redraw(live: Live, board: Board, caption: str) -> bool:
    live.update(board.draw(caption))
    return True


def _until(done: Callable[[], bool], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > deadline:
            raise GatewayError(f"The tables did not catch up within {timeout_s:.0f} s.")
        time.sleep(0.5)


class Arrivals(threading.Thread):
    """Plays the outside world: every few seconds a day of flights arrives, and an external scheduler asks for its partition."""

    def __init__(self, url: str, files: FlightFiles) -> None:
        super().__init__(name="arrivals", daemon=True)
        self._url, self._files = url, files
        self._error: MtError | None = None
        self.news = ""
        self.lasts_s = ARRIVING_DAYS * (ARRIVES_EVERY_S + 5.0)

    def run(self) -> None:
        try:
            with GatewayClient(self._url) as client:
                for number in range(DAYS_AT_START, DAYS_AT_START + ARRIVING_DAYS):
                    self._arrive(client, number)
                    time.sleep(ARRIVES_EVERY_S)
        except MtError as error:
            self._error = error

    def _arrive(self, client: GatewayClient, number: int) -> None:
        arrived = day(number)
        ask(client, arrival(self._files, arrived))
        schedule_time = next_midnight(arrived)
        client.refresh(Refresh(identifier=DAILY.full_name, is_periodic=True, schedule_time=schedule_time))
        self.news = f"flights of {arrived} arrived; the scheduler asked for {DAILY.name} at {schedule_time}"

    def check(self) -> None:
        """Raise what went wrong."""
        if self._error is not None:
            raise self._error
