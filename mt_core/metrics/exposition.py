"""The exposition: the text of a scrape, in the format that its Accept header asks for.

There are two formats. Prometheus' text format 0.0.4 is the default. OpenMetrics 1.0.0 is chosen if the client
names it and prefers it at least as much as text. They differ in the names in headers of counters and infos,
and in the mark at the end. For gauges they are the same, so the lines of the gauges of tables, of which there
may be tens of thousands, are written here, once for both. prometheus_client, which takes ten times as long
for a sample, writes all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

from prometheus_client import Metric
from prometheus_client.exposition import generate_latest as text_of
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics_of
from prometheus_client.registry import Collector

from mt_core.metrics.families import Family, Kind

_END = b"# EOF\n"
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_OPENMETRICS = "application/openmetrics-text"
_OPENMETRICS_VERSIONS = ("", "1.0.0")
_TEXTS = ("text/plain", "text/*", "*/*")


class Format(Enum):
    """The formats, with their content types."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

    @classmethod
    def of(cls, accept: str) -> Format:
        """Return the format that a client with this Accept header gets. Invalid parts are ignored."""
        best = {cls.TEXT: 0.0, cls.OPENMETRICS: 0.0}
        for name, version, quality in _ranges(accept):
            if name in _TEXTS:
                best[cls.TEXT] = max(best[cls.TEXT], quality)
            elif name == _OPENMETRICS and version in _OPENMETRICS_VERSIONS:
                best[cls.OPENMETRICS] = max(best[cls.OPENMETRICS], quality)
        return cls.OPENMETRICS if 0.0 < best[cls.OPENMETRICS] >= best[cls.TEXT] else cls.TEXT


def exposition(form: Format, samples: Collector, gauges: str) -> bytes:
    """Return the metrics of *samples* and the text of *gauges*, which `gauge_text` wrote."""
    if form is Format.TEXT:
        return text_of(_WithoutCreation(samples)) + gauges.encode()
    text: bytes = openmetrics_of(_WithoutCreation(samples))  # type: ignore[no-untyped-call]
    return text.removesuffix(_END) + gauges.encode() + _END


def gauge_text(family: Family, lines: Iterable[str]) -> str:
    """Return the text of a gauge with the *lines* of its samples."""
    assert family.kind is Kind.GAUGE
    name = family.name
    return f"# HELP {name} {family.help}\n# TYPE {name} gauge\n{''.join(lines)}"


def sample_line(family: Family, value: float, labels: str = "") -> str:
    """Return the line of a sample with the *labels* that `label_text` returned."""
    return f"{family.name}{labels} {value!r}\n"


def label_text(names: Sequence[str], *values: str) -> str:
    """Return the labels of a sample, escaped."""
    pairs = zip(names, values, strict=True)
    text = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs)
    return f"{{{text}}}"


def _ranges(accept: str) -> Iterator[tuple[str, str, float]]:
    """Yield the name, version and quality of each media range of an Accept header."""
    for part in accept.lower().split(","):
        name, *parameters = (each.strip() for each in part.split(";"))
        given = {
            key.strip(): value.strip(' "') for key, _, value in (each.partition("=") for each in parameters)
        }
        try:
            yield name, given.get("version", ""), float(given.get("q", "1"))
        except ValueError:
            continue


class _WithoutCreation(Collector):
    """The same metrics without the times of their creation, which would double the series of counters."""

    def __init__(self, samples: Collector) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Metric]:
        for metric in self._samples.collect():
            created = f"{metric.name}_created"
            metric.samples = [sample for sample in metric.samples if sample.name != created]
            yield metric
