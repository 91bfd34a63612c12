"""Runs functions concurrently with a time limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from functools import partial
from typing import TypeVar

from mt_core.base.background import start_thread

T = TypeVar("T")


def outcomes(works: Mapping[str, Callable[[], T]], limit_s: float) -> dict[str, T | Exception]:
    """Run all *works* concurrently and return the result or error of each.

    If a function exceeds *limit_s*, its error is a TimeoutError. It continues in its daemon thread, which
    does not keep the process alive.
    """
    futures = {name: _begin(name, work) for name, work in works.items()}
    wait(futures.values(), timeout=limit_s)
    results: dict[str, T | Exception] = {}
    for name, future in futures.items():
        outcome = _outcome(future, limit_s)
        results[name] = outcome
    return results


def _begin(name: str, work: Callable[[], T]) -> Future[T]:
    future = Future[T]()
    start_thread(name, partial(_complete, future, work), future.set_exception)
    return future


def _complete(future: Future[T], work: Callable[[], T]) -> None:
    future.set_result(work())


def _outcome(future: Future[T], limit_s: float) -> T | Exception:
    if not future.done():
        return TimeoutError(f"no answer within {limit_s:g} s")
    error = future.exception()
    return error if isinstance(error, Exception) else future.result()
