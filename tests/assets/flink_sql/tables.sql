-- Tables as Flink's scripts make and change them. A comment `refused:` or `gives:` tells what the next statement answers.
CREATE DATABASE IF NOT EXISTS shop_of_scripts COMMENT 'a shop' WITH ('team' = 'sales');
ALTER DATABASE shop_of_scripts SET ('stage' = 'test');
USE shop_of_scripts;

CREATE TABLE orders (
  order_id BIGINT,
  city STRING COMMENT 'where it was ordered',
  amount DECIMAL(10, 2),
  order_time TIMESTAMP(3),
  WATERMARK FOR order_time AS order_time - INTERVAL '5' SECOND,
  PRIMARY KEY (order_id) NOT ENFORCED
) COMMENT 'all orders' WITH ('write.format.default' = 'parquet');

-- gives: [["order_id", "BIGINT", false, "PRI(order_id)", null, null, null], ["city", "STRING", true, null, null, null, "where it was ordered"], ["amount", "DECIMAL(10, 2)", true, null, null, null, null], ["order_time", "TIMESTAMP(6)", true, null, null, null, null]]
DESCRIBE orders;
-- A table that is there keeps its key.
CREATE TABLE IF NOT EXISTS orders (order_id BIGINT, city STRING, PRIMARY KEY (city) NOT ENFORCED);
INSERT INTO orders VALUES (1, 'Rome', 2.50, TIMESTAMP '2026-01-01 10:00:00'), (2, 'Oslo', 7, TIMESTAMP '2026-01-02 10:00:00');

ALTER TABLE orders SET ('write.parquet.compression-codec' = 'zstd');
ALTER TABLE orders RESET ('write.parquet.compression-codec', 'no.such.key');
ALTER TABLE orders ADD (note STRING COMMENT 'free text' AFTER city, paid BOOLEAN);
ALTER TABLE orders ADD extra INT;
ALTER TABLE orders MODIFY extra BIGINT COMMENT 'more';
ALTER TABLE orders RENAME extra TO bonus;
ALTER TABLE orders DROP (bonus, paid);
ALTER TABLE orders ADD CONSTRAINT k PRIMARY KEY (order_id) NOT ENFORCED;
ALTER TABLE orders RENAME TO old_orders;
ALTER TABLE lake.shop_of_scripts.old_orders RENAME TO lake.shop_of_scripts.orders;
-- gives: [[1, "Rome", null, 2.5], [2, "Oslo", null, 7]]
SELECT order_id, city, note, amount FROM orders ORDER BY order_id;

-- refused: DROP IDENTIFIER FIELDS
ALTER TABLE orders DROP PRIMARY KEY;
-- refused: WATERMARK is not supported
ALTER TABLE orders ADD WATERMARK FOR order_time AS order_time;
-- refused: use a view
ALTER TABLE orders ADD double_amount AS amount * 2;
-- refused: write PRIMARY KEY .* NOT ENFORCED
CREATE TABLE enforced (id INT, PRIMARY KEY (id) ENFORCED);
-- refused: does not support PRIMARY KEY
CREATE TABLE spark_catalog.default.keyed (id INT, PRIMARY KEY (id) NOT ENFORCED);

CREATE TABLE copy WITH ('write.format.default' = 'orc') AS SELECT * FROM orders WHERE city = 'Rome';
-- refused: there is no such table; CREATE OR REPLACE TABLE
REPLACE TABLE not_there WITH ('connector' = 'iceberg') AS SELECT 1 AS a;
REPLACE TABLE copy WITH ('connector' = 'iceberg') AS SELECT * FROM orders;
-- gives: [[2]]
SELECT count(*) FROM copy;
EXPLAIN CREATE TABLE other WITH ('connector' = 'iceberg') AS SELECT * FROM orders;
EXPLAIN STATEMENT SET BEGIN INSERT INTO copy SELECT * FROM orders; INSERT INTO orders SELECT * FROM copy; END;
EXPLAIN ESTIMATED_COST EXECUTE STATEMENT SET BEGIN INSERT INTO copy SELECT * FROM orders; END;
-- gives: [["copy"], ["orders"]]
SHOW TABLES;
DROP TABLE IF EXISTS copy;
DROP TABLE orders;
DROP DATABASE shop_of_scripts RESTRICT;
