"""The HTTP server: the application on a socket, in a thread of its own."""

from __future__ import annotations

import errno
import socket
import threading
import time

import uvicorn
from starlette.types import ASGIApp

from mt_core.errors import ConfigError, PortInUse
from mt_core.gateway.http.connections import Connection

START_TIMEOUT_S = 30.0
POLL_S = 0.01
STOP_TIMEOUT_S = 10
# Longer than clients keep idle connections, so that the server never closes one that a client has just begun to use.
KEEP_ALIVE_S = 75


class GatewayServer:
    """The application on *sock*, at `address` with the real port; `stop()` lets requests under way finish."""

    def __init__(self, app: ASGIApp, sock: socket.socket, protocol: type[Connection] = Connection) -> None:
        # uvloop and httptools are used where they are installed.
        config = uvicorn.Config(
            app,
            http=protocol,
            h11_max_incomplete_event_size=protocol.HEAD_BYTES,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=STOP_TIMEOUT_S,
        )
        self._sock, self._server = sock, uvicorn.Server(config)
        # A closed socket has no address any more.
        host, port = sock.getsockname()[:2]
        self.address: tuple[str, int] = (host, port)
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        self._thread = threading.Thread(target=self._server.run, args=([sock],), name="gateway", daemon=True)

    def start(self) -> None:
        """Begin to serve; returns when requests are answered."""
        self._thread.start()
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise ConfigError(f"The gateway's HTTP server did not start on {self.url}; see its log.")
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Take no more requests, wait for those under way, and close the socket; twice is harmless."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join()
        self._sock.close()


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on *host* and *port* (0: any free one); raises PortInUse, ConfigError with the way out."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio switches Nagle's algorithm off only where the protocol is named; with it each answer takes 40 ms longer.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(128)
    except OSError as cause:
        sock.close()
        if cause.errno == errno.EADDRINUSE:
            raise PortInUse(
                f"Address {host}:{port} is in use, perhaps by another gateway; stop it, or choose another port with "
                f"-D sql-gateway.endpoint.rest.port={port + 1 if 0 < port < 65535 else 8084}."
            ) from cause
        raise ConfigError(
            f"The gateway cannot listen on {host}:{port}: {cause.strerror or cause}; choose another address with "
            "-D sql-gateway.endpoint.rest.address=127.0.0.1."
        ) from cause
    return sock
