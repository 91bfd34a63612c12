"""The graph of tables and their sources: walks, depths, the path to a cause, and the tree of sources."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from mt_core.errors import MtError
from mt_core.tables.overview.facts import Read, TableFacts
from mt_core.tables.overview.graph import MATERIALIZED_TABLE, Branch, Graph
from mt_core.tables.overview.lateness import State
from mt_core.tables.pages import UnreadableTable
from tests.support.table_facts import table_facts, table_named

MANY = 10_000


def graph(**reads: str) -> Graph:
    """Return the graph of tables, each with the names of the tables that it reads."""
    return Graph.of(table_facts(name, *read.split()) for name, read in reads.items())


def short(names: Iterable[str]) -> list[str]:
    return [name.removeprefix("lake.shop.") for name in names]


def reads_of(*names: str) -> tuple[Read, ...]:
    return tuple(Read(name=f"lake.{name}", kind="table") for name in names)


def drawn(branches: Iterable[Branch]) -> list[str]:
    return [
        "  " * each.depth + each.node.name.removeprefix("lake.shop.") + (" again" if each.again else "")
        for each in branches
    ]


def test_a_walk_finds_what_a_table_reads_nearest_first() -> None:
    tables = graph(weekly="daily rates", daily="hourly rates", hourly="orders")

    assert tables.below("lake.shop.weekly") == {
        "lake.shop.daily": 1,
        "lake.shop.rates": 1,
        "lake.shop.hourly": 2,
        "lake.shop.orders": 3,
    }
    assert short(tables.below("lake.shop.weekly", 1)) == ["daily", "rates"]
    assert tables.below("lake.shop.orders") == {}


def test_a_walk_finds_what_reads_a_source_nearest_first() -> None:
    tables = graph(weekly="daily", daily="hourly", hourly="orders", nightly="orders")

    assert short(tables.above("lake.shop.orders")) == ["hourly", "nightly", "daily", "weekly"]
    assert short(tables.above("lake.shop.orders", 2)) == ["hourly", "nightly", "daily"]
    assert tables.above("lake.shop.orders", 0) == {}


def test_tables_that_read_each_other_end_every_walk() -> None:
    tables = graph(left="right orders", right="left", alone="alone")

    assert short(tables.below("lake.shop.left")) == ["right", "orders"]
    assert short(tables.above("lake.shop.left")) == ["right"]
    assert tables.depths() == {
        "lake.shop.left": 1,
        "lake.shop.right": 0,
        "lake.shop.orders": 0,
        "lake.shop.alone": 0,
    }
    assert drawn(tables.tree()) == ["left", "  right", "    left again", "  orders", "alone", "  alone again"]


def test_the_depth_of_a_table_is_its_longest_path_to_a_source() -> None:
    tables = graph(weekly="orders daily", daily="hourly", hourly="orders", empty="")

    assert tables.depths() == {
        "lake.shop.orders": 0,
        "lake.shop.hourly": 1,
        "lake.shop.daily": 2,
        "lake.shop.weekly": 3,
        "lake.shop.empty": 0,
    }


@given(st.dictionaries(st.integers(0, 7), st.lists(st.integers(0, 7), max_size=4), max_size=8))
def test_in_any_graph_each_source_is_expanded_once_and_each_table_is_shown(
    reads: dict[int, list[int]],
) -> None:
    tables = graph(**{f"t{name}": " ".join(f"t{each}" for each in read) for name, read in reads.items()})

    branches = list(tables.tree())

    expanded = [each.node.name for each in branches if not each.again]
    assert {each.node.name for each in branches} == set(tables.nodes) == set(tables.depths())
    assert all(expanded.count(name) == 1 for name in tables.nodes if tables.sources[name])
    for name in tables.nodes:
        below = tables.below(name)
        assert {each.node.name for each in tables.tree(name)} == {name, *below}
        assert all(name in tables.above(each) for each in below)


def test_a_chain_longer_than_pythons_stack_is_walked() -> None:
    tables = Graph.of(table_facts(f"t{number}", f"t{number + 1}") for number in range(MANY))

    first, last = "lake.shop.t0", f"lake.shop.t{MANY}"
    assert tables.depths()[first] == tables.below(first)[last] == MANY
    assert max(each.depth for each in tables.tree()) == MANY


def test_the_path_of_a_late_table_leads_to_the_table_that_causes_it() -> None:
    cause = table_named("hourly")
    tables = Graph.of(
        [
            table_facts("weekly", "rates", "daily", below=cause, state=State.LATE),
            table_facts("daily", "hourly", below=cause, state=State.LATE),
            table_facts("hourly", "orders", state=State.LATE),
            table_facts("strange", "orders", below=table_named("gone")),
        ]
    )

    assert short(tables.path_to_cause("lake.shop.weekly")) == ["weekly", "daily", "hourly"]
    assert [tables.path_to_cause(str(table_named(each))) for each in ("hourly", "orders", "strange")] == [
        ()
    ] * 3


def test_a_part_of_the_graph_has_the_nearest_nodes_and_the_edges_between_them() -> None:
    tables = graph(weekly="daily", daily="hourly rates", hourly="orders", nightly="daily")

    part, left = tables.around("lake.shop.daily", most=4)

    assert short(part.nodes) == ["daily", "weekly", "nightly", "hourly"]
    assert left == 2
    assert part.sources["lake.shop.daily"] == ("lake.shop.hourly",)
    assert part.sources["lake.shop.hourly"] == ()
    assert part.readers["lake.shop.hourly"] == ("lake.shop.daily",)
    assert short(tables.around("lake.shop.daily", up=0, down=1, most=9)[0].nodes) == [
        "daily",
        "hourly",
        "rates",
    ]


def test_a_part_has_a_path_whatever_its_length() -> None:
    tables = graph(weekly="daily rates", daily="hourly", hourly="orders", orders="events")

    part, left = tables.around(
        "lake.shop.weekly", down=1, most=4, path=["lake.shop.weekly", "lake.shop.daily", "lake.shop.hourly"]
    )

    assert set(short(part.nodes)) == {"weekly", "daily", "hourly", "rates"}
    assert left == 0


def test_a_turned_graph_lists_readers_as_a_tree() -> None:
    tables = graph(weekly="daily", daily="hourly", nightly="hourly").turned()

    assert drawn(tables.tree("lake.shop.hourly")) == ["hourly", "  daily", "    weekly", "  nightly"]


def test_views_and_functions_stand_beside_the_tables_that_were_read_through_them() -> None:
    reads = (
        Read(name="lake.shop.paid", kind="view"),
        Read(name="lake.shop.orders", kind="table"),
        Read(name="net", kind="function"),
        Read(name="`s3://bucket/rates`", kind="unversioned"),
    )

    tables = Graph.of([table_facts("daily", reads=reads)])

    assert [(each.node.kind, each.depth) for each in tables.tree("lake.shop.daily")] == [
        (MATERIALIZED_TABLE, 0),
        ("view", 1),
        ("table", 1),
        ("function", 1),
        ("unversioned", 1),
    ]


def test_a_table_that_is_read_at_a_version_is_the_table_itself() -> None:
    reads = tuple(
        Read(name=name, kind="table")
        for name in ("lake.shop.orders AS OF 12", "lake.shop.orders", "lake.shop.` AS OF `")
    )

    tables = Graph.of([table_facts("daily", reads=reads), table_facts("orders", "raw")])

    assert drawn(tables.tree()) == ["daily", "  orders", "    raw", "  ` AS OF `"]


def test_tables_at_the_top_come_first_and_each_is_expanded_where_it_is_read_first() -> None:
    tables = graph(daily="hourly", hourly="orders", left="right", monthly="hourly", right="left")

    assert drawn(tables.tree()) == [
        "daily",
        "  hourly",
        "    orders",
        "monthly",
        "  hourly again",
        "left",
        "  right",
        "    left again",
    ]


def test_an_unreadable_table_is_failing_and_its_sources_are_unknown() -> None:
    unreadable = UnreadableTable(identifier=table_named("broken"), error=MtError("It has version 9."))

    tables = Graph.of([unreadable, table_facts("daily", "broken")])

    node = tables.nodes["lake.shop.broken"]
    assert (node.kind, node.state, node.facts) == (MATERIALIZED_TABLE, State.FAILING, None)
    assert drawn(tables.tree()) == ["daily", "  broken"]


def test_namespaces_count_their_tables_by_state() -> None:
    tables = [
        table_facts("daily", "orders"),
        table_facts("hourly", state=State.LATE),
        table_facts("weekly", state=State.LATE),
        table_facts("audit", namespace="a b", state=State.SUSPENDED),
    ]

    groups = Graph.of(tables).groups()

    assert [(each.name, dict(each.states)) for each in groups] == [
        ("lake.`a b`", {State.SUSPENDED: 1}),
        ("lake.shop", {State.OK: 1, State.LATE: 2}),
    ]


def test_namespaces_are_joined_where_tables_of_one_read_tables_of_another() -> None:
    cause = table_named("orders", "raw")
    tables = [
        table_facts("orders", "events", namespace="raw", state=State.LATE),
        table_facts("rates", namespace="raw"),
        table_facts(
            "daily", "hourly", reads=reads_of("raw.orders", "raw.rates"), state=State.LATE, below=cause
        ),
        table_facts("hourly", reads=reads_of("raw.rates", "files.csv")),
        table_facts("board", namespace="web", reads=reads_of("shop.daily"), state=State.LATE, below=cause),
        table_facts("menu", namespace="web", reads=reads_of("shop.daily"), below=cause),
        table_facts("echo", namespace="raw", reads=reads_of("web.board")),
    ]

    edges = Graph.of(tables).group_edges()

    assert [(each.reader, each.source, each.tables, each.late) for each in edges] == [
        ("lake.raw", "lake.web", 1, 0),
        ("lake.shop", "lake.raw", 2, 1),
        ("lake.web", "lake.shop", 2, 1),
    ]


def test_ten_thousand_readers_of_one_source_are_walked() -> None:
    tables: list[TableFacts] = [table_facts(f"t{number}", "orders") for number in range(MANY)]
    tables.append(table_facts("all", *(f"t{number}" for number in range(MANY))))

    whole = Graph.of(tables)

    assert len(whole.above("lake.shop.orders")) == MANY + 1
    assert whole.depths()["lake.shop.all"] == 2
    assert len(list(whole.tree())) == 2 * MANY + 1
