"""The fingerprint changes whenever equal source versions may give other rows, and only then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mt_core.model.freshness import Freshness
from mt_core.model.table import Column, RefreshMode, TableDefinition
from mt_core.tables.definition.fingerprint import fingerprint_of

DEFINITION = TableDefinition(
    columns=(Column(name="ds", type="string"), Column(name="n", type="int")),
    original_query="SELECT * FROM t",
    expanded_query="SELECT * FROM lake.s.t",
    freshness=Freshness(1, "DAY"),
    refresh_mode=RefreshMode.FULL,
    logical_refresh_mode="FULL",
    zone="UTC",
    partition_keys=("ds",),
    options={"partition.fields.ds.date-formatter": "yyyy", "write.format.default": "orc"},
    settings={"spark.sql.ansi.enabled": "true"},
)
DIFFERENT = {
    "query": replace(DEFINITION, expanded_query="SELECT * FROM lake.s.u"),
    "type": replace(DEFINITION, columns=(DEFINITION.columns[0], Column(name="n", type="bigint"))),
    "order of columns": replace(DEFINITION, columns=DEFINITION.columns[::-1]),
    "partitioning": replace(DEFINITION, partition_keys=()),
    "date-formatter": replace(DEFINITION, options={"partition.fields.ds.date-formatter": "yyyy-MM"}),
    "setting": replace(DEFINITION, settings={"spark.sql.ansi.enabled": "false"}),
    "zone": replace(DEFINITION, zone="Asia/Tokyo"),
}
EQUAL = {
    "comment": replace(DEFINITION, comment="new"),
    "freshness": replace(DEFINITION, freshness=Freshness(2, "DAY")),
    "way it was written": replace(DEFINITION, original_query="select *\nfrom t"),
    "option of storage": replace(
        DEFINITION, options={"partition.fields.ds.date-formatter": "yyyy", "format": "json"}
    ),
    "setting that changes no row": replace(
        DEFINITION, settings={"spark.sql.ansi.enabled": "true", "spark.sql.shuffle.partitions": "7"}
    ),
    "a definition that was stored": TableDefinition.from_json(DEFINITION.to_json()),
}


@pytest.mark.parametrize("other", DIFFERENT.values(), ids=DIFFERENT)
def test_another_fingerprint_for(other: TableDefinition) -> None:
    assert fingerprint_of(other) != fingerprint_of(DEFINITION)


@pytest.mark.parametrize("other", EQUAL.values(), ids=EQUAL)
def test_the_same_fingerprint_for_another(other: TableDefinition) -> None:
    assert fingerprint_of(other) == fingerprint_of(DEFINITION)


def test_a_fingerprint_is_stable_over_releases() -> None:
    assert fingerprint_of(DEFINITION) == "535a797a33277a6c41d8fd464c5ad7b1"
