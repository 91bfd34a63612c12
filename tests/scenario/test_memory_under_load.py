"""The memory that very long bodies cost a gateway in its own process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest

from mt_core.gateway.http.bodies import ALL_BODIES_BYTES, MAX_BODY_BYTES
from tests.support.gateway import statements

MIB = 2**20
CLIENTS = 50


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", statements.__name__]
    folder = Path(__file__).parents[2]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder
    ) as process:
        yield process
        process.communicate()


@pytest.mark.slow
def test_50_clients_with_bodies_of_100_mib_do_not_exhaust_the_memory(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    gateway = psutil.Process(process.pid)
    before = gateway.memory_info().rss
    most: list[int] = []

    def send(_number: int) -> int:
        with httpx.Client(base_url=url, timeout=110) as client:
            return client.post("/v3/sessions", content=_body(most, gateway)).status_code

    with ThreadPoolExecutor(CLIENTS) as pool:
        statuses = set(pool.map(send, range(CLIENTS)))
    after = httpx.post(f"{url}/v3/sessions", json={}).status_code

    # One that found room is not JSON: 400; those that found none: 503.
    assert statuses <= {400, 503}
    assert 503 in statuses
    assert after == 200
    # What is kept is kept once more while it is read as JSON.
    assert max(most) - before < 2 * ALL_BODIES_BYTES + 128 * MIB


def _body(most: list[int], gateway: psutil.Process) -> Iterator[bytes]:
    chunk = b" " * (MIB - 1) + b"x"
    for _ in range(MAX_BODY_BYTES // MIB):
        most.append(gateway.memory_info().rss)
        yield chunk
