"""Random joins over the sources of `queries_with_stages`, below an aggregate that is a stage.

What is joined are sources and, down to a depth, operators over them that are not linear.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
# -0.0 is equal to 0.0, so an order or an extreme of these has a choice.
INEXACT = ("DOUBLE", "FLOAT")
MOST_READINGS = 5
MOST_COLUMNS = 4
"""How many columns an operator returns at most, besides the one that it computes."""


@dataclass(frozen=True, slots=True)
class Part:
    """A relation of a join: its alias, its text, the types of its columns, and the sources that it reads."""

    alias: str
    text: str
    columns: dict[str, str]
    sources: tuple[str, ...]

    @property
    def named(self) -> str:
        return f"{self.text} AS {self.alias}"

    @property
    def names(self) -> list[str]:
        return [f"{self.alias}.{name}" for name in self.columns]

    def of_types(self, types: tuple[str, ...]) -> list[str]:
        return [f"{self.alias}.{name}" for name, type_ in self.columns.items() if type_ in types]

    def type_of(self, name: str) -> str:
        return self.columns[name.rpartition(".")[2]]


def random_join(random: Random, name: str, depth: int = 0) -> QueryWithStages:
    """Return a query with inner joins of one to five readings: trees, cycles, parts that nothing connects.

    With a *depth*, operators that are not linear are among the readings, at most so many below each other.
    """
    most = 3 if depth else MOST_READINGS
    parts = [_part(random, f"r{each}", depth) for each in range(random.randint(1 if depth else 2, most))]
    conditions, apart = list[str](), 0
    for number, part in enumerate(parts[1:], 1):
        # A cross join of many rows would take long.
        if apart or depth or len(parts) > 3 or random.random() < 0.85:
            conditions += _equalities(random, random.choice(parts[:number]), part)
        else:
            apart += 1
    if len(parts) > 1:
        for _ in range(random.choice((0, 0, 0, 1))):
            conditions += _equalities(random, *random.sample(parts, 2))
        if random.random() < 0.3:
            conditions.append(_other(random, *random.sample(parts, 2)))
    columns = [name for part in parts for name in part.names]
    keys = random.sample(columns, min(len(columns), random.randint(0, 2)))
    by = [f"{key} AS k{number}" for number, key in enumerate(keys)]
    summed = _of_types(parts, SUMMED) or ["1"]
    sums = [f"{random.choice(('sum', 'avg', 'count'))}({random.choice(summed)}) AS v"]
    if depth and random.random() < 0.7:
        # No column is removed then.
        sums.append(f"sum(hash({', '.join(columns)})) AS h")
    text = f"SELECT {', '.join([*by, 'count(*) AS n', *sums])} FROM "
    text += ", ".join(part.named for part in parts)
    text += f" WHERE {' AND '.join(conditions)}" if conditions else ""
    text += f" GROUP BY {', '.join(keys)}" if keys else ""
    return QueryWithStages(name=f"{name}: {text}", sql=text, sources=_sources(parts))


def _sources(parts: Sequence[Part]) -> tuple[str, ...]:
    return tuple(sorted({source for part in parts for source in part.sources}))


def _of_types(parts: Sequence[Part], types: tuple[str, ...]) -> list[str]:
    return [name for part in parts for name in part.of_types(types)]


def _part(random: Random, alias: str, depth: int) -> Part:
    """Return a source, some of its rows, rows of two parts, or an operator over parts that is not linear."""
    if depth and random.random() < 0.75:
        return _computed(random, alias, depth - 1)
    drawn = random.random()
    if drawn >= 0.9:
        return _set(random, alias, max(0, depth - 1), "UNION ALL")
    return _source(random, alias, whole=drawn < 0.4)


def _source(random: Random, alias: str, *, whole: bool) -> Part:
    source = random.choice(READ)
    columns = SOURCES[source]
    if whole:
        return Part(alias, source, columns, (source,))
    names = {name: f"c_{name}" if random.random() < 0.5 else name for name in columns}
    items = ", ".join(name if name == new else f"{name} AS {new}" for name, new in names.items())
    text = f"(SELECT {items} FROM {source} WHERE {_filter(random, source)})"
    return Part(alias, text, {names[name]: type_ for name, type_ in columns.items()}, (source,))


def _set(random: Random, alias: str, depth: int, operator: str) -> Part:
    """Return rows of two parts: columns with the same types."""
    one, other = _inputs(random, alias, depth)
    pairs = [
        (left, right)
        for left in one.names
        for right in other.names
        if one.type_of(left) == other.type_of(right)
    ]
    matched = dict[str, str]()
    for left, right in random.sample(pairs, len(pairs)):
        matched.setdefault(left, right)
    if operator != "UNION ALL":
        matched = dict(list(matched.items())[: random.randint(1, 2)])
    if not matched:
        return one
    items = ", ".join(f"{left} AS v{number}" for number, left in enumerate(matched))
    rows = f"SELECT {', '.join(matched.values())} FROM {other.named}"
    text = f"(SELECT {items} FROM {one.named} {operator} {rows})"
    types = {f"v{number}": one.type_of(left) for number, left in enumerate(matched)}
    return Part(alias, text, types, _sources((one, other)))


def _inputs(random: Random, alias: str, depth: int) -> tuple[Part, Part]:
    return _part(random, f"{alias}l", depth), _part(random, f"{alias}r", depth)


# --------------------------------------------------------------------------------------- computed relations


@dataclass(frozen=True, slots=True)
class _Body:
    """What follows FROM: its text, the parts of which columns are read, others, and a value with its type."""

    text: str
    parts: tuple[Part, ...]
    others: tuple[Part, ...] = ()
    value: tuple[str, str] | None = None


def _computed(random: Random, alias: str, depth: int) -> Part:
    """Return an operator that is not linear, over parts that have at most *depth* of them."""
    kinds = ("join",) * 4 + ("semi",) * 3 + ("exists", "scalar", "groups", "groups", "groups", "distinct")
    match random.choice((*kinds, "window", "window", "window", "set", "first")):
        case "join":
            left, right = _inputs(random, alias, depth)
            kind = random.choice(("LEFT", "LEFT", "RIGHT", "FULL"))
            body = f"{left.named} {kind} JOIN {right.named} ON {_condition(random, left, right)}"
            return _selected(random, alias, _Body(body, (left, right)))
        case "semi":
            left, right = _inputs(random, alias, depth)
            kind = random.choice(("SEMI", "ANTI"))
            body = f"{left.named} LEFT {kind} JOIN {right.named} ON {_condition(random, left, right)}"
            return _selected(random, alias, _Body(body, (left,), (right,)))
        case "exists":
            left, right = _inputs(random, alias, depth)
            other = _of_types((left,), SUMMED) or ["1"]
            exists = f"EXISTS (SELECT 1 FROM {right.named} WHERE {_condition(random, left, right)})"
            body = f"{left.named} WHERE {random.choice(other)} > 2 OR {random.choice(('', 'NOT '))}{exists}"
            return _selected(random, alias, _Body(body, (left,), (right,)))
        case "scalar":
            left, right = _inputs(random, alias, depth)
            function, type_ = _aggregate(random, right)
            equal = " AND ".join(_equalities(random, left, right, null_safe=False))
            value = f"(SELECT {function} FROM {right.named} WHERE {equal or '1 = 0'})"
            return _selected(random, alias, _Body(left.named, (left,), (right,), (value, type_)))
        case "groups":
            return _groups(random, alias, _part(random, f"{alias}g", depth))
        case "distinct":
            part = _part(random, f"{alias}d", depth)
            return _groups(random, alias, part, is_distinct=True)
        case "window":
            return _window(random, alias, _part(random, f"{alias}w", depth))
        case "set":
            operators = ("INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL")
            return _set(random, alias, depth, random.choice(operators))
        case _:
            part = _part(random, f"{alias}f", depth)
            exact = {name: type_ for name, type_ in part.columns.items() if type_ not in INEXACT}
            if not exact:
                return part
            text = f"(SELECT {', '.join(exact)} FROM {part.named} ORDER BY {', '.join(exact)} LIMIT 4)"
            return Part(alias, text, exact, part.sources)


def _condition(random: Random, left: Part, right: Part) -> str:
    """Return a condition of a join: mostly equalities, perhaps another one beside them, or only that one."""
    equalities = list(_equalities(random, left, right))
    if not equalities or random.random() < 0.06:
        return _other(random, left, right)
    others = [_other(random, left, right)] if random.random() < 0.3 else []
    return " AND ".join((*equalities, *others))


def _selected(random: Random, alias: str, body: _Body) -> Part:
    """Return some columns of a body, one of them to join by."""
    keys = _of_types(body.parts, ("INT", "BIGINT")) or _of_types(body.parts, ("STRING",))
    columns = [name for part in body.parts for name in part.names]
    most = random.randint(1, MOST_COLUMNS)
    picked = dict.fromkeys(
        [*random.sample(keys, min(1, len(keys))), *random.sample(columns, min(most, len(columns)))]
    )
    parts = {part.alias: part for part in body.parts}
    items = [(name, parts[name.partition(".")[0]].type_of(name)) for name in picked]
    items += [] if body.value is None else [body.value]
    text = ", ".join(f"{item} AS v{number}" for number, (item, _) in enumerate(items))
    types = {f"v{number}": type_ for number, (_, type_) in enumerate(items)}
    return Part(alias, f"(SELECT {text} FROM {body.text})", types, _sources((*body.parts, *body.others)))


def _aggregate(random: Random, part: Part) -> tuple[str, str]:
    """Return an aggregate function over rows of a part, and its type."""
    columns = [name for name in part.names if part.type_of(name) not in (*INEXACT, "BINARY")]
    column = random.choice(columns or ["1"])
    type_ = part.type_of(column) if columns else "INT"
    functions = [("count(*)", "BIGINT"), (f"count(DISTINCT {column})", "BIGINT")]
    functions += [(f"max({column})", type_), (f"min({column})", type_)] * 2
    if type_ in SUMMED:
        functions.append((f"percentile({column}, 0.5)", "DOUBLE"))
    if type_ in ("INT", "BIGINT"):
        functions.append((f"sum({column})", "BIGINT"))
    return random.choice(functions)


def _groups(random: Random, alias: str, part: Part, *, is_distinct: bool = False) -> Part:
    numbers = (1, 2) if is_distinct else (0, 1, 1, 1, 1, 1, 1, 2, 2)
    keys = random.sample(part.names, min(len(part.names), random.choice(numbers)))
    functions = (
        [] if is_distinct and keys else [_aggregate(random, part) for _ in range(random.randint(1, 2))]
    )
    items = [*((key, part.type_of(key)) for key in keys), *functions]
    text = ", ".join(f"{item} AS v{number}" for number, (item, _) in enumerate(items))
    text = f"SELECT {text} FROM {part.named}"
    text += f" GROUP BY {', '.join(keys)}" if keys else ""
    text += f" HAVING {random.choice(('count(*) > 1', 'count(*) < 3'))}" if random.random() < 0.3 else ""
    types = {f"v{number}": type_ for number, (_, type_) in enumerate(items)}
    return Part(alias, f"({text})", types, part.sources)


def _window(random: Random, alias: str, part: Part) -> Part:
    by = ", ".join(random.sample(part.names, min(len(part.names), random.choice((1, 1, 2)))))
    ordered = [name for name in part.names if part.type_of(name) not in INEXACT] or ["1"]
    order = f" ORDER BY {random.choice(ordered)}"
    ranks = [("rank()", "INT", order), ("dense_rank()", "INT", order)]
    function, type_ = _aggregate(random, part)
    # A window has no aggregates of distinct values, and not all have running ones.
    others = [] if "DISTINCT" in function else [(function, type_, "")]
    function, type_, order = random.choice((*ranks, *others, ("count(*)", "BIGINT", order)))
    value = f"{function} OVER (PARTITION BY {by}{order})"
    inner = _selected(random, alias, _Body(part.named, (part,), value=(value, type_)))
    if type_ != "INT" or random.random() < 0.4:
        return inner
    last = list(inner.columns)[-1]
    return Part(alias, f"(SELECT * FROM {inner.named} WHERE {last} < 3)", inner.columns, inner.sources)


# ----------------------------------------------------------------------------------------------- conditions


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


def _equalities(random: Random, one: Part, other: Part, *, null_safe: bool = True) -> Iterator[str]:
    pairs = [
        (left, right)
        for weight, types in zip(WEIGHTS, COMPARED, strict=True)
        for left in one.of_types(types)
        for right in other.of_types(types)
        for _ in range(weight)
    ]
    for left, right in random.sample(pairs, min(len(pairs), random.choice((1, 1, 1, 1, 1, 2)))):
        yield f"{left} {random.choice(('=', '=', '=', '=', '<=>')) if null_safe else '='} {right}"


def _other(random: Random, one: Part, other: Part) -> str:
    left, right = (
        random.choice(part.of_types(("INT", "BIGINT", "DECIMAL")) or ["1"]) for part in (one, other)
    )
    return random.choice((f"{left} < {right}", f"({left} > 2 OR {right} > 1)", f"{left} + {right} > 3"))
