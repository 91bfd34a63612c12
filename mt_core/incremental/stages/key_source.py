"""Key sources: where a run finds the keys at which rows of a query may have changed.

If columns of a query divide its result, its rows with given values of these columns depend only on some rows
of the sources. So a run may delete the rows of a table that have certain keys, and insert those that the
query returns for them now. It may use more keys than necessary, but each key at which a row of the query
changed must be among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mt_core.incremental.stages.blocks import Block

Lineage = Mapping[int, str]
"""The tables of which only rows with a value matter to the rows of a query with this value in a column.

It has for each of these readings the column that has the value.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySource:
    """Where the keys of changed rows are, with their columns in the order of the key.

    `tables` has the readings of tables whose changed rows contain the keys, with their columns. The other
    keys are in the changes of `blocks`, each with the positions of the columns.
    """

    tables: Mapping[int, tuple[str, ...]]
    blocks: tuple[tuple[Block, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """A key of a query: the columns at `positions`, which divide its result.

    `source` says where the keys are at which rows may have changed, and `lineages` has for each column the
    tables of which a value of it needs some rows only.
    """

    positions: tuple[int, ...]
    source: KeySource
    lineages: tuple[Lineage, ...] = ()
