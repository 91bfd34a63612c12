import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mt_core.base import tokens
from mt_core.base.tokens import (
    MOST_NESTED,
    Statement,
    Token,
    TokenKind,
    check_nesting,
    split_statements,
    tokenize,
)
from mt_core.errors import SqlSyntaxError

T = TypeVar("T")
SQLISH = st.lists(
    st.one_of(
        st.sampled_from(
            ["'", '"', "`", ";", "--", "/*", "*/", "/*+", "\n", "\\", "$$", "BEGIN", "END", "CASE", "r'", "."]
        ),
        st.text(max_size=3),
    ),
    max_size=20,
).map("".join)


def texts(sql: str) -> list[str]:
    return [token.text for token in tokenize(sql)]


def kinds(sql: str) -> list[TokenKind]:
    return [token.kind for token in tokenize(sql)]


def statements(sql: str) -> list[str]:
    return [statement.text for statement in split_statements(sql)]


def or_error(attempt: Callable[[], T]) -> T | str:
    try:
        return attempt()
    except SqlSyntaxError as error:
        return error.message


# ----------------------------------------------------------------------------------------------------- tokens


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("select", TokenKind.WORD),
        ("_x1", TokenKind.WORD),
        ("1abc", TokenKind.WORD),
        ("größe", TokenKind.WORD),
        ("`a b`", TokenKind.IDENTIFIER),
        ("`a``b`", TokenKind.IDENTIFIER),
        ("``", TokenKind.IDENTIFIER),
        ("'a'", TokenKind.STRING),
        ("''", TokenKind.STRING),
        ("'it''s'", TokenKind.STRING),
        (r"'it\'s'", TokenKind.STRING),
        (r"'a\\'", TokenKind.STRING),
        ("'two\nlines'", TokenKind.STRING),
        ('"a"', TokenKind.STRING),
        ('"a""b"', TokenKind.STRING),
        (r"r'a\'", TokenKind.STRING),
        (r'R"a\"', TokenKind.STRING),
        ("$$ a ' b $$", TokenKind.STRING),
        ("$x$ $$ $x$", TokenKind.STRING),
        ("1", TokenKind.NUMBER),
        ("1.5", TokenKind.NUMBER),
        (".5", TokenKind.NUMBER),
        ("1e10", TokenKind.NUMBER),
        ("1.5E-3", TokenKind.NUMBER),
        ("10L", TokenKind.NUMBER),
        ("2.5BD", TokenKind.NUMBER),
        ("=", TokenKind.SYMBOL),
        ("{", TokenKind.SYMBOL),
        ("-- a ' b", TokenKind.COMMENT),
        ("-- a\\\nb", TokenKind.COMMENT),
        ("/* a ' ; */", TokenKind.COMMENT),
        ("/**/", TokenKind.COMMENT),
        ("/* a /* b */ c */", TokenKind.COMMENT),
        ("/* a /*+ b */", TokenKind.COMMENT),
        ("/*+ BROADCAST(t) */", TokenKind.HINT),
    ],
)
def test_one_token(sql: str, kind: TokenKind) -> None:
    assert list(tokenize(sql)) == [Token(kind=kind, text=sql, start=0, end=len(sql), line=1, column=1)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select a.b,c", ["select", "a", ".", "b", ",", "c"]),
        ("a--b\nc", ["a", "--b", "c"]),
        ("db.1t", ["db", ".", "1t"]),
        ("1-1", ["1", "-", "1"]),
        ("a/b*c", ["a", "/", "b", "*", "c"]),
        ("'a''b''c' 'd'", ["'a''b''c'", "'d'"]),
        ("a$b", ["a", "$", "b"]),
        ("${x}", ["$", "{", "x", "}"]),
        ("  \t\n", []),
        ("x::int", ["x", ":", ":", "int"]),
        ("r 'a'", ["r", "'a'"]),
    ],
)
def test_several_tokens(sql: str, expected: list[str]) -> None:
    assert texts(sql) == expected


def test_tokens_know_where_they_are() -> None:
    found = [(token.text, token.line, token.column) for token in tokenize("a 'x\ny'\n  /* c\n */ b")]

    assert found == [("a", 1, 1), ("'x\ny'", 1, 3), ("/* c\n */", 3, 3), ("b", 4, 5)]


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("`a``b`", "a`b"),
        ("'it''s'", "it's"),
        ("'a\"\"b'", 'a""b'),
        ('"a""b"', 'a"b'),
        ("\"it''s\"", "it''s"),
        (r"'it\'s'", "it's"),
        (r"'a\\b'", "a\\b"),
        (r"'a\nb\tc'", "a\nb\tc"),
        (r"'\u00e9\U0001F600\101'", "é😀A"),
        (r"'100\%'", "100\\%"),
        (r"'a\_b'", "a\\_b"),
        (r"'\q'", "q"),
        (r"r'a\nb'", r"a\nb"),
        ("$$a'b$$", "a'b"),
        ("$tag$a$$b$tag$", "a$$b"),
        ("word", "word"),
    ],
)
def test_a_token_has_the_value_spark_gives_it(sql: str, value: str) -> None:
    assert [token.value for token in tokenize(sql)] == [value]


def test_only_words_are_keywords() -> None:
    assert [token.keyword for token in tokenize("select `select` 'select' 1")] == ["SELECT", "", "", ""]


def test_tokens_are_cut_as_they_are_asked_for() -> None:
    tokens = tokenize("select 1 'never closed")

    assert [next(tokens).text, next(tokens).text] == ["select", "1"]
    with pytest.raises(SqlSyntaxError):
        next(tokens)


@pytest.mark.parametrize(
    ("sql", "what", "column"),
    [
        ("a 'b", "unterminated string; the ' here has no closing '", 3),
        ("'a''b", "unterminated string", 1),
        ("'a\\", "unterminated string", 1),
        (r"'a\'", "unterminated string", 1),
        ('x "b', 'unterminated string; the " here has no closing "', 3),
        ("r'b", "unterminated string; the r' here has no closing '", 1),
        ("$$ b", "unterminated string; the $$ here has no closing $$", 1),
        ("a.`b", "unterminated quoted identifier; the ` here has no closing `", 3),
        ("a /* b", r"unterminated comment; the /\* here has no closing \*/", 3),
        ("a /* /* */", "unterminated comment", 3),
        ("a /*+ b", "unterminated hint", 3),
    ],
)
def test_what_stays_open_is_named_where_it_begins(sql: str, what: str, column: int) -> None:
    with pytest.raises(SqlSyntaxError, match=what.replace("$", r"\$")) as refused:
        split_statements(sql)

    assert 'Encountered "<EOF>"' in refused.value.message
    assert (refused.value.line, refused.value.column) == (1, column)


@given(SQLISH)
def test_tokens_and_the_space_between_them_are_the_text(sql: str) -> None:
    tokens = or_error(lambda: list(tokenize(sql)))
    if isinstance(tokens, str):
        assert 'Encountered "<EOF>": unterminated' in tokens
        return

    rest = 0
    for token in tokens:
        assert sql[rest : token.start].strip() == ""
        assert sql[token.start : token.end] == token.text
        rest = token.end
    assert sql[rest:].strip() == ""


@given(st.text())
def test_any_text_survives_being_quoted(text: str) -> None:
    string = "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
    identifier = "`" + text.replace("`", "``") + "`"

    assert [token.value for token in tokenize(f"{string} {identifier}")] == [text, text]


# ------------------------------------------------------------------------------------------------- statements


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("", []),
        (" ;; \n; -- only a comment\n/* ; */", []),
        ("select 1", ["select 1"]),
        ("select 1;", ["select 1"]),
        ("select 1; select 2", ["select 1", "select 2"]),
        ("select ';'; select \";\"; select `;`", ["select ';'", 'select ";"', "select `;`"]),
        ("select 1 -- a;b\n, 2; select 3", ["select 1 -- a;b\n, 2", "select 3"]),
        ("select /* ; */ 1; select 2", ["select /* ; */ 1", "select 2"]),
        ("-- first\nselect 1; -- last", ["select 1"]),
        ("select /*+ a(';') */ 1; select 2", ["select /*+ a(';') */ 1", "select 2"]),
        ("select r'\\'; select 2", ["select r'\\'", "select 2"]),
        ("create f as $$ a; b $$; select 2", ["create f as $$ a; b $$", "select 2"]),
    ],
)
def test_statements_end_at_semicolons_outside_of_quotes_and_comments(
    script: str, expected: list[str]
) -> None:
    assert statements(script) == expected


@pytest.mark.parametrize(
    "block",
    [
        "BEGIN SELECT 1; SELECT 2; END",
        "begin select 1; end",
        "lbl: BEGIN SELECT 1; END lbl",
        "BEGIN BEGIN SELECT 1; END; SELECT 2; END",
        "BEGIN IF a THEN SELECT 1; ELSE SELECT 2; END IF; END",
        "BEGIN WHILE a DO SELECT 1; END WHILE; END",
        "BEGIN LOOP SELECT 1; LEAVE x; END LOOP; END",
        "BEGIN REPEAT SELECT 1; UNTIL a END REPEAT; END",
        "BEGIN FOR r AS SELECT 1 DO SELECT 2; END FOR; END",
        "BEGIN CASE a WHEN 1 THEN SELECT 1; END CASE; END",
        "BEGIN SELECT CASE WHEN a THEN 1 END; SELECT 2; END",
        "BEGIN SELECT CASE WHEN a THEN CASE b WHEN 1 THEN 2 END END AS end, t.begin; END",
        "BEGIN SELECT end, end FROM t; SELECT CASE WHEN end > 1 THEN end END; END",
        "BEGIN SELECT CASE end WHEN 1 THEN a > end ELSE b::ARRAY<INT> END; SELECT 2; END",
        "BEGIN SELECT CASE WHEN a IN (SELECT 1 end) THEN 2 END; SELECT (SELECT 1 end); END",
        "BEGIN SELECT CASE WHEN a THEN 1. END; END",
        "BEGIN END",
        "BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN SELECT 1; END; SELECT 2; END",
        "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END",
        "COMPILE PLAN 'p' FOR STATEMENT SET BEGIN INSERT INTO a SELECT 1; END",
    ],
)
def test_semicolons_in_a_block_do_not_end_it(block: str) -> None:
    assert statements(f"SELECT 0; {block}; SELECT 3") == ["SELECT 0", block, "SELECT 3"]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (
            "BEGIN STATEMENT SET; INSERT INTO a SELECT 1; END;",
            ["BEGIN STATEMENT SET", "INSERT INTO a SELECT 1", "END"],
        ),
        ("SELECT begin; SELECT 2", ["SELECT begin", "SELECT 2"]),
        ("SELECT CASE WHEN a THEN 1 END; SELECT 2", ["SELECT CASE WHEN a THEN 1 END", "SELECT 2"]),
        ("SELECT case; SELECT 2", ["SELECT case", "SELECT 2"]),
    ],
)
def test_words_of_blocks_outside_of_blocks_mean_nothing(script: str, expected: list[str]) -> None:
    assert statements(script) == expected


def test_a_block_without_end_is_incomplete() -> None:
    with pytest.raises(
        SqlSyntaxError, match='Encountered "<EOF>": unterminated block; the BEGIN here has no END'
    ) as refused:
        split_statements("SELECT 1;\n BEGIN SELECT 1;")

    assert (refused.value.line, refused.value.column) == (2, 2)


def test_a_statement_knows_where_it_is_and_whether_it_ended() -> None:
    assert split_statements("-- c\n  select\n1 ;\n select 2") == [
        Statement(text="select\n1", start=7, line=2, column=3, terminated=True),
        Statement(text="select 2", start=19, line=4, column=2, terminated=False),
    ]


@given(SQLISH)
def test_splitting_never_crashes_and_loses_nothing(script: str) -> None:
    found = or_error(lambda: split_statements(script))
    if isinstance(found, str):
        assert 'Encountered "<EOF>": unterminated' in found
        return

    significant = [
        token.text for token in tokenize(script) if token.kind is not TokenKind.COMMENT and token.text != ";"
    ]
    kept = [
        token.text
        for statement in found
        for token in tokenize(statement.text)
        if token.kind is not TokenKind.COMMENT and token.text != ";"
    ]
    assert kept == significant
    assert all(script[one.start :].startswith(one.text) for one in found)


def test_a_long_text_is_split_in_one_pass() -> None:
    script = "select 'a;b', `c;d` /* ; */ from t -- ;\n;" * 5_000

    assert len(split_statements(script)) == 5_000


def test_no_group_has_a_possessive_quantifier_which_python_3_11_2_matches_wrongly() -> None:
    # Debian 12 has Python 3.11.2, in which `'1'` was an unterminated string.
    source = Path(tokens.__file__).read_text()

    assert not re.findall(r"\)[*+?]\+", source)


# ---------------------------------------------------------------------------------------------------- nesting

NESTED: dict[str, Callable[[int], str]] = {
    "brackets": lambda depth: "SELECT " + "(" * depth + "1" + ")" * depth,
    "calls": lambda depth: "SELECT " + "abs( " * depth + "1" + ")" * depth,
    "subscripts": lambda depth: "SELECT " + "a[" * depth + "1" + "]" * depth,
    "subqueries": lambda depth: "SELECT * FROM " + "(SELECT a, b -- (\nFROM " * depth + "t" + ")" * depth,
    "rows below": lambda depth: "SELECT " + "(" * (depth - 2) + "a IN ((1, 2), (3, 4))" + ")" * (depth - 2),
    "CASE": lambda depth: "SELECT " + "case\nwhen a then " * depth + "1" + " end" * depth,
    "CASE of a value": lambda depth: "SELECT " + "CASE a WHEN 1 THEN 2 ELSE " * depth + "1" + " END" * depth,
    "types": lambda depth: "SELECT CAST(a AS " + "array<" * (depth - 1) + "INT" + ">" * (depth - 1) + ")",
    "STRUCT": lambda depth: (
        "SELECT CAST(a AS " + "STRUCT <x: " * (depth - 1) + "INT" + ">" * (depth - 1) + ")"
    ),
    "types with comments": lambda depth: (
        "SELECT CAST(a AS " + "ARRAY/**/<" * (depth - 1) + "INT" + ">" * (depth - 1) + ")"
    ),
    "a column end": lambda depth: "SELECT " + "CASE WHEN end > 1 THEN " * depth + "1" + " END" * depth,
    "CASE of a column end": lambda depth: (
        "SELECT " + "CASE /* CASE */ end WHEN 1 THEN " * depth + "1" + " END" * depth
    ),
    "CASE of a sum": lambda depth: "SELECT " + "CASE end + 1 WHEN 1 THEN " * depth + "1" + " END" * depth,
    "an alias end": lambda depth: (
        "SELECT " + "CASE WHEN a IN (SELECT 1 end) THEN " * (depth - 1) + "1" + " END" * (depth - 1)
    ),
    "a column end after >": lambda depth: (
        "SELECT " + "CASE WHEN 1 >-- (\n end THEN " * depth + "1" + " END" * depth
    ),
    "a column end of a table": lambda depth: (
        "SELECT " + "CASE WHEN t.end THEN " * depth + "1" + " END" * depth
    ),
    "CASE of a negation": lambda depth: "SELECT " + "CASE NOT a WHEN 1 THEN " * depth + "1" + " END" * depth,
    "CASE of a parameter": lambda depth: "SELECT " + "CASE :p WHEN 1 THEN " * depth + "1" + " END" * depth,
    "minus": lambda depth: "SELECT " + "- " * depth + "1",
    "tilde": lambda depth: "SELECT " + "~" * depth + "1",
    "NOT": lambda depth: "SELECT " + "NOT " * depth + "true",
    "signs in brackets": lambda depth: (
        "SELECT " + "(" * (depth // 2) + "-~" * (depth // 4) + "1" + ")" * (depth // 2)
    ),
    "never closed": lambda depth: "SELECT " + "(" * depth + "1",
    "blocks": lambda depth: "BEGIN " * depth + "SELECT 1; " + "END; " * (depth - 1) + "END",
    "CASE in a block": lambda depth: (
        "BEGIN SELECT " + "CASE WHEN a THEN " * depth + "1" + " END" * depth + "; END"
    ),
}


def check(sql: str) -> None:
    split_statements(sql)
    check_nesting(sql)


@pytest.mark.parametrize("nested", NESTED.values(), ids=NESTED)
def test_a_statement_nests_up_to_the_limit(nested: Callable[[int], str]) -> None:
    check(nested(MOST_NESTED))

    with pytest.raises(SqlSyntaxError) as refused:
        check(nested(MOST_NESTED + 4))

    assert refused.value.facts["limit"] == MOST_NESTED
    assert refused.value.facts["depth"] in {MOST_NESTED + 1, MOST_NESTED + 4}


def test_a_statement_that_nests_too_deeply_is_refused_with_its_depth_the_place_and_the_way_out() -> None:
    with pytest.raises(SqlSyntaxError) as refused:
        check_nesting("-- (((\nSELECT\n  " + "(" * 20_000 + "1" + ")" * 20_000)

    assert str(refused.value) == (
        "SQL parse failed. The statement nests 20000 levels of brackets, blocks, CASE, types or signs; "
        "500 are the most. Name the inner parts in WITH … AS (…) or in views, and write a chain of CASE … "
        "ELSE CASE as one CASE with several WHEN. (line 3, column 503)"
    )
    assert refused.value.facts == {"line": 3, "column": 503, "depth": 20_000, "limit": 500}


@pytest.mark.parametrize(
    "flat",
    [
        " + ".join(["a"] * 10_000),
        " AND ".join(["NOT a > -1"] * 10_000),
        f"a IN ({', '.join(map(str, range(10_000)))})",
        f"* FROM VALUES {', '.join(f'({number}, -{number}, f(g(h({number}))))' for number in range(10_000))}",
        " UNION ALL SELECT ".join(["(1)"] * 2_000),
        "* FROM t "
        + " ".join(f"JOIN (SELECT 1 AS k) AS t{number} ON a.k = t{number}.k" for number in range(2_000)),
        ", ".join(["CASE WHEN a THEN CASE b WHEN 1 THEN 2 END END AS end"] * 2_000),
        ", ".join(["case, t.case, case + 1 AS case"] * 200),
        ", ".join(["CASE WHEN end > 1 AND t.end < 2 THEN end ELSE end END AS end"] * 1_000),
        ", ".join(["CASE WHEN a THEN b::ARRAY<INT> ELSE c::MAP<INT, ARRAY<INT>> END"] * 1_000),
        ", ".join(["CASE WHEN a THEN 1. ELSE 2. END"] * 1_000),
        ", ".join(["CASE WHEN a IN (SELECT 1 end) THEN 2 END"] * 1_000),
        ", ".join(["CASE WHEN a THEN 1 END case_1"] * 1_000),
        " AND ".join(["map < 1 AND array << 2 > 1 AND struct <= 'x' AND case NOT IN (1)"] * 1_000),
        ", ".join(["CAST(a AS MAP<INT, STRUCT<x: ARRAY<INT>>>)"] * 2_000),
        "'"
        + "(" * 2_000
        + "' /* "
        + "(" * 2_000
        + " */ -- "
        + "(" * 2_000
        + "\n, `"
        + "[" * 2_000
        + "`, $$"
        + "(" * 2_000
        + "$$",
        "1 /* a /* " + "(" * 2_000 + " */ b */ -- " + "-" * 2_000,
    ],
    ids=[
        *(
            "+",
            "AND",
            "IN",
            "VALUES",
            "UNION",
            "JOIN",
            "CASE",
            "column",
            "column end",
            "CASE that ends with a type",
            "number with a dot",
            "alias end",
            "alias",
            "compared columns",
            "types",
            "quotes",
        ),
        "comments",
    ],
)
def test_a_long_statement_is_not_a_deep_one(flat: str) -> None:
    check(f"SELECT {flat}")


OPERATORS = frozenset("([<>~,/.-=")
PIECES = [
    *"(()[]>~a,/=",
    "END",
    "END",
    "SELECT",
    "ARRAY<",
    "x.case",
    "1.5",
    "1.",
    "'('",
    "`[`",
    "r'('",
    "$$($$",
    "(1,2)",
]
LEVELS = st.lists(
    st.sampled_from(
        [*PIECES, "CASE WHEN", "MAP <", "- ", "NOT", "END IF", "-- (\n", "/* ( */", "/* /* ( */ ( */"]
    ),
    max_size=40,
)


@given(LEVELS, st.integers(1, 5))
def test_levels_are_counted_as_tokens_say(pieces: list[str], most: int) -> None:
    sql = " ".join(pieces)

    deepest = deepest_of(sql)

    if deepest <= most:
        check_nesting(sql, most)
    else:
        with pytest.raises(SqlSyntaxError) as refused:
            check_nesting(sql, most)
        assert refused.value.facts["depth"] == deepest


def deepest_of(sql: str) -> int:
    """Count the levels of *sql* token by token."""
    opened, signs, deepest, before = {"(": 0, "CASE": 0, "<": 0}, 0, 0, ""
    # The CASE words that are open in each bracket, and whether the last token that is no comment asks
    # for an operand.
    cases, is_operand_next = [0], False
    tokens = list(tokenize(sql))
    for place, token in enumerate(tokens):
        following = tokens[place + 1] if place + 1 < len(tokens) else None
        # A comment within a comment is no gap to the search for a compared column.
        after = (
            each.text
            for each in tokens[place + 1 :]
            if each.kind is not TokenKind.COMMENT or "/* /*" in each.text
        )
        compared = next(islice(after, 1, None), "")
        word = token.keyword or (token.text if token.kind is TokenKind.SYMBOL else "")
        next_word = (following.keyword or following.text) if following else ""
        signs = signs + 1 if word in {"-", "~", "NOT"} else 0
        ends_type = word == ">" and opened["<"] > 0
        if before == ".":
            pass
        elif word in {"(", "["}:
            opened["("] += 1
            cases.append(0)
        elif word in {")", "]"}:
            cases = cases[:-1] if opened["("] else cases
            opened["("] = max(0, opened["("] - 1)
        elif word == "CASE" and before != "END":
            cases[-1] += 1
        elif word == "END" and next_word != "IF":
            cases[-1] = max(0, cases[-1] - (not is_operand_next))
        elif word in {"ARRAY", "MAP"} and not compared.startswith(tuple("0123456789'")):
            opened["<"] += 1
        elif word == ">":
            opened["<"] = max(0, opened["<"] - 1)
        opened["CASE"] = sum(cases)
        deepest = max(deepest, sum(opened.values()) + (signs if signs > 1 else 0))
        if token.kind not in {TokenKind.COMMENT, TokenKind.HINT}:
            is_name = before == "." and token.keyword
            is_operand_next = (
                not is_name
                and not ends_type
                and (word in OPERATORS or word in {"CASE", "WHEN", "NOT", "SELECT"})
            )
        before = word
    return deepest
