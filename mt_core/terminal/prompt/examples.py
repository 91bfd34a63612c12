"""Example statements for HELP."""

from __future__ import annotations

_DAILY = "SELECT ds, sum(amount) AS revenue FROM lake.shop.orders GROUP BY ds"
_PLAN = "'file:///plans/daily.json'"
_INSERT = f"INSERT INTO lake.shop.totals {_DAILY}"

EXAMPLES: tuple[str, ...] = (
    f"CREATE MATERIALIZED TABLE lake.shop.daily FRESHNESS = INTERVAL '1' DAY AS {_DAILY}",
    f"CREATE OR ALTER MATERIALIZED TABLE lake.shop.daily FRESHNESS = INTERVAL '1' HOUR AS {_DAILY}",
    "REFRESH MATERIALIZED TABLE lake.shop.daily PARTITION (ds = '2026-01-02')",
    "ALTER MATERIALIZED TABLE lake.shop.daily SUSPEND",
    "ALTER MATERIALIZED TABLE lake.shop.daily RESUME WITH ('catch-up' = 'none')",
    "ALTER MATERIALIZED TABLE lake.shop.daily SET FRESHNESS = INTERVAL '2' DAY",
    f"ALTER MATERIALIZED TABLE lake.shop.daily AS {_DAILY}",
    "DROP MATERIALIZED TABLE IF EXISTS lake.shop.daily RESTRICT",
    "SHOW MATERIALIZED TABLES IN lake.shop LIKE 'da%'",
    "SHOW MATERIALIZED TABLES EXTENDED",
    "SHOW CREATE MATERIALIZED TABLE lake.shop.daily",
    "VERIFY MATERIALIZED TABLE lake.shop.daily SAMPLE 5 PERCENT",
    "SHOW REFRESHES FOR lake.shop.daily LIMIT 5",
    "SHOW REFRESHES WHERE status = 'FAILED'",
    "SHOW REFRESHES EXTENDED LIMIT 5",
    "SHOW LINEAGE EXTENDED",
    "SHOW LINEAGE OF lake.shop.daily",
    "DESCRIBE lake.shop.daily",
    "DESCRIBE EXTENDED lake.shop.daily",
    "DESCRIBE TABLE lake.shop.orders",
    "DESCRIBE JOB 'a1b2c3d4e5f60718293a4b5c6d7e8f90'",
    "DESCRIBE CATALOG EXTENDED archive",
    "DESCRIBE DATABASE EXTENDED lake.shop",
    "DESCRIBE FUNCTION EXTENDED net",
    f"EXPLAIN {_DAILY}",
    f"EXPLAIN {_INSERT}",
    (
        f"EXPLAIN STATEMENT SET BEGIN {_INSERT}; INSERT INTO lake.shop.days SELECT DISTINCT ds "
        "FROM lake.shop.orders; END"
    ),
    f"EXPLAIN CREATE TABLE lake.shop.copy AS {_DAILY}",
    "EXPLAIN REFRESH lake.shop.daily",
    f"EXPLAIN PLAN {_PLAN}",
    f"EXPLAIN CREATE MATERIALIZED TABLE lake.shop.daily FRESHNESS = INTERVAL '1' DAY AS {_DAILY}",
    "SHOW JOBS LIKE 'insert-%'",
    "STOP JOB 'a1b2c3d4e5f60718293a4b5c6d7e8f90' WITH SAVEPOINT",
    f"COMPILE PLAN {_PLAN} FOR {_INSERT}",
    f"EXECUTE PLAN {_PLAN}",
    f"COMPILE AND EXECUTE PLAN {_PLAN} FOR {_INSERT}",
    "SET 'table.local-time-zone' = 'Europe/Berlin'",
    "RESET 'table.local-time-zone'",
    "USE lake.shop",
    "USE CATALOG lake",
    "ADD JAR '/opt/jars/functions.jar'",
    "SHOW JARS",
    "SHOW MODULES",
    "SHOW FULL MODULES",
    (
        "CREATE CATALOG archive WITH ('type' = 'iceberg', 'catalog-type' = 'hadoop', "
        "'warehouse' = '/data/archive')"
    ),
    "ALTER CATALOG archive SET ('warehouse' = '/data/archive-2')",
    "DROP CATALOG IF EXISTS archive",
    "SHOW CATALOGS",
    "SHOW CURRENT CATALOG",
    "SHOW CURRENT DATABASE",
    "SHOW CREATE CATALOG archive",
    "SHOW DATABASES IN lake",
    "SHOW TABLES IN lake.shop LIKE 'da%'",
    "SHOW VIEWS IN lake.shop",
    "SHOW FUNCTIONS LIKE 'date%'",
    "SHOW USER FUNCTIONS",
    "SHOW PROCEDURES",
    "SHOW MODELS",
    "SHOW COLUMNS FROM lake.shop.orders LIKE 'ci%'",
    "SHOW PARTITIONS lake.shop.daily PARTITION (ds = '2026-01-02')",
    "SHOW CREATE TABLE lake.shop.orders",
    "SHOW CREATE VIEW lake.shop.recent",
    "SHOW CREATE FUNCTION net",
    "SHOW TBLPROPERTIES lake.shop.orders",
    (
        "CREATE TABLE lake.shop.orders (id BIGINT, city STRING, amount DECIMAL(12, 2), "
        "ds STRING) PARTITIONED BY (ds)"
    ),
    f"CREATE TABLE lake.shop.copy AS {_DAILY}",
    f"CREATE OR REPLACE TABLE lake.shop.copy AS {_DAILY}",
    "ALTER TABLE lake.shop.orders SET ('write.format.default' = 'orc')",
    "DROP TABLE IF EXISTS lake.shop.copy",
    "CREATE DATABASE IF NOT EXISTS lake.shop",
    "ALTER DATABASE lake.shop SET ('owner' = 'ada')",
    "DROP DATABASE IF EXISTS lake.shop",
    "CREATE FUNCTION net(gross DECIMAL(12, 2), rate INT DEFAULT 22) RETURN gross / (1 + rate / 100)",
    "CREATE OR REPLACE FUNCTION net(gross DECIMAL(12, 2)) RETURN gross / 1.22",
    "CREATE TEMPORARY FUNCTION twice(n INT) RETURN 2 * n",
    "ALTER FUNCTION net RETURN gross / 1.22",
    "DROP FUNCTION net",
    "DROP TEMPORARY FUNCTION twice",
    "CREATE VIEW lake.shop.recent AS SELECT * FROM lake.shop.orders WHERE ds > '2026-01-01'",
    "CREATE TEMPORARY VIEW recent AS SELECT * FROM lake.shop.orders WHERE ds > '2026-01-01'",
    "CREATE OR REPLACE VIEW lake.shop.recent AS SELECT * FROM lake.shop.orders",
    "CREATE OR REPLACE TEMPORARY VIEW recent AS SELECT * FROM lake.shop.orders",
    "ALTER VIEW lake.shop.recent AS SELECT * FROM lake.shop.orders WHERE ds > '2026-02-01'",
    "DROP VIEW IF EXISTS lake.shop.recent",
    "SELECT city, count(*) AS n FROM lake.shop.orders GROUP BY city ORDER BY n DESC LIMIT 10",
    "VALUES (1, 'a'), (2, 'b')",
    "WITH big AS (SELECT * FROM lake.shop.orders WHERE amount > 100) SELECT count(*) FROM big",
    _INSERT,
    (
        "INSERT OVERWRITE lake.shop.totals PARTITION (ds = '2026-01-02') SELECT sum(amount) "
        "FROM lake.shop.orders"
    ),
    "UPDATE lake.shop.orders SET city = 'Roma' WHERE city = 'Rome'",
    "DELETE FROM lake.shop.orders WHERE ds < '2025-01-01'",
    "MERGE INTO lake.shop.orders t USING lake.shop.changes s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    (
        f"EXECUTE STATEMENT SET BEGIN {_INSERT}; INSERT INTO lake.shop.days SELECT DISTINCT ds "
        "FROM lake.shop.orders; END"
    ),
    "BEGIN STATEMENT SET",
    "END",
)


def examples_of(words: str) -> list[str]:
    """Return the examples that begin with *words*, ignoring case. The last word may be incomplete."""
    prefix = " ".join(words.upper().split())
    return [text for text in EXAMPLES if text.upper().startswith(prefix)]
