"""What a table reads, and what reads it, as text: the form of the graph that needs no drawing.

The lines of a tree are written as nested lists, for which each line says how many lists end before it. A
chain of tables may be long, so only the nearest levels are shown; the graph leads further.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from mt_core.tables.overview.graph import Branch, Graph, Node

LINES, LEVELS = 60, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a tree at `depth` 1 and more.

    What is below it stands elsewhere, if `again`. `closes` lists end before the line, and one begins if it
    `opens`.
    """

    node: Node
    depth: int
    again: bool
    opens: bool
    closes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The lines of a tree without its root.

    `closes` lists end after the last line, and `cut` further lines are left out.
    """

    lines: Sequence[Line]
    closes: int
    cut: int


def reads(graph: Graph, name: str, *, lines: int = LINES, levels: int = LEVELS) -> Tree:
    """Return what *name* reads, directly and through others: at most that many *lines* and *levels*."""
    return _tree(graph.tree(name), lines, levels)


def read_by(graph: Graph, name: str, *, lines: int = LINES, levels: int = LEVELS) -> Tree:
    """Return what reads *name*, directly and through others: at most that many *lines* and *levels*."""
    return _tree(graph.turned().tree(name), lines, levels)


def _tree(branches: Iterable[Branch], most: int, levels: int) -> Tree:
    below = list(islice(branches, 1, None))
    near = [branch for branch in below if branch.depth <= levels][:most]
    lines, depth = list[Line](), 0
    for branch in near:
        lines.append(
            Line(
                node=branch.node,
                depth=branch.depth,
                again=branch.again,
                opens=branch.depth > depth,
                closes=max(0, depth - branch.depth),
            )
        )
        depth = branch.depth
    return Tree(lines=lines, closes=depth, cut=len(below) - len(near))
