"""Captions: what the figures of a table say in words, beside its charts and instead of them."""

from __future__ import annotations

from dataclasses import dataclass

from mt_core.gateway.page.charts.figures import Figures, Stalest
from mt_core.gateway.page.formats import (
    count_text,
    exact_text,
    instant_text,
    number_text,
    size_text,
    span_text,
)
from mt_core.model.run import RunStatus

UNKNOWN = "\N{EN DASH}"
# A table that was late for a second is not 100 % fresh, and one that was in time for a second not 0 %.
_LEAST, _MOST = 0.1, 99.9
_KEPT = ", of which the ledger keeps the last of each refresh"
_WORDS = {RunStatus.SUCCEEDED: "succeeded", RunStatus.SKIPPED: "skipped", RunStatus.FAILED: "failed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number of a table: its name, its value, and what the value is about; `title` explains it."""

    name: str
    value: str
    note: str
    title: str


def numbers(figures: Figures, zone: str) -> tuple[Number, Number, Number, Number]:
    """Return the four numbers of a table in words, with instants in *zone*."""
    return (
        _fresh(figures),
        _longest(figures, zone),
        Number(
            name="Duration",
            value=UNKNOWN if figures.median_s is None else span_text(figures.median_s),
            note="" if figures.p95_s is None else f"median; 95 % at most {span_text(figures.p95_s)}",
            title="From the request to the end of a refresh that wrote rows, or of a batch.",
        ),
        Number(
            name="Written a day",
            value=UNKNOWN if figures.rows_a_day is None else count_text(round(figures.rows_a_day), "row"),
            note="" if figures.bytes_a_day is None else f"{size_text(figures.bytes_a_day)} of sources read",
            title=f"The average of the last {span_text(figures.until - figures.since)}.",
        ),
    )


def staleness_caption(figures: Figures, zone: str) -> str:
    """Return what the chart of staleness shows, in words."""
    if figures.stalest is None:
        return "No refresh in this time has published rows, so the staleness is unknown."
    stalest = figures.stalest
    late = f"Late for {span_text(figures.late_s)} in all" if figures.late_s else "Never late"
    return f"{late}. Stalest {_when(stalest, figures, zone)}: {span_text(stalest.seconds)}."


def refreshes_caption(figures: Figures) -> str:
    """Return what the chart of refreshes shows, in words."""
    total = sum(figures.ended.values())
    batches = count_text(figures.batches, "batch", "batches")
    if not total:
        return f"{batches}{_KEPT}." if figures.batches else "No refresh has ended in this time."
    counts = ", ".join(
        f"{number_text(figures.ended[status])} {word}"
        for status, word in _WORDS.items()
        if figures.ended.get(status)
    )
    text = f"{count_text(total, 'refresh', 'refreshes')}: {counts}."
    text = f"{batches}{_KEPT}; {text}" if figures.batches else text
    if figures.median_s is None or figures.p95_s is None:
        return text
    return (
        f"{text} Median duration {span_text(figures.median_s)}; 95 % took at most {span_text(figures.p95_s)}."
    )


def _fresh(figures: Figures) -> Number:
    fresh = figures.fresh
    if fresh is None:
        title = "How stale the table was is not known."
        return Number(name="Fresh", value=UNKNOWN, note="", title=title)
    late = f"late for {span_text(figures.late_s)}" if figures.late_s else "never late"
    return Number(
        name="Fresh",
        value=f"{percent_text(fresh)}",
        note=f"of {span_text(figures.known_s)}",
        title=f"The share of the time in which the table was not late: it was {late}.",
    )


def percent_text(share: float) -> str:
    """Return a share from 0 to 1 in percent. Only 0 is `0 %`, and only 1 is `100 %`."""
    if share in (0, 1):
        return f"{share:.0%}".replace("%", " %")
    percent = min(max(share * 100, _LEAST), _MOST)
    return f"{percent:.1f} %".replace(".0 %", " %")


def _longest(figures: Figures, zone: str) -> Number:
    stalest, title = figures.stalest, "How old the data was that the table showed, at its oldest."
    if stalest is None:
        return Number(name="Longest staleness", value=UNKNOWN, note="", title=title)
    return Number(
        name="Longest staleness",
        value=span_text(stalest.seconds),
        note=_when(stalest, figures, zone),
        title=f"{title} That was at {exact_text(stalest.at, zone)}.",
    )


def _when(stalest: Stalest, figures: Figures, zone: str) -> str:
    return "now" if stalest.at >= figures.until else f"at {instant_text(stalest.at, zone, figures.until)}"
