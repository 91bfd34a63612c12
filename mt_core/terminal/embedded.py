"""The embedded gateway of a home folder: the client connects to it, or starts it.

Several clients may start at the same moment, but only one gateway may own a home. The clients do not elect
one of them. Each starts a gateway process if none responds, and the processes compete for the lock of the
home. A process that loses exits with `TRY_AGAIN`, and its client then connects to the winner.

A gateway exits after its last client. Therefore each client holds a shared lock (`Presence`) from its first
request until `close`, and the gateway exits only after it has acquired that lock exclusively. A client thus
never connects to a gateway that is about to exit. A user may still stop the gateway. Only requests that begin
new work (`/sessions`, `/statements`, `/refresh`) then start another one; heartbeats and completions fail
instead. Waiting is limited to `WAIT_S`, which covers the shutdown of the previous gateway and the start of
Spark.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import httpx

from mt_core.base.address import Address, socket_url
from mt_core.client.home import SOCKET_NAME, TRY_AGAIN, Holder, holder_of, token_in
from mt_core.client.http import GatewayRefused
from mt_core.client.info import UNAUTHORIZED, read_info
from mt_core.errors import ConfigError
from mt_core.terminal.presence import Presence

# A gateway that stops lets running publishes finish (up to 30 s), and then stops Spark.
WAIT_S = 120.0
ANSWER_S = 5.0
_POLL_S, _PAUSE_S = 0.05, 0.5
# With -P, a module in the working directory cannot hide one of the standard library.
PROGRAM = (sys.executable, "-P", "-m", "mt_core", "gateway")


@dataclass(frozen=True, kw_only=True)
class _Reached:
    """A gateway that responded, and the transport to it."""

    holder: Holder
    base: httpx.URL
    transport: httpx.HTTPTransport
    token: str | None

    @classmethod
    def of(cls, holder: Holder, token: str | None) -> _Reached:
        address = Address.of(holder.url)
        transport = httpx.HTTPTransport(uds=address.socket, verify=address.base_url.startswith("https://"))
        return cls(holder=holder, base=httpx.URL(address.base_url), transport=transport, token=token)

    def send(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(scheme=self.base.scheme, netloc=self.base.netloc)
        request.headers["Host"] = self.base.netloc.decode("ascii")
        if self.token is not None:
            request.headers.setdefault("Authorization", f"Bearer {self.token}")
        return self.transport.handle_request(request)


class EmbeddedGateway:
    """The gateway of *home*, which the first request through `transport` connects to or starts. Thread-safe.

    The gateway runs at least as long as its clients; a client counts from its first request until `close`. If
    *token* is None, requests carry the token of the home.
    """

    def __init__(self, home: Path, token: str | None = None) -> None:
        self.home = home.expanduser().absolute()
        self.url, self.log = socket_url(self.home / SOCKET_NAME), self.home / "logs" / "embedded.log"
        self._command = [*PROGRAM, "--home", str(self.home), "-D", "sql-gateway.embedded=true"]
        try:
            self.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.home.chmod(0o700)
        except OSError as cause:
            raise ConfigError(
                f"Home folder {self.home} cannot be used: {cause.strerror}; choose another with --home."
            ) from cause
        self._token = token
        self._presence, self._left = Presence(self.home), threading.Event()
        self._started: subprocess.Popen[bytes] | None = None
        self._reached: _Reached | None = None
        self._finding = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def transport(self) -> httpx.BaseTransport:
        """Return the transport that sends a client's requests to the gateway."""
        return _Transport(self)

    def found(self) -> str:
        """Return a message about a running gateway that this client did not start.

        The message is empty if no such gateway responds.
        """
        if self._reached is None:
            holder = holder_of(self.home)
            if holder is None or not self._answers(holder):
                return ""
        else:
            holder = self._reached.holder
        if self._started is not None and self._started.pid == holder.pid:
            return ""
        return f"The gateway at {holder.url} (process {holder.pid}) owns {self.home} and is used."

    def farewell(self) -> str:
        """Interrupt waiting requests and return a message about the work that the gateway continues.

        The message is empty if no work continues after the gateway's last client has exited.
        """
        self._left.set()
        reached = self._reached
        if reached is None:
            return ""
        try:
            work = read_info(reached.holder.url, reached.token, ANSWER_S).work
        except GatewayRefused:
            return ""
        if not work:
            return ""
        return (
            f"The gateway on {self.home} continues as process {reached.holder.pid} "
            f"and stops after this work: {work}. "
            f"To stop it: freshtable gateway stop --home {shlex.quote(str(self.home))}"
        )

    def disconnect(self) -> None:
        """Close the connections. The next request opens new ones."""
        reached = self._reached
        if reached is not None:
            reached.transport.close()

    def close(self) -> None:
        """Stop being a client of the gateway. Idempotent."""
        self._left.set()
        self._presence.release()

    def reach(self, *, starts: bool) -> _Reached:
        """Return the gateway. If none runs and *starts* is set, start one.

        Raises GatewayRefused with the reason if that fails.
        """
        reached = self._reached
        if reached is None and not starts:
            raise httpx.ConnectError("it has stopped; the next statement starts another one")
        with self._finding:
            if self._reached is None:
                holder = self._find()
                self._reached = _Reached.of(holder, self._token_for(holder))
            return self._reached

    def lose(self, reached: _Reached) -> None:
        """Discard a gateway that refuses connections."""
        with self._finding:
            if self._reached is reached:
                # A process that this client started has exited, or is about to exit.
                self._reached = self._started = None
                reached.transport.close()

    @property
    def left(self) -> bool:
        """Whether the client is about to exit."""
        return self._left.is_set()

    def _find(self) -> Holder:
        deadline = time.monotonic() + WAIT_S
        if not self._presence.share(WAIT_S, self._left):
            raise GatewayRefused(
                f"The previous gateway on {self.home} did not stop within {WAIT_S:.0f} s; see {self.log}."
            )
        before = self.log.stat().st_size if self.log.exists() else 0
        while True:
            holder = holder_of(self.home)
            if holder is not None and self._answers(holder):
                return holder
            pause_s = self._start(before)
            if self._left.wait(pause_s):
                raise GatewayRefused("The client exited before the gateway answered.")
            if time.monotonic() > deadline:
                raise GatewayRefused(
                    f"No gateway answers on {self.home} after {WAIT_S:.0f} s; see {self.log.parent}. "
                    f"{self._reason(before)}"
                )

    def _start(self, before: int) -> float:
        """Start a gateway unless one is starting, and return the seconds to wait before the next check.

        Raises GatewayRefused if the start failed.
        """
        code = None if self._started is None else self._started.poll()
        if self._started is not None and code is None:
            return _POLL_S
        if code is not None and code != TRY_AGAIN:
            self._started = None
            raise GatewayRefused(
                f"The gateway on {self.home} did not start (see {self.log}): {self._reason(before)}"
            )
        # In a process session of its own, the gateway survives Ctrl-C and a closed terminal.
        with self.log.open("ab") as log:
            self._started = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        return _POLL_S if code is None else _PAUSE_S

    def _reason(self, before: int) -> str:
        """Return the last line that gateways wrote to their log after byte *before*, preferably an error."""
        with self.log.open("rb") as log:
            log.seek(before)
            lines = log.read().decode(errors="replace").splitlines()
        errors = [line.removeprefix("Error: ") for line in lines if line.startswith("Error: ")]
        return (errors or [line for line in lines if line.strip()] or ["The log is empty."])[-1]

    def _token_for(self, holder: Holder) -> str | None:
        return self._token or token_in(self.home, holder.url)

    def _answers(self, holder: Holder) -> bool:
        try:
            read_info(holder.url, self._token_for(holder), ANSWER_S)
        except GatewayRefused as error:
            # The gateway is running. Opening the session will report what is wrong with the token.
            return error.code == UNAUTHORIZED
        return True


class _Transport(httpx.BaseTransport):
    def __init__(self, gateway: EmbeddedGateway) -> None:
        self._gateway = gateway

    def close(self) -> None:
        self._gateway.disconnect()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        # Heartbeats and completion must not restart a gateway that was stopped.
        starts = request.method == "POST" and request.url.path.endswith(
            ("/sessions", "/statements", "/refresh")
        )
        if self._gateway.left and request.method != "DELETE":
            raise httpx.ConnectError("the client is exiting")
        reached = self._gateway.reach(starts=starts)
        try:
            return reached.send(request)
        except httpx.ConnectError:
            self._gateway.lose(reached)
            if not starts:
                raise
        return self._gateway.reach(starts=True).send(request)
