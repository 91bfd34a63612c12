from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mt_core.model.table import TableIdentifier
from scheduler_plugins.airflow.names import LONGEST, anchor_of, dag_id_of

ALLOWED = re.compile(r"[A-Za-z0-9_.-]+")


@pytest.mark.parametrize(
    ("identifier", "dag_id"),
    [
        (TableIdentifier("lake", ("sales",), "daily"), "mt__lake.sales.daily"),
        (TableIdentifier("lake", ("a", "b"), "Daily_2"), "mt__lake.a.b.Daily_2"),
        (TableIdentifier("lake", ("sales",), "my table"), "mt__lake.sales.-60my-20table-60"),
        (TableIdentifier("lake", ("sales",), "städte"), "mt__lake.sales.-60st-c3-a4dte-60"),
        (TableIdentifier("lake", ("sales",), "a-b"), "mt__lake.sales.-60a-2db-60"),
    ],
)
def test_ids_of_dags_are_readable(identifier: TableIdentifier, dag_id: str) -> None:
    assert dag_id_of("mt__", str(identifier)) == dag_id


@given(st.lists(st.text(min_size=1, max_size=300), min_size=2, max_size=2, unique=True))
def test_ids_are_allowed_in_airflow_and_differ(names: list[str]) -> None:
    ids = [dag_id_of("mt__", name) for name in names]

    assert all(ALLOWED.fullmatch(dag_id) and len(dag_id) <= LONGEST for dag_id in ids)
    assert ids[0] != ids[1]


def test_an_anchor_has_no_tables_id() -> None:
    assert anchor_of("mt__", 3) == "mt__shard_03"
