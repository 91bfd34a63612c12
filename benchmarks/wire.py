"""The gateway's protocol with a minimal client, so that the measurement shows the gateway."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import orjson

from mt_core.demo.process import GatewayProcess

PREFIX = "/v4"
TYPE = {"Content-Type": "application/json"}


class Wire:
    """One connection that is kept alive, with one session, for one thread."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._http = http.client.HTTPConnection(parts.hostname or "", parts.port)
        self._http.connect()
        self._http.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.session = f"{PREFIX}/sessions/{self.open_session()}"

    def open_session(self) -> str:
        return str(self.ask("POST", f"{PREFIX}/sessions", {})["sessionHandle"])

    def show_session(self) -> None:
        self.ask("GET", self.session)

    def run(self, statement: str) -> int:
        """Run a statement: POST, fetch the first page, close. Return how often the page was not ready."""
        begun = self.ask("POST", f"{self.session}/statements", {"statement": statement})
        operation = f"{self.session}/operations/{begun['operationHandle']}"
        waited = 0
        while self.ask("GET", f"{operation}/result/0")["resultType"] == "NOT_READY":
            waited += 1
        self.ask("DELETE", f"{operation}/close")
        return waited

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        sent = None if body is None else orjson.dumps(body)
        self._http.request(method, path, sent, TYPE if sent else {})
        answer = self._http.getresponse()
        found = orjson.loads(answer.read())
        if answer.status != 200:
            raise ConnectionError(f"{method} {path}: {answer.status} {found}")
        return found

    def close(self) -> None:
        self.ask("DELETE", self.session)
        self._http.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A gateway in a separate process, with a home of its own."""

    url: str
    pid: int


@contextmanager
def gateway_process() -> Iterator[Running]:
    """Run a gateway during the block. Spark is ready when the block begins."""
    with TemporaryDirectory(prefix="freshtable-bench-") as folder:
        gateway = GatewayProcess(Path(folder), ["sql-gateway.endpoint.rest.port=0"])
        try:
            url = gateway.start()
            yield Running(url=url, pid=gateway.pid)
        finally:
            gateway.stop()
