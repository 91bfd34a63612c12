"""Scripts of what happens to a stream: batches of changes, time that passes, and restarts.

An operator and its model replay them.

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
from random import Random
from typing import Any, Protocol

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame
from pyspark.sql.functions import expr, lit

from mt_core.plans.durations import FOR_EVER
from tests.depth import DEPTH, rounds
from tests.integration.operator_stream import KIND, Change, OperatorStream

Row = tuple[Any, ...]
Signed = tuple[Row, bool]
"""A row, and whether it is added; else it is taken back."""
Told = Counter[tuple[str, str, Row]]
"""How often a query, by its name, gives a kind of change of a row."""
MINUTES = (2, 5)
LEAST, MOST = 0 if DEPTH > 1 else 6, 12
"""How many changes a batch has."""
SEED = 273
"""That of the one script of `make test-slow`, in which each operator gives something else with other TTLs."""
# A script takes seconds.
FEW_SCRIPTS = settings(
    max_examples=rounds(1, 2),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
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


def scripts(*values: Sequence[Any]) -> st.SearchStrategy[Script]:
    """Yield scripts of changes of rows with columns of those *values*;
    each takes back rows that were added.
    """
    seeds = st.just(SEED) if DEPTH == 1 else st.integers(0, 2**32)
    return seeds.map(lambda seed: _script(Random(seed), values))


def untold(models: Callable[[], Model], *values: Sequence[Any]) -> set[str]:
    """Return the names of the queries that give the same in the script with SEED if no TTL changes,
    or nothing expires.
    """
    script = _script(Random(SEED), values)
    given = _given(models(), script)
    others = (
        _given(models(), script, changing=False),
        _given(models(), script, changing=False, expiring=False),
    )
    told = [
        {
            name
            for here, there in zip(given, other, strict=True)
            for name, _, _ in (here - there) + (there - here)
        }
        for other in others
    ]
    return {name for each in given for name, _, _ in each} - set.intersection(*told)


def _given(model: Model, script: Script, *, changing: bool = True, expiring: bool = True) -> list[Told]:
    moment, found = Moment(0, script.ttl if expiring else 0), list[Told]()
    for step in script.steps:
        match step:
            case Feed(changes):
                found.append(model.changes(changes, moment))
            case Wait(minutes):
                moment = Moment(moment.now + minutes, moment.ttl)
            case Restart(ttl) if changing:
                moment = Moment(moment.now, ttl)
    return found


def _script(chance: Random, values: Sequence[Sequence[Any]]) -> Script:
    ttl, *others = chance.sample((*MINUTES, 0), 3)
    steps: list[Step] = []
    for between, changes in zip(_between_batches(chance, others), _batches(chance, values), strict=False):
        steps += [*between, Feed(changes)]
    return Script(ttl, tuple(steps))


def _between_batches(chance: Random, ttls: Sequence[int]) -> Iterator[Sequence[Step]]:
    """Yield what is before each batch: nothing, time, the batch before it again,
    and a start with each of *ttls*.

    In a deep run there are more of them, in any order.
    """
    pauses = [Wait(chance.choice((1, *MINUTES))) for _ in range(4)]
    first, second = map(Restart, ttls)
    if DEPTH == 1:
        yield from ([], [first], [pauses[0], Repeat()], [second], pauses[1:2])
        return
    found = [[], pauses[:1], pauses[1:2], [Repeat()], [pauses[2], Repeat()], [first], [second, pauses[3]]]
    yield []
    yield from chance.sample(found, len(found))


def _batches(chance: Random, values: Sequence[Sequence[Any]]) -> Iterator[tuple[Signed, ...]]:
    """Yield the changes of batches without an end."""
    present: list[Row] = []
    while True:
        changes = list[Signed]()
        for _ in range(chance.randint(LEAST, MOST)):
            if present and chance.random() < 0.4:
                changes.append((present.pop(chance.randrange(len(present))), False))
            else:
                present.append(tuple(map(chance.choice, values)))
                changes.append((present[-1], True))
        yield tuple(changes)


def replay(
    script: Script,
    start: Callable[[Callable[[DataFrame], DataFrame]], OperatorStream],
    operator: Callable[[int], Callable[[DataFrame], DataFrame]],
    model: Model,
    columns: Sequence[str],
    named: Callable[[Told], Told] = lambda found: found,
) -> None:
    """Let a stream of rows with *columns* do what *script* says, and expect of each batch, as *named*,
    what *model* gives.
    """
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
    return "\n".join(
        [*lines, *(f"too many: {change} {number} times" for change, number in (found - expected).items())]
    )


@contextmanager
def reported(script: Script, place: int) -> Iterator[None]:
    """Say with what fails in which step it does, and the script up to it."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"step {place}; script={Script(script.ttl, script.steps[: place + 1])!r}")
        raise
