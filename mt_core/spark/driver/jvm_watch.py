"""The watchdog of the driver's JVM: detects a JVM that does not answer or only collects garbage.

A JVM with a full heap does not necessarily exit. Its collectors free a little memory, a thread immediately
allocates it, and no statement completes, although the process is alive and its SparkContext is running.
Such a JVM can be recognized only by missing answers and by its garbage collection time. Both are added up
from poll to poll, so the time during which the machine or the gateway was suspended is not counted.
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
"""In seconds. Must exceed a full garbage collection, which stops a large JVM for some ten seconds."""
COLLECTING = 0.9
"""The share of time in garbage collection above which a JVM is out of memory. A healthy JVM is far below."""
REPORTED_AFTER_S = 15.0
"""Shorter pauses are normal and are not reported."""
# The suffixes of the names of concurrent collectors, during which the JVM continues to work.
_CONCURRENT = ("Cycles", "Concurrent GC")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """The uptime of a JVM, and the part of it that was stop-the-world garbage collection, in seconds."""

    ran_s: float
    collected_s: float

    def collecting_since(self, earlier: Pulse) -> float:
        """Return the seconds since an *earlier* pulse if the JVM has only collected garbage, or 0."""
        ran_s = self.ran_s - earlier.ran_s
        return ran_s if self.collected_s - earlier.collected_s > COLLECTING * ran_s else 0.0


class JvmWatch:
    """The watchdog of one JVM. *newest* returns the JVM's answer since the last poll, or None."""

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
        # Remove the pulses from before the observed interval. The oldest remaining one marks its beginning.
        while len(self._pulses) > 1 and pulse.ran_s - self._pulses[1].ran_s >= STALLED_AFTER_S:
            self._pulses.popleft()
        self._collecting_s = max(pulse.collecting_since(each) for each in self._pulses)

    @property
    def out_of_memory(self) -> bool:
        """True if the JVM does nothing but collect garbage."""
        return self._collecting_s >= REPORTED_AFTER_S

    @property
    def idle_s(self) -> float:
        """The number of seconds for which the JVM has not answered or has only collected garbage."""
        return self._silent_s + (self._collecting_s if self.out_of_memory else 0.0)

    @property
    def stalled(self) -> bool:
        """True if the JVM must be replaced."""
        return self.idle_s >= STALLED_AFTER_S

    @property
    def trouble(self) -> str:
        """A message that says why the JVM does no work, or an empty string if it works."""
        if self.idle_s < REPORTED_AFTER_S:
            return ""
        what = "is out of memory and has only collected garbage" if self.out_of_memory else "has not answered"
        return (
            f"Spark {what} for {self.idle_s:.0f} s; "
            f"after {STALLED_AFTER_S:.0f} s its JVM is killed and restarted."
        )


class Answers(Generic[T]):
    """Calls *ask*, which queries the JVM, in a thread of its own, because the call may block forever.

    One thread at a time uses it.
    """

    def __init__(self, ask: Callable[[], T | None]) -> None:
        self._ask = ask
        self._questions, self._answers = SimpleQueue[bool](), SimpleQueue[T | None]()
        self._asked = False
        threading.Thread(target=self._answer, name="spark-pulse", daemon=True).start()
        self._begin()

    def newest(self) -> T | None:
        """Return the result of the last call and start the next call, or return None if there is none yet."""
        answer = self._take(0.0)
        self._begin()
        return answer

    def fresh(self, timeout_s: float) -> T | None:
        """Return the result of a call that begins now, or None if it does not end within *timeout_s* seconds.

        While an earlier call blocks, none begins.
        """
        self._take(0.0)
        self._begin()
        return self._take(timeout_s)

    def end(self) -> None:
        """End the thread after the current call."""
        self._questions.put(False)

    def _begin(self) -> None:
        if not self._asked:
            self._asked = True
            self._questions.put(True)

    def _take(self, timeout_s: float) -> T | None:
        try:
            answer = self._answers.get(timeout=timeout_s) if timeout_s else self._answers.get_nowait()
        except Empty:
            return None
        self._asked = False
        return answer

    def _answer(self) -> None:
        while self._questions.get():
            self._answers.put(self._ask())


class JvmPulse:
    """Reads the pulse of the JVM of *session*. Returns None if the call fails."""

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
