"""The curves of a table: its staleness and its refreshes over time, for charts and in words.

To read thousands of refreshes takes a second, and the browser asks every few seconds what is new. So the
result for a table and a range is remembered until something that it shows has changed: a refresh has ended,
or so much time has passed that the chart moves by a pixel. A result that took long to compute is also used
for longer, so that charts never take up more than a few percent of the processor's time.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from mt_core.errors import FactUnreadable
from mt_core.gateway.facts.query import Parameter, Query
from mt_core.gateway.facts.refreshes import MOST_RUNS, History, stored_table
from mt_core.gateway.page.charts.bars import Bar, bars_of
from mt_core.gateway.page.charts.captions import Number, numbers, refreshes_caption, staleness_caption
from mt_core.gateway.page.charts.figures import Figures, figures_of
from mt_core.gateway.page.page import SINCE, UNCHANGED, Page
from mt_core.gateway.services import FactServices
from mt_core.model.freshness_hour import FreshnessHour
from mt_core.tables.overview.facts import TableFacts
from mt_core.tables.overview.history import HOUR, Curve, CurvePoint, Mark, thinned
from mt_core.tables.overview.overview import Overview

JSON = dict[str, Any]
POINTS = 600
FEW = 1000
# A result is used for this many times the processor time that it took, if that was longer than a moment.
_SHARE, _MOMENT = 30, timedelta(milliseconds=50)
_REMEMBERED = 128


class Range(StrEnum):
    """The time that charts show, up to now."""

    HOUR = "1h"
    DAY = "24h"
    WEEK = "7d"
    FORTNIGHT = "14d"

    @property
    def length(self) -> timedelta:
        return _LENGTHS[self]

    @property
    def words(self) -> str:
        return _WORDS[self]


_LENGTHS = {
    Range.HOUR: timedelta(hours=1),
    Range.DAY: timedelta(days=1),
    Range.WEEK: timedelta(days=7),
    Range.FORTNIGHT: timedelta(days=14),
}
_WORDS = {Range.HOUR: "1 hour", Range.DAY: "24 hours", Range.WEEK: "7 days", Range.FORTNIGHT: "14 days"}
RANGE = Parameter(name="range", description=f"The time that the charts show: {', '.join(Range)}.")


def range_of(query: Query) -> Range:
    """Return the range that a request names, 24 hours if it names none. Raises RequestInvalid."""
    return query.choice(RANGE.name, Range) or Range.DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class Charts:
    """The charts of a table in words: what they show over `range`, and its four numbers of 7 days.

    `zone` is the time zone of all times.
    """

    range: Range
    zone: str
    numbers: tuple[Number, ...]
    staleness: str
    refreshes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """What was read of a table over a range. It is right for `version`, and used anyway until `until`."""

    overview: Overview
    version: str
    until: datetime
    most: int
    is_complete: bool
    zone: str
    figures: Figures
    body: JSON


class Curves:
    """The curves of all tables. Thread-safe."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._lock = threading.Lock()
        self._results: OrderedDict[tuple[str, Range], _Result] = OrderedDict()

    def shown(self, table_id: str, span: Range) -> Charts | None:
        """Return the charts of a table in words; None if it cannot be read. Raises TableNotFound.

        If its refreshes have not been read before, only the newest `FEW` are, so that no visitor has to wait.
        """
        try:
            result = self._result(table_id, span, most=FEW)
            week = self._result(table_id, Range.WEEK, most=FEW)
        except FactUnreadable:
            return None
        return Charts(
            range=span,
            zone=result.zone,
            numbers=numbers(week.figures, week.zone),
            staleness=staleness_caption(result.figures, result.zone),
            refreshes=refreshes_caption(result.figures),
        )

    def curve(self, table_id: str, span: Range) -> JSON:
        """Return what the charts of a table draw, with instants in seconds since 1970.

        Raises TableNotFound, and FactUnreadable if the table is.
        """
        result = self._result(table_id, span)
        captions = {
            "staleness": staleness_caption(result.figures, result.zone),
            "refreshes": refreshes_caption(result.figures),
        }
        return {"version": result.version, **result.body, "captions": captions}

    def numbers(self, table_id: str) -> JSON:
        """Return the four numbers of a table. Raises TableNotFound, and FactUnreadable if the table is."""
        week = self._result(table_id, Range.WEEK)
        shown = [_number_json(number) for number in numbers(week.figures, week.zone)]
        return {"version": week.version, "numbers": shown}

    def _result(self, table_id: str, span: Range, *, most: int = MOST_RUNS) -> _Result:
        """Return the remembered result, or read some *most* refreshes if there is none or it is outdated."""
        now, facts, key = self.page.now(), self.page.services.facts, (table_id, span)
        version = _version(facts.overview.table(table_id, now), span, now)
        with self._lock:
            result = self._results.get(key)
        if (
            result is None
            or result.overview is not facts.overview
            or (result.version != version and result.until <= now)
            or not (result.is_complete or result.most >= most)
        ):
            result = _read(facts, table_id, span, version, most)
            with self._lock:
                self._results[key] = result
                self._results.move_to_end(key)
                while len(self._results) > _REMEMBERED:
                    self._results.popitem(last=False)
        return result


def curves_router(curves: Curves) -> APIRouter:
    """Return the endpoints of what the charts of a table show, for its script."""
    page = curves.page
    router = page.router()

    @router.get("/tables/{table_id}/curve")
    def get_curve(table_id: str, request: Request) -> Response:
        query = page.query(request, (RANGE,))
        return _answer(query, curves.curve(table_id, range_of(query)))

    @router.get("/tables/{table_id}/numbers")
    def get_numbers(table_id: str, request: Request) -> Response:
        return _answer(page.query(request), curves.numbers(table_id))

    return router


def _answer(query: Query, body: JSON) -> Response:
    if query.text(SINCE.name) == body["version"]:
        return Response(status_code=UNCHANGED)
    return Response(orjson.dumps(body), media_type="application/json")


# -------------------------------------------------------------------------------------------------- reading


def _version(table: TableFacts | None, span: Range, now: datetime) -> str:
    """Return text that changes when the charts of a table do."""
    pixel = int(now.timestamp() / (span.length.total_seconds() / POINTS))
    if table is None:
        return f"{span} {pixel}"
    last = None if table.last is None else (table.last.run_id, table.last.status)
    shown = (last, table.refreshed_at, table.status, table.running, table.cadence, table.zone)
    return f"{span} {pixel} {sha256(repr(shown).encode()).hexdigest()[:16]}"


def _read(facts: FactServices, table_id: str, span: Range, version: str, most: int) -> _Result:
    began = time.thread_time()
    with facts.reading() as tx:
        now, table = tx.now(), stored_table(tx, table_id)
        if isinstance(table, FactUnreadable):
            raise table
        history = History.read(tx, table, now - span.length, now, most=most)
    curve = history.curve()
    figures, body = figures_of(history, curve), _body(history, curve, span)
    took = timedelta(seconds=time.thread_time() - began)
    return _Result(
        overview=facts.overview,
        version=version,
        most=most,
        is_complete=history.is_complete,
        until=now + took * _SHARE if took > _MOMENT else now,
        zone=table.definition.zone,
        figures=figures,
        body=body,
    )


# ------------------------------------------------------------------------------------------------------ JSON


def _body(history: History, exact: Curve, span: Range) -> JSON:
    curve = thinned(exact, history.since, history.until, POINTS)
    return {
        "range": span,
        "zone": history.table.definition.zone,
        "from": _at(history.since),
        "to": _at(history.until),
        "staleness": _columns(curve.points),
        "marks": [_mark_json(mark) for mark in curve.marks],
        "late": [_late_json(hour) for hour in curve.hours if hour.late_s],
        "bars": [_bar_json(bar) for bar in bars_of(history)],
    }


def _columns(points: tuple[CurvePoint, ...]) -> JSON:
    return {
        "at": [_at(point.at) for point in points],
        "seconds": [point.seconds and round(point.seconds, 1) for point in points],
        "promise": [round(point.promise, 1) for point in points],
    }


def _mark_json(mark: Mark) -> JSON:
    return {"at": _at(mark.at), "status": mark.status}


def _late_json(hour: FreshnessHour) -> JSON:
    return {
        "from": _at(hour.hour),
        "to": _at(hour.hour + HOUR),
        "seconds": hour.late_s,
        "fault": hour.fault,
    }


def _bar_json(bar: Bar) -> JSON:
    return {
        "at": _at(bar.at),
        "run": bar.run_id,
        "status": bar.status,
        "strategy": bar.strategy,
        "seconds": round(bar.seconds, 3),
        "steps": dict(bar.steps),
        "rows": bar.rows,
        "batch": bar.number,
        "times": bar.times,
        "failed": bar.failed,
    }


def _number_json(number: Number) -> JSON:
    return {"name": number.name, "value": number.value, "note": number.note, "title": number.title}


def _at(instant: datetime) -> float:
    """Return the seconds since 1970, to a tenth: a chart has no room for more."""
    return round(instant.timestamp(), 1)
