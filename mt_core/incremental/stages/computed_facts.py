"""Facts about computed readings: how large they are, estimated from the tables below them.

Look-ups choose their order by these facts. A wrong estimate costs time and never rows. The size and the
files of a computed reading are those of all tables below it, since it may have to read them to be computed.
So it is small only if these tables are, however few rows it returns: all of it is computed from all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from mt_core.incremental.stages.blocks import Block, Blocks, ComputedReading, Kind
from mt_core.incremental.stages.look_ups import NO_FACTS, SourceFacts


def facts_of_readings(blocks: Blocks, facts: Mapping[int, SourceFacts]) -> dict[int, SourceFacts]:
    """Return *facts* of the tables of a query, with those of the computed readings of *blocks*."""
    found = dict(facts)
    for number in blocks.computed:
        _add(blocks, number, found)
    return found


def rows_of(block: Block, facts: Mapping[int, SourceFacts]) -> int:
    """Return an estimate of the number of rows of a block: those of its largest reading."""
    return max((facts[number].rows for number in block.readings), default=1)


def _add(blocks: Blocks, number: int, facts: dict[int, SourceFacts]) -> None:
    if number in facts:
        return
    computed = blocks.computed[number]
    for below in (each for block in computed.inputs for each in block.readings if each in blocks.computed):
        _add(blocks, below, facts)
    tables = [facts.get(each, NO_FACTS) for block in computed.inputs for each in blocks.tables_below(block)]
    columns = [
        (f"c{position}", computed.inputs[below[0]].columns[below[1]])
        for position, below in enumerate(computed.passed)
        if below is not None
    ]
    facts[number] = SourceFacts(
        rows=_rows(computed, facts),
        size=sum(each.size for each in tables),
        files=sum(each.files for each in tables),
        columns=max(1, len(computed.passed)),
        rows_below=max((each.rows for each in tables), default=0),
        values={
            name: facts[column.reading].values_of(column) for name, column in columns if column is not None
        },
    )


def _rows(computed: ComputedReading, facts: Mapping[int, SourceFacts]) -> int:
    rows = [rows_of(block, facts) for block in computed.inputs]
    match computed.kind:
        case Kind.JOIN | Kind.WINDOW | Kind.FIXED:
            return rows[0]
        case Kind.GROUPS if not computed.keys:
            return rows[0]
        case Kind.GROUPS:
            keys = [computed.inputs[0].columns[key] for key in computed.keys]
            return min(rows[0], prod(facts[key.reading].values_of(key) for key in keys if key is not None))
        case _:
            return sum(rows)
