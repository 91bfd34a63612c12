"""The watch over the JVM of Spark's driver: whether it answers, and does more than collect garbage.

A JVM whose heap is full need not end. Its collectors free a little, a thread takes it at once, and no
statement comes to an end, while the process lives and its SparkContext has not stopped. Only its answers,
and the time that it spends with its collectors, say that it is useless. Both are counted as they are seen:
a machine, or a gateway, that was suspended has seen nothing meanwhile.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from pyspark.sql import SparkSession

from mt_core.spark.driver.failures import SPARK_ERRORS

T = TypeVar("T")
LOOK_EVERY_S = 5.0
STALLED_AFTER_S = 60.0
"""A full collection of a heap of many gigabytes takes some ten seconds, in which the JVM answers nothing."""
COLLECTING = 0.9
"""The share of its time that a JVM with work to do leaves its collectors far below,
and one without memory exceeds.
"""
SAID_AFTER_S = 15.0
"""Shorter pauses are usual, and no news."""
# Their time is not that of pauses: the JVM works meanwhile.
_CONCURRENT = ("Cycles", "Concurrent GC")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """What a JVM answers: how long it has run, and for how long of that it stood still
    for its garbage collectors.
    """

    ran_s: float
    collected_s: float

    def collecting_since(self, earlier: Pulse) -> float:
        """Return the time since an *earlier* pulse if the JVM has only collected garbage in it, else 0."""
        ran_s = self.ran_s - earlier.ran_s
        return ran_s if self.collected_s - earlier.collected_s > COLLECTING * ran_s else 0.0


class JvmWatch:
    """Watches one JVM, of which *newest* gives what it has answered since the last look, None for nothing."""

    def __init__(self, newest: Callable[[], Pulse | None]) -> None:
        self._newest = newest
        self._pulses: deque[Pulse] = deque()
        self._silent_s = self._collecting_s = 0.0

    def look(self, after_s: float) -> None:
        """Look once more, *after_s* seconds after the last time."""
        pulse = self._newest()
        if pulse is None:
            self._silent_s += after_s
            return
        self._silent_s = 0.0
        self._pulses.append(pulse)
        # The oldest is at the beginning of the time that counts.
        while len(self._pulses) > 1 and pulse.ran_s - self._pulses[1].ran_s >= STALLED_AFTER_S:
            self._pulses.popleft()
        self._collecting_s = max(pulse.collecting_since(each) for each in self._pulses)

    @property
    def out_of_memory(self) -> bool:
        """Whether all that the JVM does is collect garbage."""
        return self._collecting_s >= SAID_AFTER_S

    @property
    def idle_s(self) -> float:
        """For how long the JVM has done no work: it has not answered, or only collected garbage."""
        return self._silent_s + (self._collecting_s if self.out_of_memory else 0.0)

    @property
    def stalled(self) -> bool:
        """Whether the JVM is useless."""
        return self.idle_s >= STALLED_AFTER_S

    @property
    def trouble(self) -> str:
        """Why the JVM does no work; empty when it does."""
        if self.idle_s < SAID_AFTER_S:
            return ""
        what = "has no memory left and only collected garbage" if self.out_of_memory else "has not answered"
        return (
            f"Spark {what} for {self.idle_s:.0f} s; "
            f"after {STALLED_AFTER_S:.0f} s its JVM is ended and started again."
        )


class Answers(Generic[T]):
    """The answers of a JVM to *ask*, which a thread of its own calls:
    a question may remain without an answer.
    """

    def __init__(self, ask: Callable[[], T | None]) -> None:
        self._ask = ask
        self._questions, self._answers = SimpleQueue[bool](), SimpleQueue[T | None]()
        self._questions.put(True)
        threading.Thread(target=self._answer, name="spark-pulse", daemon=True).start()

    def newest(self) -> T | None:
        """Return the answer to the last question and ask the next one; None as long as there is none."""
        try:
            answer = self._answers.get_nowait()
        except Empty:
            return None
        self._questions.put(True)
        return answer

    def end(self) -> None:
        """Ask nothing more."""
        self._questions.put(False)

    def _answer(self) -> None:
        while self._questions.get():
            self._answers.put(self._ask())


class JvmPulse:
    """The pulse of the JVM of *session*; None if it fails to answer."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._runtime: Any = None
        self._collectors: list[Any] = []

    def __call__(self) -> Pulse | None:
        try:
            if self._runtime is None:
                jvm: Any = self._session._jvm
                beans = jvm.java.lang.management.ManagementFactory
                collectors = list(beans.getGarbageCollectorMXBeans())
                self._collectors = [
                    each for each in collectors if not str(each.getName()).endswith(_CONCURRENT)
                ]
                self._runtime = beans.getRuntimeMXBean()
            collected_ms = sum(int(each.getCollectionTime()) for each in self._collectors)
            return Pulse(ran_s=int(self._runtime.getUptime()) / 1000, collected_s=collected_ms / 1000)
        except (*SPARK_ERRORS, AttributeError, AssertionError, TypeError):
            return None
