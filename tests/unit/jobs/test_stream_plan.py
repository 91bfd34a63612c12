"""Plans of streams: each form in which a release has stored one is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from mt_core.model.stream_plan import IcebergTarget, MemberPlan, SinkTarget, Start, StreamPlan
from tests.support.registry_facts import a_plan

FLIGHTS, ARRIVALS = "lake.default.flights", "lake.default.arrivals"
# What version 1 of a definition has of a plan, by the releases that added keys to it.
FIRST: Mapping[str, Any] = {
    "starts": {FLIGHTS: {"uuid": "f", "snapshot": "12", "millis": 1_800_000_000_000}},
    "columns": [["id", "city"]],
    "begun": False,
}
WITH_TARGETS = {
    **FIRST,
    "temporary_files": True,
    "given": [["id", "city"]],
    "sinks": [{"table": ["shown"], "connector": "print", "stored_name": "`shown`"}],
    "targets": {ARRIVALS: "a"},
}
LAST = {
    **WITH_TARGETS,
    "ending_rows": True,
    "operators": True,
    "materialized": [["id"]],
    "keys": {ARRIVALS: ["id"]},
    "sources": [FLIGHTS],
    "restored_order": None,
    "checkpoint": True,
}
START = Start(uuid="f", snapshot="12", millis=1_800_000_000_000)
SHOWN = SinkTarget(table=("shown",), connector="print", stored_name="`shown`")


@pytest.mark.parametrize(
    "plan", [StreamPlan(), a_plan(), a_plan(sources=None, sinks=None, own_operators=False)]
)
def test_a_plan_is_read_as_it_was_stored(plan: StreamPlan) -> None:
    stored = json.dumps(plan.to_json(), sort_keys=True)

    assert StreamPlan.from_json(json.loads(stored)) == plan


def test_a_job_of_the_first_release_has_its_starts_and_nothing_that_came_later() -> None:
    plan = StreamPlan.from_pinned(FIRST)

    assert plan == StreamPlan(
        starts={FLIGHTS: START},
        members=(MemberPlan(columns=("id", "city")),),
        streams_files=False,
        streams_ending_rows=False,
        own_operators=False,
        has_checkpoint=False,
    )


def test_a_job_of_a_release_between_has_what_was_known_then() -> None:
    plan = StreamPlan.from_pinned(WITH_TARGETS)

    assert plan == StreamPlan(
        starts={FLIGHTS: START},
        members=(MemberPlan(columns=("id", "city"), given=("id", "city")),),
        sinks=(SHOWN,),
        tables={ARRIVALS: IcebergTarget(uuid="a")},
        streams_ending_rows=False,
        own_operators=False,
        has_checkpoint=False,
    )


def test_a_job_of_the_release_before_lacks_nothing() -> None:
    plan = StreamPlan.from_pinned(LAST)

    assert plan == StreamPlan(
        starts={FLIGHTS: START},
        sources=(FLIGHTS,),
        members=(MemberPlan(columns=("id", "city"), given=("id", "city"), materialized=("id",)),),
        sinks=(SHOWN,),
        tables={ARRIVALS: IcebergTarget(uuid="a", keys=("id",))},
    )


def test_a_job_that_went_on_from_a_savepoint_with_operators_of_spark_keeps_these() -> None:
    plan = StreamPlan.from_pinned({**LAST, "begun": True, "operators": False})

    assert (plan.begun, plan.own_operators, plan.streams_files) == (True, False, True)
