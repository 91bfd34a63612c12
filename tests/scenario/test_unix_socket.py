"""A gateway behind a UNIX socket."""

from __future__ import annotations

import socket
import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from mt_core.base.address import Address, socket_url
from mt_core.client.home import token_in
from mt_core.client.http import GatewayClient, GatewayRefused
from mt_core.client.info import READY, read_info
from mt_core.clock import SystemClock
from mt_core.config import load_config
from mt_core.errors import ConfigError
from mt_core.gateway.application import build_app
from mt_core.gateway.http.server import GatewayServer, listen_at
from mt_core.model.freshness import Freshness
from mt_core.setup.machine import Machine
from mt_core.workflow.definitions import WorkflowDefinition
from mt_core.workflow.operations import Schedule
from scheduler_plugins.memory.outbox import Tick
from scheduler_plugins.memory.ticker import Outcome, Ticker
from tests.support.gateway.statements import Gateway

POINT = datetime(2026, 1, 2, 3, tzinfo=UTC)


@pytest.fixture
def path() -> Iterator[Path]:
    """A path with a blank, short enough for a socket; pytest's own may be too long."""
    with TemporaryDirectory(prefix="a home") as folder:
        yield Path(folder) / "gateway.sock"


@pytest.fixture
def url(gateway: Gateway, path: Path) -> Iterator[str]:
    server = GatewayServer(build_app(gateway.services), listen_at(path))
    server.start()
    yield server.url
    server.stop()


def test_clients_run_statements_through_a_socket_that_is_for_its_user_alone(url: str, path: Path) -> None:
    with GatewayClient(url) as client:
        rows = [row for page in client.pages(client.execute("SELECT 1")) for row in page.rows]
        found = client.url

    assert (rows, found) == ([[1]], socket_url(path))
    assert read_info(url, None, 5.0).engine == READY
    assert (stat.S_ISSOCK(path.stat().st_mode), stat.S_IMODE(path.stat().st_mode)) == (True, 0o600)


def test_the_scheduler_in_memory_sends_its_ticks_through_the_socket(url: str, gateway: Gateway) -> None:
    schedule = Schedule(freshness=Freshness.of_seconds(3600), zone="UTC", since=POINT - timedelta(hours=1))
    definition = WorkflowDefinition(
        workflow_id="id", identifier="lake.shop.daily", description="", schedule=schedule
    )
    ticker = Ticker(gateway_url=url, token="", max_in_flight=1)

    answer = ticker.deliver(definition, Tick(workflow_id="id", point=POINT))

    ticker.close()
    assert answer.outcome is Outcome.ACCEPTED
    assert [(each.identifier_text, each.is_periodic) for each in gateway.runs.requests] == [
        ("lake.shop.daily", True)
    ]


def test_a_socket_that_a_killed_gateway_left_is_replaced_and_a_stopped_one_leaves_none(
    gateway: Gateway, path: Path
) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with pytest.raises(GatewayRefused, match="There is no gateway at unix://"):
        GatewayClient(socket_url(path)).open_session()

    server = GatewayServer(build_app(gateway.services), listen_at(path))
    server.start()
    info = read_info(server.url, None, 5.0)
    server.stop()

    assert (info.engine, path.exists()) == (READY, False)


def test_a_path_that_is_too_long_for_a_socket_is_refused_with_the_way_out(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()

    with pytest.raises(
        ConfigError, match=r"cannot listen on the UNIX socket .*less than 90 characters, with --home\."
    ):
        listen_at(folder / "gateway.sock")


def test_the_token_of_a_home_is_sent_to_its_own_socket_alone(tmp_path: Path) -> None:
    own = socket_url(tmp_path / "gateway.sock")
    (tmp_path / "token").write_text("secret\n", encoding="ascii")
    (tmp_path / "gateway.json").write_text(f'{{"url": "{own}"}}', encoding="utf-8")

    found = [token_in(tmp_path, url) for url in (own, "unix:///tmp/other.sock", "http://127.0.0.1:8083")]

    assert found == ["secret", None, None]


def test_the_doctor_asks_the_gateway_behind_the_socket_of_the_home(tmp_path: Path) -> None:
    own = socket_url(tmp_path / "gateway.sock")
    (tmp_path / "gateway.json").write_text(f'{{"url": "{own}"}}', encoding="utf-8")

    machine = Machine(config=load_config(None, {}, (), tmp_path), environ={}, clock=SystemClock())

    assert machine.gateway_url == own


def test_a_url_says_host_and_port_or_the_path_of_a_socket() -> None:
    assert Address.of("https://gw.example.com:8083/") == Address(base_url="https://gw.example.com:8083")
    assert Address.of("unix:///a%20home/x.sock") == Address(
        base_url="http://localhost", socket="/a home/x.sock"
    )
