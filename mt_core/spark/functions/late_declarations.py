"""Late declarations of Python functions that were created without one, or under another Python version.

Each declaration is read once, in a thread of its own, at the first use after the start of the gateway. A
statement waits a few seconds for all declarations together, and continues without those that are still
being read. A module that hangs therefore does not delay a statement for long.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from mt_core.base.background import start_thread
from mt_core.errors import DefinitionInvalid
from mt_core.model.function import CreatedFunction
from mt_core.spark.driver.failures import SPARK_ERRORS, translate
from mt_core.spark.driver.session_functions import FunctionLoading

log = logging.getLogger(__name__)

PATIENCE_S = 5.0
AGAIN_S = 300.0
_AT_A_TIME = 2

Read = Callable[[CreatedFunction], CreatedFunction]
"""Returns the function with its declaration. Raises Spark's errors, MtError and OSError."""


@dataclass(slots=True)
class _Reading:
    ended: threading.Event = field(default_factory=threading.Event)
    failure: str = ""
    again_at: float = 0.0


class LateDeclarations:
    """Reads declarations, and passes each function with its declaration to *keep*. Thread-safe."""

    def __init__(self, keep: Callable[[CreatedFunction], object], now: Callable[[], float]) -> None:
        self._keep, self._now = keep, now
        self._lock, self._turns = threading.Lock(), threading.Semaphore(_AT_A_TIME)
        # The key is the stored definition, so that a replaced function is read again.
        self._readings: dict[CreatedFunction, _Reading] = {}

    def read(self, functions: Iterable[CreatedFunction], read: Read, patience_s: float = PATIENCE_S) -> None:
        """Read the declarations of *functions* in the background and wait up to *patience_s* seconds.

        A failed read is repeated after `AGAIN_S` seconds.
        """
        awaited = list[_Reading]()
        for function in functions:
            with self._lock:
                reading = self._readings.get(function)
                if reading is not None and not reading.ended.is_set():
                    awaited.append(reading)
                    continue
                if reading is not None and self._now() < reading.again_at:
                    continue
                reading = self._readings[function] = _Reading()
            awaited.append(reading)
            start_thread(
                f"declaration of {function.name}",
                partial(self._read, function, reading, read),
                partial(self._failed, function, reading),
            )
        until = time.monotonic() + patience_s
        for reading in awaited:
            reading.ended.wait(max(0.0, until - time.monotonic()))

    def reason(self, function: CreatedFunction) -> DefinitionInvalid:
        """Return an error that says why *function* has no declaration."""
        reading = self._readings.get(function)
        if reading is not None and reading.ended.is_set() and reading.failure:
            return DefinitionInvalid(reading.failure)
        return FunctionLoading(
            f"Function {function.name}: its module is being loaded for the first time since the gateway was "
            "upgraded; repeat the statement in a few seconds."
        )

    def _read(self, function: CreatedFunction, reading: _Reading, read: Read) -> None:
        with self._turns:
            self._keep(read(function))
        reading.ended.set()

    def _failed(self, function: CreatedFunction, reading: _Reading, error: Exception) -> None:
        reported = (
            translate(error) if isinstance(error, SPARK_ERRORS) and not isinstance(error, OSError) else error
        )
        reading.failure, reading.again_at = str(reported), self._now() + AGAIN_S
        reading.ended.set()
        log.warning(
            "function %s cannot be called: %s", function.name, reported, extra={"action": "function_unusable"}
        )
