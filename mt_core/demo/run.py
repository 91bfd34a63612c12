"""Runs the demo from start to finish."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console
from rich.live import Live

from mt_core.client.http import GatewayClient, Refresh
from mt_core.demo.board import Board, is_settled
from mt_core.demo.facts import ask
from mt_core.demo.flights import FlightFiles, write_files
from mt_core.demo.object_store import StoreProcess, new_store
from mt_core.demo.process import GatewayProcess
from mt_core.demo.story import ARRIVING_DAYS, DAILY, DAYS_AT_START, TABLES, ZONE, arrival, day, sources
from mt_core.demo.verify import verify
from mt_core.errors import GatewayError, MtError

ARRIVES_EVERY_S = 4.0
ARRIVALS_LAST_S = ARRIVING_DAYS * (ARRIVES_EVERY_S + 5.0)
SETTLES_WITHIN_S = 60.0
SETTINGS = (
    "sql-gateway.endpoint.rest.port=0",
    f"table.local-time-zone={ZONE}",
    # Whatever the environment says, so that the page is where the demo says.
    "sql-gateway.ui.enabled=true",
    "sql-gateway.ui.url=",
)


def run_demo(console: Console, *, keep: bool, store_environ: Mapping[str, str] | None = None) -> int:
    """Run the demo and return its exit code, 0 if every result was correct.

    With *store_environ*, the catalog is that of an object store with a REST catalog, which the demo starts
    with these variables.
    """
    home = Path(tempfile.mkdtemp(prefix="freshtable-demo-"))
    gateway, store = GatewayProcess(home, SETTINGS), None
    try:
        if store_environ is not None:
            store = _started_store(console, home, store_environ)
            gateway.settings = (*SETTINGS, *store.store.settings)
        console.print(f"Starting a gateway with Spark on {home} …")
        url = gateway.start()
        _play(console, url)
    except MtError as error:
        console.print(f"[red]The demo failed:[/red] {error}")
        console.print(f"The gateway's log is in {home}/logs.")
        _stop(gateway, store)
        return 1
    if keep:
        console.print(
            f'Connect with: freshtable sql --gateway {url} -e "SHOW MATERIALIZED TABLES IN lake.demo"'
        )
        console.print(f"Look at its tables in a browser: {url}/ui/")
        console.print(f"The gateway keeps running (process {gateway.pid}); stop it with: kill {gateway.pid}")
        if store is not None:
            console.print(f"So does the object store; stop it after the gateway with: kill {store.pid}")
        return 0
    console.print("Stopping the gateway; `freshtable demo --keep` leaves it running.")
    _stop(gateway, store)
    shutil.rmtree(home, ignore_errors=True)
    return 0


def _started_store(console: Console, home: Path, environ: Mapping[str, str]) -> StoreProcess:
    store = new_store(home / "store")
    console.print(f"Starting SeaweedFS: S3 at {store.endpoint}, a REST catalog at {store.rest_uri} …")
    process = StoreProcess(store, environ)
    process.start()
    return process


def _stop(gateway: GatewayProcess, store: StoreProcess | None) -> None:
    gateway.stop()
    if store is not None:
        store.stop()


def _play(console: Console, url: str) -> None:
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
    """Show the tables while days of flights arrive, until every table is up to date."""
    board = Board(client, caption="waiting for flights")
    arrivals = Arrivals(url, files, board)
    arrivals.start()
    with Live(board.draw(), console=console, refresh_per_second=4, transient=False) as live:
        _redraw_until(lambda: not arrivals.is_alive(), live, board, ARRIVALS_LAST_S + SETTLES_WITHIN_S)
        if arrivals.error is not None:
            raise arrivals.error
        board.caption = "all days arrived"
        _redraw_until(lambda: is_settled(client), live, board, SETTLES_WITHIN_S)
    if not console.is_terminal:
        # Live does not end the last line if there is no terminal.
        console.print()


def _redraw_until(done: Callable[[], bool], live: Live, board: Board, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    live.update(board.draw())
    while not done():
        if time.monotonic() > deadline:
            raise GatewayError(f"The tables did not catch up within {timeout_s:.0f} s.")
        time.sleep(0.5)
        live.update(board.draw())


class Arrivals(threading.Thread):
    """Simulates the outside world: data that arrives, and an external scheduler.

    Every few seconds, the thread inserts a day of flights and requests a refresh of its partition. `error` is
    set if it stopped early.
    """

    def __init__(self, url: str, files: FlightFiles, board: Board) -> None:
        super().__init__(name="arrivals", daemon=True)
        self._url, self._files, self._board = url, files, board
        self.error: MtError | None = None

    def run(self) -> None:
        try:
            with GatewayClient(self._url) as client:
                for number in range(DAYS_AT_START, DAYS_AT_START + ARRIVING_DAYS):
                    arrived, midnight = day(number), f"{day(number + 1)} 00:00:00"
                    ask(client, arrival(self._files, arrived))
                    client.refresh(
                        Refresh(identifier=DAILY.full_name, is_periodic=True, schedule_time=midnight)
                    )
                    self._board.caption = (
                        f"flights of {arrived} arrived; the scheduler asked for {DAILY.name} at "
                        f"{midnight} {ZONE}"
                    )
                    time.sleep(ARRIVES_EVERY_S)
        except MtError as error:
            self.error = error
