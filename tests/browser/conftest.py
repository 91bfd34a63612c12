from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.browser.browser import Visits, chromium
from tests.browser.views import SITUATIONS, GatewayOf
from tests.support.gateway.wired import WiredGateway


# Playwright's event loop runs in the thread of the tests until it stops: it must not reach other modules.
@pytest.fixture(scope="module")
def visits() -> Iterator[Visits]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="session")
def gateway_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayOf]:
    """Return the gateway of a situation, which is started once."""
    started: dict[str, WiredGateway] = {}
    with ExitStack() as stack:

        def gateway(name: str) -> WiredGateway:
            if name not in started:
                folder: Path = tmp_path_factory.mktemp(name)
                started[name] = stack.enter_context(SITUATIONS[name].start(folder))
            return started[name]

        yield gateway
