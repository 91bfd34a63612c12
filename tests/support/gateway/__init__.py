"""Gateways for tests: one module for each profile.

| module | Spark | process | for |
|---|---|---|---|
| `statements` | prepared answers | the test's, or its own | what HTTP and sessions make of a statement |
| `whole` | a fake store of tables | the test's; it can be killed | the story of a table, in the test's time |
| `with_airflow` | a fake store of tables | the test's | what a real Airflow does to tables, in real time |
| `own_process` | real | one of its own; it can be killed at a step | everything as a user has it |

`wired` is what `whole`, `with_airflow` and the benchmarks have in common:
the wiring, the lease and the order of the application.
"""
