"""A receiver of webhooks that lets a test act at an event, before or after its answer;
and a reader of tables beside Spark.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

POLL_S = 0.01


class HookReceiver:
    """Takes the events of jobs; `at` lets something happen at the next one of a kind."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self._event, self._after_answer = "", False
        self._act: Callable[[], object] = lambda: None
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                receiver.take(body["event"], body["job"]["id"], self._answer)

            def _answer(self) -> None:
                with suppress(OSError):
                    self.send_response(204)
                    self.end_headers()
                    self.wfile.flush()
                    self.connection.close()

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, args=(POLL_S,), daemon=True).start()

    def at(self, event: str, act: Callable[[], object], *, after_answer: bool) -> None:
        self._event, self._act, self._after_answer = event, act, after_answer

    def take(self, event: str, job_id: str, answer: Callable[[], None]) -> None:
        self.events.append((event, job_id))
        act, self._act = (self._act, lambda: None) if event == self._event else (lambda: None, self._act)
        if self._after_answer:
            answer()
        act()
        if not self._after_answer:
            answer()

    def of(self, job_id: str) -> list[str]:
        """Return the events of a job, each once, in the order in which they came first."""
        return list(dict.fromkeys(event for event, job in self.events if job == job_id))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class OutsideReader:
    """Reads, all the time, how many rows a table of the catalog has, from its files alone."""

    def __init__(self, home: Path, table: str) -> None:
        self.seen: set[int] = set()
        self._home, self._table = home, table
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> OutsideReader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def rows(self) -> int | None:
        """Return how many rows the table has now, None if there is none, and keep it among what was seen."""
        rows = self._rows()
        if rows is not None:
            self.seen.add(rows)
        return rows

    def _rows(self) -> int | None:
        query = "SELECT metadata_location FROM iceberg_tables WHERE table_name = ?"
        with closing(
            sqlite3.connect(f"file:{self._home / 'catalog.db'}?mode=ro", uri=True, timeout=5)
        ) as catalog:
            found = catalog.execute(query, (self._table,)).fetchone()
        if found is None:
            return None
        metadata = json.loads(_path(found[0]).read_text())
        [current] = [
            each for each in metadata["snapshots"] if each["snapshot-id"] == metadata["current-snapshot-id"]
        ]
        assert _path(current["manifest-list"]).exists(), "a table without its files is visible"
        return int(current["summary"]["total-records"])

    def _run(self) -> None:
        while not self._ending.wait(POLL_S):
            with suppress(sqlite3.OperationalError):
                self.rows()


def _path(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path))
