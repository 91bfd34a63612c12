from __future__ import annotations

import pytest

from mt_core.base.statement.error_place import parted, without_place
from mt_core.errors import MtError, QueryFailed, SqlSyntaxError, TableNotFound
from mt_core.terminal.error_place import place_of

STATEMENT = "SELECT a,\n  `dull days`, b\nFROM nowhere"


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (SqlSyntaxError("wrong", line=3, column=6), ["  FROM nowhere", "       ^^^^^^^"]),
        (QueryFailed("no table", line=3, position=6), ["  FROM nowhere", "       ^^^^^^^"]),
        (QueryFailed("no column", line=2, position=3), ["    `dull days`, b", "    ^^^^^^^^^^^"]),
        (QueryFailed("at the end", line=3, position=13), ["  FROM nowhere", "              ^"]),
        (QueryFailed("elsewhere", line=4, position=1), []),
        (QueryFailed("elsewhere", line=1, position=100), []),
        (QueryFailed("elsewhere", line=1, position=0), []),
        (TableNotFound("nowhere does not exist"), []),
    ],
)
def test_the_line_of_an_error_has_a_caret_under_the_token(error: MtError, shown: list[str]) -> None:
    assert place_of(error, STATEMENT, 80) == shown


def test_the_caret_stands_under_wide_letters_and_after_tabs() -> None:
    error = QueryFailed("no", line=1, position=14)

    assert place_of(error, "SELECT\t'日本', 大", 80) == ["  SELECT '日本', 大", "                 ^^"]


def test_a_line_with_a_secret_is_not_shown() -> None:
    statement = "CREATE CATALOG c WITH (\n  'password' = 'hunter2',\n  'uri' = 'x')"

    assert place_of(QueryFailed("no", line=2, position=3), statement, 80) == []
    assert place_of(QueryFailed("no", line=3, position=3), statement, 80) == ["    'uri' = 'x')", "    ^^^^^"]


def test_an_open_quote_has_one_caret() -> None:
    assert place_of(SqlSyntaxError("open", line=1, column=8), "SELECT 'abc", 80) == [
        "  SELECT 'abc",
        "         ^",
    ]


def test_a_line_that_is_wider_than_the_screen_is_cut_around_the_caret() -> None:
    statement = f"SELECT {'a' * 100}, wrong, {'b' * 100}"
    error = QueryFailed("no", line=1, position=statement.index("wrong") + 1)

    line, caret = place_of(error, statement, 40)

    assert len(line) <= 40
    assert (line[2], line[-1], line[caret.index("^") :][:5], caret.count("^")) == ("…", "…", "wrong", 5)


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        (
            "Materialized table t does not exist; SHOW MATERIALIZED TABLES lists those there are.",
            ("Materialized table t does not exist.", "SHOW MATERIALIZED TABLES lists those there are."),
        ),
        (
            "SET 'a; b' is wrong (x; y); write for example SET 'a' = 'b'.",
            ("SET 'a; b' is wrong (x; y).", "Write for example SET 'a' = 'b'."),
        ),
        ("Spark's table is gone; create it.", ("Spark's table is gone.", "Create it.")),
        (
            "[TABLE_OR_VIEW_NOT_FOUND] The table `a.b` cannot be found. Verify the spelling. SQLSTATE: 42P01",
            (
                "[TABLE_OR_VIEW_NOT_FOUND] The table `a.b` cannot be found.",
                "Verify the spelling. SQLSTATE: 42P01",
            ),
        ),
        ("Cancelled.", ("Cancelled.", "")),
    ],
)
def test_the_way_out_is_parted_from_what_is_wrong(message: str, parts: tuple[str, str]) -> None:
    assert parted(message) == parts


@pytest.mark.parametrize(
    "error",
    [SqlSyntaxError("wrong (or not)", line=3, column=6), QueryFailed("wrong (or not)", line=1, position=1)],
)
def test_a_place_that_is_shown_is_taken_off_the_text(error: MtError) -> None:
    assert without_place(str(error)) == "wrong (or not)"
    assert without_place("t is gone (line 3, column 6) again") == "t is gone (line 3, column 6) again"
