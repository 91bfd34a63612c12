from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mt_core.base.rowset import INT, STRING_MAP, Column, LogicalType, RowKind
from mt_core.client.http import ResultPage
from mt_core.terminal.output.form import Form
from mt_core.terminal.output.result import print_result
from mt_core.terminal.output.standing_rows import StandingRows, standing_page
from mt_core.terminal.output.table import lines_of
from mt_core.terminal.output.tableau import type_width

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "types"
COLUMNS = (Column(name="n", type=INT), Column(name="na,me"), Column(name="[m]", type=STRING_MAP))


def page(*rows: list[Any], columns: tuple[Column, ...] = COLUMNS, has_content: bool = True) -> ResultPage:
    return ResultPage(columns=columns, rows=list(rows), is_query=has_content, has_content=has_content)


def printed(form: Form, *pages: ResultPage) -> str:
    out = StringIO()
    print_result([replace(each, is_last=each is pages[-1]) for each in pages], form, out)
    return out.getvalue()


def test_a_table_shows_all_pages_with_numbers_to_the_right_and_nulls() -> None:
    shown = printed(Form.TABLE, page([1, "[bold]x", {"k": "è"}]), page([20, None, None]), page())

    assert [line.strip() for line in shown.splitlines()] == [
        "┏━━━━┳━━━━━━━━━┳━━━━━━━━┓",
        "┃  n ┃ na,me   ┃ [m]    ┃",
        "┡━━━━╇━━━━━━━━━╇━━━━━━━━┩",
        "│  1 │ [bold]x │ {k=è}  │",
        "│ 20 │ <NULL>  │ <NULL> │",
        "└────┴─────────┴────────┘",
        "2 rows",
    ]


def test_csv_has_a_header_and_empty_nulls() -> None:
    shown = printed(Form.CSV, page([1, 'a "b"', {"k": "v"}]), page([2, None, None]), page())

    assert shown == 'n,"na,me",[m]\n1,"a ""b""","{""k"": ""v""}"\n2,,\n'


@pytest.mark.parametrize("form", [Form.CSV, Form.JSON])
def test_rows_are_out_before_the_next_page_is_asked_for(form: Form, tmp_path: Path) -> None:
    file, seen = tmp_path / "out", list[str]()

    def pages() -> Iterator[ResultPage]:
        for number in (1, 2):
            yield page([number, "x", None])
            seen.append(file.read_text())

    with file.open("w") as out:
        print_result(pages(), form, out)

    assert [text.count("x") for text in seen] == [1, 2]


def test_json_is_one_object_per_row() -> None:
    shown = printed(Form.JSON, page([1, "è", {"k": "v"}]), page([2, None, None]), page())

    assert shown == '{"n": 1, "na,me": "è", "[m]": {"k": "v"}}\n{"n": 2, "na,me": null, "[m]": null}\n'


@pytest.mark.parametrize(
    ("form", "seen"), [(Form.TABLE, False), (Form.TABLEAU, False), (Form.CSV, True), (Form.JSON, True)]
)
def test_a_statement_without_content_prints_nothing_and_only_people_miss_it(
    form: Form, *, seen: bool
) -> None:
    out = StringIO()

    told = print_result([page(["OK"], columns=(Column(name="result"),), has_content=False)], form, out)

    assert (told, out.getvalue()) == (seen, "")


def test_a_long_text_is_printed_as_it_is() -> None:
    text = "CREATE MATERIALIZED TABLE t\nAS SELECT " + "x" * 200

    assert printed(Form.TABLE, page([text], columns=(Column(name="result"),))) == text + "\n"


def test_rows_of_too_many_columns_for_the_screen_are_printed_as_records() -> None:
    columns = tuple(Column(name=f"a long column name {number}") for number in range(20))

    shown = printed(Form.TABLE, page([f"value {number}" for number in range(20)], columns=columns))

    lines = shown.splitlines()
    assert lines[0].startswith("row 1 ")
    assert lines[1] == "a long column name 0   value 0"
    assert lines[20] == "a long column name 19  value 19"
    assert lines[21] == "1 row"


def test_records_need_a_line_a_value_of_the_screen_and_rows_of_a_grid_one() -> None:
    columns = (Column(name="x"), Column(name="y"))
    pages = [page(["a", "b"], columns=columns), page(["c", "d"], columns=columns)]

    assert (lines_of(pages, 80), lines_of(pages, 7)) == (2, 6)


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
        (Form.CSV, f"{LONG},0.1,[1.50]", "10.00,NaN,"),
        (
            Form.JSON,
            f'{{"amount": {LONG}, "ratio": 0.1, "amounts": [1.50]}}',
            '{"amount": 10.00, "ratio": "NaN", "amounts": null}',
        ),
    ],
)
def test_decimals_are_printed_with_all_digits_and_their_scale(form: Form, first: str, second: str) -> None:
    rows = [[Decimal(LONG), Decimal("0.1"), [Decimal("1.5")]], [Decimal("1E+1"), "NaN", None]]

    shown = printed(form, page(*rows, columns=NUMBERS))

    assert shown.splitlines()[-2:] == [first, second]


def test_a_table_shows_decimals_with_all_digits_and_their_scale() -> None:
    shown = printed(Form.TABLE, page([Decimal(LONG), 1, [1]], columns=NUMBERS))

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
    shown = printed(Form.TABLEAU, changelog(*CHANGES[:2]), changelog(*CHANGES[2:]), changelog())

    assert shown.splitlines() == [
        "+----+--------------------------------+-------------+",
        "| op |                           city |           n |",
        "+----+--------------------------------+-------------+",
        "| +I |                           Rome |           1 |",
        "| +I |                           Oslo |           1 |",
        "| -U |                           Rome |           1 |",
        "| +U |                           Rome |           2 |",
        "| -D |                           Oslo |           1 |",
        "| +I |                         <NULL> |           5 |",
        "+----+--------------------------------+-------------+",
        "6 rows",
    ]


def test_a_tableau_of_rows_that_are_only_added_has_no_kinds_and_cuts_what_is_long() -> None:
    shown = printed(Form.TABLEAU, page(["x" * 31, 1], columns=COUNTS))

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

    assert printed(Form.TABLEAU, definition) == "CREATE\nTABLE\n"


def standing(pages: Iterable[ResultPage], most: int = 10) -> tuple[list[str], bool]:
    """Return the lines of a table of the rows that stand, and whether others are left out."""
    out, left_out = StringIO(), list[int]()
    print_result(standing_page(pages, most, lambda: left_out.append(1)), Form.TABLE, out)
    return [line.strip() for line in out.getvalue().splitlines()], bool(left_out)


def test_a_table_has_the_rows_of_a_changelog_as_they_stand() -> None:
    assert standing([changelog(*CHANGES[:3]), changelog(*CHANGES[3:]), changelog()]) == (
        [
            "┏━━━━━━━━┳━━━┓",
            "┃ city   ┃ n ┃",
            "┡━━━━━━━━╇━━━┩",
            "│ Rome   │ 2 │",
            "│ <NULL> │ 5 │",
            "└────────┴───┘",
            "2 rows",
        ],
        False,
    )


def test_a_table_of_a_changelog_has_the_last_rows_up_to_the_limit() -> None:
    shown, left_out = standing([changelog(*CHANGES[:3]), changelog(*CHANGES[3:]), changelog()], most=1)

    assert (shown[3:-2], shown[-1], left_out) == (["│ <NULL> │ 5 │"], "1 row", True)


def test_a_table_of_a_changelog_is_printed_when_it_is_interrupted() -> None:
    out = StringIO()

    def pages() -> Iterator[ResultPage]:
        yield changelog(*CHANGES[:2])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        print_result(standing_page(pages(), 10, lambda: None), Form.TABLE, out)

    assert [line[:8] for line in out.getvalue().splitlines()[3:5]] == ["│ Rome │", "│ Oslo │"]


def test_csv_and_json_have_the_kind_of_each_change_first() -> None:
    csv, json = (printed(form, changelog(*CHANGES[1:4]), changelog()) for form in (Form.CSV, Form.JSON))

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


@pytest.mark.parametrize("form", [Form.JSON, Form.JSONL])
def test_json_has_two_names(form: Form) -> None:
    assert printed(form, page([1, "x", None])) == '{"n": 1, "na,me": "x", "[m]": null}\n'


def test_tsv_escapes_what_would_end_a_value_and_has_a_mark_for_null() -> None:
    columns = (Column(name="a\tb"), Column(name="c"))

    assert printed(Form.TSV, page(["x\ty\n\\N", None], columns=columns)) == "a\\tb\tc\nx\\ty\\n\\\\N\t\\N\n"


def test_tsv_has_the_kind_of_each_change_first() -> None:
    assert (
        printed(Form.TSV, changelog(*CHANGES[1:3]), changelog()) == "op\tcity\tn\n+I\tOslo\t1\n-U\tRome\t1\n"
    )


def test_vertical_is_a_line_a_value_and_counts_the_rows_of_all_pages() -> None:
    shown = printed(Form.VERTICAL, page([1, "x", {"k": "v"}]), page([2, None, None]))

    lines = shown.splitlines()
    assert (lines[0][:6], lines[4][:6]) == ("row 1 ", "row 2 ")
    assert lines[1:4] + lines[5:] == [
        "n      1",
        "na,me  x",
        "[m]    {k=v}",
        "n      2",
        "na,me  <NULL>",
        "[m]    <NULL>",
        "2 rows",
    ]


def test_vertical_has_the_kind_of_each_change_first() -> None:
    shown = printed(Form.VERTICAL, changelog(*CHANGES[:1]))

    assert shown.splitlines()[1:] == ["op    +I", "city  Rome", "n     1", "1 row"]


def test_markdown_has_numbers_at_the_right_and_escapes_its_own_marks() -> None:
    assert printed(Form.MARKDOWN, page([1, "a|b\nc", None]), page([2, "<i>", None])).splitlines() == [
        "| n | na,me | [m] |",
        "| ---: | --- | --- |",
        r"| 1 | a\|b<br>c | &lt;NULL> |",
        "| 2 | &lt;i> | &lt;NULL> |",
    ]
    assert printed(Form.MARKDOWN, changelog(*CHANGES[:1])).splitlines() == [
        "| op | city | n |",
        "| --- | --- | ---: |",
        "| +I | Rome | 1 |",
    ]


@pytest.mark.parametrize("form", [Form.TABLE, Form.TABLEAU, Form.VERTICAL, Form.MARKDOWN])
@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*.json")), ids=lambda file: file.stem)
def test_a_value_of_each_type_is_shown_as_by_flink(file: Path, form: Form) -> None:
    case = json.loads(file.read_text(encoding="utf-8"))
    column = Column(name="a", type=LogicalType.from_json(case["logicalType"]))
    value = json.loads(case["json"], parse_float=Decimal)
    text = "<NULL>" if case["plain_text"] is None else case["plain_text"]

    # So wide that nothing is cut or folded.
    out = StringIO()
    print_result([page([value], columns=(column,))], form, out, column_width=400)

    if form is Form.MARKDOWN:
        text = (
            text.replace("\\", r"\\")
            .replace("|", r"\|")
            .replace("&", "&amp;")
            .replace("<", "&lt;")
            .replace("\n", "<br>")
        )
    if form is Form.TABLEAU:
        # As in Flink's client, a width follows from the type alone.
        text = text if len(text) <= type_width(column.type) else text[: type_width(column.type) - 3] + "..."
        text = text.replace("\n", "\\n")
    assert text in out.getvalue()


def test_a_long_table_is_one_grid_whose_rows_are_out_before_the_next_page_is_asked_for(
    tmp_path: Path,
) -> None:
    file, seen = tmp_path / "out", list[int]()

    def pages() -> Iterator[ResultPage]:
        for number in (1, 1001, 2001):
            rows = ([row, f"name {row}"] for row in range(number, number + 1000))
            yield replace(page(*rows, columns=COLUMNS[:2]), is_last=number == 2001)
            seen.append(len(file.read_text().splitlines()))

    with file.open("w") as out:
        print_result(pages(), Form.TABLE, out)

    lines = file.read_text().splitlines()
    assert seen == [1003, 2003, 3003]
    assert lines[:4] == [
        "┏━━━━━━━━━━━━━┳━━━━━━━━━━━┓",
        "┃           n ┃ na,me     ┃",
        "┡━━━━━━━━━━━━━╇━━━━━━━━━━━┩",
        "│           1 │ name 1    │",
    ]
    assert lines[1002:1004] == ["│        1000 │ name 1000 │", "│        1001 │ name 1001 │"]
    assert lines[-3:] == ["│        3000 │ name 3000 │", "└─────────────┴───────────┘", "3000 rows"]
    assert (len(lines), {len(line) for line in lines[:-1]}) == (3005, {len(lines[0])})


def test_the_rows_that_are_there_are_printed_when_a_table_is_interrupted() -> None:
    out = StringIO()

    def pages() -> Iterator[ResultPage]:
        yield replace(page([1, "x"], columns=COLUMNS[:2]), is_last=False)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        print_result(pages(), Form.TABLE, out)

    assert "│ 1 │ x     │" in out.getvalue()


def test_the_widths_of_letters_that_take_two_places_are_counted() -> None:
    shown = printed(Form.VERTICAL, page(["x", 1], columns=(Column(name="都市"), Column(name="n", type=INT))))

    assert shown.splitlines()[1:3] == ["都市  x", "n     1"]
