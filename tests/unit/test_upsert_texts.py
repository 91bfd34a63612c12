"""The statements by which each kind of database replaces and deletes rows by key."""

from __future__ import annotations

import pytest

from mt_core.spark.connectors.jdbc.upsert_texts import KeyedTable


def table(
    kind: str, *, columns: tuple[str, ...] = ("id", "day", "n"), keys: tuple[str, ...] = ("id", "day")
) -> KeyedTable:
    return KeyedTable(
        url=f"jdbc:{kind}://host/base",
        name="shop.sales",
        columns=columns,
        keys=keys,
        quoted=lambda name: f'"{name}"',
    )


@pytest.mark.parametrize(
    ("kind", "ending"),
    [
        (
            "postgresql",
            'INSERT INTO shop.sales ("id", "day", "n") VALUES (?, ?, ?) ON CONFLICT ("id", "day") DO UPDATE '
            'SET "n" = EXCLUDED."n"',
        ),
        (
            "SQLite",
            'INSERT INTO shop.sales ("id", "day", "n") VALUES (?, ?, ?) ON CONFLICT ("id", "day") DO UPDATE '
            'SET "n" = EXCLUDED."n"',
        ),
        (
            "mysql",
            (
                'INSERT INTO shop.sales ("id", "day", "n") '
                'VALUES (?, ?, ?) ON DUPLICATE KEY UPDATE "n" = VALUES("n")'
            ),
        ),
        ("h2", 'MERGE INTO shop.sales ("id", "day", "n") KEY ("id", "day") VALUES (?, ?, ?)'),
        ("oracle", 'INSERT INTO shop.sales ("id", "day", "n") VALUES (?, ?, ?)'),
    ],
)
def test_a_row_replaces_the_one_with_its_key_in_the_words_of_its_database(kind: str, ending: str) -> None:
    keyed = table(kind)

    assert (keyed.inserts, keyed.deletes, keyed.deletes_first) == (
        ending,
        'DELETE FROM shop.sales WHERE "id" = ? AND "day" = ?',
        kind == "oracle",
    )


@pytest.mark.parametrize(
    ("kind", "ending"),
    [
        ("postgresql", 'ON CONFLICT ("id") DO NOTHING'),
        ("mariadb", 'ON DUPLICATE KEY UPDATE "id" = VALUES("id")'),
    ],
)
def test_a_row_of_a_key_alone_stays_as_it_is(kind: str, ending: str) -> None:
    keyed = table(kind, columns=("id",), keys=("id",))

    assert keyed.inserts == f'INSERT INTO shop.sales ("id") VALUES (?) {ending}'
