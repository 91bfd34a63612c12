"""`freshtable gateway`: run a gateway in the foreground until it is told to stop."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Mapping

from mt_core.app.gateway import Gateway
from mt_core.app.home import Home
from mt_core.app.logs import log_to
from mt_core.app.memory import spare_what_stays
from mt_core.app.wiring import Watch
from mt_core.config import Config
from mt_core.errors import MtError

log = logging.getLogger(__name__)


def serve(
    config: Config,
    environ: Mapping[str, str],
    say: Callable[[str], None],
    *,
    verbose: bool = False,
    watch: Watch | None = None,
) -> int:
    """Run a gateway until SIGTERM or SIGINT; *say* gets the one line with its URL once it is ready. Returns the exit code."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    home = Home(config.home)
    home.take()
    try:
        log_to(home.paths.logs, verbose=verbose)
        gateway = Gateway(config, home, environ, watch=watch)
        try:
            gateway.start()
            failed = _say_when_ready(gateway, say, stop)
            stop.wait()
            # Taken before the stop: a start that is broken off by it has failed as well, and that is nobody's error.
            reasons = failed[:1]
        finally:
            gateway.stop()
        for reason in reasons:
            raise reason
    finally:
        home.release()
    return 0


def _say_when_ready(gateway: Gateway, say: Callable[[str], None], stop: threading.Event) -> list[MtError]:
    """Wait for Spark in a thread of its own, so that a signal is heard meanwhile; return where its failure is put."""
    failed: list[MtError] = []

    def wait() -> None:
        try:
            gateway.wait_ready()
        except MtError as error:
            failed.append(error)
            stop.set()
        else:
            spare_what_stays()
            log.info("gateway ready", extra={"action": "gateway_ready", "url": gateway.url})
            say(f"Freshtable gateway ready at {gateway.url}")

    threading.Thread(target=wait, name="start", daemon=True).start()
    return failed
