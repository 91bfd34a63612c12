"""Connects the metrics with what they are read from, if their extra is installed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from mt_core import __version__
from mt_core.app.table_wiring import TableWork

if TYPE_CHECKING:
    from mt_core.metrics.metrics import Metrics


def wire_metrics(
    tables: TableWork, *, scheduler: str, patterns: Sequence[str] = ("*",), most: int = 1000
) -> Metrics | None:
    """Return the metrics, which hear of all events, or None if the extra `metrics` is not installed.

    Up to *most* tables whose names match one of *patterns* have series of their own.
    """
    if find_spec("prometheus_client") is None:
        return None
    from mt_core.metrics.metrics import Metrics, MetricsPorts
    from mt_core.metrics.tables import TableSelection

    services = tables.services
    metrics = Metrics(
        MetricsPorts(
            overview=services.overview,
            reading=services.registry.reading,
            clock=services.clock,
            scheduler=scheduler,
            release=__version__,
            spark=version("pyspark"),
            started_at=services.clock.now(),
            tables=TableSelection(patterns=tuple(patterns), most=most),
        )
    )
    services.events.subscribe("the metrics", metrics.hear)
    return metrics
