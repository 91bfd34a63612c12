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
# Longer than clients keep idle connections, so that it is never the server who closes one that is just being used.
KEEP_ALIVE_S = 75


class GatewayServer:
    """A running gateway endpoint; `stop()` lets requests under way finish."""

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
        # Read now: it is still asked for when the socket has been closed.
        host, port = sock.getsockname()[:2]
        self._address = str(host), int(port)
        self._thread = threading.Thread(target=self._server.run, args=([sock],), name="gateway", daemon=True)

    @property
    def address(self) -> tuple[str, int]:
        """The host and the real port."""
        return self._address

    @property
    def url(self) -> str:
        """The address as a URL."""
        host, port = self.address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

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
    """Return a socket bound to *host* and *port* (0: any free one); raises PortInUse naming how to choose another."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio switches Nagle's algorithm off only where the protocol is named; with it each answer takes 40 ms longer.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(128)
    except OSError as cause:
        sock.close()
        raise _bind_error(host, port, cause) from cause
    return sock


def serve(app: ASGIApp, host: str, port: int, sock: socket.socket | None = None) -> GatewayServer:
    """Serve *app* on *sock*, or on a new socket for *host* and *port*, and return the running server."""
    server = GatewayServer(app, sock if sock is not None else listen(host, port))
    server.start()
    return server


def _bind_error(host: str, port: int, cause: OSError) -> ConfigError:
    if cause.errno == errno.EADDRINUSE:
        return PortInUse(
            f"Address {host}:{port} is in use, perhaps by another gateway; stop it, or choose another port with "
            f"-D sql-gateway.endpoint.rest.port={port + 1 if 0 < port < 65535 else 8084}."
        )
    return ConfigError(
        f"The gateway cannot listen on {host}:{port}: {cause.strerror or cause}; choose another address with "
        "-D sql-gateway.endpoint.rest.address=127.0.0.1."
    )
