"""Small random databases, joins of their relations, and what look-ups find in them: all in Python.

`LookedUpRows` is the meaning of a plan of look-ups, in the words of rows: each step is a semi join. A test
can replace one of its methods by an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from mt_core.incremental.stages.join_blocks import JoinBlock
from mt_core.incremental.stages.look_ups import LookUp, LookUpPlan, Match, SourceFacts, look_up_plan
from tests.support.blocks import blocks_in
from tests.support.plan_json import Nodes, column, join, node, relation, where

Row = tuple[int | None, ...]
Bag = Counter[Row]
SMALL, LARGE = 1, 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Equality:
    """An equality of two columns, each a reading and the position of the column; `=` or `<=>`."""

    left: tuple[int, int]
    right: tuple[int, int]
    null_safe: bool

    def holds(self, rows: Sequence[Row]) -> bool:
        """Return whether it holds for one row of each reading."""
        one, other = (rows[reading][position] for reading, position in (self.left, self.right))
        return one == other and (one is not None or self.null_safe)


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomJoin:
    """An inner join of relations, with their rows before and after a change.

    `widths` are the numbers of columns of the relations. A filter is a position and the largest value that it
    accepts there.
    """

    widths: tuple[int, ...]
    equalities: tuple[Equality, ...]
    filters: Mapping[int, tuple[int, int]]
    old: tuple[Bag, ...]
    new: tuple[Bag, ...]
    facts: Mapping[int, SourceFacts]

    @classmethod
    def of(cls, random: Random) -> RandomJoin:
        widths = tuple(random.randint(1, 3) for _ in range(random.randint(2, 5)))
        old = tuple(_rows(random, width) for width in widths)
        changed = {number for number in range(len(widths)) if random.random() < 0.5} or {0}
        return cls(
            widths=widths,
            equalities=tuple(_equalities(random, widths)),
            filters={
                number: (random.randrange(width), random.randint(0, 6))
                for number, width in enumerate(widths)
                if random.random() < 0.4
            },
            old=old,
            new=tuple(
                _after_change(random, bag, width) if number in changed else bag
                for number, (bag, width) in enumerate(zip(old, widths, strict=True))
            ),
            facts={
                number: SourceFacts(
                    rows=bag.total(),
                    size=0,
                    files=SMALL if random.random() < 0.4 else LARGE,
                    columns=width,
                    values={name_of(number, each): random.choice((1, 3, 100)) for each in range(width)},
                )
                for number, (bag, width) in enumerate(zip(old, widths, strict=True))
            },
        )

    @property
    def block(self) -> JoinBlock:
        """The block of the join."""
        tree: Nodes | None = None
        for number, width in enumerate(self.widths):
            names = {_id(number, each): name_of(number, each) for each in range(width)}
            tree = relation(number, names) if tree is None else join("Cross", tree, relation(number, names))
        assert tree is not None
        for each in self.equalities:
            sides = (column(_id(*each.left)), column(_id(*each.right)))
            tree = where(node("EqualNullSafe" if each.null_safe else "EqualTo", *sides), tree)
        return blocks_in(tree).root.joins

    @property
    def changes(self) -> dict[int, Bag]:
        """How often the rows of each changed reading occur more or less often than before, within filters."""
        changes = {}
        for number, (old, new) in enumerate(zip(self.old, self.new, strict=True)):
            change = Counter({row: new[row] - old[row] for row in old | new if self.accepts(number, row)})
            changes[number] = Counter({row: times for row, times in change.items() if times})
        return {number: change for number, change in changes.items() if change}

    def accepts(self, reading: int, row: Row) -> bool:
        """Return whether the filter of a reading accepts a row."""
        position, most = self.filters.get(reading, (0, None))
        value = row[position]
        return most is None or (value is not None and value <= most)

    def joined(self, relations: Mapping[int, Bag]) -> Counter[tuple[Row, ...]]:
        """Return the result of the join over rows of all readings."""
        result: Counter[tuple[Row, ...]] = Counter({(): 1})
        for number in range(len(self.widths)):
            here = [each for each in self.equalities if max(each.left[0], each.right[0]) == number]
            rows = [item for item in relations[number].items() if self.accepts(number, item[0])]
            result = Counter(
                {
                    (*joined, row): count * times
                    for joined, count in result.items()
                    for row, times in rows
                    if all(each.holds((*joined, row)) for each in here)
                }
            )
        return result


def _rows(random: Random, width: int, most: int = 14) -> Bag:
    return Counter(
        tuple(random.choice((None, 0, 1, 2, 3, 4, 5)) for _ in range(width))
        for _ in range(random.randint(0, most))
    )


def _after_change(random: Random, bag: Bag, width: int) -> Bag:
    removed = {row: random.randint(1, times) for row, times in bag.items() if random.random() < 0.3}
    return (bag - Counter(removed)) + _rows(random, width, 3)


def _equalities(random: Random, widths: Sequence[int]) -> Iterable[Equality]:
    pairs = [(random.randrange(number), number) for number in range(1, len(widths)) if random.random() < 0.9]
    for _ in range(random.randint(0, 2)):
        one, other = random.sample(range(len(widths)), 2)
        pairs.append((one, other))
    for one, other in pairs:
        yield Equality(
            left=(one, random.randrange(widths[one])),
            right=(other, random.randrange(widths[other])),
            null_safe=random.random() < 0.15,
        )


def name_of(reading: int, position: int) -> str:
    return f"c{reading}_{position}"


def _id(reading: int, position: int) -> int:
    return reading * 10 + position


@dataclass(slots=True)
class LookedUpRows:
    """The rows that a plan of look-ups finds for a change, where the look-ups *refused* find none.

    `changes` are the changed rows that can join, `whole` the rows of the whole readings that can join, and
    `found` the rows of each look-up.
    """

    case: RandomJoin
    refused: Collection[tuple[int, int]] = ()
    changes: dict[int, Bag] = field(default_factory=dict)
    whole: dict[int, list[Row]] = field(default_factory=dict)
    found: dict[tuple[int, int], list[Row]] = field(default_factory=dict)
    plan: LookUpPlan = field(init=False)

    def __post_init__(self) -> None:
        changes = self.case.changes
        self.plan = look_up_plan(
            self.case.block,
            changed=frozenset(changes),
            facts=self.case.facts,
            rows={number: change.total() for number, change in changes.items()},
            filtered=frozenset(self.case.filters),
        )
        self.take_whole_readings()
        for number, change in changes.items():
            kept = set(self.reduced(change, number))
            self.changes[number] = Counter({row: change[row] for row in change if row in kept})
        for look_up in self.plan.look_ups:
            rows = self.rows_of_keys(look_up)
            if rows is not None and (look_up.of, look_up.to) not in self.refused:
                self.found[look_up.of, look_up.to] = self.rows_of(look_up, rows)

    def take_whole_readings(self) -> None:
        self.whole = {number: self.in_new_version(number) for number in self.plan.whole}
        for each in self.plan.reductions:
            if each.of in self.whole:
                others = self.whole[each.by]
                self.whole[each.of] = self.semi_join(
                    self.whole[each.of], each.of, each.matches, others, each.by
                )

    def rows_of(self, look_up: LookUp, others: list[Row]) -> list[Row]:
        """Return the rows that match *others* of the reading from which the look-up goes out."""
        of, to = look_up.of, look_up.to
        for beyond in look_up.reduced_by:
            if (step := self.found.get((of, beyond))) is not None:
                others = self.semi_join(others, of, self.matches_of(of, beyond), step, beyond)
        inverse = [Match(of=each.to, to=each.of, null_safe=each.null_safe) for each in look_up.matches]
        if to in self.whole:
            return self.semi_join(self.whole[to], to, inverse, others, of)
        return self.reduced(self.semi_join(self.in_new_version(to), to, inverse, others, of), to)

    def in_new_version(self, reading: int) -> list[Row]:
        """Return all rows of a reading within its filter."""
        return [row for row in self.case.new[reading].elements() if self.case.accepts(reading, row)]

    def rows_of_keys(self, look_up: LookUp) -> list[Row] | None:
        """Return the rows from which a look-up takes its keys, or None if a refused one has them."""
        rows = list(self.changed_rows(look_up.of))
        for step in self.steps_before(look_up.of, look_up.to):
            if step not in self.found:
                return None
            rows += self.found[step]
        return rows

    def steps_before(self, of: int, to: int) -> list[tuple[int, int]]:
        """Return the look-ups that find rows of *of*, except that from *to*."""
        return [(each.of, each.to) for each in self.plan.look_ups if each.to == of and each.of != to]

    def changed_rows(self, reading: int) -> Iterable[Row]:
        """Return the added and removed rows of a reading."""
        return self.changes.get(reading, Counter())

    def matches_of(self, of: int, to: int) -> Sequence[Match]:
        return next(each.matches for each in self.plan.look_ups if (each.of, each.to) == (of, to))

    def reduced(self, rows: Iterable[Row], reading: int) -> list[Row]:
        """Return the rows of a reading that match rows of each whole reading that reduces it."""
        kept = list(rows)
        for each in self.plan.reductions:
            if each.of == reading:
                kept = self.semi_join(kept, reading, each.matches, self.whole[each.by], each.by)
        return kept

    def semi_join(
        self, rows: Iterable[Row], of: int, matches: Sequence[Match], others: Iterable[Row], to: int
    ) -> list[Row]:
        """Return the *rows* of the reading *of* that match rows of the reading *to*, column by column."""
        others = list(others)
        for match in matches:
            position, other = _position(match.of), _position(match.to)
            values = {row[other] for row in others}
            rows = [
                row
                for row in rows
                if row[position] in values and (row[position] is not None or match.null_safe)
            ]
        return list(rows)

    def leaves(self, term: int) -> dict[int, Bag]:
        """Return the rows of all readings but *term* in its term: new ones before it, old ones after it."""
        before = self.plan.before(term)
        leaves = {}
        for number in range(len(self.case.widths)):
            is_old = number > term and number in self.changes
            rows = self.found.get((before[number], number)) if number in before else None
            if rows is None:
                leaves[number] = self.case.old[number] if is_old else self.case.new[number]
            else:
                leaves[number] = self.less_the_change(number, Counter(rows)) if is_old else Counter(rows)
        return leaves

    def less_the_change(self, reading: int, rows: Bag) -> Bag:
        """Return old rows of a reading, from new ones with the same keys."""
        old = rows.copy()
        old.subtract(self.case.changes[reading])
        return +old


def _position(name: str) -> int:
    return int(name.partition("_")[2])
