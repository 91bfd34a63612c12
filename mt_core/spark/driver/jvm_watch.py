"""The watchdog of the driver's JVM: whether it answers, and does more than collect garbage.

A JVM with a full heap does not necessarily exit. Its collectors free a little memory, a thread allocates it
at once, and no statement completes, although the process is alive and its SparkContext is running. Such a JVM
can be recognized only by its missing answers and by its garbage collection time. Both are added up poll by
poll, so the time for which the machine or the gateway was suspended does not count.
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
POLL_EVERY_S = 5.0
STALLED_AFTER_S = 60.0
"""Must exceed a full garbage collection, which stops a JVM with a large heap for some ten seconds."""
COLLECTING = 0.9
"""The share of time in garbage collection above which a JVM is out of memory; a healthy one is far below."""
REPORTED_AFTER_S = 15.0
"""Shorter pauses are normal and are not reported."""
# Concurrent collectors: the JVM works while they run.
_CONCURRENT = ("Cycles", "Concurrent GC")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """The uptime of a JVM, and how much of it was stop-the-world garbage collection."""

    ran_s: float
    collected_s: float

    def collecting_since(self, earlier: Pulse) -> float:
        """Return the seconds since an *earlier* pulse if the JVM has only collected garbage since, else 0."""
        ran_s = self.ran_s - earlier.ran_s
        return ran_s if self.collected_s - earlier.collected_s > COLLECTING * ran_s else 0.0


class JvmWatch:
    """The watchdog of one JVM. *newest* returns its answer since the last poll, or None."""

    def __init__(self, newest: Callable[[], Pulse | None]) -> None:
        self._newest = newest
        self._pulses: deque[Pulse] = deque()
        self._silent_s = self._collecting_s = 0.0

    def poll(self, after_s: float) -> None:
        """Poll the JVM, *after_s* seconds after the last poll."""
        pulse = self._newest()
        if pulse is None:
            self._silent_s += after_s
            return
        self._silent_s = 0.0
        self._pulses.append(pulse)
        # Drop the pulses before the observed interval; the oldest one left marks its beginning.
        while len(self._pulses) > 1 and pulse.ran_s - self._pulses[1].ran_s >= STALLED_AFTER_S:
            self._pulses.popleft()
        self._collecting_s = max(pulse.collecting_since(each) for each in self._pulses)

    @property
    def out_of_memory(self) -> bool:
        """Whether the JVM only collects garbage."""
        return self._collecting_s >= REPORTED_AFTER_S

    @property
    def idle_s(self) -> float:
        """For how many seconds the JVM has not answered or has only collected garbage."""
        return self._silent_s + (self._collecting_s if self.out_of_memory else 0.0)

    @property
    def stalled(self) -> bool:
        """Whether the JVM must be replaced."""
        return self.idle_s >= STALLED_AFTER_S

    @property
    def trouble(self) -> str:
        """Why the JVM does no work, as a message; empty if it works."""
        if self.idle_s < REPORTED_AFTER_S:
            return ""
        what = "is out of memory and has only collected garbage" if self.out_of_memory else "has not answered"
        return (
            f"Spark {what} for {self.idle_s:.0f} s; "
            f"after {STALLED_AFTER_S:.0f} s its JVM is killed and restarted."
        )


class Answers(Generic[T]):
    """Calls *ask*, a question to the JVM, in its own thread, because it may block forever."""

    def __init__(self, ask: Callable[[], T | None]) -> None:
        self._ask = ask
        self._questions, self._answers = SimpleQueue[bool](), SimpleQueue[T | None]()
        self._questions.put(True)
        threading.Thread(target=self._answer, name="spark-pulse", daemon=True).start()

    def newest(self) -> T | None:
        """Return the answer to the last question and ask the next one; None if there is no answer yet."""
        try:
            answer = self._answers.get_nowait()
        except Empty:
            return None
        self._questions.put(True)
        return answer

    def end(self) -> None:
        """End the thread after the current question."""
        self._questions.put(False)

    def _answer(self) -> None:
        while self._questions.get():
            self._answers.put(self._ask())


class JvmPulse:
    """Reads the pulse of the JVM of *session*; returns None if the call fails."""

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
