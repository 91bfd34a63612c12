from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from math import copysign, inf, isnan, nan
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mt_core.base.tokens import TokenKind, split_statements, tokenize
from mt_core.client.literals import OutOfRange, ParameterCount, UnknownType, fill_in, literal
from mt_core.errors import SqlSyntaxError

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
SHORT_DECIMALS = st.builds(
    lambda digits, exponent: Decimal(digits).scaleb(exponent),
    st.integers(-(10**18), 10**18),
    st.integers(-19, 19),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**38) + 1, 10**38 - 1),
    st.floats(),
    SHORT_DECIMALS,
    TEXTS,
    st.binary(),
    st.dates(),
    st.datetimes(),
    st.timedeltas(timedelta(days=-9999), timedelta(days=9999)),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4)
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (False, "FALSE"),
        (7, "7"),
        (-7, "(-7)"),
        (1.5, "1.5D"),
        (1e20, "1e+20D"),
        (-0.0, "(-0.0D)"),
        (nan, "CAST('nan' AS DOUBLE)"),
        (-inf, "CAST('-inf' AS DOUBLE)"),
        (Decimal("1.50"), "1.50BD"),
        (Decimal("-1E+3"), "(-1000BD)"),
        ("", "''"),
        ("it's a \\ and a \n", "'it\\'s a \\\\ and a \\n'"),
        ("${spark.master}", "'\\u0024{spark.master}'"),
        (b"\x00\xff", "X'00ff'"),
        (bytearray(b"a"), "X'61'"),
        (memoryview(b"a"), "X'61'"),
        (date(1, 2, 3), "DATE'0001-02-03'"),
        (datetime(2024, 1, 2, 3, 4, 5, 6), "TIMESTAMP_NTZ'2024-01-02 03:04:05.000006'"),  # noqa: DTZ001
        (
            datetime(2024, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2))),
            "TIMESTAMP_LTZ'2024-01-02 01:04:05.000000Z'",
        ),
        (time(3, 4, 5), "TIME'03:04:05.000000'"),
        (timedelta(days=1, hours=26, milliseconds=5), "INTERVAL '2 02:00:00.005000' DAY TO SECOND"),
        (timedelta(microseconds=-1), "INTERVAL '-0 00:00:00.000001' DAY TO SECOND"),
        (UUID(int=1), "'00000000-0000-0000-0000-000000000001'"),
        ([1, None, "a"], "ARRAY(1, NULL, 'a')"),
        ((), "ARRAY()"),
        ({"k": [1.0]}, "MAP('k', ARRAY(1.0D))"),
    ],
)
def test_a_value_becomes_the_literal_of_its_type(value: object, text: str) -> None:
    assert literal(value) == text


class Colour(Enum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (object(), UnknownType, r"builtins\.object; use None or one of: bool, int"),
        ({1, 2}, UnknownType, r"builtins\.set"),
        (Colour.RED, UnknownType, "Colour"),
        (10**38, OutOfRange, "more than 38 digits"),
        (Decimal("1E+38"), OutOfRange, "more than 38 digits"),
        (Decimal("1E-39"), OutOfRange, "more than 38 digits"),
        (Decimal("NaN"), OutOfRange, "DECIMAL has no NaN"),
        ("\ud800", OutOfRange, "lone surrogate"),
        (timedelta.max, OutOfRange, "longer than an INTERVAL"),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=1))), OutOfRange, "years 1 to 9999 in UTC"),
        (time(1, tzinfo=UTC), OutOfRange, "has a zone"),
    ],
)
def test_a_value_without_a_literal_is_refused(value: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        literal(value)


@given(TEXTS)
def test_a_string_is_one_token_that_means_it(text: str) -> None:
    [token] = tokenize(literal(text))

    assert (token.kind, token.value) == (TokenKind.STRING, text)
    assert "${" not in token.text


@settings(deadline=None)
@given(VALUES)
def test_no_value_ends_or_opens_what_stands_around_it(value: object) -> None:
    statement = fill_in("SELECT a -? AS `?`, '?' -- ?\nFROM t; SELECT 2", [value])

    first, second = split_statements(statement)

    assert first.text.startswith("SELECT a -")
    assert first.text.endswith(" AS `?`, '?' -- ?\nFROM t")
    assert second.text == "SELECT 2"


def number(text: str, suffix: str) -> str:
    found = re.fullmatch(rf"\(?(-?[0-9.]+(?:e[+-]?[0-9]+)?){suffix}\)?", text)
    assert found is not None, text
    return found[1]


@given(st.floats())
def test_a_float_is_a_double_literal_of_the_same_bits(value: float) -> None:
    text = literal(value)

    if isnan(value):
        assert text == "CAST('nan' AS DOUBLE)"
    elif value in (inf, -inf):
        assert float(text.split("'")[1]) == value
    else:
        read = float(number(text, "D"))
        assert (read, copysign(1, read)) == (value, copysign(1, value))


@pytest.mark.parametrize(
    ("strategy", "suffix", "read"),
    [(st.integers(-(10**38) + 1, 10**38 - 1), "", int), (SHORT_DECIMALS, "BD", Decimal)],
)
@given(data=st.data())
def test_an_exact_number_keeps_every_digit(
    data: st.DataObject, strategy: st.SearchStrategy[Any], suffix: str, read: Callable[[str], object]
) -> None:
    value = data.draw(strategy)

    assert read(number(literal(value), suffix)) == value


@given(st.timedeltas(timedelta(days=-(10**6)), timedelta(days=10**6)))
def test_an_interval_is_its_days_and_clock(value: timedelta) -> None:
    found = re.fullmatch(r"INTERVAL '(-?)(\d+) (\d\d):(\d\d):(\d\d)\.(\d{6})' DAY TO SECOND", literal(value))

    assert found is not None
    days, hours, minutes, seconds, microseconds = map(int, found.groups()[1:])
    size = timedelta(days, seconds, microseconds, hours=hours, minutes=minutes)
    assert (-size if found[1] else size) == value


def test_parameters_take_the_places_of_the_marks_outside_of_quotes_and_comments() -> None:
    statement = "SELECT ?, '?', \"?\", `?` /* ? */, /*+ ? */ ? -- ?"

    assert fill_in(statement, [1, "?"]) == "SELECT 1, '?', \"?\", `?` /* ? */, /*+ ? */ '?' -- ?"


@pytest.mark.parametrize("parameters", [[], [1], [1, 2, 3]])
def test_as_many_parameters_as_marks_are_needed(parameters: list[int]) -> None:
    with pytest.raises(ParameterCount, match=rf"2 markers \(\?\) and {len(parameters)} parameters?\."):
        fill_in("SELECT ?, ?", parameters)


def test_a_statement_with_an_open_quote_is_refused() -> None:
    with pytest.raises(SqlSyntaxError, match="unterminated string"):
        fill_in("SELECT 'a, ?", [1])
