"""The layout of the graph: columns, order, no overlaps, and what holds in any graph."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from mt_core.gateway.page.graph.layout import (
    COLUMN_GAP,
    MARGIN,
    MOST_BENDS,
    Layout,
    Line,
    Place,
    Size,
    layout,
)

SIZE = Size(width=200, height=60)
Edges = list[tuple[str, str]]


def drawn(edges: str) -> Layout:
    """Return the layout of *edges*, such as `a>b b>c`, in which b reads a and c reads b."""
    pairs = [(source, reader) for source, _, reader in (edge.partition(">") for edge in edges.split())]
    return layout({name: SIZE for pair in pairs for name in pair}, pairs)


def layers(drawing: Layout) -> dict[str, int]:
    return {name: place.layer for name, place in drawing.places.items()}


def columns(drawing: Layout) -> list[list[Place]]:
    last = max((place.layer for place in drawing.places.values()), default=-1)
    return [[each for each in drawing.places.values() if each.layer == layer] for layer in range(last + 1)]


def points(line: Line) -> list[tuple[int, int]]:
    """Return where the parts of the path of *line* meet, with its ends."""
    found: list[tuple[int, int]] = []
    for command, text in re.findall("([MCH])([^MCH]+)", line.path):
        numbers = [int(each) for each in text.split()]
        found.append((numbers[0], found[-1][1]) if command == "H" else (numbers[-2], numbers[-1]))
    return found


def line(drawing: Layout, source: str, reader: str) -> Line:
    [found] = [each for each in drawing.lines if (each.source, each.reader) == (source, reader)]
    return found


def reachable(edges: Iterable[tuple[str, str]], start: str) -> set[str]:
    found, waiting, edges = set[str](), [start], list(edges)
    while waiting:
        name = waiting.pop()
        for source, reader in edges:
            if source == name and reader not in found:
                found.add(reader)
                waiting.append(reader)
    return found


def test_a_table_stands_right_of_all_its_sources_and_sources_stand_on_the_left() -> None:
    drawing = drawn("orders>hourly hourly>daily rates>daily orders>daily daily>weekly")

    assert layers(drawing) == {"orders": 0, "rates": 0, "hourly": 1, "daily": 2, "weekly": 3}


def test_a_chain_is_drawn_as_a_straight_line() -> None:
    drawing = drawn("a>b b>c c>d")

    assert {place.y for place in drawing.places.values()} == {MARGIN}
    assert [place.x for place in drawing.places.values()] == [
        MARGIN + number * (SIZE.width + COLUMN_GAP) for number in range(4)
    ]
    assert (drawing.width, drawing.height) == (4 * SIZE.width + 3 * COLUMN_GAP + 2 * MARGIN, 60 + 2 * MARGIN)


def test_a_table_stands_in_the_middle_of_its_sources() -> None:
    drawing = drawn("a>d b>d c>d")

    assert drawing.places["d"].y == drawing.places["b"].y
    assert sorted(drawing.places[each].y for each in "abc") == [MARGIN, MARGIN + 84, MARGIN + 168]


def test_columns_are_ordered_so_that_edges_do_not_cross() -> None:
    drawing = drawn("a>x b>y c>z a>p b>q c>r p>zz q>yy r>xx xx>end1 yy>end2 zz>end3")

    for left in "abc":
        own = [each.reader for each in drawing.lines if each.source == left]
        others = [
            (drawing.places[each.source].y, drawing.places[each.reader].y)
            for each in drawing.lines
            if each.source in "abc" and each.source != left
        ]
        for reader in own:
            mine = drawing.places[left].y, drawing.places[reader].y
            assert all((mine[0] < y) == (mine[1] < end) for y, end in others)


def test_an_edge_passes_between_the_nodes_of_the_columns_between() -> None:
    drawing = drawn("a>b b>c a>c a>b1 b1>c a>b2 b2>c")

    passing = line(drawing, "a", "c")

    middle = points(passing)[1][1]
    assert all(not place.y <= middle <= place.y + place.height for place in columns(drawing)[1])
    assert len(points(passing)) == 4


def test_tables_that_read_each_other_have_one_edge_that_leads_back() -> None:
    drawing = drawn("raw>a a>b b>c c>a c>out")

    assert layers(drawing) == {"raw": 0, "a": 1, "b": 2, "c": 3, "out": 4}
    assert [(each.source, each.reader) for each in drawing.lines if each.back] == [("c", "a")]
    back = points(line(drawing, "c", "a"))
    assert back[0][0] == drawing.places["c"].x
    assert back[-1][0] == drawing.places["a"].x + SIZE.width


def test_a_table_that_reads_itself_has_a_loop() -> None:
    drawing = drawn("a>a a>b")

    loop = line(drawing, "a", "a")
    assert not loop.back
    assert {x for x, _ in points(loop)} == {drawing.places["a"].x + SIZE.width}


def test_an_empty_graph_has_an_empty_layout() -> None:
    empty = layout({}, [])

    assert (dict(empty.places), list(empty.lines)) == ({}, [])


def test_nodes_without_edges_stand_in_rows_below_the_others() -> None:
    names = ["a", "alone1", "b", "alone2", "alone3", "alone4", "alone5"]

    drawing = layout(dict.fromkeys(names, SIZE), [("a", "b")])

    assert layers(drawing) == {
        "a": 0, "alone1": 0, "alone5": 0, "b": 1, "alone2": 1, "alone3": 2, "alone4": 3,
    }  # fmt: skip
    rows = [drawing.places[each].y for each in ("a", "alone1", "alone4", "alone5")]
    assert rows == [MARGIN, MARGIN + 100, MARGIN + 100, MARGIN + 184]


def test_parts_that_are_not_connected_stand_below_each_other_the_largest_first() -> None:
    drawing = drawn("x>y a>b b>c")

    assert {name: (place.layer, place.y) for name, place in drawing.places.items()} == {
        "a": (0, MARGIN), "b": (1, MARGIN), "c": (2, MARGIN), "x": (0, MARGIN + 100), "y": (1, MARGIN + 100),
    }  # fmt: skip


def test_a_graph_in_which_everything_reads_everything_has_a_limited_number_of_bends() -> None:
    names = [f"t{number}" for number in range(80)]

    drawing = layout(
        dict.fromkeys(names, SIZE),
        [(source, reader) for index, source in enumerate(names) for reader in names[index + 1 :]],
    )

    assert len(drawing.lines) == 3160
    assert [place.layer for place in drawing.places.values()] == list(range(80))
    bends = {point for each in drawing.lines for point in points(each)[1:-1]}
    assert 0 < len(bends) <= 2 * MOST_BENDS


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[str, Size], Edges]:
    names = [f"t{number}" for number in range(draw(st.integers(1, 14)))]
    sizes = st.builds(Size, width=st.integers(20, 220), height=st.integers(10, 90))
    pair = st.tuples(st.sampled_from(names), st.sampled_from(names))
    return {name: draw(sizes) for name in names}, draw(st.lists(pair, max_size=30))


@settings(max_examples=50, deadline=None)
@given(graphs())
def test_no_two_nodes_of_a_column_overlap_and_columns_follow_each_other(
    graph: tuple[dict[str, Size], Edges],
) -> None:
    drawing = layout(*graph)

    assert set(drawing.places) == set(graph[0])
    for column in columns(drawing):
        ordered = sorted(column, key=lambda place: place.y)
        assert all(upper.y + upper.height < lower.y for upper, lower in pairwise(ordered))
        assert len({place.x for place in column}) == 1
    for left, right in pairwise(columns(drawing)):
        assert max(place.x + place.width for place in left) + COLUMN_GAP == right[0].x
    for place in drawing.places.values():
        assert 0 <= place.x <= drawing.width - place.width
        assert 0 <= place.y <= drawing.height - place.height


@settings(max_examples=50, deadline=None)
@given(graphs())
def test_every_edge_leads_from_left_to_right_unless_it_closes_a_circle(
    graph: tuple[dict[str, Size], Edges],
) -> None:
    drawing = layout(*graph)

    assert {(each.source, each.reader) for each in drawing.lines} == set(graph[1])
    for each in drawing.lines:
        source, reader = drawing.places[each.source], drawing.places[each.reader]
        if each.back:
            assert each.source in reachable(graph[1], each.reader)
            assert reader.layer < source.layer
        elif each.source != each.reader:
            assert source.layer < reader.layer
            assert points(each)[0] == (source.x + source.width, source.y + source.height // 2)
            assert points(each)[-1] == (reader.x, reader.y + reader.height // 2)


@settings(max_examples=50, deadline=None)
@given(graphs())
def test_no_edge_is_drawn_across_a_node(graph: tuple[dict[str, Size], Edges]) -> None:
    drawing = layout(*graph)

    for each in drawing.lines:
        for (x, y), (far, far_y) in pairwise(points(each)):
            if y == far_y:
                left, right = sorted((x, far))
                assert not any(
                    place.x < right and left < place.x + place.width and place.y < y < place.y + place.height
                    for place in drawing.places.values()
                )


@settings(max_examples=50, deadline=None)
@given(graphs())
def test_the_same_graph_always_has_the_same_layout(graph: tuple[dict[str, Size], Edges]) -> None:
    assert layout(*graph) == layout(dict(graph[0]), list(graph[1]))
