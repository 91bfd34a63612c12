"""Where the lateness in a part of the graph comes from, and along which edges it spreads. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from mt_core.tables.overview.graph import Graph, Node
from mt_core.tables.overview.lateness import Fault, State

Edge = tuple[str, str]
_WORDS: Mapping[Fault, str] = {
    Fault.SOURCE: "a table below",
    Fault.WRITER: "no new rows",
    Fault.QUEUE: "waits for a worker",
    Fault.QUERY: "query fails or is slow",
    Fault.SCHEDULE: "no refresh requested",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lateness:
    """The causes by the name of their table, each in a few words, and the edges from them to late tables.

    An edge is a pair of source and reader.
    """

    causes: Mapping[str, str]
    edges: frozenset[Edge]

    @classmethod
    def within(cls, graph: Graph) -> Lateness:
        """Return the causes in *graph* that make tables in it late, if only themselves."""
        causes, edges = dict[str, str](), set[Edge]()
        for name, node in graph.nodes.items():
            path = graph.path_to_cause(name) if node.state is State.LATE else ()
            edges.update((source, reader) for reader, source in pairwise(path))
            if path:
                causes[path[-1]] = _words(graph.nodes[path[-1]])
            elif node.state is State.LATE and _is_own(node):
                causes[name] = _words(node)
        return cls(causes=causes, edges=frozenset(edges))


def _is_own(node: Node) -> bool:
    return node.facts is not None and node.facts.below is None


def _words(node: Node) -> str:
    if node.state is State.SUSPENDED:
        return "suspended"
    fault = None if node.facts is None else node.facts.fault
    return "late" if fault is None else _WORDS[fault]
