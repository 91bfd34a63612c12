"""Scripts of what happens to a stream: batches of changes, time that passes, and restarts. An operator and its model replay them.

A test that fails reports its script; `@example(script=…)` above the test, with that text, replays it first.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame
from pyspark.sql.functions import expr, lit

from mt_core.plans.durations import FOR_EVER
from tests.depth import DEPTH
from tests.integration.operator_stream import KIND, Change, OperatorStream

Row = tuple[Any, ...]
Signed = tuple[Row, bool]
"""A row, and whether it is added; else it is taken back."""
Told = Counter[tuple[str, str, Row]]
"""How often a query, by its name, gives a kind of change of a row."""
MINUTES = (2, 5)
BATCHES = 8
# A script takes seconds, and a shorter one is found in minutes: only those who wait for it get one.
FEW_SCRIPTS = settings(
    # The first script is the least one, of a batch without rows.
    max_examples=1 + DEPTH,
    # A deep run has other scripts each time.
    derandomize=DEPTH == 1,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate, *([Phase.shrink] if DEPTH > 1 else [])],
)


@dataclass(frozen=True)
class Feed:
    """The next batch."""

    changes: tuple[Signed, ...]


@dataclass(frozen=True)
class Wait:
    minutes: int


@dataclass(frozen=True)
class Restart:
    """The stream goes on with another TTL, in minutes; 0 is none."""

    ttl: int


@dataclass(frozen=True)
class Repeat:
    """The last batch is repeated, as after a crash."""


Step = Feed | Wait | Restart | Repeat


@dataclass(frozen=True)
class Script:
    """What happens to a stream that begins with a TTL in minutes."""

    ttl: int
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Moment:
    """When a batch is, in minutes, and the TTL of what it writes."""

    now: int
    ttl: int

    @property
    def expires(self) -> float:
        return self.now + self.ttl if self.ttl else math.inf

    @property
    def of_other(self) -> Moment:
        """The same for a second input, which has another TTL than the first."""
        first, second = MINUTES
        return Moment(self.now, {0: 0, first: second, second: first}[self.ttl])


class Model(Protocol):
    def changes(self, batch: Sequence[Signed], moment: Moment) -> Told:
        """Return what a batch changes, and keep it."""


@st.composite
def scripts(draw: st.DrawFn, rows: st.SearchStrategy[Row], most: int = 12) -> Script:
    """Yield scripts of changes of such *rows*, of which a batch has at most so many; each takes back a row that was added."""
    present: list[Row] = []
    steps: list[Step] = []
    for _ in range(draw(st.sampled_from((1, *[BATCHES] * 9)))):
        changes = list[Signed]()
        for _ in range(draw(st.integers(0, most))):
            if present and draw(st.integers(0, 9)) < 4:
                changes.append((present.pop(draw(st.integers(0, len(present) - 1))), False))
            else:
                changes.append((draw(rows), True))
                present.append(changes[-1][0])
        steps.append(Feed(tuple(changes)))
        steps += draw(_BETWEEN)
    return Script(draw(_TTLS), tuple(steps))


_TTLS = st.sampled_from((*MINUTES, 0))
_PAUSE = st.builds(Wait, st.sampled_from((1, *MINUTES)))
# A batch is repeated with the TTL that it had.
_BETWEEN = st.one_of(
    st.just(()),
    st.tuples(_PAUSE),
    st.tuples(st.just(Repeat())),
    st.tuples(_PAUSE, st.just(Repeat())),
    st.tuples(st.builds(Restart, _TTLS)),
    st.tuples(st.builds(Restart, _TTLS), _PAUSE),
)


def replay(
    script: Script,
    start: Callable[[Callable[[DataFrame], DataFrame]], OperatorStream],
    operator: Callable[[int], Callable[[DataFrame], DataFrame]],
    model: Model,
    columns: Sequence[str],
    named: Callable[[Told], Told] = lambda found: found,
) -> None:
    """Let a stream of rows with *columns* do what *script* says, and expect of each batch, as *named*, what *model* gives."""
    moment, stream, expected = Moment(0, script.ttl), start(operator(script.ttl)), Told()
    for place, step in enumerate(script.steps):
        with reported(script, place):
            match step:
                case Feed(changes):
                    expected = model.changes(changes, moment)
                    found = named(told(stream.feed(*records(changes, columns))))
                    assert found == expected, difference(found, expected)
                case Repeat():
                    found = named(told(stream.repeat()))
                    assert found == expected, difference(found, expected)
                case Wait(minutes):
                    stream.wait(timedelta(minutes=minutes))
                    moment = Moment(moment.now + minutes, moment.ttl)
                case Restart(ttl):
                    stream.restart(operator(ttl))
                    moment = Moment(moment.now, ttl)


def duration(ttl: int) -> timedelta:
    return timedelta(minutes=ttl) if ttl else FOR_EVER


def records(changes: Sequence[Signed], columns: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return changes as rows; how they are named says nothing."""
    return [
        dict(zip(columns, row, strict=True)) | {KIND: (0, 2)[place % 2] if adds else (3, 1)[place % 2]}
        for place, (row, adds) in enumerate(changes)
    ]


def packed(name: str, rows: DataFrame) -> DataFrame:
    """Return the rows of a query with that name in a form that those of others have, too."""
    columns = ", ".join(f"`{column}`" for column in rows.columns if column != KIND)
    kind = KIND if KIND in rows.columns else f"CAST(0 AS TINYINT) AS {KIND}"
    values = f"to_json(struct({columns}), map('ignoreNullFields', 'false'))"
    return rows.select(lit(name).alias("q"), expr(f"{values} AS r"), expr(kind))


def told(changes: Iterable[Change]) -> Told:
    return Told((row["q"], kind, _row(json.loads(row["r"]))) for kind, row in changes)


def _row(columns: Mapping[str, Any]) -> Row:
    return tuple(tuple(value) if isinstance(value, list) else value for value in columns.values())


def difference(found: Told, expected: Told) -> str:
    lines = [f"missing: {change} {number} times" for change, number in (expected - found).items()]
    return "\n".join([*lines, *(f"too many: {change} {number} times" for change, number in (found - expected).items())])


@contextmanager
def reported(script: Script, place: int) -> Iterator[None]:
    """Say with what fails in which step it does, and the script up to it."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"step {place}; script={Script(script.ttl, script.steps[: place + 1])!r}")
        raise
