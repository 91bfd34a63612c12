"""Clients that show the tables of a gateway, in a process of their own: `python -m benchmarks.pages URL`.

Reads commands from standard input, one a line, and answers each with a line of JSON: `time` times the
requests of a page, `show` times SHOW MATERIALIZED TABLES, `poll` begins to poll as ten pages do, and `rest`
ends that.
"""

from __future__ import annotations

import html
import http.client
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote, urlsplit

from benchmarks.sampling import timed
from mt_core.client.http import GatewayClient

PAGES, POLL_EVERY_S = 10, 2.0
ROUNDS, WARM_UP = 40, 5
WAIT_S = 0.1
SHOWS = 5
ROWS = 100
TABLES = "/freshtable/v1/tables"
FIRST = f"{TABLES}?sort=-late&limit={ROWS}"
LATE = f"{TABLES}?state=late&limit={ROWS}"
SEARCH = f"{TABLES}?q=t00{{}}&limit={ROWS}"
# The same as a browser asks for it.
VIEW = "/ui/"
_ROW, _SINCE = b'<a class="row"', re.compile(r'id="rows"[^>]*"since": ?"([^"]*)"')


class Page:
    """A connection that is kept alive, the ETag of its last answer, and the version of the rows in it."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._http = http.client.HTTPConnection(parts.hostname or "", parts.port)
        self._http.connect()
        self._http.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.tag = self.since = ""

    def get(self, path: str) -> int:
        """Get *path* and return the number of tables in the answer."""
        status, body = self._ask(path, {})
        if status != 200:
            raise ConnectionError(f"GET {path}: {status} {body.decode()}")
        return len(json.loads(body)["tables"])

    def poll(self, path: str) -> bool:
        """Get *path* unless it is as in the last answer; return whether it has changed."""
        status, _ = self._ask(path, {"If-None-Match": self.tag} if self.tag else {})
        return status != 304

    def view(self, query: str = "") -> int:
        """Get the list of tables as a browser shows it, and return the number of its rows."""
        return self._view(query, {})

    def view_part(self, query: str = "") -> int:
        """Get the part of the list that a search changes, and return the number of its rows."""
        return self._view(query, {"HX-Request": "true", "HX-Target": "listing"})

    def poll_view(self) -> bool:
        """Get the rows unless they are as in the last answer; return whether they have changed."""
        path = f"{VIEW}?since={quote(self.since)}" if self.since else VIEW
        status, body = self._ask(path, {"HX-Request": "true", "HX-Target": "rows"})
        if status == 200:
            self._note_version(body)
        return status != 204

    def _view(self, query: str, headers: dict[str, str]) -> int:
        status, body = self._ask(VIEW + query, headers)
        if status != 200:
            raise ConnectionError(f"GET {VIEW}{query}: {status} {body.decode()}")
        self._note_version(body)
        return body.count(_ROW)

    def _note_version(self, body: bytes) -> None:
        found = _SINCE.search(html.unescape(body.decode()))
        assert found is not None, "the list has no version"
        self.since = found[1]

    def _ask(self, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        self._http.request("GET", path, headers=headers)
        answer = self._http.getresponse()
        self.tag = answer.headers.get("ETag", "")
        return answer.status, answer.read()


class Polls:
    """Pages that poll, each every two seconds, evenly spread."""

    def __init__(self, url: str) -> None:
        self._url, self._resting = url, threading.Event()
        self._resting.set()
        self._answers = 0
        for number in range(PAGES):
            threading.Thread(target=self._poll, args=(number,), daemon=True).start()

    def begin(self) -> int:
        self._resting.clear()
        return self._answers

    def rest(self) -> int:
        """Stop polling, and return the number of answers so far."""
        self._resting.set()
        return self._answers

    def _poll(self, number: int) -> None:
        page = Page(self._url)
        time.sleep(POLL_EVERY_S * number / PAGES)
        while True:
            if not self._resting.is_set():
                page.poll_view()
                self._answers += 1
            time.sleep(POLL_EVERY_S)


def time_requests(url: str) -> dict[str, list[float]]:
    """Return how long the requests of a page take, in seconds."""
    page = Page(url)
    while page.get(FIRST) < ROWS:
        # The gateway has not read all of its tables yet.
        time.sleep(WAIT_S)
    taken: dict[str, list[float]] = {}
    for number in range(WARM_UP + ROUNDS):
        seconds = {
            "view": timed(page.view),
            "late view": timed(partial(page.view, "?state=late")),
            "view search": timed(partial(page.view_part, f"?q=t00{number % 10}")),
            "first": timed(partial(page.get, FIRST)),
            "late": timed(partial(page.get, LATE)),
            "search": timed(partial(page.get, SEARCH.format(number % 10))),
        }
        page.get(FIRST)
        seconds["unchanged"] = timed(partial(page.poll, FIRST))
        page.view()
        seconds["unchanged view"] = timed(page.poll_view)
        if number >= WARM_UP:
            for name, each in seconds.items():
                taken.setdefault(name, []).append(each)
    return taken


def time_shows(url: str) -> list[float]:
    """Return how long SHOW MATERIALIZED TABLES takes, with all its rows, in seconds."""
    with GatewayClient(url) as client:

        def show() -> None:
            operation = client.execute("SHOW MATERIALIZED TABLES")
            for _ in client.pages(operation):
                pass
            client.close_operation(operation)

        show()
        return [timed(show) for _ in range(SHOWS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """The process of the clients."""

    process: subprocess.Popen[str]

    def times(self) -> dict[str, list[float]]:
        times: dict[str, list[float]] = self._command("time")
        return times

    def shows(self) -> list[float]:
        shows: list[float] = self._command("show")
        return shows

    def poll(self) -> int:
        answers: int = self._command("poll")
        return answers

    def rest(self) -> int:
        answers: int = self._command("rest")
        return answers

    def _command(self, name: str) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{name}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@contextmanager
def pages(url: str) -> Iterator[Pages]:
    """Run the clients in a process during the block."""
    command = [sys.executable, "-m", __name__, url]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield Pages(process=process)
    finally:
        process.kill()
        process.communicate()


def main(url: str) -> None:
    """Carry out the commands on standard input."""
    polls = Polls(url)
    commands: Mapping[str, Callable[[], object]] = {
        "time": partial(time_requests, url),
        "show": partial(time_shows, url),
        "poll": polls.begin,
        "rest": polls.rest,
    }
    for line in sys.stdin:
        sys.stdout.write(json.dumps(commands[line.strip()]()) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
