"""The part of Freshtable that runs in Airflow: a DAG for each materialized table, with a task that refreshes
it.
"""
