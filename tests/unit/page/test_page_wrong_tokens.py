"""Counting wrong tokens in many threads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from mt_core.gateway.page.sign_in import MOST_WRONG, WrongTokens


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("hasty_threads")
def test_many_addresses_at_once_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mt_core.gateway.page.sign_in.MOST_ADDRESSES", 2)
    wrong = WrongTokens()

    with ThreadPoolExecutor(8) as threads:
        [*threads.map(lambda number: wrong.note(f"10.0.0.{number % 24}"), range(5_000))]
    for _ in range(MOST_WRONG):
        wrong.note("10.0.0.1")

    assert wrong.are_too_many("10.0.0.1")
