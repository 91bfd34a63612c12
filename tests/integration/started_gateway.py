"""A real gateway in a process of its own, for tests of what talks to one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mt_core.demo.process import GatewayProcess


@contextmanager
def started_gateway(home: Path, *settings: str) -> Iterator[str]:
    """Yield the URL of a gateway on any free port, which is stopped in the end."""
    process = GatewayProcess(home, ["sql-gateway.endpoint.rest.port=0", *settings])
    try:
        yield process.start()
    finally:
        process.stop()
