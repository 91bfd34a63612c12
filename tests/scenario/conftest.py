from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from mt_core.base.access import parse_tokens
from mt_core.base.rowset import Column, RowSet
from mt_core.gateway.http.server import GatewayServer, listen
from mt_core.sessions.ports import StatementResult
from tests.support.client_screen import PROGRAM, Open, at_prompt
from tests.support.gateway.shared_app import app_of
from tests.support.gateway.statements import Gateway, statement_gateway
from tests.support.screen import ScreenTerminal


class Switch:
    """An ASGI application that forwards to the current test's: a server per test would take too long."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


@pytest.fixture(scope="session")
def switch() -> Switch:
    return Switch()


@pytest.fixture(scope="session")
def http(switch: Switch) -> Iterator[httpx.Client]:
    server = GatewayServer(switch, listen("127.0.0.1", 0))
    server.start()
    with httpx.Client(base_url=server.url, timeout=60) as client:
        yield client
    server.stop()


@pytest.fixture
def gateway(switch: Switch, http: httpx.Client) -> Iterator[Gateway]:
    with statement_gateway(http, max_sessions=3) as made:
        switch.app = app_of(made.services)
        yield made


@pytest.fixture
def roomy_gateway(switch: Switch, http: httpx.Client) -> Iterator[Gateway]:
    """A gateway with room for 1,000 sessions."""
    with statement_gateway(http, max_sessions=1000) as made:
        switch.app = app_of(made.services)
        yield made


@pytest.fixture
def guarded_gateway(gateway: Gateway, switch: Switch) -> Gateway:
    """A gateway that requires one of two tokens."""
    switch.app = app_of(replace(gateway.services, tokens=parse_tokens("first,second")))
    return gateway


@pytest.fixture
def opened(gateway: Gateway, tmp_path: Path) -> Iterator[Open]:
    """Open a terminal with a command, by default `freshtable sql`, and wait for its prompt."""
    terminals: list[ScreenTerminal] = []

    def open_terminal(*command: str, **environ: str) -> ScreenTerminal:
        tables = RowSet(columns=(Column(name="table name"),), rows=[["daily"], ["dull days"]])
        gateway.engine.answers["SHOW TABLES"] = StatementResult(is_query=False, rows=tables)
        folders = {"XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
        inherited = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        gateway_url = {"FRESHTABLE_GATEWAY": str(gateway.http.base_url)}
        terminal = ScreenTerminal(
            command or (str(PROGRAM), "sql"), {**inherited, **folders, **gateway_url, **environ}
        )
        terminals.append(terminal)
        terminal.see(at_prompt)
        return terminal

    yield open_terminal
    for terminal in terminals:
        terminal.__exit__(None, None, None)
