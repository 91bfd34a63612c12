"""The graph of tables: the materialized tables, what they read, and an edge from each reader to each source.

What a table reads is what its last refresh recorded, or its definition if there is none. The record is one
list: the views and functions of the query, and the tables that it reads, directly or through these views. It
does not say which of the views reads which table. In the graph the reader therefore has an edge to each of
them, and a view has none: the tables under a view stand beside it, never below another table. A table that
the query reads at a version named in its text is the table itself.

Tables may read each other in a circle. A walk visits each node once, so it ends, and costs as much as the
nodes and edges that it passes. Nothing here recurses, because a chain of tables can be longer than Python's
stack.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from mt_core.base.identifiers import Namespace, display_name
from mt_core.model.table import TableIdentifier
from mt_core.tables.overview.facts import Read, TableFacts
from mt_core.tables.overview.lateness import State
from mt_core.tables.pages import UnreadableTable
from mt_core.tables.runs.upstream import read_source

MATERIALIZED_TABLE = "materialized table"
_VERSION = " AS OF "
Edges = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A materialized table, or another source of one.

    `kind` is `MATERIALIZED_TABLE` or that of a `Read`. `identifier` and `state` are None for other sources;
    `facts` are also None for a table that cannot be read.
    """

    name: str
    kind: str
    identifier: TableIdentifier | None = None
    state: State | None = None
    facts: TableFacts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A line of a tree of sources: a node below its reader, or a root at depth 0.

    The sources of a node follow it, one deeper, unless they stand under an earlier branch (`again`).
    """

    node: Node
    depth: int
    again: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceGroup:
    """The materialized tables of a namespace, whose full name is `name`, counted by state."""

    name: str
    states: Mapping[State, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceEdge:
    """An edge from a namespace to another one, both by their full names.

    `tables` is the number of materialized tables of the namespace `reader` that read materialized tables of
    the namespace `source`. `late` is the number of these that are late because of what they read there.
    """

    reader: str
    source: str
    tables: int
    late: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Nodes by name, and for each of them the names of its sources and of its readers, without duplicates."""

    nodes: Mapping[str, Node]
    sources: Edges
    readers: Edges

    @classmethod
    def of(cls, tables: Iterable[TableFacts | UnreadableTable]) -> Graph:
        """Return the graph of *tables*. What an unreadable table reads is unknown."""
        tables = list(tables)
        nodes = {node.name: node for node in map(_node, tables)}
        sources: dict[str, tuple[str, ...]] = {}
        readers: dict[str, list[str]] = {}
        for name, table in zip(list(nodes), tables, strict=True):
            reads = {
                _name_of(read): read for read in (() if isinstance(table, UnreadableTable) else table.reads)
            }
            sources[name] = tuple(reads)
            for source, read in reads.items():
                if source not in nodes:
                    nodes[source] = Node(name=source, kind=read.kind)
                readers.setdefault(source, []).append(name)
        return cls(
            nodes=nodes,
            sources={name: sources.get(name, ()) for name in nodes},
            readers={name: tuple(readers.get(name, ())) for name in nodes},
        )

    def below(self, name: str, depth: int | None = None) -> dict[str, int]:
        """Return what *name* reads, nearest first, with the distance; *depth* limits the distance."""
        return _distances(self.sources, name, depth)

    def above(self, name: str, depth: int | None = None) -> dict[str, int]:
        """Return what reads *name*, nearest first, with the distance; *depth* limits the distance."""
        return _distances(self.readers, name, depth)

    def around(
        self,
        name: str,
        *,
        up: int | None = None,
        down: int | None = None,
        most: int,
        path: Iterable[str] = (),
    ) -> tuple[Graph, int]:
        """Return the part of the graph that contains *name* and the *most* - 1 nodes nearest to it.

        *up* and *down* limit the distances of readers and sources. The nodes of *path* come before nearer
        ones, whatever their distance. Also returns the number of further nodes within these distances.
        """
        distances = {name: 0, **self.above(name, up), **self.below(name, down), **dict.fromkeys(path, 0)}
        nearest = sorted(distances, key=lambda each: distances[each])[:most]
        return self._part(nearest), len(distances) - len(nearest)

    def path_to_cause(self, name: str) -> tuple[str, ...]:
        """Return the names from a late table to the table that causes it, both included.

        The path is the shortest. It is empty if no table below is the cause.
        """
        facts = self.nodes[name].facts
        if facts is None or facts.below is None:
            return ()
        cause, came_from = str(facts.below), {name: name}
        waiting = deque([name])
        while waiting and cause not in came_from:
            reader = waiting.popleft()
            for source in self.sources[reader]:
                if source not in came_from:
                    came_from[source] = reader
                    waiting.append(source)
        if cause not in came_from:
            return ()
        path = [cause]
        while path[-1] != name:
            path.append(came_from[path[-1]])
        return tuple(reversed(path))

    def depths(self) -> dict[str, int]:
        """Return for each node the length of the longest path to a node without sources.

        In a circle of tables, the edge that leads back to where the walk began is ignored.
        """
        depths: dict[str, int] = {}
        for root in self.nodes:
            entered, path = {root}, [root] if root not in depths else []
            below = [iter(self.sources[root])]
            while path:
                source = next(
                    (each for each in below[-1] if each not in depths and each not in entered), None
                )
                if source is None:
                    name = path.pop()
                    below.pop()
                    depths[name] = 1 + max(
                        (depths[each] for each in self.sources[name] if each in depths), default=-1
                    )
                else:
                    entered.add(source)
                    path.append(source)
                    below.append(iter(self.sources[source]))
        return depths

    def tree(self, name: str | None = None) -> Iterator[Branch]:
        """Yield *name* and all that it reads as a tree, each branch before what is below it.

        Without a name, the roots are the materialized tables that nothing reads, and one table of each circle
        that nothing else reads.
        """
        expanded = set[str]()
        if name is not None:
            yield from self._tree_of(name, expanded)
            return
        tables = [each.name for each in self.nodes.values() if each.kind == MATERIALIZED_TABLE]
        tops = [each for each in tables if not self.readers[each]]
        for root in (*tops, *tables):
            if root not in expanded:
                yield from self._tree_of(root, expanded)

    def _tree_of(self, root: str, expanded: set[str]) -> Iterator[Branch]:
        """Yield the tree of *root*; *expanded* are the nodes whose sources have been listed."""
        waiting = [(root, 0)]
        while waiting:
            name, depth = waiting.pop()
            yield Branch(
                node=self.nodes[name], depth=depth, again=name in expanded and bool(self.sources[name])
            )
            if name not in expanded:
                expanded.add(name)
                waiting.extend((source, depth + 1) for source in reversed(self.sources[name]))

    def groups(self) -> list[NamespaceGroup]:
        """Return the namespaces of the materialized tables, sorted by name."""
        states: dict[tuple[str, ...], Counter[State]] = {}
        for node in self.nodes.values():
            if node.identifier is not None and node.state is not None:
                states.setdefault(node.identifier.parts[:-1], Counter())[node.state] += 1
        return [NamespaceGroup(name=display_name(each), states=states[each]) for each in sorted(states)]

    def group_edges(self) -> list[NamespaceEdge]:
        """Return the edges between different namespaces of materialized tables, sorted by name."""
        namespaces = {
            name: node.identifier.parts[:-1]
            for name, node in self.nodes.items()
            if node.identifier is not None
        }
        tables, late = Counter[tuple[Namespace, Namespace]](), Counter[tuple[Namespace, Namespace]]()
        for name, reader in namespaces.items():
            others: dict[Namespace, bool] = {}
            for each in self.sources[name]:
                source = namespaces.get(each, reader)
                if source != reader:
                    others[source] = others.get(source, False) or _passes_lateness(
                        self.nodes[each], self.nodes[name]
                    )
            for source, is_late in others.items():
                tables[reader, source] += 1
                late[reader, source] += is_late
        return [
            NamespaceEdge(
                reader=display_name(reader),
                source=display_name(source),
                tables=tables[reader, source],
                late=late[reader, source],
            )
            for reader, source in sorted(tables)
        ]

    def turned(self) -> Graph:
        """Return the graph with sources and readers exchanged."""
        return Graph(nodes=self.nodes, sources=self.readers, readers=self.sources)

    def _part(self, names: Iterable[str]) -> Graph:
        nodes = {name: self.nodes[name] for name in names}
        return Graph(
            nodes=nodes,
            sources=_edges_within(self.sources, nodes),
            readers=_edges_within(self.readers, nodes),
        )


def _node(table: TableFacts | UnreadableTable) -> Node:
    facts = None if isinstance(table, UnreadableTable) else table
    return Node(
        name=str(table.identifier),
        kind=MATERIALIZED_TABLE,
        identifier=table.identifier,
        state=State.FAILING if facts is None else facts.state,
        facts=facts,
    )


def _passes_lateness(source: Node, reader: Node) -> bool:
    """Return whether *reader* is late because *source*, or the same table below both, is."""
    below = None if reader.facts is None or reader.state is not State.LATE else reader.facts.below
    if below is None:
        return False
    return below in (source.identifier, None if source.facts is None else source.facts.below)


def _name_of(read: Read) -> str:
    """Return the name of the source of *read*, without the version at which it is read."""
    if _VERSION not in read.name:
        return read.name
    parts, has_version = read_source(read.name)
    return display_name(parts) if has_version else read.name


def _distances(edges: Edges, name: str, most: int | None) -> dict[str, int]:
    distances, waiting = {name: 0}, deque([name])
    while waiting:
        near = waiting.popleft()
        if most is not None and distances[near] >= most:
            break
        for far in edges[near]:
            if far not in distances:
                distances[far] = distances[near] + 1
                waiting.append(far)
    del distances[name]
    return distances


def _edges_within(edges: Edges, names: Mapping[str, Node]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(each for each in edges[name] if each in names) for name in names}
