from __future__ import annotations

import pytest

from mt_core.base.identifiers import Namespace
from mt_core.errors import Unsupported
from mt_core.sessions.ports import SessionState
from mt_core.sessions.temporary_objects import (
    TemporaryObject,
    after,
    check_writable,
    concerns_temporary,
    first_unexpected,
    texts,
)
from mt_core.sql.parser import ReadStatement

A, B = "CREATE TEMPORARY VIEW a AS SELECT 1", "CREATE OR REPLACE TEMP VIEW `B` AS SELECT * FROM a"
TABLE = "CREATE TEMPORARY TABLE g (n INT) WITH ('connector' = 'datagen')"
FUNCTION = "CREATE TEMPORARY FUNCTION a AS 'x'"


def state(
    *relations: str, functions: tuple[str, ...] = (), namespace: Namespace = ("default",)
) -> SessionState:
    return SessionState(
        catalog="lake",
        namespace=namespace,
        zone="UTC",
        relations=frozenset(relations),
        functions=frozenset(functions),
    )


EVERYTHING = state("a", "b", "g", functions=("a",))


def made(*statements: str, now: SessionState = EVERYTHING) -> tuple[TemporaryObject, ...]:
    objects: tuple[TemporaryObject, ...] = ()
    for text in statements:
        objects = after(objects, ReadStatement(text), now)
    return objects


def test_what_a_session_created_is_created_again_in_that_order() -> None:
    assert texts(made(A, f"{TABLE};", FUNCTION, B), EVERYTHING) == (A, TABLE, FUNCTION, B)


def test_a_view_that_is_created_again_keeps_its_place() -> None:
    again = "CREATE OR REPLACE TEMPORARY VIEW A AS SELECT 2"

    assert texts(made(A, B, again), EVERYTHING) == (again, B)


@pytest.mark.parametrize(
    "again",
    [
        "CREATE TEMPORARY FUNCTION IF NOT EXISTS A(x INT) RETURN x",
        "CREATE TEMPORARY SYSTEM FUNCTION if not exists `a` AS 'y'",
        "CREATE TEMPORARY TABLE IF NOT EXISTS g (n STRING) WITH ('connector' = 'datagen')",
    ],
)
def test_what_was_there_already_is_created_again_as_it_is(again: str) -> None:
    assert texts(made(TABLE, FUNCTION, again), EVERYTHING) == (TABLE, FUNCTION)


def test_what_was_not_there_is_created_again_though_the_statement_asked() -> None:
    first = "CREATE TEMPORARY FUNCTION IF NOT EXISTS a AS 'y'"

    assert texts(made(first, A), EVERYTHING) == (first, A)


def test_a_view_that_is_altered_needs_both_statements() -> None:
    altered = "ALTER VIEW a AS SELECT 3"

    assert texts(made(A, B, altered), EVERYTHING) == (A, B, altered)
    assert texts(made(A, B, altered, "CREATE OR REPLACE TEMP VIEW a AS SELECT 4"), EVERYTHING)[1:] == (B,)


@pytest.mark.parametrize("drop", ["DROP VIEW a", "DROP TEMPORARY VIEW IF EXISTS A", "DROP TABLE a"])
def test_a_view_that_is_dropped_is_not_created_again(drop: str) -> None:
    objects = after(made(A, FUNCTION, B), ReadStatement(drop), state("b", functions=("a",)))

    assert texts(objects, EVERYTHING) == (FUNCTION, B)


def test_what_the_session_lost_with_spark_is_not_created_again() -> None:
    assert texts(made(A, B, FUNCTION), state("b")) == (B,)


def test_names_are_looked_up_where_they_were() -> None:
    elsewhere = state("a", "b", "g", namespace=("shop", "eu"))
    objects = after(made(A), ReadStatement(B), elsewhere)
    objects = after(objects, ReadStatement(TABLE), elsewhere)

    assert texts(objects, EVERYTHING) == (A, "USE `lake`.`shop`.`eu`", B, TABLE, "USE `lake`.`default`")
    assert texts(objects, elsewhere) == ("USE `lake`.`default`", A, "USE `lake`.`shop`.`eu`", B, TABLE)


def test_a_batch_insert_into_a_sink_of_streams_is_refused_with_the_way_out() -> None:
    objects = made(A, "CREATE TEMPORARY TABLE G (n INT) WITH ('connector' = 'print')", FUNCTION)

    with pytest.raises(
        Unsupported, match=r"Table g: connector 'print' can only be written by a stream.*= 'streaming'"
    ):
        check_writable(objects, "g")
    for target in ("a", "lake.g", "h"):
        check_writable(objects, target)


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE VIEW a AS SELECT 1",
        "CREATE TABLE a (n INT)",
        "CREATE GLOBAL TEMPORARY VIEW a AS SELECT 1",
        "DROP TABLE lake.a",
        "SELECT 'CREATE TEMPORARY VIEW a'",
        "DROP MATERIALIZED TABLE a.b",
        "",
    ],
)
def test_other_statements_concern_no_temporary_object(sql: str) -> None:
    assert not concerns_temporary(ReadStatement(sql))
    assert made(sql) == ()


@pytest.mark.parametrize(
    ("statements", "place"),
    [
        ((), None),
        (
            (
                "USE lake.other",
                "CREATE TEMPORARY VIEW v AS SELECT 1",
                "ALTER VIEW V AS SELECT 2",
                "USE lake.default",
            ),
            None,
        ),
        (
            ("CREATE OR REPLACE TEMP FUNCTION f() RETURNS INT RETURN 1", "CREATE TEMPORARY TABLE t (n INT)"),
            None,
        ),
        (("CREATE TEMPORARY VIEW v AS SELECT 1", "ALTER VIEW w AS SELECT 1"), 1),
        (("CREATE VIEW v AS SELECT 1",), 0),
        (("CREATE GLOBAL TEMPORARY VIEW v AS SELECT 1",), 0),
        (("CREATE TEMPORARY VIEW v AS SELECT 1", "DROP VIEW v"), 1),
        (("SET a = 1",), 0),
        (("",), 0),
        (("-- nothing",), 0),
    ],
)
def test_statements_that_create_no_temporary_object_are_strangers(
    statements: tuple[str, ...], place: int | None
) -> None:
    assert first_unexpected(statements) == place
