"""What runs inside Airflow: a DAG for every materialized table, and the task
that has the gateway refresh it.
"""
