from __future__ import annotations

import pytest

from mt_core.incremental.plan import Node


def column(data_type: str) -> Node:
    return Node(kind="AttributeReference", fields={"exprId": {"id": 7}, "dataType": data_type}, children=())


def cast(node: Node, data_type: str) -> Node:
    return Node(kind="Cast", fields={"dataType": data_type}, children=(node,))


@pytest.mark.parametrize(("source", "target"), [("integer", "long"), ("byte", "short"), ("long", "long")])
def test_a_wider_integer_has_the_values_of_its_column(source: str, target: str) -> None:
    assert cast(column(source), target).column() == column(source)


@pytest.mark.parametrize(
    ("source", "target"), [("long", "integer"), ("integer", "string"), ("decimal(10,2)", "long")]
)
def test_a_cast_that_may_change_values_is_no_column(source: str, target: str) -> None:
    assert cast(column(source), target).column() is None


def test_equal_expressions_have_one_form_whatever_their_attributes_are_called() -> None:
    renamed = Node(kind="AttributeReference", fields={"exprId": {"id": 7}, "name": "other"}, children=())

    assert cast(column("integer"), "long").canonical() == cast(renamed, "long").canonical()
    assert cast(column("integer"), "long").canonical() != cast(column("integer"), "short").canonical()
