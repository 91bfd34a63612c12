"""A script as its page shows it: its statements, and one of them with its rows or with its error in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from mt_core.base.secrets import statement_text, without_passwords
from mt_core.base.statement.error_place import parted, place_in, without_place
from mt_core.errors import EngineUnavailable, MtError
from mt_core.gateway.page.console.results import PAGE_ROWS, ResultPage, count_of, page_of
from mt_core.gateway.page.console.scripts import Outcome, Script, Step
from mt_core.gateway.page.formats import count_text
from mt_core.sessions.operations.operation import OperationProgress, OperationResult, ResultKind

# The most characters of a statement in the list of them, and of a line around the token that an error names.
SHOWN, BEFORE, AFTER = 120, 100, 160
LINES_AROUND = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of SQL. In the line that an error names, `marked` is the token that it names."""

    number: int
    before: str
    marked: str = ""
    after: str = ""
    is_named: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """An error in words: what is wrong, what to do about it ("" if unknown), and where."""

    what: str
    way_out: str
    code: str
    request_id: str
    lines: Sequence[Line]
    of_spark: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A statement of a script; `number` counts from 1. `says` is its outcome, in a few words."""

    number: int
    text: str
    outcome: Outcome
    says: str
    began_at: datetime | None
    seconds: float | None
    progress: OperationProgress | None
    warnings: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownScript:
    """A script, and the statement that is `chosen`, with its rows or its trouble."""

    handle: str
    running: bool
    has_secret: bool
    statements: Sequence[Shown]
    chosen: Shown | None = None
    result: ResultPage | None = None
    trouble: Trouble | None = None

    @property
    def previous(self) -> int | None:
        """How many rows are before the previous page; None on the first page."""
        return max(0, self.result.first - 1 - PAGE_ROWS) if self.result and self.result.first > 1 else None

    @property
    def following(self) -> int | None:
        """How many rows are before the next page; None on the last page."""
        return self.result.last if self.result and 0 < self.result.last < self.result.total else None


def shown_script(script: Script, chosen: int, after: int) -> ShownScript:
    """Return *script* with its statement at position *chosen*, and the rows after the first *after*."""
    shown = ShownScript(
        handle=script.handle,
        running=script.running,
        has_secret=script.has_secret,
        statements=[
            _shown(step, number, script.outcome(number - 1)) for number, step in enumerate(script.steps, 1)
        ],
    )
    if script.error is not None:
        return replace(shown, trouble=_trouble(script.error, script.text))
    step = script.steps[chosen]
    failure, rows = step.failure, step.rows
    failed = failure is not None and script.outcome(chosen) is Outcome.FAILED
    return replace(
        shown,
        chosen=shown.statements[chosen],
        result=page_of(rows, after) if rows is not None and _has_rows(step.result) else None,
        trouble=_trouble(failure, step.statement.text, step) if failed and failure is not None else None,
    )


def usual_choice(script: Script) -> int:
    """Return the position of the statement that failed or was stopped, else of the running or last one."""
    outcomes = [script.outcome(number) for number in range(len(script.steps))]
    for sought in ({Outcome.FAILED, Outcome.STOPPED}, {Outcome.RUNNING}):
        for number, outcome in enumerate(outcomes):
            if outcome in sought:
                return number
    done = [number for number, outcome in enumerate(outcomes) if outcome is Outcome.DONE]
    return done[-1] if done else 0


def version_of(script: Script) -> str:
    """Return a text that changes with whatever is shown of a running script, except the time."""
    states = []
    for number, step in enumerate(script.steps):
        progress = step.operation.progress() if step.operation is not None else None
        states.append((script.outcome(number), progress, 0 if step.rows is None else count_of(step.rows)))
    return f"{hash((script.running, tuple(states))):x}"


def _shown(step: Step, number: int, outcome: Outcome) -> Shown:
    operation, text = step.operation, " ".join(step.statement.text.split())
    began_at = None if operation is None else operation.created_at
    took = None if began_at is None or step.ended_at is None else step.ended_at - began_at
    return Shown(
        number=number,
        text=statement_text(text, SHOWN) + ("…" if len(text) > SHOWN else ""),
        outcome=outcome,
        says=_says(step, outcome),
        began_at=began_at,
        seconds=None if took is None else max(0.0, took.total_seconds()),
        progress=None if operation is None else operation.progress(),
        warnings=() if step.result is None else step.result.warnings,
    )


def _says(step: Step, outcome: Outcome) -> str:
    result, rows = step.result, step.rows
    if outcome is Outcome.FAILED and not _has_rows(result) and step.failure is not None:
        return parted(without_passwords(str(step.failure)))[0]
    if result is None or rows is None:
        return ""
    if not _has_rows(result):
        written = result.affected_rows
        return "" if written is None else f"{count_text(written, 'row')} written"
    count = count_of(rows)
    until = {Outcome.FAILED: " before it failed", Outcome.STOPPED: " before it was stopped"}.get(outcome, "")
    return f"{count_text(count, 'row')}{' so far' if rows.running else until}"


def _has_rows(result: OperationResult | None) -> bool:
    """Return whether a result has rows to show, and not only OK or the id of the job that has written."""
    if result is None or result.result_kind is ResultKind.SUCCESS:
        return False
    return result.is_query or result.affected_rows is None


def _trouble(error: MtError, text: str, step: Step | None = None) -> Trouble:
    """Return *error* of the statement *text*, which is that of *step* unless it is a whole script."""
    place, message = place_in(error, text), without_passwords(str(error))
    what, way_out = parted(without_place(message) if place is not None else message)
    return Trouble(
        what=what,
        way_out=way_out,
        code=error.code,
        request_id="" if step is None or step.operation is None else step.operation.request_id,
        lines=_lines(error, text, 1 if step is None else step.statement.line),
        of_spark=isinstance(error, EngineUnavailable),
    )


def _lines(error: MtError, text: str, first: int) -> list[Line]:
    """Return the line that *error* names and those around it; *first* is the number of the first line."""
    place = place_in(error, text)
    if place is None:
        return []
    lines = []
    for at, line in enumerate(statement_text(text, len(text)).split("\n"), 1):
        if at == place.number:
            end = place.at + max(1, place.length)
            lines.append(
                Line(
                    number=first + at - 1,
                    before=_cut_before(place.text[: place.at]),
                    # At the end of a line there is nothing to mark but a space.
                    marked=place.text[place.at : end] or " ",
                    after=_cut_after(place.text[end:]),
                    is_named=True,
                )
            )
        elif abs(at - place.number) <= LINES_AROUND:
            lines.append(Line(number=first + at - 1, before=_cut_after(line)))
    return lines


def _cut_before(text: str) -> str:
    return text if len(text) <= BEFORE else f"…{text[-BEFORE:]}"


def _cut_after(text: str) -> str:
    return text if len(text) <= AFTER else f"{text[:AFTER]}…"
