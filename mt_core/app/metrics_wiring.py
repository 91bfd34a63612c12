"""Connects the metrics with what they are read from, if their extra is installed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from mt_core import __version__
from mt_core.app.table_wiring import TableWork
from mt_core.sessions.executor import StatementExecutor
from mt_core.sessions.ports import StatementEngine
from mt_core.sessions.sessions import SessionManager

if TYPE_CHECKING:
    from mt_core.metrics.metrics import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredParts:
    """The parts whose work metrics show; `engine` runs the statements of `executor`."""

    tables: TableWork
    sessions: SessionManager
    executor: StatementExecutor
    engine: StatementEngine
    scheduler: str


def wire_metrics(
    parts: MeasuredParts, *, patterns: Sequence[str] = ("*",), most: int = 1000
) -> Metrics | None:
    """Return the metrics of *parts*, which report to them, or None if the extra `metrics` is not installed.

    Up to *most* tables whose names match one of *patterns* have series of their own.
    """
    if find_spec("prometheus_client") is None:
        return None
    from mt_core.metrics.metrics import Metrics, MetricsPorts
    from mt_core.metrics.tables import TableSelection
    from mt_core.metrics.work import WorkPorts

    services = parts.tables.services
    metrics = Metrics(
        MetricsPorts(
            overview=services.overview,
            reading=services.registry.reading,
            clock=services.clock,
            engine=services.engine.state,
            work=WorkPorts(
                sessions=parts.sessions,
                result_space=parts.engine.result_space,
                dropped=lambda: services.events.dropped,
            ),
            scheduler=parts.scheduler,
            release=__version__,
            spark=version("pyspark"),
            started_at=services.clock.now(),
            tables=TableSelection(patterns=tuple(patterns), most=most),
        )
    )
    services.events.subscribe("the metrics", metrics.hear)
    services.registry.on_transaction = metrics.work.transaction
    parts.executor.on_end = metrics.work.statement
    return metrics
