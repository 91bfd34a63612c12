"""Blocks of queries, for tests of what uses them."""

from __future__ import annotations

from mt_core.incremental.plan import read_plan
from mt_core.incremental.stages.blocks import Block, Blocks
from mt_core.incremental.stages.join_blocks import JoinBlock, KeyClass
from mt_core.incremental.stages.query_blocks import blocks_of
from tests.support.plan_json import Nodes

FIRST_NUMBER = 100
"""The number of the first computed reading of `blocks_in`."""


def block_over(*tables: int, keys: tuple[KeyClass, ...] = ()) -> Blocks:
    """Return a block that joins readings of tables by *keys*."""
    joins = JoinBlock(readings=frozenset(tables), keys=keys)
    root = Block(place="[0,[0]]", readings=tuple(sorted(tables)), columns=(), joins=joins)
    return Blocks(root=root, computed={})


def blocks_in(tree: Nodes, *others: Nodes) -> Blocks:
    """Return the blocks of a plan; *others* are those of its scalar subqueries."""
    blocks = blocks_of([*map(read_plan, (tree, *others))], "[0,[]]", FIRST_NUMBER)
    assert isinstance(blocks, Blocks), blocks
    return blocks


def key_names(joins: JoinBlock) -> list[str]:
    """Return the keys of a block, such as `0.k=1.c`."""
    return [
        ("<=>" if each.null_safe else "=").join(f"{one.reading}.{one.column}" for one in each.columns)
        for each in joins.keys
    ]
