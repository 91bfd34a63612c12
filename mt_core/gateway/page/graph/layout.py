"""The layout of a graph that is drawn from left to right: a place for each node and a path for each edge.

The method is Sugiyama's. Each node stands in a layer, which is drawn as a column: a node without sources in
the leftmost one, every other node right of all its sources (longest path). An edge that passes a column gets
a bend there, which then takes part like a small node, so that no edge is drawn across a node. All edges from
one node share their bends. Each column is then ordered by the mean position of its neighbours (barycentre),
alternately from the left and from the right, until the number of crossings stops falling. At last, each node
moves as close to the mean height of its neighbours as the nodes above and below it in its column allow. As
their order and distances are fixed, this is a monotone regression, which one pass solves exactly.

Parts of a graph that are not connected stand below each other, and nodes without edges below all of them.

In a circle, an edge that leads back to a node on the path of the walk is drawn from right to left. No other
edge is. Nothing depends on hashes or on chance, so the same graph always has the same layout. Nothing
recurses. A graph in which every table reads every other one would have too many bends. Their number is
limited; an edge beyond the limit may pass behind nodes.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

Edge = tuple[int, int]
COLUMN_GAP, ROW_GAP, BEND_GAP, PART_GAP, MARGIN = 72, 24, 18, 40, 24
GRID_COLUMNS = 4
MOST_BENDS = 2_000
_MOST_SWEEPS, _PATIENCE, _SETTLINGS = 24, 4, 6
# A bend prefers a straight line to a short one.
_BEND_WEIGHT = 4.0
# A node without neighbours on a side makes room for others.
_LONELY_WEIGHT = 0.1
_LOOP_WIDTH, _LOOP_HEIGHT = 36, 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The width and height of a node, in pixels."""

    width: int
    height: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a node is drawn: its left upper corner, its size, and its layer, 0 for the leftmost."""

    x: int
    y: int
    width: int
    height: int
    layer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """An edge from `source` to `reader`; `path` is the value of `d` of an SVG path.

    It leads from right to left if it is `back`.
    """

    source: str
    reader: str
    path: str
    back: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The size of the drawing, its nodes by column and in each from top to bottom, and its edges."""

    width: int
    height: int
    places: Mapping[str, Place]
    lines: Sequence[Line]


def layout(sizes: Mapping[str, Size], edges: Iterable[tuple[str, str]]) -> Layout:
    """Return the layout of the nodes in *sizes* and of *edges*, each a pair of source and reader."""
    number = {name: each for each, name in enumerate(sizes)}
    pairs = [(number[source], number[reader]) for source, reader in dict.fromkeys(edges)]
    connected, alone = _components(len(number), pairs)
    every = list(sizes.values())
    drawings = [_Drawing.of(nodes, every, own) for nodes, own in connected]
    bottom = MARGIN
    for drawing in drawings:
        drawing.order()
        bottom = drawing.settle(bottom) + PART_GAP
    grid = _Grid(alone, every, max((len(drawing.layers) for drawing in drawings), default=0), bottom)
    columns = _columns([*(drawing.widths() for drawing in drawings), grid.widths()])
    names, parts = list(sizes), list[_Drawing | _Grid]([*drawings, grid])
    placed = [place for part in parts for place in part.places(columns)]
    placed.sort(key=lambda pair: (pair[1].layer, pair[1].y))
    return Layout(
        width=(columns[-1][1] if columns else 0) + MARGIN,
        height=max((place.y + place.height for _, place in placed), default=0) + MARGIN,
        places={names[node]: place for node, place in placed},
        lines=[
            Line(source=names[source], reader=names[reader], path=path, back=back)
            for drawing in drawings
            for source, reader, path, back in drawing.paths(columns)
        ],
    )


def _columns(widths: Iterable[Sequence[int]]) -> list[tuple[int, int]]:
    """Return where each column begins and ends, for parts whose columns have these *widths*."""
    columns: list[tuple[int, int]] = []
    for column in zip_longest(*widths, fillvalue=0):
        begin = columns[-1][1] + COLUMN_GAP if columns else MARGIN
        columns.append((begin, begin + max(column)))
    return columns


# -------------------------------------------------------------------------------------------- connected parts


def _components(count: int, edges: Sequence[Edge]) -> tuple[list[tuple[list[int], list[Edge]]], list[int]]:
    """Return the nodes and edges of each connected part, the largest first, and the nodes without edges."""
    beside: dict[int, list[Edge]] = {}
    for edge in edges:
        for node in dict.fromkeys(edge):
            beside.setdefault(node, []).append(edge)
    parts: list[tuple[list[int], list[Edge]]] = []
    found = set[int]()
    for root in beside:
        if root in found:
            continue
        found.add(root)
        waiting, nodes, own = [root], list[int](), dict[Edge, None]()
        while waiting:
            node = waiting.pop()
            nodes.append(node)
            for edge in beside[node]:
                own[edge] = None
                for far in edge:
                    if far not in found:
                        found.add(far)
                        waiting.append(far)
        parts.append((sorted(nodes), list(own)))
    parts.sort(key=lambda part: -len(part[0]))
    return parts, [node for node in range(count) if node not in beside]


class _Grid:
    """The nodes without edges, in rows that are as wide as the rest of the drawing, below *top*."""

    def __init__(self, nodes: Sequence[int], sizes: Sequence[Size], columns: int, top: int) -> None:
        wide = max(columns, GRID_COLUMNS)
        self._rows = [nodes[start : start + wide] for start in range(0, len(nodes), wide)]
        self._sizes, self._top = sizes, top

    def widths(self) -> list[int]:
        return [
            max(self._sizes[node].width for row in self._rows for node in row[layer : layer + 1])
            for layer in range(len(self._rows[0]) if self._rows else 0)
        ]

    def places(self, columns: Sequence[tuple[int, int]]) -> Iterator[tuple[int, Place]]:
        top = self._top
        for row in self._rows:
            for layer, number in enumerate(row):
                size = self._sizes[number]
                yield (
                    number,
                    Place(x=columns[layer][0], y=top, width=size.width, height=size.height, layer=layer),
                )
            top += max(self._sizes[node].height for node in row) + ROW_GAP


# ------------------------------------------------------------------------------------ layers, without circles


def _walk(count: int, edges: Sequence[Edge]) -> tuple[list[int], dict[Edge, None]]:
    """Return the nodes, sources first, and the edges that lead back to the path of the walk."""
    readers: list[list[int]] = [[] for _ in range(count)]
    has_sources = [False] * count
    for source, reader in edges:
        if source != reader:
            readers[source].append(reader)
            has_sources[reader] = True
    entered, left, back, ended = [False] * count, [False] * count, dict[Edge, None](), list[int]()
    for root in sorted(range(count), key=has_sources.__getitem__):
        path = [] if entered[root] else [(root, iter(readers[root]))]
        entered[root] = True
        while path:
            node, remaining = path[-1]
            following = next(remaining, None)
            if following is None:
                path.pop()
                left[node] = True
                ended.append(node)
            elif not entered[following]:
                entered[following] = True
                path.append((following, iter(readers[following])))
            elif not left[following]:
                back[node, following] = None
    return ended[::-1], back


def _layers_of(order: Sequence[int], edges: Iterable[Edge]) -> list[int]:
    """Return the layer of each node: the length of the longest path that leads to it."""
    readers: list[list[int]] = [[] for _ in order]
    for left, right in edges:
        readers[left].append(right)
    layers = [0] * len(order)
    for node in order:
        for reader in readers[node]:
            layers[reader] = max(layers[reader], layers[node] + 1)
    return layers


# -------------------------------------------------------------------------------- order and height of columns


@dataclass(slots=True, kw_only=True)
class _Drawing:
    """A connected part: its nodes and bends, both called vertices, numbered from 0, nodes before bends.

    `nodes` are the numbers of the nodes in the whole graph. `left` and `right` are the neighbours of each
    vertex in the columns beside it, and `bends` those of the edges from a node, from left to right. `middles`
    are the heights of the middles of the vertices.
    """

    nodes: list[int]
    sizes: list[Size]
    edges: list[Edge]
    back: Mapping[Edge, None]
    layer_of: list[int]
    layers: list[list[int]]
    left: list[list[int]] = field(default_factory=list)
    right: list[list[int]] = field(default_factory=list)
    bends: dict[int, list[int]] = field(default_factory=dict)
    middles: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, nodes: list[int], sizes: Sequence[Size], edges: Iterable[Edge]) -> _Drawing:
        number = {node: each for each, node in enumerate(nodes)}
        own = [(number[source], number[reader]) for source, reader in edges]
        order, back = _walk(len(nodes), own)
        forth = dict.fromkeys(
            (reader, source) if (source, reader) in back else (source, reader)
            for source, reader in own
            if source != reader
        )
        layer_of = _layers_of(order, forth)
        drawing = cls(
            nodes=nodes,
            sizes=[sizes[node] for node in nodes],
            edges=own,
            back=back,
            layer_of=layer_of,
            layers=[[] for _ in range(max(layer_of) + 1)],
        )
        for node in range(len(nodes)):
            drawing._add(node)
        drawing._connect(forth)
        return drawing

    def _add(self, vertex: int) -> None:
        self.layers[self.layer_of[vertex]].append(vertex)
        self.left.append([])
        self.right.append([])

    def _connect(self, edges: Iterable[Edge]) -> None:
        readers: dict[int, list[int]] = {}
        for left, right in edges:
            readers.setdefault(left, []).append(right)
        for node, rights in readers.items():
            first, last = self.layer_of[node] + 1, max(self.layer_of[each] for each in rights)
            chain = [node, *self._chain(node, first, last)]
            for each in rights:
                before = self.layer_of[each] - first
                if before < len(chain):
                    self._join(chain[before], each)

    def _chain(self, node: int, first: int, last: int) -> list[int]:
        """Add the bends of *node* in the layers from *first* to before *last*, unless there are too many."""
        if len(self.left) - len(self.sizes) + last - first > MOST_BENDS:
            return []
        before = node
        for layer in range(first, last):
            bend = len(self.left)
            self.layer_of.append(layer)
            self._add(bend)
            self._join(before, bend)
            self.bends.setdefault(node, []).append(bend)
            before = bend
        return self.bends.get(node, [])

    def _join(self, left: int, right: int) -> None:
        self.right[left].append(right)
        self.left[right].append(left)

    def order(self) -> None:
        """Order the vertices of each layer so that few edges cross."""
        best, fewest, waited = [list(layer) for layer in self.layers], self._crossings(), 0
        for sweep in range(_MOST_SWEEPS):
            if fewest == 0 or waited == _PATIENCE:
                break
            rightwards = sweep % 2 == 0
            neighbours = self.left if rightwards else self.right
            at = [0.0] * len(self.left)
            for layer in self.layers if rightwards else reversed(self.layers):
                # A vertex without neighbours remains where it is in its layer.
                own = {vertex: (index + 0.5) / len(layer) for index, vertex in enumerate(layer)}
                layer.sort(key=lambda each: _mean([at[far] for far in neighbours[each]], own[each]))
                for index, vertex in enumerate(layer):
                    at[vertex] = (index + 0.5) / len(layer)
            crossings = self._crossings()
            waited = 0 if crossings < fewest else waited + 1
            if crossings < fewest:
                best, fewest = [list(layer) for layer in self.layers], crossings
        self.layers = best

    def _crossings(self) -> int:
        crossings, at = 0, [0] * len(self.left)
        for layer in self.layers:
            for index, vertex in enumerate(layer):
                at[vertex] = index
        for layer in self.layers:
            ends: list[int] = []
            for vertex in layer:
                rights = [at[each] for each in self.right[vertex]]
                crossings += sum(len(ends) - bisect_right(ends, each) for each in rights)
                for each in rights:
                    insort(ends, each)
        return crossings

    def settle(self, top: int) -> int:
        """Give every vertex its height below *top*, near those of its neighbours, and return the lowest."""
        self.middles = [0.0] * len(self.left)
        for layer in self.layers:
            self._place(layer, self.left)
        both = [[*self.left[vertex], *self.right[vertex]] for vertex in range(len(self.left))]
        for _ in range(_SETTLINGS):
            for layer in self.layers:
                self._place(layer, self.left)
            for layer in reversed(self.layers):
                self._place(layer, self.right)
        for layer in self.layers:
            self._place(layer, both)
        shift = top - min(
            self.middles[vertex] - self._height(vertex) / 2 for vertex in range(len(self.middles))
        )
        self.middles = [middle + shift for middle in self.middles]
        return max(self._top(vertex) + self._height(vertex) for vertex in range(len(self.middles)))

    def _place(self, layer: Sequence[int], neighbours: Sequence[Sequence[int]]) -> None:
        """Move the vertices of *layer* to their *neighbours*, in their order and without an overlap."""
        offsets, offset = list[float](), 0.0
        for index, vertex in enumerate(layer):
            if index:
                offset += self._distance(layer[index - 1], vertex)
            offsets.append(offset)
        wanted = [
            (
                _mean([self.middles[far] for far in neighbours[vertex]], self.middles[vertex])
                - offsets[index],
                self._weight(vertex, neighbours),
            )
            for index, vertex in enumerate(layer)
        ]
        for vertex, offset, middle in zip(layer, offsets, _monotone(wanted), strict=True):
            self.middles[vertex] = middle + offset

    def _weight(self, vertex: int, neighbours: Sequence[Sequence[int]]) -> float:
        return _BEND_WEIGHT if self._is_bend(vertex) else 1.0 if neighbours[vertex] else _LONELY_WEIGHT

    def _distance(self, upper: int, lower: int) -> float:
        gap = BEND_GAP if self._is_bend(upper) or self._is_bend(lower) else ROW_GAP
        return (self._height(upper) + self._height(lower)) / 2 + gap

    def _is_bend(self, vertex: int) -> bool:
        return vertex >= len(self.sizes)

    def _height(self, vertex: int) -> int:
        return 0 if self._is_bend(vertex) else self.sizes[vertex].height

    # -------------------------------------------------------------------------------------------- coordinates

    def widths(self) -> list[int]:
        """Return the width of each column."""
        return [
            max(self.sizes[vertex].width for vertex in layer if not self._is_bend(vertex))
            for layer in self.layers
        ]

    def places(self, columns: Sequence[tuple[int, int]]) -> Iterator[tuple[int, Place]]:
        """Yield the nodes with their places, for *columns* that begin and end there."""
        for node, size in enumerate(self.sizes):
            layer = self.layer_of[node]
            yield (
                self.nodes[node],
                Place(
                    x=columns[layer][0], y=self._top(node), width=size.width, height=size.height, layer=layer
                ),
            )

    def paths(self, columns: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, str, bool]]:
        """Yield the source, the reader and the path of each edge, and whether it leads back."""
        for source, reader in self.edges:
            is_back = (source, reader) in self.back
            path = self._path(source, reader, is_back, columns)
            yield self.nodes[source], self.nodes[reader], path, is_back

    def _path(self, source: int, reader: int, is_back: bool, columns: Sequence[tuple[int, int]]) -> str:
        if source == reader:
            return self._loop(source, columns)
        left, right = (reader, source) if is_back else (source, reader)
        width, last = self.sizes[left].width, self.layer_of[right]
        points = [(columns[self.layer_of[left]][0] + width, self._middle(left))]
        for bend in self.bends.get(left, []):
            if self.layer_of[bend] >= last:
                break
            begin, end = columns[self.layer_of[bend]]
            points += [(begin, self._middle(bend)), (end, self._middle(bend))]
        points.append((columns[last][0], self._middle(right)))
        return "".join(_curve(points[::-1] if is_back else points))

    def _top(self, vertex: int) -> int:
        return round(self.middles[vertex] - self._height(vertex) / 2)

    def _middle(self, vertex: int) -> int:
        return self._top(vertex) + self._height(vertex) // 2

    def _loop(self, node: int, columns: Sequence[tuple[int, int]]) -> str:
        x, y = columns[self.layer_of[node]][0] + self.sizes[node].width, self._middle(node)
        far, high = x + _LOOP_WIDTH, _LOOP_HEIGHT
        return f"M{x} {y - high // 2}C{far} {y - high} {far} {y + high} {x} {y + high // 2}"


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _monotone(wanted: Sequence[tuple[float, float]]) -> Iterator[float]:
    """Yield values that never fall, the nearest to those that are *wanted*, each with its weight.

    Neighbours that are wanted in the wrong order get their mean: they become a block, whose members share it.
    """
    blocks: list[tuple[float, float, int]] = []
    for value, weight in wanted:
        members = 1
        while blocks and blocks[-1][0] >= value:
            other, heavier, more = blocks.pop()
            value = (value * weight + other * heavier) / (weight + heavier)
            weight, members = weight + heavier, members + more
        blocks.append((value, weight, members))
    for value, _, members in blocks:
        for _ in range(members):
            yield value


def _curve(points: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Yield the parts of a path: an S from column to column, and a straight line through a column."""
    (x, y), *following = points
    yield f"M{x} {y}"
    for index, (far_x, far_y) in enumerate(following):
        if index % 2:
            yield f"H{far_x}"
        else:
            middle = (x + far_x) // 2
            yield f"C{middle} {y} {middle} {far_y} {far_x} {far_y}"
        x, y = far_x, far_y
