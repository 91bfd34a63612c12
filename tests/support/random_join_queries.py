"""Random joins over the sources of `queries_with_stages`, below an aggregate that is a stage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from tests.support.queries_with_stages import SOURCES, QueryWithStages

# Columns of types in the same line are compared. Those of the last line are not looked up by.
COMPARED = (
    ("INT", "BIGINT"), ("STRING",), ("DATE",), ("DECIMAL",), ("BOOLEAN",), ("TIMESTAMP",), ("NTZ",),
    ("LARGE",),
    ("DOUBLE", "FLOAT"),
)  # fmt: skip
WEIGHTS = (12, 4, 4, 4, 1, 2, 1, 1, 1)
# Those of which few rows match are rare: a join without rows proves little.
READ = ("f", "f", "f", "o", "o", "o", "p", "p", "t", "t", "e")
SUMMED = ("INT", "BIGINT", "DECIMAL")
MOST_READINGS = 5


@dataclass(frozen=True, slots=True)
class Part:
    """A relation of a join: its alias, its text, the types of its columns, and the sources that it reads."""

    alias: str
    text: str
    columns: dict[str, str]
    sources: tuple[str, ...]

    def of_types(self, types: tuple[str, ...]) -> list[str]:
        return [f"{self.alias}.{name}" for name, type_ in self.columns.items() if type_ in types]


def random_join(random: Random, name: str) -> QueryWithStages:
    """Return a query with inner joins of two to five readings: trees, cycles, parts that nothing connects."""
    parts = [_part(random, f"r{number}") for number in range(random.randint(2, MOST_READINGS))]
    conditions, apart = list[str](), 0
    for number, part in enumerate(parts[1:], 1):
        # A cross join of many rows would take long.
        if apart or len(parts) > 3 or random.random() < 0.85:
            conditions += _equalities(random, random.choice(parts[:number]), part)
        else:
            apart += 1
    for _ in range(random.choice((0, 0, 0, 1))):
        conditions += _equalities(random, *random.sample(parts, 2))
    if random.random() < 0.3:
        conditions += _other(random, *random.sample(parts, 2))
    keys = random.sample(
        [f"{part.alias}.{column}" for part in parts for column in part.columns], random.randint(0, 2)
    )
    by = [f"{key} AS k{number}" for number, key in enumerate(keys)]
    sums = [f"{random.choice(('sum', 'avg', 'count'))}({random.choice(_summed(parts))}) AS v"]
    text = f"SELECT {', '.join([*by, 'count(*) AS n', *sums])} FROM "
    text += ", ".join(f"{part.text} AS {part.alias}" for part in parts)
    text += f" WHERE {' AND '.join(conditions)}" if conditions else ""
    text += f" GROUP BY {', '.join(keys)}" if keys else ""
    sources = sorted({source for part in parts for source in part.sources})
    return QueryWithStages(name=f"{name}: {text}", sql=text, sources=tuple(sources))


def _summed(parts: list[Part]) -> list[str]:
    return [column for part in parts for column in part.of_types(SUMMED)]


def _part(random: Random, alias: str) -> Part:
    """Return a source, some of its rows, or rows of two sources."""
    source = random.choice(READ)
    columns = SOURCES[source]
    drawn = random.random()
    if drawn < 0.4:
        return Part(alias, source, columns, (source,))
    if drawn < 0.9:
        names = {name: f"c_{name}" if random.random() < 0.5 else name for name in columns}
        items = ", ".join(name if name == new else f"{name} AS {new}" for name, new in names.items())
        text = f"(SELECT {items} FROM {source} WHERE {_filter(random, source)})"
        return Part(alias, text, {names[name]: type_ for name, type_ in columns.items()}, (source,))
    other = random.choice(READ)
    pairs = [
        (left, right, type_)
        for left, type_ in columns.items()
        for right, other_type in SOURCES[other].items()
        if type_ == other_type
    ]
    first = dict[str, tuple[str, str]]()
    for left, right, type_ in random.sample(pairs, len(pairs)):
        first.setdefault(left, (right, type_))
    left = ", ".join(first)
    right = ", ".join(f"{name}" for name, _ in first.values())
    text = f"(SELECT {left} FROM {source} UNION ALL SELECT {right} FROM {other})"
    return Part(alias, text, {name: type_ for name, (_, type_) in first.items()}, (source, other))


def _filter(random: Random, source: str) -> str:
    name, type_ = random.choice(tuple(SOURCES[source].items()))
    match type_:
        case "INT" | "BIGINT" | "DECIMAL":
            return f"{name} {random.choice(('> 0', '< 4', '<> 1', '>= 1', 'IS NOT NULL'))}"
        case "STRING":
            return f"{name} {random.choice(('=', '<>', '>='))} '{random.choice('ab')}'"
        case "BOOLEAN":
            return random.choice((name, f"NOT {name}"))
        case _:
            return f"{name} IS NOT NULL"


def _equalities(random: Random, one: Part, other: Part) -> Iterator[str]:
    pairs = [
        (left, right)
        for weight, types in zip(WEIGHTS, COMPARED, strict=True)
        for left in one.of_types(types)
        for right in other.of_types(types)
        for _ in range(weight)
    ]
    for left, right in random.sample(pairs, min(len(pairs), random.choice((1, 1, 1, 1, 1, 2)))):
        yield f"{left} {random.choice(('=', '=', '=', '=', '<=>'))} {right}"


def _other(random: Random, one: Part, other: Part) -> Iterator[str]:
    left, right = (
        random.choice(part.of_types(("INT", "BIGINT", "DECIMAL")) or ["1"]) for part in (one, other)
    )
    yield random.choice((f"{left} < {right}", f"({left} > 2 OR {right} > 1)", f"{left} + {right} > 3"))
