"""Which functions of users' code make a query's rows uncertain."""

from __future__ import annotations

import json

import pytest

from mt_core.spark.queries.determinism import unstable_reason

EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"


def plan(kind: str, key: str) -> str:
    function = {"class": f"{EXPRESSIONS}.{kind}", "num-children": 0, key: "Greet"}
    project = {"class": "org.apache.spark.sql.catalyst.plans.logical.Project", "num-children": 0}
    return json.dumps([{**project, "projectList": [[function]]}])


@pytest.mark.parametrize(
    ("kind", "key"), [("ScalaUDF", "udfName"), ("PythonUDF", "name"), ("PythonUDAF", "name")]
)
def test_code_is_certain_only_if_its_user_declares_it(kind: str, key: str) -> None:
    assert unstable_reason(plan(kind, key)) == "the user-defined function Greet"
    assert (
        unstable_reason(plan(kind, key), deterministic=frozenset({"other"}))
        == "the user-defined function Greet"
    )
    assert unstable_reason(plan(kind, key), deterministic=frozenset({"greet"})) is None
