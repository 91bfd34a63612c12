"""The HTTP server: the application on a TCP or UNIX socket, in a separate thread."""

from __future__ import annotations

import errno
import socket
import threading
import time
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from mt_core.base.address import socket_url
from mt_core.errors import ConfigError, PortInUse
from mt_core.gateway.http.connections import Connection

START_TIMEOUT_S = 30.0
POLL_S = 0.01
STOP_TIMEOUT_S = 10
# Longer than clients keep idle connections open, so that the server never closes a connection that is about
# to be used.
KEEP_ALIVE_S = 75


class GatewayServer:
    """Serves the application on *sock*. `url` contains the actual port or path."""

    def __init__(self, app: ASGIApp, sock: socket.socket, protocol: type[Connection] = Connection) -> None:
        # uvloop and httptools are used if they are installed.
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
        # Read the address now, because that of a closed socket cannot be read.
        self._path = Path(sock.getsockname()) if sock.family is socket.AF_UNIX else None
        self.url = _url(*sock.getsockname()[:2]) if self._path is None else socket_url(self._path)
        self._thread = threading.Thread(target=self._server.run, args=([sock],), name="gateway", daemon=True)

    def start(self) -> None:
        """Start the server and wait until it accepts requests. Raises ConfigError if it does not start."""
        self._thread.start()
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise ConfigError(f"The gateway's HTTP server did not start on {self.url}; see its log.")
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Refuse new requests, let running requests finish, and close the socket. Idempotent."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join()
        self._sock.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on *host* and *port* (0 for any free port).

    Raises PortInUse, ConfigError.
    """
    return _open(host, port, listening=True)


def listen_at(path: Path) -> socket.socket:
    """Return a UNIX socket that listens at *path*, accessible only to this user. Raises ConfigError.

    A socket that a killed gateway left at *path* is replaced.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        sock.bind(str(path))
        path.chmod(0o600)
        sock.listen(128)
    except OSError as cause:
        sock.close()
        raise ConfigError(
            f"The gateway cannot listen on the UNIX socket {path}: {cause.strerror or cause}; "
            "choose a home on a local disk, with a path of less than 90 characters, with --home."
        ) from cause
    return sock


def check_address(host: str, port: int) -> None:
    """Raise PortInUse or ConfigError if a gateway could not listen there. The port remains free."""
    # A socket that is bound but not listening does not block others with SO_REUSEADDR.
    _open(host, port, listening=False).close()


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _open(host: str, port: int, *, listening: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio disables Nagle's algorithm only if the protocol is named. With the algorithm, each response
    # takes 40 ms longer.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        if listening:
            sock.listen(128)
    except OSError as cause:
        sock.close()
        if cause.errno == errno.EADDRINUSE:
            raise PortInUse(
                f"Address {host}:{port} is in use, perhaps by another gateway; stop it, or choose another "
                f"port with -D sql-gateway.endpoint.rest.port={port + 1 if 0 < port < 65535 else 8084}."
            ) from cause
        raise ConfigError(
            f"The gateway cannot listen on {host}:{port}: {cause.strerror or cause}; "
            "choose another address with -D sql-gateway.endpoint.rest.address=127.0.0.1."
        ) from cause
    return sock
