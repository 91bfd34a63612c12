from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pytest

from mt_core.sessions.catalog.names import Named, SessionNames
from mt_core.sessions.completion import complete
from mt_core.sql.statements import Name


class Names(SessionNames):
    """A catalog `lake` with namespaces `shop` and `default`, which is the current one."""

    TABLES: ClassVar[dict[Name, list[str]]] = {
        (): ["orders", "order lines"],
        ("shop",): ["sales"],
        ("lake", "shop"): ["sales"],
    }
    COLUMNS: ClassVar[dict[Name, list[str]]] = {
        ("orders",): ["id", "amount"],
        ("shop", "sales"): ["ds", "total"],
    }

    def __init__(self) -> None:
        pass

    def catalogs(self) -> Sequence[str]:
        return ["lake"]

    def within(self, kind: Named, namespace: Name = ()) -> Sequence[str]:
        match kind:
            case Named.NAMESPACES:
                return ["default", "shop"] if namespace in {(), ("lake",)} else []
            case Named.TABLES:
                return self.TABLES.get(namespace, [])
            case _:
                return []

    def functions(self) -> Sequence[str]:
        return ["lake.shop.tax", "to_euro"]

    def system_functions(self) -> Sequence[str]:
        return ["to_date"]

    def columns(self, table: Name) -> Sequence[str]:
        return self.COLUMNS.get(table, [])


@pytest.mark.parametrize(
    ("text", "candidates"),
    [
        ("SHOW C", ["CATALOGS", "COLUMNS", "CREATE", "CURRENT CATALOG", "CURRENT DATABASE"]),
        ("show create materialized ", ["TABLE"]),
        ("COMPILE ", ["AND EXECUTE PLAN", "PLAN"]),
        ("COMPILE PLAN 'p' FOR ", ["INSERT INTO", "STATEMENT SET BEGIN"]),
        ("COMPILE PLAN 'p' F", ["FOR INSERT INTO", "FOR STATEMENT SET BEGIN"]),
        ("COMPILE PLAN 'p' I", ["IF NOT EXISTS FOR INSERT INTO", "IF NOT EXISTS FOR STATEMENT SET BEGIN"]),
        ("COMPILE PLAN 'p' IF NOT EXISTS FOR I", ["INSERT INTO"]),
        ("COMPILE AND EXECUTE PLAN 'p' ", ["FOR INSERT INTO", "FOR STATEMENT SET BEGIN"]),
        ("EXECUTE PLAN 'p' ", []),
        ("SEL", ["SELECT"]),
        ("SELECT 1; SEL", ["SELECT"]),
        ("SELECT * FROM o", ["`order lines`", "orders"]),
        ("SELECT * FROM ", ["`order lines`", "default", "lake", "orders", "shop"]),
        ("SELECT * FROM shop.", ["shop.sales"]),
        ("SELECT * FROM lake.s", ["lake.shop"]),
        ("SELECT * FROM lake.shop.", ["lake.shop.sales"]),
        ("SELECT * FROM `ord", ["`order lines`", "orders"]),
        ("INSERT INTO sh", ["shop"]),
        ("DESCRIBE ord", ["`order lines`", "orders"]),
        ("SHOW LIN", ["LINEAGE"]),
        ("SHOW LINEAGE ", ["EXTENDED", "OF"]),
        ("SHOW LINEAGE OF ord", ["`order lines`", "orders"]),
        ("SHOW REFRESHES FOR shop.", ["shop.sales"]),
        ("USE CATALOG ", ["lake"]),
        ("USE s", ["shop"]),
        ("USE lake.", ["lake.default", "lake.shop"]),
        ("SHOW TABLES IN s", ["shop"]),
        ("SELECT * FROM orders o JOIN shop.sales AS s ON s.", ["s.ds", "s.total"]),
        ("SELECT * FROM orders WHERE am", ["amount"]),
        ("SELECT * FROM orders WHER", ["WHERE"]),
        ("SELECT 'it is FROM ", []),
        ("SELECT to_", ["to_date", "to_euro"]),
        ("SELECT * FROM orders WHERE amount > 1 AND to", ["to_date", "to_euro"]),
        ("DROP FUNCTION ", ["`lake.shop.tax`", "to_euro"]),
        ("DESCRIBE FUNCTION to", ["to_euro"]),
        ("CREATE FUNCTION to", []),
        ("SELECT * FROM orders WHERE amount BE", ["BETWEEN"]),
        ("SET 'table.plan.f", ["table.plan.force-recompile"]),
        ("RESET 'sql-client.v", ["sql-client.verbose"]),
        ("SET 'execution.runtime-mode' = '", ["batch", "streaming"]),
        ("SET 'sql-client.verbose' = 't", ["true"]),
        ("CREATE TABLE t (a INT) WITH ('", ["connector"]),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'ka", ["kafka"]),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'to", ["topic", "topic-pattern"]),
        (
            "CREATE TEMPORARY TABLE t (a INT) WITH ('connector' = 'datagen', '",
            ["connector", "number-of-rows", "rows-per-second"],
        ),
        ("CREATE CATALOG c WITH ('type' = '", ["iceberg", "jdbc"]),
        (
            "CREATE MATERIALIZED TABLE t WITH ('refresh.",
            ["refresh.late-data", "refresh.strategy", "refresh.sums-of-doubles"],
        ),
        ("CREATE MATERIALIZED TABLE t WITH ('refresh.strategy' = '", ["auto", "full", "incremental"]),
        ("CREATE MATERIALIZED TABLE t WITH ('partition.f", ["partition.fields."]),
        ("ALTER MATERIALIZED TABLE t SET ('refresh.l", ["refresh.late-data"]),
        ("SELECT * FROM orders /*+ OPTIONS('", ["streaming"]),
        ("SELECT * FROM orders /*+ OPTIONS('streaming' = 'f", ["false"]),
        ("SELECT * FROM orders /*+ STATE_TTL('", []),
        ("SELECT f('a', 'it", []),
        ("SELECT 1 -- FROM ", []),
        ("SELECT /* FROM ", []),
        ("no such statement ", []),
        ("))) ", []),
    ],
)
def test_what_can_stand_at_the_end_of_a_text(text: str, candidates: list[str]) -> None:
    assert complete(text, len(text), Names()) == candidates


def test_the_tables_behind_the_position_tell_the_columns_before_it() -> None:
    text = "SELECT tot FROM shop.sales"

    assert complete(text, len("SELECT tot"), Names()) == ["total"]


@pytest.mark.parametrize("position", [-1, 0, 10**9])
def test_a_position_outside_of_the_text_is_its_nearest_end(position: int) -> None:
    found = complete("SHOW ", position, Names())

    assert ("SELECT" in found, "TABLES" in found) == (position <= 0, position > 0)
