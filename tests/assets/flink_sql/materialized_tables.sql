-- Materialized tables, and what Flink's users type on them.
CREATE DATABASE tables_of_scripts;
USE tables_of_scripts;
CREATE TABLE orders (ds STRING, amount INT) WITH ('format-version' = '2');
INSERT INTO orders VALUES ('2026-01-01', 1);
SET 'materialized-table.refresh-mode.freshness-threshold' = '10 s';
CREATE MATERIALIZED TABLE daily PARTITIONED BY (ds) FRESHNESS = INTERVAL '1' MINUTE AS SELECT ds, amount FROM orders;
-- The session's threshold says what a freshness means, as at CREATE.
ALTER MATERIALIZED TABLE daily SET FRESHNESS = INTERVAL '30' SECOND;
ALTER MATERIALIZED TABLE daily SET FRESHNESS = INTERVAL '5' SECOND;
ALTER MATERIALIZED TABLE daily SET FRESHNESS = INTERVAL '1' DAY;
RESET 'materialized-table.refresh-mode.freshness-threshold';
-- refused: use REFRESH MATERIALIZED TABLE lake.tables_of_scripts.daily
REFRESH TABLE daily;
REFRESH TABLE orders;
-- refused: its rows are those of its query
INSERT INTO daily SELECT * FROM orders;
-- refused: use DROP MATERIALIZED TABLE
DROP TABLE daily;
-- refused: CREATE OR ALTER MATERIALIZED TABLE
ALTER TABLE daily SET ('k' = 'v');
-- refused: use SHOW CREATE MATERIALIZED TABLE
SHOW CREATE TABLE daily;
-- refused: DROP MATERIALIZED TABLE them first
DROP DATABASE tables_of_scripts CASCADE;
DROP MATERIALIZED TABLE daily;
DROP TABLE orders;
DROP DATABASE tables_of_scripts;
