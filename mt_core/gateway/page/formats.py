"""How the page writes instants, durations, numbers, sizes and SQL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers.sql import SqlLexer

from mt_core.base.plural import plural
from mt_core.model.zone import zone_named

NOTHING = Markup('<span class="muted">-</span>')
_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")


def span_text(span: float | timedelta) -> str:
    """Return a duration in seconds in its two largest units, such as `1 h 40 min`."""
    seconds = span.total_seconds() if isinstance(span, timedelta) else float(span)
    if seconds < 0:
        return f"-{span_text(-seconds)}"
    if seconds < 9.95:
        return (
            "0 s"
            if seconds == 0
            else f"{max(seconds, 0.01):.{2 if seconds < 0.1 else 1}f} s".replace(".0 s", " s")
        )
    whole = round(seconds)
    for unit, length, part, below in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= length:
            rest = whole % length // below
            return f"{whole // length} {unit}" + (f" {rest} {part}" if rest else "")
    return f"{whole} s"


def number_text(number: float) -> str:
    """Return a number with commas between thousands."""
    return f"{number:,}"


def count_text(number: int, one: str, more: str | None = None) -> str:
    """Return a number with its noun: *one*, or else *more*, which defaults to *one* with an s."""
    return f"{number_text(number)} {plural(number, one, more)}"


def size_text(size: float) -> str:
    """Return a number of bytes in the largest unit of which it is at least one."""
    amount, unit = float(size), 0
    while abs(amount) >= 999.5 and unit < len(_SIZES) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.0f} {_SIZES[unit]}" if unit == 0 or amount >= 9.95 else f"{amount:.1f} {_SIZES[unit]}"


def instant_text(instant: datetime, zone: str, now: datetime) -> str:
    """Return the local time of an instant in *zone*, with as much of the date as *now* leaves open."""
    local, today = instant.astimezone(zone_named(zone)), now.astimezone(zone_named(zone))
    if local.date() == today.date():
        return f"{local:%H:%M:%S}" if abs(now - instant) < timedelta(minutes=10) else f"{local:%H:%M}"
    return f"{local.day} {local:%b %H:%M}" if local.year == today.year else f"{local:%Y-%m-%d %H:%M}"


def clock_text(instant: datetime, zone: str, now: datetime) -> str:
    """Return an instant to the second in *zone*, with the day unless it is today."""
    local, today = instant.astimezone(zone_named(zone)), now.astimezone(zone_named(zone))
    if local.date() == today.date():
        return f"{local:%H:%M:%S}"
    return f"{local.day} {local:%b %H:%M:%S}" if local.year == today.year else f"{local:%Y-%m-%d %H:%M:%S}"


# A list shows the same instants again at each poll, and formatting them is most of its work.
@lru_cache(maxsize=10_000)
def exact_text(instant: datetime, zone: str) -> str:
    """Return an instant to the second in *zone*, with the zone's name."""
    return f"{instant.astimezone(zone_named(zone)):%Y-%m-%d %H:%M:%S} {zone}"


def instant(value: datetime | None, zone: str | None, now: datetime) -> Markup:
    """Return a time element with the local time in *zone* (UTC if None), its title the exact instant."""
    if value is None:
        return NOTHING
    in_zone = zone or "UTC"
    text, exact = instant_text(value, in_zone, now), exact_text(value, in_zone)
    # Markup.format would take most of the time of a list of hundreds of tables; only the zone is not ours.
    return Markup(f'<time datetime="{iso(value)}" title="{escape(exact)}">{text}</time>')


def age(value: datetime | None, now: datetime) -> Markup:
    """Return a time element with the time since an instant, which the browser counts up."""
    if value is None:
        return NOTHING
    text = span_text(timedelta(seconds=max(0, int((now - value).total_seconds()))))
    exact = exact_text(value, "UTC")
    return Markup(f'<time class="age" datetime="{iso(value)}" title="{exact}">{text}</time>')


def span(value: float | timedelta | None) -> Markup:
    """Return a duration as text; a dash if it is None."""
    return NOTHING if value is None else escape(span_text(value))


def number(value: float | None) -> Markup:
    """Return a number as text; a dash if it is None."""
    return NOTHING if value is None else escape(number_text(value))


def size(value: float | None) -> Markup:
    """Return a number of bytes as text; a dash if it is None."""
    return NOTHING if value is None else escape(size_text(value))


def sql(text: str) -> Markup:
    """Return SQL as HTML with a class for each kind of word, in one code element."""
    return Markup('<code class="sql">{}</code>').format(Markup(_highlighted(text)))


@lru_cache(maxsize=10_000)
def iso(value: datetime) -> str:
    return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


@lru_cache(maxsize=256)
def _highlighted(text: str) -> str:
    # Pygments escapes the text; without these options it would drop blank lines around it.
    formatter = HtmlFormatter(nowrap=True)
    return str(highlight(text, SqlLexer(stripnl=False, ensurenl=False), formatter))
