"""Samples: times measured in turn, so that a machine that slows down affects every contender equally."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

GOLDEN_RATIO = 0.618034


@dataclass(frozen=True, slots=True)
class Samples:
    """Times in seconds, in the order of their measurement."""

    seconds: Sequence[float]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def worst(self) -> float:
        return max(self.seconds)

    def percentile(self, percent: float) -> float:
        """Return the smallest sample that is at least as large as *percent* of all samples."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]

    def shown(self) -> str:
        """Return the median and, as the noise, the smallest and the largest sample."""
        return f"{show(self.median)} ({show(min(self.seconds))} to {show(self.worst)})"


def show(seconds: float) -> str:
    """Return a time in the unit that a reader would choose."""
    if abs(seconds) < 1:
        return f"{seconds * 1000:.1f} ms" if abs(seconds) < 0.1 else f"{seconds * 1000:.0f} ms"
    return f"{seconds:.2f} s"


def wait_out_of_step(begun: float, number: int) -> None:
    """Wait until 1 to 2 s after *begun*, so that a series of events hits all phases of a one-second cycle.

    Events in step with the cycle would all wait equally long.
    """
    time.sleep(max(0.0, begun + 1 + number * GOLDEN_RATIO % 1 - time.monotonic()))


def timed(work: Callable[[], object]) -> float:
    """Return how long *work* takes, in seconds."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def in_turns(
    contenders: Mapping[str, Callable[[], object]], rounds: int, *, warm_up: int = 1
) -> dict[str, Samples]:
    """Time every contender once per round, alternating which one begins.

    The first *warm_up* rounds are not counted.
    """
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for number in range(warm_up + rounds):
        for name in names if number % 2 else reversed(names):
            seconds = timed(contenders[name])
            if number >= warm_up:
                taken[name].append(seconds)
    return {name: Samples(seconds) for name, seconds in taken.items()}
