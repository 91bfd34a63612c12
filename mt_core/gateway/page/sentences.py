"""One sentence about a table: its state, what is wrong and why. Pure functions of its facts.

A sentence consists of parts, because an instant is shown in the table's zone, the browser counts up the time
since an instant, and the name of a table is a link. The words of the cause are those of `because`. The
sentence begins with what the reader has to know first: by how much the table is late, or until when it is
not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from mt_core.base.statement.error_place import first_sentence
from mt_core.gateway.facts.listing import Listed
from mt_core.model.run import RunStatus
from mt_core.model.table import RefreshStatus, SuspendedBy, TableIdentifier
from mt_core.tables.brief import brief_text
from mt_core.tables.overview.facts import LastRun, TableFacts, Words
from mt_core.tables.overview.lateness import Fault, State
from mt_core.tables.pages import UnreadableTable

STATE_WORDS: Mapping[State, str] = {
    State.LATE: "late",
    State.FAILING: "failing",
    State.DOUBTED: "doubted",
    State.SOON: "soon late",
    State.SUSPENDED: "suspended",
    State.INITIALIZING: "initializing",
    State.OK: "fresh",
}


class PartKind(StrEnum):
    """Text, an instant, the time since an instant, or the name of a materialized table."""

    TEXT = "text"
    INSTANT = "instant"
    AGE = "age"
    TABLE = "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a sentence.

    `text` is that of a text, or the quoted name of a table; `at` is None for both.
    """

    kind: PartKind
    text: str = ""
    at: datetime | None = None


Sentence = tuple[Part, ...]


def sentence(table: Listed) -> Sentence:
    """Return one sentence about *table*, without a full stop."""
    if isinstance(table, UnreadableTable):
        return _text(f"Cannot be read: {table.error}")
    match table.state:
        case State.SUSPENDED:
            return _suspended(table)
        case State.LATE:
            return _late(table)
        case State.FAILING:
            return _failing(table)
        case State.DOUBTED:
            return _capital(_cause(table))
        case State.SOON:
            return (*_capital(_soon(table)), *_next(table))
        case State.INITIALIZING:
            return _empty(table)
        case State.OK:
            return _fresh(table)


def why(table: Listed) -> Sentence:
    """Return what is wrong with *table* in few words, for a list with its state and its last refresh.

    The result is empty if nothing is wrong.
    """
    if isinstance(table, UnreadableTable):
        return _text(f"cannot be read: {table.error}")
    return _soon(table) if table.state is State.SOON else _parts(table.words)


# -------------------------------------------------------------------------------------------- for each state


def _late(table: TableFacts) -> Sentence:
    late: Sentence = _text("Late")
    if table.late_at is not None:
        late = (*_text("Late by "), Part(kind=PartKind.AGE, at=table.late_at))
    cause = _cause(table)
    return (*late, *_text(" because "), *cause) if cause else late


def _failing(table: TableFacts) -> Sentence:
    failed = _failed(table.last)
    if failed is None:
        return _capital(_cause(table))
    error = _text(_colon(_error(table.last)))
    if table.late_at is None:
        return (*_text("Its last refresh failed at "), _instant(failed), *error)
    return (
        *_text("Will be late at "),
        _instant(table.late_at),
        *_text(" unless the next refresh succeeds: the last one failed at "),
        _instant(failed),
        *error,
    )


def _suspended(table: TableFacts) -> Sentence:
    since = (*_text("Suspended since "), _instant(table.status_at))
    reason = _colon(brief_text(table.status_reason))
    match table.suspended_by:
        case SuspendedBy.FAILURES:
            return (*since, *_text(f" because its refreshes failed{reason}"))
        case SuspendedBy.JOB:
            return (*since, *_text(f" because its streaming job ended{reason}"))
        case _:
            return (*since, *_text(f" by {table.status_by}{reason}" if table.status_by else reason))


def _empty(table: TableFacts) -> Sentence:
    if table.status is RefreshStatus.INITIALIZING:
        return (*_text("Has been under construction since "), _instant(table.created_at))
    none = _text("Has no rows yet")
    if table.running:
        return (*none, *_text(": its first refresh is running"))
    if table.queued:
        return (*none, *_text(": its first refresh waits for a worker"))
    if table.next_run is not None:
        return (*none, *_text(": its first refresh is at "), _instant(table.next_run))
    return none


def _fresh(table: TableFacts) -> Sentence:
    if cause := _cause(table):
        return (*_text("Fresh, but "), *cause)
    if any(read.kind == "stream" for read in table.reads):
        return _text("Fresh: a streaming job adds rows as they arrive")
    if table.shows is None or table.late_at is None:
        return _text("Fresh")
    return (
        *_text("Fresh: it shows its sources as they were at "),
        _instant(table.shows),
        *_text(", and is not late before "),
        _instant(table.late_at),
    )


# --------------------------------------------------------------------------------------------------- clauses


def _cause(table: TableFacts) -> Sentence:
    """Return the words of the cause; for a failing query, since when no refresh has succeeded."""
    is_query = table.state is State.LATE and table.fault is Fault.QUERY and not table.running
    if not is_query or _failed(table.last) is None:
        return _parts(table.words)
    error = _colon(_error(table.last))
    if table.refreshed_at is None:
        return _text(f"no refresh has ever succeeded{error}")
    return (*_text("no refresh has succeeded since "), _instant(table.refreshed_at), *_text(error))


def _soon(table: TableFacts) -> Sentence:
    if table.late_at is None:
        return _text("soon late")
    return (*_text("late at "), _instant(table.late_at), *_text(" unless it is refreshed before"))


def _next(table: TableFacts) -> Sentence:
    """Return what is being done about a table that soon is late."""
    if table.running:
        return _text("; a refresh is running")
    if table.queued:
        return _text("; a refresh waits for a worker")
    if table.next_run is not None:
        return (*_text("; the next refresh is at "), _instant(table.next_run))
    return ()


def _failed(last: LastRun | None) -> datetime | None:
    """Return when the last refresh failed, None if it did not."""
    return None if last is None or last.status is not RunStatus.FAILED else last.finished_at


def _error(last: LastRun | None) -> str | None:
    """Return the first sentence of the error of a refresh; its page and that of its table show all of it."""
    return None if last is None else brief_text(first_sentence((last.error or "").strip()))


def _colon(text: str | None) -> str:
    return f": {text}" if text else ""


# ----------------------------------------------------------------------------------------------------- parts


def _parts(words: Words) -> Sentence:
    return tuple(map(_part, words))


def _part(word: str | datetime | TableIdentifier) -> Part:
    match word:
        case datetime():
            return _instant(word)
        case TableIdentifier():
            return Part(kind=PartKind.TABLE, text=str(word))
        case _:
            return Part(kind=PartKind.TEXT, text=word)


def _instant(at: datetime) -> Part:
    return Part(kind=PartKind.INSTANT, at=at)


def _text(text: str) -> Sentence:
    return (Part(kind=PartKind.TEXT, text=text),) if text else ()


def _capital(parts: Iterable[Part]) -> Sentence:
    """Return *parts* with a capital at the beginning, unless it begins with a name."""
    first, *others = parts or _text("?")
    if first.kind is PartKind.TEXT:
        first = Part(kind=PartKind.TEXT, text=first.text[:1].upper() + first.text[1:])
    return (first, *others)
