"""How a gateway starts and stops, and what it says when it cannot start."""

from __future__ import annotations

import re
import signal
import stat
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest

from mt_core.client.home import token_in
from mt_core.demo.free_ports import free_port
from tests.support.gateway.forked import run_gateway
from tests.support.gateway.own_process import (
    FAST,
    GatewayUnderTest,
    alive,
    is_java,
    launch,
    ready_url,
    wait_until,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow]
# Both have one handler: each ends a gateway in one of two states, and in the other one in `make test-kills`.
TERM_AT_LEAST = [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.kills)]
INT_AT_LEAST = [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.kills)]
OPEN = "does not require a token: every user of this machine can run code as"
STARTING = "Spark is starting, which can take half a minute; logs: "
START_S = 180.0


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "mt_core", "gateway", *arguments]


def _options(*settings: str) -> list[str]:
    return [part for setting in settings for part in ("-D", setting)]


@pytest.fixture
def port() -> int:
    """A port that is free."""
    return free_port()


# --------------------------------------------------------------------------------------------- start and stop


@pytest.mark.parametrize("number", INT_AT_LEAST)
def test_a_gateway_answers_while_spark_starts_keeps_its_registry_and_ends_with_its_jvm_by_a_signal(
    tmp_path: Path, port: int, number: signal.Signals
) -> None:
    home, url = tmp_path / "home", f"http://127.0.0.1:{port}"
    home.mkdir()
    command = _command("--home", str(home), *_options(*FAST, f"sql-gateway.endpoint.rest.port={port}"))
    began = time.monotonic()
    with launch(command, tmp_path / "stderr.txt") as process:
        wait_until(lambda: _answers(url), "no answer from /v3/info", START_S)
        answered = time.monotonic() - began
        assert ready_url(process) == url
        ready = time.monotonic() - began
        jvms = _children(process.pid)
        registry = f"registry.url=sqlite:///{home}/registry.db"
        second = run_gateway("--home", str(tmp_path / "second"), *_options(*FAST, registry))
        still_answers = _answers(url)

        process.send_signal(number)

    assert answered < ready
    assert process.returncode == 0
    assert [alive(jvm) for jvm in jvms] == [False]
    said = (tmp_path / "stderr.txt").read_text(encoding="utf-8").splitlines()
    assert len(said) == 2
    assert said[0].startswith(f"The gateway listens at {url}. {STARTING}")
    assert OPEN in said[1]
    waiting, refused = second.stderr.splitlines()
    first = re.escape(f"the gateway at {url} (process {process.pid} on ") + ".*"
    assert (second.returncode, second.stdout) == (1, "")
    assert re.fullmatch(
        rf".* WARNING The registry is held by {first}; waiting for its lease to end\.", waiting
    )
    assert re.fullmatch(rf"Error: The registry is used by {first}; use that one, stop it, or .*", refused)
    assert still_answers


@pytest.mark.parametrize("number", TERM_AT_LEAST)
def test_a_client_of_the_same_user_finds_the_token_while_spark_still_starts_and_a_signal_ends_that_gateway(
    tmp_path: Path, port: int, number: signal.Signals
) -> None:
    url, stderr = f"http://127.0.0.1:{port}", tmp_path / "stderr.txt"
    options = _options(
        *FAST, f"sql-gateway.endpoint.rest.port={port}", "sql-gateway.security.tokens=generate"
    )
    with launch(_command("--home", str(tmp_path), *options), stderr) as process:
        wait_until(lambda: _answers(url, 401), "no answer from /v3/info", START_S)
        token = token_in(tmp_path, url)
        wait_until(lambda: STARTING in stderr.read_text(encoding="utf-8"), "the start was not told", START_S)
        wait_until(lambda: bool(_children(process.pid)), "no JVM was started", START_S)
        jvms = _children(process.pid)

        process.send_signal(number)

    [said] = stderr.read_text(encoding="utf-8").splitlines()
    assert STARTING in said
    assert token == (tmp_path / "token").read_text(encoding="ascii").strip()
    assert (stat.S_IMODE(tmp_path.stat().st_mode), stat.S_IMODE((tmp_path / "token").stat().st_mode)) == (
        0o700,
        0o600,
    )
    assert process.returncode == 0
    wait_until(lambda: not any(alive(jvm) for jvm in jvms), "a JVM was left behind", START_S)


def _answers(url: str, status: int = 200) -> bool:
    try:
        return httpx.get(f"{url}/v3/info", timeout=5.0).status_code == status
    except httpx.TransportError:
        return False


def _children(pid: int) -> list[int]:
    """Return the JVM of the process, once it is there."""
    return [child.pid for child in psutil.Process(pid).children(recursive=True) if is_java(child)]


@pytest.mark.kills
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a JVM that hangs ends when it runs again")
def test_a_gateway_that_was_killed_starts_again_although_its_jvm_hung(tmp_path: Path) -> None:
    with GatewayUnderTest(tmp_path / "home") as gateway:
        gateway.start()
        jvm = gateway.jvm_pid
        # A JVM that does not notice the death of its gateway, as one in a long collection of garbage.
        psutil.Process(jvm).suspend()
        gateway.kill()

        gateway.start()

        assert not alive(jvm)
        assert gateway.info() == 200
        assert gateway.stop() == 0


# ------------------------------------------------------------------------------------------ what cannot start


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("spark.master=everywhere", "Master must either be yarn or start with spark, k8s, or local"),
        ("spark.driver.memory=much", "Invalid maximum heap size: -Xmxmuch"),
    ],
)
def test_a_spark_that_can_never_start_ends_the_gateway_with_its_reason(
    tmp_path: Path, setting: str, reason: str
) -> None:
    ended = run_gateway("--home", str(tmp_path), *_options(FAST[0], setting))

    [said] = [line for line in ended.stderr.splitlines() if STARTING not in line and OPEN not in line]
    assert (ended.returncode, ended.stdout) == (1, "")
    assert said.startswith("Error: Spark did not start: ")
    assert said.endswith(f"{reason}. Its log is {tmp_path / 'logs' / 'spark.log'}.")
