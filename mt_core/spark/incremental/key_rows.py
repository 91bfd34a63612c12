"""Key rows: the change of a table by keys, at which all its rows are replaced.

A change by value deletes rows that an earlier refresh inserted, so it needs their values. Where these cannot
be computed again, or where too many rows would have to be held, the rows of the table are identified by a key
instead: columns that divide the result (`mt_core.incremental.stages.key_source`). All rows with a key that
occurs in the change are deleted, and the rows that the query returns now for these keys are inserted. No old
row is computed, so values need not be reproducible.

Few rows are looked up, as those of a computed reading are. Otherwise one job computes the query over the rows
of tables that have the keys. A table is restricted by those columns of the key that have a lineage in it;
other tables are read whole. In both cases the query may return rows of other keys as well, which are left out
at the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from mt_core.base.identifiers import quote
from mt_core.incremental.stages.blocks import Block, Blocks, Place
from mt_core.incremental.stages.key_source import Division
from mt_core.incremental.stages.look_ups import Match
from mt_core.incremental.strategy import TooManyRows
from mt_core.spark.iceberg.computed_rows import ComputedRows, collect_or_checkpoint
from mt_core.spark.iceberg.key_tuples import key_tuples
from mt_core.spark.iceberg.look_ups import key_conditions, spark_semi_join
from mt_core.spark.incremental.bags import Wanted
from mt_core.spark.incremental.block_changes import BlockChanges
from mt_core.spark.queries.staged_query import StagedQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRows:
    """The rows of a query, `blocks`, at the keys that changed in a run.

    `values` are the scalar subqueries in the blocks, and `division` is the key.
    """

    changes: BlockChanges
    blocks: Blocks
    values: Collection[int] = ()
    division: Division

    # ------------------------------------------------------------------------------------------------- keys

    def keys(self) -> ComputedRows:
        """Return the different keys that changed, as columns `k0`, `k1` and so on.

        Raises NotApplied if the change of a block that has them needs too many rows.
        """
        local, distributed = list[tuple[ComputedRows, Sequence[str]]](), list[DataFrame]()
        relations, names = self.changes.relations, [of for of, _, _ in self._matches]
        for number, columns in sorted(self.division.source.tables.items()):
            if number not in relations.changed_readings:
                continue
            if (change := relations.change(number)) is not None:
                local += ((rows, columns) for rows in change)
            else:
                distributed += (_keys(rows, columns) for _, rows in self.changes.changed_rows(number))
        for block, positions in self.division.source.blocks:
            output = KeysOutput(query=self.changes.query, block=block, positions=positions)
            keys = self.changes.of(self.blocks.part(block), self.values, output)
            if keys.java is not None:
                local.append((keys, names))
            else:
                distributed.append(keys.frame)
        keys = key_tuples(self.changes.session, local, [True] * len(names))
        if not distributed:
            return keys
        return collect_or_checkpoint(_distinct([*distributed, *([keys.frame] if local else [])]))

    # ------------------------------------------------------------------------------------------------- rows

    def rows(self, keys: ComputedRows) -> ComputedRows | DataFrame:
        """Return the rows that the query returns for *keys* now, as columns `c0`, `c1` and so on."""
        if keys.java is None:
            return self._by_job(keys)
        matches = tuple(Match(of=of, to=to, null_safe=True) for of, to, _ in self._matches)
        block = self.changes.rows(self.blocks, self.values)
        try:
            return block.matching([Wanted(keys=keys, matches=matches)])
        except TooManyRows:
            return self._by_job(keys)

    def _by_job(self, keys: ComputedRows) -> DataFrame:
        """Return the same rows, which a job computes when they are written."""
        leaves = {number: self._with_keys(number, keys) for number in self.blocks.tables()}
        operators = self.changes.values.operators(self.values)
        rows = self.changes.query.rows(self.blocks.root.place, leaves, operators)
        return spark_semi_join(rows, keys, self._matches)

    def _with_keys(self, number: int, keys: ComputedRows) -> DataFrame:
        """Return the rows of a table without those that do not matter to rows with the *keys*."""
        readings = self.changes.relations.readings
        rows = readings.versions.rows(number)
        matches = [
            (f"k{position}", lineage[number], True)
            for position, lineage in enumerate(self.division.lineages)
            if number in lineage
        ]
        if not matches:
            return rows
        # Spark compiles each new condition, which takes longer than to read a small source.
        conditions = () if readings.facts(number).is_small else key_conditions(keys, matches)
        return spark_semi_join(rows, keys, matches, conditions=conditions)

    @property
    def _matches(self) -> list[tuple[str, str, bool]]:
        """Return the pairs of a column of the key and a column of the query."""
        return [
            (f"k{number}", f"c{position}", True) for number, position in enumerate(self.division.positions)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysOutput:
    """The different keys in the rows of a block that were added and in those that were removed.

    They are the values of its columns at `positions`.
    """

    query: StagedQuery
    block: Block
    positions: tuple[int, ...]

    @property
    def purpose(self) -> str:
        return f"keys {self.block.place} {self.positions}"

    @property
    def columns(self) -> StructType:
        rows = self.query.columns(self.block.place)
        return StructType(
            [StructField(f"k{number}", rows[each].dataType) for number, each in enumerate(self.positions)]
        )

    def over(self, leaves: Mapping[int, DataFrame], operators: Mapping[Place, DataFrame]) -> DataFrame:
        rows = self.query.rows(self.block.place, leaves, operators)
        return _distinct([_keys(rows, [f"c{position}" for position in self.positions])])

    def sum(self, signed: Iterable[tuple[int, DataFrame]]) -> DataFrame:
        return _distinct([keys for _, keys in signed])


def _keys(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    return rows.selectExpr(*(f"{quote(name)} AS k{number}" for number, name in enumerate(columns)))


def _distinct(parts: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionAll, parts).distinct()
