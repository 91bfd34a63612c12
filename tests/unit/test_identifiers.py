"""Names and string literals: what is quoted means what was quoted, in statements and where it is stored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mt_core.base.identifiers import (
    display_name,
    namespace_of,
    namespace_text,
    property_list,
    quote,
    sql_name,
    string_literal,
    unquote,
)
from mt_core.base.tokens import tokenize
from mt_core.sql.parser import parse_name

PARTS = st.lists(st.text(min_size=1), min_size=1, max_size=4).map(tuple)


@given(PARTS)
def test_a_name_survives_being_written_into_a_statement(parts: tuple[str, ...]) -> None:
    assert parse_name(sql_name(parts)) == parts
    assert parse_name(display_name(parts)) == parts


@given(PARTS)
def test_a_namespace_survives_being_stored(parts: tuple[str, ...]) -> None:
    assert namespace_of(namespace_text(parts)) == parts


@given(st.text())
def test_a_text_survives_as_a_string_literal(text: str) -> None:
    [token] = tokenize(string_literal(text))

    assert token.value == text


@pytest.mark.parametrize(
    ("parts", "shown"),
    [
        (("lake", "eu", "daily"), "lake.eu.daily"),
        (("lake", "eu.sales", "daily"), "lake.`eu.sales`.daily"),
        (("größe", "a`b"), "`größe`.`a``b`"),
    ],
)
def test_people_see_back_quotes_only_where_they_are_needed(parts: tuple[str, ...], shown: str) -> None:
    assert display_name(parts) == shown


def test_a_namespace_of_plain_names_is_stored_as_these_with_dots() -> None:
    assert namespace_text(("eu", "sales-2")) == "eu.sales-2"
    assert namespace_of("eu.sales-2") == ("eu", "sales-2")


def test_one_part_is_quoted_and_read_back() -> None:
    assert unquote(quote("a`b")) == "a`b"
    assert unquote("plain") == "plain"


def test_a_list_of_properties_has_its_keys_and_values_in_quotes() -> None:
    assert property_list({"a": "it's", "b": "\\"}) == r"'a' = 'it\'s', 'b' = '\\'"
