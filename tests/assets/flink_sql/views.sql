-- Views and temporary tables as Flink's scripts have them.
CREATE DATABASE views_of_scripts;
USE views_of_scripts;
CREATE TABLE numbers (n INT);
INSERT INTO numbers VALUES (1), (2), (3);

CREATE TEMPORARY VIEW big AS SELECT n FROM numbers WHERE n > 1;
CREATE VIEW IF NOT EXISTS small AS SELECT n FROM numbers WHERE n < 2;
CREATE VIEW named (m) COMMENT 'one column' AS SELECT n FROM numbers;
-- gives: [["big"], ["named"], ["small"]]
SHOW VIEWS;
-- gives: [[5]]
SELECT sum(n) FROM big;
ALTER VIEW small AS SELECT n FROM numbers WHERE n < 3;
-- gives: [[2]]
SELECT count(*) FROM small;
-- refused: There is no temporary table or view small
DROP TEMPORARY VIEW small;
DROP TEMPORARY VIEW IF EXISTS small;
-- gives: [[2]]
SELECT count(*) FROM small;
DROP TEMPORARY VIEW big;
DROP TEMPORARY TABLE IF EXISTS big;
-- refused: There is no temporary table or view big
DROP TEMPORARY TABLE big;
DROP VIEW small;
DROP VIEW IF EXISTS named;
-- gives: []
SHOW VIEWS;
-- refused: not of a file or database connector
CREATE TEMPORARY TABLE nothing (a INT) WITH ('k' = 'v');
BEGIN STATEMENT SET;
INSERT INTO numbers SELECT 4;
INSERT INTO numbers SELECT 5;
END;
-- gives: [[5]]
SELECT count(*) FROM numbers;
SET 'table.local-time-zone' = 'UTC';
RESET 'table.local-time-zone';
SHOW CURRENT CATALOG;
-- gives: [["views_of_scripts"]]
SHOW CURRENT DATABASE;
SHOW CREATE TABLE numbers;
SHOW FUNCTIONS LIKE 'abs';
TRUNCATE TABLE numbers;
DROP TABLE numbers;
-- refused: supported are
CREATE TEMPORARY TABLE events (id BIGINT) WITH ('connector' = 'pulsar');
-- refused: Spark has no modules
LOAD MODULE core;
DROP DATABASE IF EXISTS views_of_scripts CASCADE;
