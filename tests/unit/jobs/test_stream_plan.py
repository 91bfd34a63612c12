"""Plans of streams: each form in which a release has stored one is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from mt_core.model.stream_plan import IcebergTarget, MemberPlan, SinkTarget, Start, StreamPlan
from tests.support.registry_facts import a_plan

FLIGHTS, ARRIVALS = "lake.default.flights", "lake.default.arrivals"
# What version 1 of a definition has of a plan.
BEFORE_CHECKPOINTS: Mapping[str, Any] = {
    "starts": {FLIGHTS: {"uuid": "f", "snapshot": "12", "millis": 1_800_000_000_000}},
    "columns": [["id", "city"]],
    "given": [["id", "city"]],
    "materialized": [["id"]],
    "begun": False,
    "sinks": [{"table": ["shown"], "connector": "print", "stored_name": "`shown`"}],
    "targets": {ARRIVALS: "a"},
    "keys": {ARRIVALS: ["id"]},
    "temporary_files": True,
    "ending_rows": True,
    "operators": True,
}
LAST = {**BEFORE_CHECKPOINTS, "sources": [FLIGHTS], "restored_order": None, "checkpoint": True}
START = Start(uuid="f", snapshot="12", millis=1_800_000_000_000)
SHOWN = SinkTarget(table=("shown",), connector="print", stored_name="`shown`")


@pytest.mark.parametrize("plan", [StreamPlan(), a_plan(), a_plan(sources=None, has_checkpoint=False)])
def test_a_plan_is_read_as_it_was_stored(plan: StreamPlan) -> None:
    stored = json.dumps(plan.to_json(), sort_keys=True)

    assert StreamPlan.from_json(json.loads(stored)) == plan


def test_a_plan_of_version_1_that_lacks_nothing_is_read() -> None:
    plan = StreamPlan.from_pinned(LAST)

    assert plan == StreamPlan(
        starts={FLIGHTS: START},
        sources=(FLIGHTS,),
        members=(MemberPlan(columns=("id", "city"), given=("id", "city"), materialized=("id",)),),
        sinks=(SHOWN,),
        tables={ARRIVALS: IcebergTarget(uuid="a", keys=("id",))},
    )


def test_a_plan_of_version_1_may_lack_the_order_of_its_sources_and_a_checkpoint() -> None:
    plan = StreamPlan.from_pinned(BEFORE_CHECKPOINTS)

    assert plan == replace(StreamPlan.from_pinned(LAST), sources=None, has_checkpoint=False)
