from __future__ import annotations

import pytest

from mt_core.sql.kinds import PHRASES
from mt_core.sql.parser import ReadStatement, parse
from mt_core.terminal.prompt.examples import EXAMPLES, examples_of
from mt_core.terminal.prompt.keywords import KEYWORDS, keywords_after
from mt_core.terminal.prompt.typed import edited_part, is_command, is_whole, pieces

REFUSED = {"USE MODULES"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SELECT 1;",
        "SELECT ';';",
        "-- a note",
        "SELECT 1; SELECT 2;",
        "BEGIN SELECT 1; END;",
        r"\dt",
        "quit",
        "Help SHOW",
    ],
)
def test_enter_runs_what_is_whole(text: str) -> None:
    assert is_whole(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "SELECT ';",
        "SELECT 1; SELECT 2",
        "SELECT 1 -- ;",
        "/* ; ",
        "SELECT `a;",
        "BEGIN SELECT 1;",
        "SELECT $$ ;",
    ],
)
def test_enter_begins_another_line_of_what_is_not_whole(text: str) -> None:
    assert not is_whole(text)


def test_a_command_begins_with_a_backslash_or_is_a_word_of_its_own() -> None:
    commands = [r"\d", r"  \why daily", "quit", "EXIT;", "source a.sql", "help", "CLEAR"]
    statements = ["", "SELECT 1", "helper", "-- quit", "SELECT '\\d'"]

    assert [is_command(text) for text in (*commands, *statements)] == [True] * 7 + [False] * 5


def test_a_last_line_for_the_editor_is_taken_off() -> None:
    assert edited_part("SELECT a,\n  \\e\n") == "SELECT a,"
    assert edited_part("SELECT '\\e'") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "SELECT `a b`, 1.5 FROM t -- all",
            "keyword:SELECT identifier:`a b` symbol:, number:1.5 keyword:FROM word:t comment:-- all",
        ),
        (
            "from t where x = 'it''s';",
            "keyword:from word:t keyword:where word:x symbol:= string:'it''s' symbol:;",
        ),
        ("SELECT 'open ; FROM", "keyword:SELECT string:'open ; FROM"),
        ("SELECT 1 /* open", "keyword:SELECT number:1 comment:/* open"),
        ("  ", ""),
    ],
)
def test_pieces_have_the_looks_of_their_tokens(text: str, expected: str) -> None:
    found = pieces(text)

    assert "".join(piece.text for piece in found) == text
    assert " ".join(f"{piece.look}:{piece.text}" for piece in found if piece.look) == expected


@pytest.mark.parametrize(
    ("before", "begun", "expected"),
    [
        ("", "SEL", ["SELECT"]),
        ("SELECT a ", "fro", ["FROM"]),
        ("SELECT * FROM ", "da", []),
        ("SELECT * FROM lake.", "da", []),
        ("SELECT '", "SEL", []),
        ("-- ", "SEL", []),
        ("-- note\n", "SEL", ["SELECT"]),
        ("SELECT ", "", []),
        ("", "SELECT", []),
    ],
)
def test_keywords_are_offered_where_no_name_is_expected(before: str, begun: str, expected: list[str]) -> None:
    assert keywords_after(before, begun) == expected


def test_the_editor_knows_every_keyword_of_our_statements() -> None:
    assert {word for phrase in PHRASES for word in phrase.split()} - KEYWORDS == set()


def test_every_statement_has_an_example_that_can_be_read() -> None:
    without = {phrase for phrase in PHRASES if not examples_of(phrase)}

    assert without == REFUSED
    assert [text for text in EXAMPLES if not ReadStatement(text).type] == []
    for text in EXAMPLES:
        parse(text)


def test_examples_are_found_by_their_first_words_in_any_case() -> None:
    assert examples_of("alter  view") == [
        "ALTER VIEW lake.shop.recent AS SELECT * FROM lake.shop.orders WHERE ds > '2026-02-01'"
    ]
    assert examples_of("no such words") == []
