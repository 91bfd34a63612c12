from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from mt_core.client.http import ResultPage
from mt_core.client.terminal.table import Format, print_result
from mt_core.rowset import INT, STRING_MAP, Column, LogicalType

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
