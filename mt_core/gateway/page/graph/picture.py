"""The drawing of a graph: boxes with what is written on them, and arrows between them. Pure functions.

Text in SVG neither wraps nor ends in an ellipsis by itself. So names are set in a font whose characters all
have the same width, and are shortened in their middle here, because the beginning and the end of a name are
what distinguishes it. Titles contain them in full.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from mt_core.base.identifiers import display_name, namespace_of
from mt_core.gateway.page.formats import count_text, exact_text, instant_text
from mt_core.gateway.page.graph.causes import Lateness
from mt_core.gateway.page.graph.layout import Line, Place, Size, layout
from mt_core.gateway.page.graph.links import Links
from mt_core.gateway.page.late_bar import late_bar
from mt_core.gateway.page.tables import COUNTERS
from mt_core.tables.overview.facts import TableFacts
from mt_core.tables.overview.graph import MATERIALIZED_TABLE, Graph, NamespaceEdge, NamespaceGroup, Node
from mt_core.tables.overview.lateness import State

TABLE, SOURCE, GROUP = Size(width=264, height=80), Size(width=220, height=48), Size(width=264, height=66)
# The numbers of characters that fit beside the margins of a box, in the fonts of names and of details.
TABLE_NAME, TABLE_DETAIL, SOURCE_NAME, SOURCE_DETAIL = 29, 33, 24, 27


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """What a box is for, where it is drawn and where it leads.

    `key` is the id of its element, `name` is shortened, and `full_name` is not. `left` and `right` are the
    keys of the boxes of its sources and readers.
    """

    key: str
    place: Place
    name: str
    full_name: str
    address: str
    left: Sequence[str]
    right: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBox(Box):
    """The box of a node. `detail` is its namespace, after the kind of a source.

    `shows` is when a table read its sources, and `exact` the same to the second; "" if unknown. `filled` is
    how far its bar is filled, None without one. `cause` is why it makes tables late, "" if it does not.
    Sources and readers outside the drawing are only counted; the address `around` shows them.
    """

    node: Node
    detail: str
    shows: str
    exact: str
    filled: float | None
    cause: str
    is_center: bool
    hidden_sources: int
    hidden_readers: int
    around: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBox(Box):
    """The box of a namespace, with the numbers of its tables by counter, and of all of them.

    `sources` are the namespaces that it reads.
    """

    sources: Sequence[str]
    counts: Mapping[State, int]
    tables: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """An edge from the box `source` to the box `reader`, both by their keys.

    It is `late` if its reader is late because of what passes along it, and `back` if it leads to the left.
    """

    path: str
    source: str
    reader: str
    title: str
    late: bool
    back: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A drawing: its size, its boxes by column from top to bottom, and its arrows, late ones last."""

    width: int
    height: int
    boxes: Sequence[NodeBox | GroupBox]
    arrows: Sequence[Arrow]


def picture_around(
    center: str, part: Graph, whole: Graph, lateness: Lateness, links: Links, now: datetime
) -> Picture:
    """Return the drawing of *part* of the *whole* graph of tables, with the node *center* in it."""
    sizes = {name: TABLE if node.kind == MATERIALIZED_TABLE else SOURCE for name, node in part.nodes.items()}
    drawing = layout(sizes, ((source, reader) for reader, read in part.sources.items() for source in read))
    boxes = []
    for name, place in drawing.places.items():
        node = part.nodes[name]
        boxes.append(
            NodeBox(
                key=key_of(name),
                place=place,
                name=_name(node),
                full_name=name,
                address=links.node(node),
                left=_keys(part.sources[name]),
                right=_keys(part.readers[name]),
                node=node,
                detail=_detail(node),
                shows=_shows(node.facts, now),
                exact=_exact(node.facts),
                filled=_filled(node.facts, now),
                cause=lateness.causes.get(name, ""),
                is_center=name == center,
                hidden_sources=len(whole.sources[name]) - len(part.sources[name]),
                hidden_readers=len(whole.readers[name]) - len(part.readers[name]),
                around=links.around(name),
            )
        )
    return Picture(
        width=drawing.width,
        height=drawing.height,
        boxes=boxes,
        arrows=_arrows(drawing.lines, lateness.edges, lambda line: f"{line.reader} reads {line.source}"),
    )


def picture_of_namespaces(
    groups: Iterable[NamespaceGroup], edges: Iterable[NamespaceEdge], links: Links
) -> Picture:
    """Return the drawing of the namespaces *groups* and of those of the *edges* that are between them."""
    by_name = {group.name: group for group in groups}
    between = {
        (edge.source, edge.reader): edge
        for edge in edges
        if edge.source in by_name and edge.reader in by_name
    }
    drawing = layout(dict.fromkeys(by_name, GROUP), between)
    left: dict[str, list[str]] = {}
    right: dict[str, list[str]] = {}
    for source, reader in between:
        left.setdefault(reader, []).append(source)
        right.setdefault(source, []).append(reader)
    boxes = [
        GroupBox(
            key=key_of(name),
            place=place,
            name=shortened(name, TABLE_NAME),
            full_name=name,
            address=links.namespace(name),
            left=_keys(left.get(name, ())),
            right=_keys(right.get(name, ())),
            sources=left.get(name, ()),
            counts=counters(by_name[name].states),
            tables=sum(by_name[name].states.values()),
        )
        for name, place in drawing.places.items()
    ]

    def title(line: Line) -> str:
        edge = between[line.source, line.reader]
        late = f", {edge.late} of them late because of that" if edge.late else ""
        return f"{count_text(edge.tables, 'table')} of {edge.reader} read tables of {edge.source}{late}"

    late = frozenset(names for names, edge in between.items() if edge.late)
    return Picture(
        width=drawing.width,
        height=drawing.height,
        boxes=boxes,
        arrows=_arrows(drawing.lines, late, title),
    )


def counters(states: Mapping[State, int]) -> Mapping[State, int]:
    """Return the five counters of tables in these *states*, each by the worst state that it counts."""
    return {counted[0]: sum(states.get(each, 0) for each in counted) for counted in COUNTERS.values()}


def key_of(name: str) -> str:
    """Return the id of the element of the node or namespace with this name."""
    return f"node-{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def shortened(text: str, most: int) -> str:
    """Return *text*, with an ellipsis for its middle if it is wider than *most* characters."""
    if _width(text) <= most:
        return text
    head, tail, left = "", "", most - 1
    while True:
        is_head = len(head) <= len(tail)
        character = text[len(head)] if is_head else text[-1 - len(tail)]
        left -= _width(character)
        if left < 0:
            return f"{head}…{tail}"
        head, tail = (head + character, tail) if is_head else (head, character + tail)


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _keys(names: Iterable[str]) -> Sequence[str]:
    return tuple(map(key_of, names))


def _name(node: Node) -> str:
    is_table = node.kind == MATERIALIZED_TABLE
    return shortened(display_name(_parts(node)[-1:]), TABLE_NAME if is_table else SOURCE_NAME)


def _detail(node: Node) -> str:
    namespace = display_name(_parts(node)[:-1])
    if node.kind == MATERIALIZED_TABLE:
        return shortened(namespace, TABLE_DETAIL)
    return shortened(f"{node.kind} · {namespace}" if namespace else node.kind, SOURCE_DETAIL)


def _parts(node: Node) -> tuple[str, ...]:
    return namespace_of(node.name) if node.identifier is None else node.identifier.parts


def _shows(facts: TableFacts | None, now: datetime) -> str:
    return "" if facts is None or facts.shows is None else instant_text(facts.shows, facts.zone, now)


def _exact(facts: TableFacts | None) -> str:
    return "" if facts is None or facts.shows is None else exact_text(facts.shows, facts.zone)


def _filled(facts: TableFacts | None, now: datetime) -> float | None:
    drawn = None if facts is None else late_bar(facts, now)
    return None if drawn is None else drawn.filled


def _arrows(
    lines: Iterable[Line], late: frozenset[tuple[str, str]], title: Callable[[Line], str]
) -> Sequence[Arrow]:
    arrows = [
        Arrow(
            path=line.path,
            source=key_of(line.source),
            reader=key_of(line.reader),
            title=title(line),
            late=(line.source, line.reader) in late,
            back=line.back,
        )
        for line in lines
    ]
    return sorted(arrows, key=lambda arrow: arrow.late)
