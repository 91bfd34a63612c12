"""The fingerprint changes whenever equal source versions may give other rows, and only then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mt_core.model.freshness import Freshness
from mt_core.model.table import Column, RefreshMode, TableDefinition
from mt_core.tables.fingerprint import fingerprint_of

DEFINITION = TableDefinition(
    columns=(Column(name="ds", type="string"), Column(name="n", type="int")),
    original_query="SELECT * FROM t",
    expanded_query="SELECT * FROM lake.s.t",
    freshness=Freshness(1, "DAY"),
    refresh_mode=RefreshMode.FULL,
    logical_refresh_mode="FULL",
    zone="UTC",
    partition_keys=("ds",),
    options={"a": "1", "b": "2"},
    settings={"spark.sql.ansi.enabled": "true"},
)
DIFFERENT = {
    "query": replace(DEFINITION, expanded_query="SELECT * FROM lake.s.u"),
    "type": replace(DEFINITION, columns=(DEFINITION.columns[0], Column(name="n", type="bigint"))),
    "order of columns": replace(DEFINITION, columns=DEFINITION.columns[::-1]),
    "partitioning": replace(DEFINITION, partition_keys=()),
    "option": replace(DEFINITION, options={"a": "1", "b": "3"}),
    "setting": replace(DEFINITION, settings={"spark.sql.ansi.enabled": "false"}),
    "zone": replace(DEFINITION, zone="Asia/Tokyo"),
}
EQUAL = {
    "comment": replace(DEFINITION, comment="new"),
    "freshness": replace(DEFINITION, freshness=Freshness(2, "DAY")),
    "way it was written": replace(DEFINITION, original_query="select *\nfrom t"),
    "order of options": replace(DEFINITION, options={"b": "2", "a": "1"}),
    "a definition that was stored": TableDefinition.from_json(DEFINITION.to_json()),
}


@pytest.mark.parametrize("other", DIFFERENT.values(), ids=DIFFERENT)
def test_another_fingerprint_for(other: TableDefinition) -> None:
    assert fingerprint_of(other, {}) != fingerprint_of(DEFINITION, {})


@pytest.mark.parametrize("other", EQUAL.values(), ids=EQUAL)
def test_the_same_fingerprint_for_another(other: TableDefinition) -> None:
    assert fingerprint_of(other, {}) == fingerprint_of(DEFINITION, {})


def test_dynamic_options_give_another_fingerprint_whatever_their_order() -> None:
    one, other = fingerprint_of(DEFINITION, {"x": "1", "y": "2"}), fingerprint_of(DEFINITION, {"y": "2", "x": "1"})

    assert one == other
    assert one != fingerprint_of(DEFINITION, {})


def test_a_fingerprint_is_stable_over_releases() -> None:
    assert fingerprint_of(DEFINITION, {}) == "eb0bc71eea59f735506e57d349d31778"
