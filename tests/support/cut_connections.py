"""A proxy of TCP connections that a test cuts between a request and its answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

_MOST_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Cuts the connection of the next request that contains *text*, before or after the server has it.

    *then* is called before the client notices.
    """

    text: bytes
    after: bool
    then: Callable[[], object]


class CutConnections:
    """The proxy of the server at *host* and *port*; `cut` applies to the next request only."""

    def __init__(self, host: str, port: int) -> None:
        self._server = host, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.cut: Cut | None = None
        self._lock = threading.Lock()

    def serve(self) -> None:
        """Accept connections until `close`."""
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def close(self) -> None:
        """Accept no more connections."""
        # Without this, a thread that waits for a connection would keep the port.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _connect(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(self._server) as server:
            cuts = list[Cut]()
            answers = threading.Thread(target=self._answer, args=(server, client, cuts), daemon=True)
            answers.start()
            while request := client.recv(_MOST_BYTES):
                if (cut := self._take(request)) is not None:
                    cuts.append(cut)
                    if not cut.after:
                        cut.then()
                        break
                server.sendall(request)
            for each in (client, server):
                _end(each)
            answers.join()

    def _take(self, request: bytes) -> Cut | None:
        with self._lock:
            if self.cut is None or self.cut.text not in request:
                return None
            cut, self.cut = self.cut, None
            return cut

    @staticmethod
    def _answer(server: socket.socket, client: socket.socket, cuts: list[Cut]) -> None:
        with suppress(OSError):
            while answer := server.recv(_MOST_BYTES):
                if cuts:
                    cuts[0].then()
                    break
                client.sendall(answer)
        if not cuts or cuts[0].after:
            for each in (client, server):
                _end(each)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def cut_connections(host: str, port: int) -> Iterator[CutConnections]:
    """Run a proxy of the server at *host* and *port* until the end of the block."""
    proxy = CutConnections(host, port)
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join()
