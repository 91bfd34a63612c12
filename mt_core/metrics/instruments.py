"""Instruments: what counts, measures or reads the values of the families, in a registry of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.registry import Collector

from mt_core.metrics.families import Family, Kind

Values = Mapping[tuple[str, ...], float]
"""Values by the values of the labels, in the order of the family; () is the key without labels."""


class Instruments:
    """Makes the instrument of each family. Instruments are thread-safe."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)

    def counter(self, family: Family) -> Counter:
        """Return what counts; a counter without labels begins at 0."""
        return Counter(family.name, family.help, family.labels, registry=self.registry)

    def gauge(self, family: Family) -> Gauge:
        """Return what is set to a value."""
        return Gauge(family.name, family.help, family.labels, registry=self.registry)

    def histogram(self, family: Family) -> Histogram:
        """Return what observes durations."""
        return Histogram(
            family.name, family.help, family.labels, buckets=family.buckets, registry=self.registry
        )

    def read(self, family: Family, values: Callable[[], Values]) -> None:
        """Call *values* in each scrape for the samples of a gauge, counter or info.

        It must not wait for anything, such as a turn of the registry, Spark or a scheduler.
        """
        self.registry.register(_Read(family, values))


class _Read(Collector):
    def __init__(self, family: Family, values: Callable[[], Values]) -> None:
        self._family, self._values = family, values

    def collect(self) -> Iterator[Metric]:
        family = self._family
        suffix = {Kind.COUNTER: "_total", Kind.INFO: "_info"}.get(family.kind, "")
        metric = Metric(family.name.removesuffix(suffix), family.help, family.kind)
        for labels, value in self._values().items():
            named = dict(zip(family.labels, labels, strict=True))
            metric.add_sample(metric.name + suffix, named, value)
        yield metric
