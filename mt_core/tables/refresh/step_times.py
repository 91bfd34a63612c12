"""The times of the steps of a refresh: each step for listeners, and their sums by part for the ledger.

A generator of steps yields the name of each step just before the step runs, so a step lasts until the next
name. The names have two parts, such as `publish: commit`. The table `PARTS` maps the first one to the part of
the run's time that the ledger stores. The steps that record an end, and the pause of a continuous run between
two batches, belong to none. So the stored times of a continuous run remain those of its last batch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping

from mt_core.clock import Clock
from mt_core.model.run import DECIDE, PUBLISH, WRITE

Steps = Generator[str, None, None]
OnStep = Callable[[str, float], None]
IDLE = "idle"
"""What a continuous run yields before it pauses; this is not a step."""

PARTS: Mapping[str, str] = {
    "decide": DECIDE,
    "write": WRITE,
    "staged": WRITE,
    "publish": PUBLISH,
    "published": PUBLISH,
}


def unobserved(_step: str, _seconds: float) -> None:
    """Do nothing."""


class StepTimes:
    """Measures the steps of one thread's work. *on_step* is called with each step and its seconds."""

    def __init__(self, clock: Clock, on_step: OnStep = unobserved) -> None:
        self._clock, self._on_step = clock, on_step
        self._began, self._step = clock.elapsed(), IDLE
        self._sums: dict[str, float] = {}

    def restart(self) -> None:
        """Forget all steps so far."""
        self._sums = {}

    def measured(self, steps: Steps) -> Steps:
        """Yield from *steps* and measure them."""
        try:
            for step in steps:
                self._end_step()
                self._began, self._step = self._clock.elapsed(), step
                yield step
        finally:
            self._end_step()

    def of_parts(self) -> Mapping[str, float]:
        """Return the seconds of each part so far, including the current step."""
        sums = dict(self._sums)
        self._add(sums)
        return {part: round(seconds, 3) for part, seconds in sums.items()}

    def _end_step(self) -> None:
        if self._step != IDLE:
            self._add(self._sums)
            self._on_step(self._step, self._lasted())
        self._step = IDLE

    def _add(self, sums: dict[str, float]) -> None:
        part = PARTS.get(self._step.partition(":")[0])
        if part is not None:
            sums[part] = sums.get(part, 0.0) + self._lasted()

    def _lasted(self) -> float:
        return (self._clock.elapsed() - self._began).total_seconds()
