"""The trees of a table's page: what it reads and what reads it."""

from __future__ import annotations

from mt_core.gateway.page.trees import LEVELS, LINES, Tree, read_by, reads
from mt_core.tables.overview.graph import Graph
from tests.support.table_facts import table_facts


def names(tree: Tree) -> list[tuple[int, str]]:
    return [(line.depth, line.node.name.removeprefix("lake.shop.")) for line in tree.lines]


def html(tree: Tree) -> str:
    """Return the lists that the template writes, without the words."""
    text = ""
    for line in tree.lines:
        text += "<ul>" if line.opens else "</li>" + "</ul></li>" * line.closes
        text += f"<li>{line.node.name.removeprefix('lake.shop.')}"
    return text + "</li></ul>" * tree.closes


CHAIN = Graph.of(
    [
        table_facts("daily", "orders", "rates"),
        table_facts("by_city", "daily", "cities"),
        table_facts("report", "by_city"),
        table_facts("other", "daily"),
    ]
)


def test_what_a_table_reads_is_below_it_down_to_the_sources() -> None:
    tree = reads(CHAIN, "lake.shop.report")

    assert names(tree) == [(1, "by_city"), (2, "daily"), (3, "orders"), (3, "rates"), (2, "cities")]


def test_what_reads_a_table_is_listed_with_its_own_readers() -> None:
    tree = read_by(CHAIN, "lake.shop.daily")

    assert names(tree) == [(1, "by_city"), (2, "report"), (1, "other")]


def test_a_table_that_nothing_reads_has_an_empty_tree() -> None:
    tree = read_by(CHAIN, "lake.shop.report")

    assert (names(tree), tree.closes, tree.cut) == ([], 0, 0)


def test_the_lists_are_nested_and_closed() -> None:
    assert html(reads(CHAIN, "lake.shop.report")) == (
        "<ul><li>by_city<ul><li>daily<ul><li>orders</li><li>rates</li></ul></li><li>cities</li></ul></li></ul>"
    )
    assert html(read_by(CHAIN, "lake.shop.daily")) == (
        "<ul><li>by_city<ul><li>report</li></ul></li><li>other</li></ul>"
    )


def test_what_stands_under_an_earlier_line_is_not_repeated() -> None:
    graph = Graph.of([table_facts("a", "b", "c"), table_facts("b", "c"), table_facts("c", "d")])

    tree = reads(graph, "lake.shop.a")

    assert [(line.node.name.removeprefix("lake.shop."), line.again) for line in tree.lines] == [
        ("b", False), ("c", False), ("d", False), ("c", True),
    ]  # fmt: skip


def test_tables_that_read_each_other_have_trees_that_end() -> None:
    graph = Graph.of([table_facts("a", "b"), table_facts("b", "a")])

    assert names(reads(graph, "lake.shop.a")) == [(1, "b"), (2, "a")]
    assert names(read_by(graph, "lake.shop.a")) == [(1, "b"), (2, "a")]


def test_only_the_nearest_levels_and_the_first_lines_are_shown_and_the_others_counted() -> None:
    chain = Graph.of([table_facts(f"t{number}", f"t{number + 1}") for number in range(100)])
    wide = Graph.of([table_facts("top", *(f"s{number}" for number in range(100)))])

    long, broad = reads(chain, "lake.shop.t0"), reads(wide, "lake.shop.top")

    assert (len(long.lines), long.cut, long.closes) == (LEVELS, 100 - LEVELS, LEVELS)
    assert (len(broad.lines), broad.cut, broad.closes) == (LINES, 100 - LINES, 1)
