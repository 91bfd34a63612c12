"""Samples of a scrape, as Prometheus' own Python parsers read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from mt_core.metrics.exposition import Format, exposition
from mt_core.metrics.families import Family

Samples = Mapping[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class Scrape:
    """The families of a scrape."""

    families: Sequence[Metric]

    @classmethod
    def of(cls, text: str) -> Scrape:
        """Read a scrape in Prometheus' text format, or in OpenMetrics if it has an end mark."""
        return cls(list((parse_openmetrics if text.endswith("# EOF\n") else parse_text)(text)))

    @classmethod
    def of_instruments(cls, samples: Collector) -> Scrape:
        return cls.of(exposition(Format.TEXT, samples, "").decode())

    def samples(self, name: str) -> Sequence[Sample]:
        return [each for family in self.families for each in family.samples if each.name == name]

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of the samples with this name and these labels, 0 if there are none."""
        return self.by(name, *labels).get(tuple(labels.values()), 0.0)

    def of_family(self, family: Family, suffix: str = "") -> Samples:
        """Return the samples of a family by the values of its labels; *suffix* is one of a histogram."""
        return self.by(family.name + suffix, *family.labels)

    def by(self, name: str, *labels: str) -> Samples:
        """Return the sums of the samples with this name by the values of *labels*."""
        sums: dict[tuple[str, ...], float] = {}
        for sample in self.samples(name):
            key = tuple(sample.labels[label] for label in labels)
            sums[key] = sums.get(key, 0.0) + sample.value
        return sums
