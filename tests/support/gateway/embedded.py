"""An embedded gateway with prepared answers, and a client that starts it, each in a separate process.

As a module, `python -m tests.support.gateway.embedded --home HOME …`, it is `freshtable gateway` with fakes
instead of Spark. It starts to respond when its home has a file `may-start`. If its home has a file `failure`,
it fails with the text of this file. The file `work` has the work that remains. `client` is a `freshtable sql
--embedded` that starts this gateway.
"""

from __future__ import annotations

import signal
import sys
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from mt_core.app.home import Home
from mt_core.app.last_client import LastClient
from mt_core.base.background import BackgroundLoop
from mt_core.client.home import TRY_AGAIN
from mt_core.clock import SystemClock
from mt_core.errors import HomeLocked
from mt_core.gateway.application import build_app
from mt_core.gateway.http.server import GatewayServer, listen_at
from mt_core.terminal.presence import Presence
from tests.support.gateway.statements import lasting_services

LOOK_EVERY = timedelta(milliseconds=20)
CLIENT = (
    "import sys; from mt_core.terminal import embedded;"
    "embedded.PROGRAM = (sys.executable, '-m', 'tests.support.gateway.embedded');"
    "from mt_core.cli import app; app()"
)


def client(home: Path, *arguments: str) -> tuple[str, ...]:
    """Return the command of a client that starts this gateway on *home*."""
    return (sys.executable, "-c", CLIENT, "sql", "--embedded", "--home", str(home), *arguments)


def main(folder: Path) -> int:
    """Run the gateway of *folder* until SIGTERM, or until its last client has left and no work remains."""
    end = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: end.set())
    home = Home(folder)
    try:
        home.take()
    except HomeLocked as error:
        sys.stderr.write(f"Error: {error}\n")
        return TRY_AGAIN
    clock = SystemClock()
    while not (folder / "may-start").exists() and not end.wait(LOOK_EVERY.total_seconds()):
        if (folder / "failure").exists():
            sys.stderr.write(f"a warning\nError: {(folder / 'failure').read_text(encoding='utf-8')}\n")
            return 1

    def work() -> str:
        file = folder / "work"
        return file.read_text(encoding="utf-8") if file.exists() else ""

    services = replace(lasting_services(), remaining_work=work)
    server = GatewayServer(build_app(services), listen_at(home.socket))
    home.note(url=server.url, jvm_pid=None)
    server.start()
    loop = BackgroundLoop(
        "last client",
        LastClient(Presence(folder), work=work, end=end.set).check,
        clock=clock,
        every=LOOK_EVERY,
    )
    loop.start()
    end.wait()
    loop.end()
    server.stop()
    home.note(url=None, jvm_pid=None)
    home.release()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[sys.argv.index("--home") + 1])))
