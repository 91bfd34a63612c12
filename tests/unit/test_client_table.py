from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mt_core.client.http import ResultPage
from mt_core.client.terminal.standing_rows import StandingRows
from mt_core.client.terminal.table import Format, print_result
from mt_core.rowset import INT, STRING_MAP, Column, LogicalType, RowKind

COLUMNS = (Column(name="n", type=INT), Column(name="na,me"), Column(name="[m]", type=STRING_MAP))


def page(*rows: list[Any], columns: tuple[Column, ...] = COLUMNS, has_content: bool = True) -> ResultPage:
    return ResultPage(columns=columns, rows=list(rows), is_query=has_content, has_content=has_content)


def printed(form: Format, *pages: ResultPage) -> str:
    out = StringIO()
    print_result(pages, form, out)
    return out.getvalue()


def test_a_table_shows_all_pages_with_numbers_to_the_right_and_nulls() -> None:
    shown = printed(Format.TABLE, page([1, "[bold]x", {"k": "è"}]), page([20, None, None]), page())

    assert [line.strip() for line in shown.splitlines()] == [
        "┏━━━━┳━━━━━━━━━┳━━━━━━━━━━━━┓",
        "┃  n ┃ na,me   ┃ [m]        ┃",
        "┡━━━━╇━━━━━━━━━╇━━━━━━━━━━━━┩",
        '│  1 │ [bold]x │ {"k": "è"} │',
        "│ 20 │ NULL    │ NULL       │",
        "└────┴─────────┴────────────┘",
        "2 rows",
    ]


def test_csv_has_a_header_and_empty_nulls() -> None:
    shown = printed(Format.CSV, page([1, 'a "b"', {"k": "v"}]), page([2, None, None]), page())

    assert shown == 'n,"na,me",[m]\n1,"a ""b""","{""k"": ""v""}"\n2,,\n'


@pytest.mark.parametrize("form", [Format.CSV, Format.JSON])
def test_rows_are_out_before_the_next_page_is_asked_for(form: Format, tmp_path: Path) -> None:
    file, seen = tmp_path / "out", list[str]()

    def pages() -> Iterator[ResultPage]:
        for number in (1, 2):
            yield page([number, "x", None])
            seen.append(file.read_text())

    with file.open("w") as out:
        print_result(pages(), form, out)

    assert [text.count("x") for text in seen] == [1, 2]


def test_json_is_one_object_per_row() -> None:
    shown = printed(Format.JSON, page([1, "è", {"k": "v"}]), page([2, None, None]), page())

    assert shown == '{"n": 1, "na,me": "è", "[m]": {"k": "v"}}\n{"n": 2, "na,me": null, "[m]": null}\n'


@pytest.mark.parametrize(("form", "text"), [(Format.TABLE, "OK\n"), (Format.CSV, ""), (Format.JSON, "")])
def test_a_statement_without_content_prints_ok_in_a_table_only(form: Format, text: str) -> None:
    assert printed(form, page(["OK"], columns=(Column(name="result"),), has_content=False)) == text


def test_a_long_text_is_printed_as_it_is() -> None:
    text = "CREATE MATERIALIZED TABLE t\nAS SELECT " + "x" * 200

    assert printed(Format.TABLE, page([text], columns=(Column(name="result"),))) == text + "\n"


def test_rows_of_too_many_columns_for_the_screen_are_printed_as_records() -> None:
    columns = tuple(Column(name=f"a long column name {number}") for number in range(20))

    shown = printed(Format.TABLE, page([f"value {number}" for number in range(20)], columns=columns))

    lines = shown.splitlines()
    assert lines[0].startswith("row 1 ")
    assert lines[1] == "a long column name 0   value 0"
    assert lines[20] == "a long column name 19  value 19"
    assert lines[21] == "1 row"


AMOUNT = LogicalType(root="DECIMAL", extras={"precision": 38, "scale": 2})
NUMBERS = (
    Column(name="amount", type=AMOUNT),
    Column(name="ratio", type=LogicalType(root="DOUBLE")),
    Column(name="amounts", type=LogicalType(root="ARRAY", extras={"elementType": AMOUNT.to_json()})),
)
LONG = "12345678901234567890123456.12"


@pytest.mark.parametrize(
    ("form", "first", "second"),
    [
        (Format.CSV, f"{LONG},0.1,[1.50]", "10.00,NaN,"),
        (
            Format.JSON,
            f'{{"amount": {LONG}, "ratio": 0.1, "amounts": [1.50]}}',
            '{"amount": 10.00, "ratio": "NaN", "amounts": null}',
        ),
    ],
)
def test_decimals_are_printed_with_all_digits_and_their_scale(form: Format, first: str, second: str) -> None:
    rows = [[Decimal(LONG), Decimal("0.1"), [Decimal("1.5")]], [Decimal("1E+1"), "NaN", None]]

    shown = printed(form, page(*rows, columns=NUMBERS))

    assert shown.splitlines()[-2:] == [first, second]


def test_a_table_shows_decimals_with_all_digits_and_their_scale() -> None:
    shown = printed(Format.TABLE, page([Decimal(LONG), 1, [1]], columns=NUMBERS))

    assert f"│ {LONG} │   1.0 │ [1.00]  │" in shown


COUNTS = (Column(name="city"), Column(name="n", type=INT))
CHANGES = [
    (RowKind.INSERT, ["Rome", 1]),
    (RowKind.INSERT, ["Oslo", 1]),
    (RowKind.UPDATE_BEFORE, ["Rome", 1]),
    (RowKind.UPDATE_AFTER, ["Rome", 2]),
    (RowKind.DELETE, ["Oslo", 1]),
    (RowKind.INSERT, [None, 5]),
]


def changelog(*changes: tuple[RowKind, list[Any]]) -> ResultPage:
    rows, kinds = [row for _, row in changes], [kind for kind, _ in changes]
    return replace(page(*rows, columns=COUNTS), kinds=kinds)


def test_a_tableau_has_all_changes_with_their_kinds() -> None:
    shown = printed(Format.TABLEAU, changelog(*CHANGES[:2]), changelog(*CHANGES[2:]), changelog())

    assert shown.splitlines() == [
        "+----+--------------------------------+-------------+",
        "| op |                           city |           n |",
        "+----+--------------------------------+-------------+",
        "| +I |                           Rome |           1 |",
        "| +I |                           Oslo |           1 |",
        "| -U |                           Rome |           1 |",
        "| +U |                           Rome |           2 |",
        "| -D |                           Oslo |           1 |",
        "| +I |                           NULL |           5 |",
        "+----+--------------------------------+-------------+",
        "6 rows",
    ]


def test_a_tableau_of_rows_that_are_only_added_has_no_kinds_and_cuts_what_is_long() -> None:
    shown = printed(Format.TABLEAU, page(["x" * 31, 1], columns=COUNTS))

    assert shown.splitlines() == [
        "+--------------------------------+-------------+",
        "|                           city |           n |",
        "+--------------------------------+-------------+",
        f"| {'x' * 27}... |           1 |",
        "+--------------------------------+-------------+",
        "1 row",
    ]


def test_what_is_no_query_is_a_table_in_a_tableau_too() -> None:
    definition = replace(page(["CREATE\nTABLE"], columns=COUNTS[:1]), is_query=False)

    shown = [printed(Format.TABLEAU, each) for each in (page(has_content=False), definition)]

    assert shown == ["OK\n", "CREATE\nTABLE\n"]


def test_a_table_has_the_rows_of_a_changelog_as_they_stand() -> None:
    shown = printed(Format.TABLE, changelog(*CHANGES[:3]), changelog(*CHANGES[3:]), changelog())

    assert [line.strip() for line in shown.splitlines()] == [
        "┏━━━━━━┳━━━┓",
        "┃ city ┃ n ┃",
        "┡━━━━━━╇━━━┩",
        "│ Rome │ 2 │",
        "│ NULL │ 5 │",
        "└──────┴───┘",
        "2 rows",
    ]


def test_a_table_of_a_changelog_is_printed_when_it_is_interrupted() -> None:
    out = StringIO()

    def pages() -> Iterator[ResultPage]:
        yield changelog(*CHANGES[:2])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        print_result(pages(), Format.TABLE, out)

    assert [line[:8] for line in out.getvalue().splitlines()[3:5]] == ["│ Rome │", "│ Oslo │"]


def test_csv_and_json_have_the_kind_of_each_change_first() -> None:
    csv, json = (printed(form, changelog(*CHANGES[1:4]), changelog()) for form in (Format.CSV, Format.JSON))

    assert csv == "op,city,n\n+I,Oslo,1\n-U,Rome,1\n+U,Rome,2\n"
    assert json.splitlines() == [
        '{"op": "+I", "row": {"city": "Oslo", "n": 1}}',
        '{"op": "-U", "row": {"city": "Rome", "n": 1}}',
        '{"op": "+U", "row": {"city": "Rome", "n": 2}}',
    ]


@given(st.lists(st.tuples(st.sampled_from(RowKind), st.integers(0, 3)), max_size=30), st.randoms())
def test_rows_stand_alike_in_whatever_order_their_changes_come(
    changes: list[tuple[RowKind, int]], order: Random
) -> None:
    straight, shuffled = StandingRows(), StandingRows()
    for kind, number in changes:
        straight.apply(kind, [number])
    for kind, number in order.sample(changes, len(changes)):
        shuffled.apply(kind, [number])

    counts = Counter[int]()
    for kind, number in changes:
        counts[number] += 1 if kind.adds else -1
    expected = sorted([number] for number, count in counts.items() for _ in range(count))

    assert (sorted(straight.all()), sorted(shuffled.all())) == (expected, expected)
