"""The JSON of compiled plans: what is written is read as the same, and what a user broke is refused
with its place.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mt_core.plans.compiled import CompiledPlan, PlanMode, PlanNode
from mt_core.plans.durations import FOR_EVER
from mt_core.plans.errors import PlanInvalid
from mt_core.plans.json_form import plan_text, read_plan
from mt_core.plans.operators import OperatorState, RowKind
from mt_core.plans.policies import TtlTimeCharacteristic, TtlUpdateEvent
from tests.support.plans import DAY, HOUR, compiled, deduplicate, join, scan

_VERSION_1 = Path(__file__).parents[2] / "assets" / "plans" / "version_1.json"
_JOIN = compiled(join(scan(), deduplicate(scan("lake.sales.payments"))))
_TEXTS = st.text(max_size=12)


@st.composite
def _plans(draw: st.DrawFn) -> CompiledPlan:
    ids = draw(st.lists(st.integers(0, 99), min_size=1, max_size=6, unique=True))
    nodes = [draw(_nodes(id_, ids[:place])) for place, id_ in enumerate(ids)]
    return CompiledPlan(
        spark_version=draw(_TEXTS),
        mode=draw(st.sampled_from(PlanMode)),
        statements=tuple(draw(st.lists(_TEXTS, min_size=1, max_size=3))),
        catalog=draw(_TEXTS),
        namespace=tuple(draw(st.lists(_TEXTS, max_size=2))),
        temporary=tuple(draw(st.lists(_TEXTS, max_size=2))),
        nodes=tuple(nodes),
        fingerprint=draw(_TEXTS),
    )


@st.composite
def _nodes(draw: st.DrawFn, id_: int, before: list[int]) -> PlanNode:
    inputs = draw(st.lists(st.sampled_from(before), max_size=3)) if before else []
    # None, one for all inputs, or one for each.
    count = draw(st.sampled_from(sorted({0, 1, len(inputs)})))
    ttls = st.integers(1, FOR_EVER // timedelta(milliseconds=1)).map(
        lambda number: timedelta(milliseconds=number)
    )
    return PlanNode(
        id=id_,
        type=draw(_TEXTS),
        description=draw(_TEXTS),
        inputs=tuple(inputs),
        output_type=draw(_TEXTS),
        changes=frozenset(draw(st.sets(st.sampled_from(RowKind)))),
        states=tuple(
            OperatorState(
                index=each,
                name=draw(_TEXTS),
                ttl=draw(ttls),
                update=draw(st.sampled_from(TtlUpdateEvent)),
                time=draw(st.sampled_from(TtlTimeCharacteristic)),
            )
            for each in range(count)
        ),
    )


@given(_plans())
def test_what_is_written_is_read_as_the_same(plan: CompiledPlan) -> None:
    assert read_plan(plan_text(plan)) == plan


def test_the_text_is_that_of_version_1() -> None:
    assert plan_text(_JOIN) == _VERSION_1.read_text(encoding="utf-8")


def test_a_plan_of_version_1_stays_readable() -> None:
    assert read_plan(_VERSION_1.read_text(encoding="utf-8")) == _JOIN


def _edited(edit: Callable[[dict[str, Any]], object]) -> str:
    body = json.loads(plan_text(_JOIN))
    edit(body)
    return json.dumps(body)


def test_keys_that_are_not_known_are_left_out() -> None:
    def edit(body: dict[str, Any]) -> None:
        body["flags"] = {"a": 1}
        body["nodes"][2]["configuration"] = {"table.exec.state.ttl": "0 ms"}
        body["nodes"][2]["state"][0]["comment"] = "an hour is enough"

    assert read_plan(_edited(edit)) == _JOIN


def test_ttls_of_any_form_are_read() -> None:
    def edit(body: dict[str, Any]) -> None:
        body["nodes"][2]["state"][0]["ttl"] = "7200000 ms"
        body["nodes"][3]["state"][0]["ttl"] = "PT36H"
        body["nodes"][3]["state"][1]["ttl"] = "0"

    nodes = read_plan(_edited(edit)).nodes

    assert [state.ttl for node in nodes for state in node.states] == [2 * HOUR, 1.5 * DAY, FOR_EVER]


def test_a_ttl_that_is_a_number_is_one_of_milliseconds() -> None:
    def edit(body: dict[str, Any]) -> None:
        body["nodes"][2]["state"][0]["ttl"] = 7_200_000
        body["nodes"][3]["state"][0]["ttl"] = 86_400_000
        body["nodes"][3]["state"][1]["ttl"] = 0

    nodes = read_plan(_edited(edit)).nodes

    assert [state.ttl for node in nodes for state in node.states] == [2 * HOUR, DAY, FOR_EVER]


def test_null_is_absent_where_a_key_may_be_absent() -> None:
    def edit(body: dict[str, Any], absent: bool) -> None:
        for part, key in (
            (body["nodes"][2], "state"),
            *((each, "update") for each in body["nodes"][3]["state"]),
        ):
            part.pop(key, None) if absent else part.update({key: None})

    absent, null = (read_plan(_edited(partial(edit, absent=each))) for each in (True, False))

    assert null == absent
    assert null.nodes[2].states == ()


def test_a_node_without_state_and_one_with_the_first_state_alone_are_read() -> None:
    def edit(body: dict[str, Any]) -> None:
        del body["nodes"][2]["state"]
        del body["nodes"][3]["state"][1]

    nodes = read_plan(_edited(edit)).nodes

    assert nodes[2].states == ()
    assert [state.name for state in nodes[3].states] == ["leftState"]


_BROKEN: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "version": (lambda body: body.update(version=7), "version 7 is not supported, only version 1"),
    "version missing": (lambda body: body.pop("version"), "version is missing."),
    "version as text": (lambda body: body.update(version="1"), 'version "1" is not a whole number.'),
    "mode": (lambda body: body.update(mode="adaptive"), "mode 'adaptive' is not one of streaming, batch."),
    "statements": (lambda body: body.update(statements=[]), "statements is empty."),
    "statement": (lambda body: body["statements"].append(7), "statements[1] 7 is not a string."),
    "node of another kind": (lambda body: body["nodes"].insert(1, 7), "nodes[1] 7 is not an object."),
    "id twice": (lambda body: body["nodes"][1].update(id=1), "nodes[1].id 1 is also the id of another node."),
    "id true": (lambda body: body["nodes"][1].update(id=True), "nodes[1].id true is not a whole number."),
    "input after it": (
        lambda body: body["nodes"][2].update(inputs=[4]),
        "nodes[2].inputs[0] no earlier node has the id 4.",
    ),
    "changes": (
        lambda body: body["nodes"][0].update(changelogMode=["UPSERT"]),
        "nodes[0].changelogMode[0] 'UPSERT' is not one of INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE.",
    ),
    "ttl": (
        lambda body: body["nodes"][2]["state"][0].update(ttl="an hour"),
        "nodes[2].state[0].ttl 'an hour' is not a duration such as 30 min, 10 s or 500 ms, "
        "one of ISO-8601 such as PT1H, from 1 ms to 36500 d, or 0 for ever.",
    ),
    "ttl as fraction": (
        lambda body: body["nodes"][2]["state"][0].update(ttl=0.5),
        "nodes[2].state[0].ttl 0.5 is not a string or a whole number of milliseconds.",
    ),
    "ttl true": (
        lambda body: body["nodes"][2]["state"][0].update(ttl=True),
        "nodes[2].state[0].ttl true is not a string or a whole number of milliseconds.",
    ),
    "ttl below zero": (
        lambda body: body["nodes"][2]["state"][0].update(ttl=-1),
        "nodes[2].state[0].ttl '-1 ms' is not a duration such as",
    ),
    "ttl of centuries": (
        lambda body: body["nodes"][2]["state"][0].update(ttl=10**30),
        f"nodes[2].state[0].ttl '{10**30} ms' is not a duration such as",
    ),
    "ttl null": (
        lambda body: body["nodes"][2]["state"][0].update(ttl=None),
        "nodes[2].state[0].ttl null is not a string or a whole number of milliseconds.",
    ),
    "inputs null": (lambda body: body["nodes"][2].update(inputs=None), "nodes[2].inputs null is not a list."),
    "index": (
        lambda body: body["nodes"][3]["state"][1].update(index=0),
        "nodes[3].state[1].index 0 is not 1: inconsistent state metadata.",
    ),
    "states": (
        lambda body: body["nodes"][2]["state"].append({"index": 1, "ttl": "1 h", "name": "more"}),
        "nodes[2].state has 2 entries, but the node has 1 input: inconsistent state metadata.",
    ),
    "policy": (
        lambda body: body["nodes"][2]["state"][0].update(update="OnDelete"),
        "nodes[2].state[0].update 'OnDelete' is not one of OnCreate, OnRead, OnWrite, OnReadWrite.",
    ),
    "time": (
        lambda body: body["nodes"][2]["state"][0].update(time="Noon"),
        "nodes[2].state[0].time 'Noon' is not one of EventTime, ProcessingTime.",
    ),
    "policy as number": (
        lambda body: body["nodes"][2]["state"][0].update(update=7),
        "nodes[2].state[0].update 7 is not a string.",
    ),
    "edge": (lambda body: body["edges"][0].update(source=1), "edges[0] node 3 has no input 1."),
    "edge missing": (
        lambda body: body["edges"].pop(),
        "edges lack one from node 3 to node 4, whose inputs include it.",
    ),
}


@pytest.mark.parametrize("case", list(_BROKEN))
def test_a_broken_plan_is_refused_with_place_and_reason(case: str) -> None:
    edit, text = _BROKEN[case]

    with pytest.raises(PlanInvalid) as refused:
        read_plan(_edited(edit))

    assert text in str(refused.value)
    assert refused.value.facts["place"] in text


@pytest.mark.parametrize("text", ["", "{", "[]", "nonsense", "[" * 100_000])
def test_a_file_that_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(PlanInvalid, match="the file"):
        read_plan(text)
