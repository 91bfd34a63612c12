"""`freshtable gateway`: run a gateway in the foreground until a signal stops it."""

from __future__ import annotations

import faulthandler
import gc
import getpass
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

from mt_core.app.gateway import Gateway
from mt_core.app.home import Home
from mt_core.app.last_client import LastClient
from mt_core.app.logs import log_to
from mt_core.app.process_memory import close_process_memory
from mt_core.app.settings import EMBEDDED_KEY
from mt_core.app.spark_parts import FUNCTIONS_KEY
from mt_core.base.background import BackgroundLoop, start_thread
from mt_core.clock import SystemClock
from mt_core.config import Config
from mt_core.errors import MtError
from mt_core.tables.refresh.workers import Watch
from mt_core.terminal.presence import Presence

log = logging.getLogger(__name__)
LOOK_EVERY = timedelta(seconds=1)
WITHOUT_FUNCTIONS = (
    "Functions in Java, Scala and Python are disabled (sql-gateway.functions.enabled = false): "
    "queries that call one fail, and streaming jobs wait"
)
# The documentation and deploy/compose.yaml give a gateway 120 s to stop before it is killed.
STOP_WITHIN_S = 100.0
_LOOK_FOR_SIGNALS_S = 0.5
OPEN = (
    "%s does not require a token: every user of this machine can run code as %s through it. "
    "If this machine has other users, start it with -D sql-gateway.security.tokens=generate"
)


class End:
    """The end of a gateway, caused by a signal or by an error."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self._reason: Exception | None = None

    def take_signals(self) -> None:
        """Make SIGTERM and SIGINT end the gateway."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: self.event.set())

    def fail(self, error: Exception) -> None:
        """End the gateway because of *error*. The error is ignored if the gateway is already ending."""
        if self.event.is_set():
            return
        if not isinstance(error, MtError):
            log.error("the gateway failed", exc_info=error, extra={"action": "gateway_failed"})
        self._reason = error
        self.event.set()

    def wait(self) -> None:
        """Wait for the end, in the main thread."""
        # Python runs signal handlers only in this thread, and does not wake it if another thread received the
        # signal.
        while not self.event.wait(_LOOK_FOR_SIGNALS_S):
            pass

    def raise_reason(self) -> None:
        """Raise the error that ended the gateway, if any."""
        match self._reason:
            case None:
                return
            case MtError():
                raise self._reason
            case unexpected:
                raise MtError(
                    f"The gateway failed: {type(unexpected).__name__}: {unexpected}; gateway.log in the home "
                    "folder has the details."
                ) from unexpected


def serve(
    config: Config,
    environ: Mapping[str, str],
    say: Callable[[str], None],
    *,
    note: Callable[[str], None] = log.info,
    verbose: bool = False,
    watch: Watch | None = None,
) -> int:
    """Run a gateway until SIGTERM or SIGINT and return the exit code.

    *note* is called with a line of text when the gateway serves requests, and *say* with its URL, and in a
    second line that of its page, when Spark is ready.
    """
    close_process_memory()
    share_interpreter()
    end = End()
    end.take_signals()
    home = Home(config.home)
    home.take()
    try:
        log_to(home.logs, verbose=verbose)
        gateway = Gateway(config, home, environ, watch=watch, on_lost=end.fail)
        try:
            gateway.start(end.event)
            if not end.event.is_set():
                note(
                    f"The gateway listens at {gateway.url}. Spark is starting, which can take half a minute; "
                    f"logs: {home.logs}"
                )
                if not config.tokens and not config.boolean(EMBEDDED_KEY):
                    log.warning(OPEN, gateway.url, getpass.getuser(), extra={"action": "gateway_open"})
                if not config.boolean(FUNCTIONS_KEY):
                    log.warning(WITHOUT_FUNCTIONS, extra={"action": "without_functions"})
                start_thread("start", lambda: _say_when_ready(gateway, say), end.fail)
            with _until_the_last_client(config, gateway, end):
                end.wait()
        finally:
            end_in_time()
            gateway.stop()
        end.raise_reason()
    finally:
        home.release()
    return 0


def end_in_time(
    limit_s: float = STOP_WITHIN_S,
    stopped: threading.Event | None = None,
    leave: Callable[[int], object] = os._exit,
) -> threading.Thread:
    """Start a thread that exits this process with code 1 after *limit_s*, unless *stopped* is set first.

    A gateway can be killed at any moment without loss, so a stop that takes too long can be cut short.
    """

    def wait() -> None:
        if (stopped or threading.Event()).wait(limit_s):
            return
        text = (
            "the gateway did not stop within %g s and exits now; the next start recovers its unfinished work"
        )
        log.error(text, limit_s, extra={"action": "stop_overdue"})
        faulthandler.dump_traceback(sys.__stderr__ or sys.stderr)
        leave(1)

    thread = threading.Thread(target=wait, name="stop-limit", daemon=True)
    thread.start()
    return thread


@contextmanager
def _until_the_last_client(config: Config, gateway: Gateway, end: End) -> Iterator[None]:
    """End an embedded gateway after its last client has left and no work remains."""
    last = LastClient(Presence(config.home), work=gateway.remaining_work, end=end.event.set)
    loop = BackgroundLoop("last client", last.check, clock=SystemClock(), every=LOOK_EVERY)
    if config.boolean(EMBEDDED_KEY):
        loop.start()
    try:
        yield
    finally:
        loop.end()
        loop.join(LOOK_EVERY.total_seconds())


def _say_when_ready(gateway: Gateway, say: Callable[[str], None]) -> None:
    """Wait for Spark in a separate thread, so that the main thread can handle signals."""
    gateway.wait_ready()
    freeze_startup_objects()
    log.info("gateway ready", extra={"action": "gateway_ready", "url": gateway.url})
    say(ready_text(gateway.url, gateway.page_url))


def ready_text(url: str, page_url: str | None) -> str:
    """Return what a gateway says when it is ready: its URL and, if it serves a page, where that is."""
    # Programs that start a gateway read the URL at the end of the first line.
    ready = f"Freshtable gateway ready at {url}"
    return ready if page_url is None else f"{ready}\nIts page is at {page_url}"


# For how long a thread may compute before it gives way to one that waits. A claim of a refresh may have to
# wait after each of its statements; Python's default is 5 ms, while the claim itself takes 2 ms.
SWITCH_S = 0.001


def share_interpreter() -> None:
    """Limit the time that a thread waits for one that computes to `SWITCH_S`."""
    sys.setswitchinterval(SWITCH_S)


# Ten times Python's defaults, because requests and ticks create many objects that reference counting frees.
THRESHOLDS = (20_000, 20, 50)


def freeze_startup_objects() -> None:
    """Exclude all existing objects from garbage collection.

    Modules, endpoints and workflows live as long as the process, and each pass over them would delay requests
    by a tenth of a second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
