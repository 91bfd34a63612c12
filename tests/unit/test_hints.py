import pytest

from mt_core.errors import DefinitionInvalid, SqlSyntaxError, Unsupported
from mt_core.sql.hints import check_hints, without_hints
from mt_core.sql.parser import ReadStatement, parse
from mt_core.sql.statements import CreateMaterializedTable

HINT = "/*+ OPTIONS('streaming'='false') */"
BLANKS = " " * len(HINT)


@pytest.mark.parametrize(
    ("before", "name", "after"),
    [
        ("SELECT * FROM ", "t", ""),
        ("SELECT * FROM ", "lake.`my schema`.t", " AS x WHERE a > 1"),
        ("SELECT 1 FROM a, ", "b.c", " x"),
        ("SELECT 1 FROM a JOIN ", "b", " ON a.x = b.x"),
        ("SELECT 1 FROM (", "b", ")"),
        ("INSERT INTO ", "b", " SELECT 1"),
        ("INSERT INTO a TABLE ", "b", ""),
        ("WITH a AS (SELECT 1 FROM ", "b", ") SELECT * FROM a"),
        ("SELECT '😀' -- it's\nFROM ", "c.d", "\nWHERE 1 = 1"),
    ],
)
def test_options_after_the_name_of_a_table_become_blanks_and_a_hint(
    before: str, name: str, after: str
) -> None:
    text = without_hints(f"{before}{name} {HINT}{after}")

    assert text.text == f"{before}{name} {BLANKS}{after}"
    [hint] = text.hints
    assert text.text[hint.start : hint.stop] == name
    assert hint.options == {"streaming": "false"}


def test_each_table_has_its_own_options_and_lines_stay() -> None:
    text = without_hints(
        "SELECT * FROM a /*+ options('streaming' = 'true',\n 'x' = 'it''s' )*/ JOIN b/*+OPTIONS()*/ USING (i)"
    )

    assert text.text.split() == ["SELECT", "*", "FROM", "a", "JOIN", "b", "USING", "(i)"]
    assert text.text.count("\n") == 1
    assert [(text.text[each.start : each.stop], dict(each.options)) for each in text.hints] == [
        ("a", {"streaming": "true", "x": "it's"}),
        ("b", {}),
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT /*+ BROADCAST(t) */ * FROM t",
        "SELECT '/*+ OPTIONS(1) */' FROM t",
        "SELECT 1 -- FROM t /*+ OPTIONS('a' = 'b') */",
        "SELECT 1 FROM t /*+ LOOKUP('a' = 'b') */",
    ],
)
def test_what_is_no_hint_of_a_table_stays(sql: str) -> None:
    assert without_hints(sql).text == sql
    assert without_hints(sql).hints == ()


@pytest.mark.parametrize(
    ("sql", "column"),
    [
        (f"SELECT {HINT} * FROM t", 8),
        (f"SELECT * FROM t AS x {HINT}", 22),
        (f"SELECT * FROM t x {HINT}", 19),
        (f"SELECT * FROM (SELECT {HINT} 1)", 23),
        (f"SELECT * FROM (SELECT 1) {HINT}", 26),
        (f"SELECT a {HINT} FROM t", 10),
        (f"{HINT} SELECT 1", 1),
    ],
)
def test_options_elsewhere_are_refused_at_their_place(sql: str, column: int) -> None:
    with pytest.raises(
        SqlSyntaxError, match="directly after the name of a table, before its alias"
    ) as refused:
        without_hints(sql)

    assert (refused.value.facts["line"], refused.value.facts["column"]) == (1, column)


@pytest.mark.parametrize(
    ("hint", "words", "column"),
    [
        ("/*+ OPTIONS('a' 'b') */", "Encountered \"'b'\"; expected =", 32),
        ("/*+ OPTIONS(streaming='a') */", 'Encountered "streaming"; expected an option key in quotes', 28),
        ("/*+ OPTIONS('a'='b', 'a'='c') */", "option 'a' is given twice", 37),
        ("/*+ OPTIONS('a'='b'), X */", "expected the end of the hint", 36),
        ("/*+ OPTIONS */", "( before the options", 28),
    ],
)
def test_a_hint_that_cannot_be_read_is_refused_at_its_place(hint: str, words: str, column: int) -> None:
    with pytest.raises(SqlSyntaxError) as refused:
        without_hints(f"SELECT 1 FROM t{hint}")

    assert words in str(refused.value)
    assert (refused.value.facts["line"], refused.value.facts["column"]) == (1, column)


# ------------------------------------------------------------------------------------------------- statements


def test_a_statement_has_its_text_without_hints_and_as_it_was_written() -> None:
    read = ReadStatement(f"INSERT INTO a SELECT * FROM b {HINT};")

    assert read.text == f"INSERT INTO a SELECT * FROM b {BLANKS}"
    assert read.written == f"INSERT INTO a SELECT * FROM b {HINT}"
    assert [read.text[each.start : each.stop] for each in read.hints] == ["b"]


def test_a_query_of_a_materialized_table_has_no_hints() -> None:
    table = parse(ReadStatement(f"CREATE MATERIALIZED TABLE m AS SELECT * FROM b {HINT} WHERE 1 = 1").text)

    assert isinstance(table, CreateMaterializedTable)
    assert table.query.split() == ["SELECT", "*", "FROM", "b", "WHERE", "1", "=", "1"]


@pytest.mark.parametrize(
    ("sql", "error", "words"),
    [
        (
            "SELECT 1 FROM a.t /*+ OPTIONS('scan.startup.mode' = 'latest') */",
            Unsupported,
            "Table a.t: option 'scan.startup.mode' is not supported in OPTIONS; only 'streaming' is. "
            "Leave it out, or set the option of the table itself in CREATE TABLE … WITH.",
        ),
        (
            "SELECT 1 FROM t /*+ OPTIONS('streaming' = 'no') */",
            DefinitionInvalid,
            "Table t: option 'streaming' is 'no' in OPTIONS; expected true or false.",
        ),
        (
            f"CREATE TEMPORARY VIEW v AS SELECT 1 FROM t {HINT}",
            Unsupported,
            (
                "Table t: a view does not store OPTIONS; "
                "write them after the name of the view in the statement that reads it."
            ),
        ),
    ],
)
def test_options_that_mean_nothing_are_refused_naming_table_and_option(
    sql: str, error: type[Exception], words: str
) -> None:
    read = ReadStatement(sql)

    with pytest.raises(error) as refused:
        check_hints(read.type, read.text, read.hints)

    assert words in str(refused.value)


def test_streaming_is_an_option_of_every_table() -> None:
    read = ReadStatement("SELECT 1 FROM t /*+ OPTIONS('streaming' = 'TRUE') */ JOIN u /*+ OPTIONS() */")

    check_hints(read.type, read.text, read.hints)


@pytest.mark.parametrize(
    ("sql", "given"),
    [
        ("SELECT /*+ STATE_TTL('o' = '1 d') */ 1 FROM o", "SELECT /*+ STATE_TTL('o' , '1 d') */ 1 FROM o"),
        ("SELECT /*+ state_ttl(o='0',\n `p` = '10') */ 1", "SELECT /*+ state_ttl(o,'0',\n `p` , '10') */ 1"),
        (
            "SELECT /*+ BROADCAST(a), STATE_TTL('a'='1 h'), X(b = c) */ 1",
            "SELECT /*+ BROADCAST(a), STATE_TTL('a','1 h'), X(b = c) */ 1",
        ),
        (
            "SELECT /*+ STATE_TTL('a' = '1 s') */ /*+ STATE_TTL('b' = '1 s') */ 1",
            "SELECT /*+ STATE_TTL('a' , '1 s') */ /*+ STATE_TTL('b' , '1 s') */ 1",
        ),
        (
            "SELECT /*+ STATE_TTL('o' = '1 d on read write Event Time') */ 1",
            "SELECT /*+ STATE_TTL('o' , '1 d on read write Event Time') */ 1",
        ),
        ("SELECT '/*+ STATE_TTL(1) */' FROM t", "SELECT '/*+ STATE_TTL(1) */' FROM t"),
        ("SELECT 1 -- /*+ STATE_TTL(1) */", "SELECT 1 -- /*+ STATE_TTL(1) */"),
    ],
)
def test_a_state_ttl_is_as_spark_reads_it_at_the_same_places(sql: str, given: str) -> None:
    assert without_hints(sql).text == given


@pytest.mark.parametrize(
    ("hint", "reason", "column"),
    [
        (
            "STATE_TTL('o' = '1 parsec')",
            "the STATE_TTL of 'o' must be a duration such as 30 min, 10 s or 500 ms, at least 1 ms",
            28,
        ),
        ("STATE_TTL('o' = '10 ns')", "the STATE_TTL of 'o' must be a duration", 28),
        (
            "STATE_TTL('o' = '1 h ON DELETE')",
            "or 0 for unlimited; ON READ WRITE and EVENT TIME may follow",
            28,
        ),
        ("STATE_TTL('o', '1 d')", "expected =", 25),
        ("STATE_TTL('o' = 1)", "expected the duration of 'o' in quotes", 28),
        ("STATE_TTL", "expected \\( before the names of tables", 22),
    ],
)
def test_a_state_ttl_that_is_none_is_refused_at_its_place(hint: str, reason: str, column: int) -> None:
    with pytest.raises(SqlSyntaxError, match=reason) as refused:
        without_hints(f"SELECT /*+ {hint} */ 1")

    assert refused.value.facts["column"] == column


def test_a_state_ttl_elsewhere_is_refused_at_its_place() -> None:
    with pytest.raises(SqlSyntaxError, match="expected it directly after SELECT") as refused:
        without_hints("SELECT 1\nFROM o /*+ STATE_TTL('o' = '1 d') */")

    assert (refused.value.facts["line"], refused.value.facts["column"]) == (2, 8)
