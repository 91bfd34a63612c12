from __future__ import annotations

import json
from dataclasses import replace

from mt_core.model.stream import OnSourceRewrite, SourceHint, StreamDefinition, StreamMember
from tests.support.registry_facts import a_plan, a_reservation, a_stream

FULL = a_stream(
    members=(
        StreamMember(
            text="INSERT INTO arrivals SELECT * FROM flights    ",
            hints=(SourceHint(start=36, stop=43, options={"streaming": "false"}),),
        ),
    ),
    settings={"spark.sql.shuffle.partitions": "2"},
    temporary=("CREATE TEMPORARY VIEW late AS SELECT 1",),
    jars=("udf.jar",),
    restored_from="savepoints/s",
    interval_ms=5000,
    on_source_rewrite=OnSourceRewrite.IGNORE,
    plan=a_plan(),
    reads=(("lake", "default", "flights"),),
    writes=(("lake", "default", "arrivals"),),
)
# What version 1 wrote.
STORED = (
    '{"catalog": "lake", "checkpoint": "checkpoints/a", "interval_ms": 5000, "jars": '
    '["udf.jar"], "members": [{"hints": [{"options": {"streaming": "false"}, "start": '
    '36, "stop": 43}], "text": "INSERT INTO arrivals SELECT * FROM flights    "}], "namespace": '
    '["default"], "on_source_rewrite": "ignore", "pinned": {"begun": false, '
    '"columns": [["id"]], "ending_rows": true, "given": [["id"]], "keys": {"lake.default.arrivals": []}, '
    '"materialized": [[]], "operators": true, "sinks": [], "starts": {}, "targets": '
    '{"lake.default.arrivals": "a"}, "temporary_files": true}, "reads": [["lake", "default", '
    '"flights"]], "restored_from": "savepoints/s", "settings": '
    '{"spark.sql.shuffle.partitions": "2"}, "temporary": ["CREATE TEMPORARY VIEW late AS '
    'SELECT 1"], "version": 1, "writes": [["lake", "default", "arrivals"]], "zone": "UTC"}'
)


def test_a_definition_is_the_same_after_it_was_stored() -> None:
    creation = a_stream(creates=a_reservation("a" * 32), replaces=True)
    for definition in (a_stream(), FULL, creation):
        assert StreamDefinition.from_json(json.loads(json.dumps(definition.to_json()))) == definition


def test_a_definition_of_version_1_can_be_read() -> None:
    found = StreamDefinition.from_json(json.loads(STORED))

    assert found.plan is not None
    assert replace(found, plan=FULL.plan) == FULL


def test_a_definition_that_was_stored_before_it_was_prepared_has_no_plan() -> None:
    stored = json.loads(STORED)

    found = StreamDefinition.from_json({**stored, "pinned": {}})

    assert found.plan is None


def test_a_definition_says_which_version_it_is_of() -> None:
    body = FULL.to_json()

    assert (body["version"], body["plan"]["version"], "pinned" in body) == (2, 1, False)
