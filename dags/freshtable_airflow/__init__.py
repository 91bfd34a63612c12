"""The part of Freshtable that runs in Airflow: a DAG for each materialized table, whose task refreshes it."""
