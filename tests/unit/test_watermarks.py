"""Which rows of a plan come with a watermark, over nodes that answer as those of Spark do."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from mt_core.spark.streams.operators.watermarks import is_reached


@dataclass(frozen=True)
class Name:
    """A class of Java's."""

    simple: str

    def getSimpleName(self) -> str:  # noqa: N802 - Java's
        return self.simple


@dataclass(frozen=True)
class Nodes:
    """A Seq of Scala's."""

    nodes: tuple[Node, ...]

    def size(self) -> int:
        return len(self.nodes)

    def apply(self, index: int) -> Node:
        return self.nodes[index]


class Node:
    def __init__(self, name: str, *below: Node, time: str = "") -> None:
        self._name, self._below, self._time = name, below, time

    def getClass(self) -> Name:  # noqa: N802 - Java's
        return Name(self._name)

    def children(self) -> Nodes:
        return Nodes(self._below)

    def timeMode(self) -> Node:  # noqa: N802 - Java's
        return Node(self._time)


SOURCE = Node("StreamingRelationV2")
TIMED = Node("Project", Node("EventTimeWatermark", SOURCE))


def operator(time: str, below: Node) -> Node:
    return Node("Project", Node("TransformWithState", below, time=f"{time}$"))


@pytest.mark.parametrize(
    ("plan", "reached"),
    [
        (TIMED, True),
        (Node("Aggregate", Node("Filter", TIMED)), True),
        (SOURCE, False),
        (operator("EventTime", TIMED), True),
        (operator("EventTime", SOURCE), False),
        (operator("ProcessingTime", TIMED), False),
        (operator("EventTime", operator("ProcessingTime", TIMED)), False),
        # Spark takes the least of those that the inputs have.
        (Node("Union", operator("ProcessingTime", TIMED), TIMED), True),
        (Node("Union", operator("ProcessingTime", TIMED), SOURCE), False),
    ],
)
def test_a_watermark_ends_at_an_operator_whose_timers_run_in_processing_time(
    plan: Node, reached: bool
) -> None:
    assert is_reached(plan) is reached
