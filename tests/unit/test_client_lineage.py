from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from rich.console import Console

from mt_core.errors import GatewayError
from mt_core.tables.runs.decide import REFRESH, SKIP
from mt_core.tables.views.run_view import SourceView
from mt_core.terminal.prompt.commands import decision_text
from mt_core.terminal.prompt.lineage import Source, lineage, sources_of

DESCRIBED = {
    "daily": {
        "identifier": "lake.shop.daily",
        "refresh mode": "FULL",
        "freshness": "INTERVAL '1' DAY",
        "stale for": "2 h",
        "late by": "no",
        "sources": (
            "lake.shop.hourly (table, version 7); lake.shop.`a; b` (view, version ab); "
            "lake.shop.gone (table, no versions)"
        ),
    },
    "lake.shop.hourly": {
        "identifier": "lake.shop.hourly",
        "refresh mode": "FULL",
        "freshness": "INTERVAL '1' HOUR",
        "late by": "3 h: its sources have no new rows",
        "sources": "lake.shop.orders (table, version 12); lake.shop.daily (table, version 1)",
    },
    "lake.shop.orders": {},
}


def rows(statement: str) -> Sequence[Mapping[str, Any]]:
    table = statement.removeprefix("DESCRIBE EXTENDED ")
    if table not in DESCRIBED:
        raise GatewayError(f"There is no {table}.")
    column = {"name": "id", "type": "BIGINT"}
    head = (
        [{"name": "", "type": ""}, {"name": "# Materialized table", "type": ""}] if DESCRIBED[table] else []
    )
    return [column, *head, *({"name": key, "type": value} for key, value in DESCRIBED[table].items())]


def test_lineage_is_a_tree_down_to_tables_that_others_write() -> None:
    shown = io.StringIO()

    Console(file=shown, width=200, highlight=False).print(lineage("daily", rows))

    assert shown.getvalue().splitlines() == [
        "lake.shop.daily: freshness INTERVAL '1' DAY, stale for 2 h",
        "├── lake.shop.hourly: freshness INTERVAL '1' HOUR, late by 3 h: its sources have no new rows",
        "│   ├── lake.shop.orders (table, version 12)",
        "│   └── lake.shop.daily: freshness INTERVAL '1' DAY, stale for 2 h (its sources: above)",
        "├── lake.shop.`a; b` (view, version ab)",
        "└── lake.shop.gone (table, no versions)",
    ]


def diamonds(levels: int, asked: list[str]) -> Callable[[str], Sequence[Mapping[str, Any]]]:
    """Return what describes two tables a level, that both read both tables of the next level,
    and notes what is *asked*.
    """

    def describe(statement: str) -> Sequence[Mapping[str, Any]]:
        asked.append(statement)
        below = int(statement.rpartition("_")[2]) + 1
        sources = (
            f"left_{below} (table, version 1); right_{below} (table, version 1)" if below < levels else ""
        )
        facts = {"": "", "# Materialized table": "", "refresh mode": "FULL", "sources": sources}
        return [{"name": key, "type": value} for key, value in facts.items()]

    return describe


def test_a_table_that_several_others_read_has_its_branch_once() -> None:
    shown = io.StringIO()

    Console(file=shown, width=200, highlight=False).print(lineage("left_0", diamonds(4, [])))

    assert shown.getvalue().splitlines() == [
        "left_0",
        "├── left_1",
        "│   ├── left_2",
        "│   │   ├── left_3",
        "│   │   └── right_3",
        "│   └── right_2",
        "│       ├── left_3",
        "│       └── right_3",
        "└── right_1",
        "    ├── left_2 (its sources: above)",
        "    └── right_2 (its sources: above)",
    ]


def test_each_table_of_a_lineage_is_described_once() -> None:
    asked = list[str]()

    lineage("left_0", diamonds(50, asked))

    assert len(asked) == len(set(asked)) == 1 + 2 * 49


def test_a_table_that_is_not_there_is_the_error_of_the_gateway() -> None:
    with pytest.raises(GatewayError, match=r"There is no nope\."):
        lineage("nope", rows)


def test_sources_are_read_as_describe_writes_them() -> None:
    views = [
        SourceView(name="lake.shop.orders", kind="table", versioned=True, version="12"),
        SourceView(name="s3://bucket/a", kind="unversioned", versioned=False, version=None),
    ]

    assert sources_of("; ".join(map(str, views))) == [
        Source(name="lake.shop.orders", kind="table", version="version 12"),
        Source(name="s3://bucket/a", kind="unversioned", version="no versions"),
    ]
    assert sources_of("none read yet") == []


RUN = {
    "materialized table": "lake.shop.daily",
    "kind": "PERIODIC",
    "status": "SUCCEEDED",
    "decision": REFRESH,
    "reason": "lake.shop.orders changed",
    "requested at": "2026-01-02 03:04:05",
    "started at": "2026-01-02 03:04:06",
    "error": None,
    "strategy": "append",
}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (
            {},
            "lake.shop.daily: the PERIODIC refresh of 2026-01-02 03:04:06 computed rows by append and ended "
            "as SUCCEEDED, because: lake.shop.orders changed.",
        ),
        (
            {"decision": SKIP, "status": "SKIPPED", "reason": "no source has changed", "strategy": None},
            (
                "lake.shop.daily: the PERIODIC refresh of 2026-01-02 03:04:06 was skipped, because: "
                "no source has changed."
            ),
        ),
        (
            {"decision": None, "status": "QUEUED", "reason": None, "started at": None, "strategy": None},
            "lake.shop.daily: the PERIODIC refresh of 2026-01-02 03:04:05 is QUEUED.",
        ),
        (
            {"status": "FAILED", "strategy": None, "error": "Column a is gone."},
            "lake.shop.daily: the PERIODIC refresh of 2026-01-02 03:04:06 computed rows and ended as FAILED, "
            "because: lake.shop.orders changed; error: Column a is gone.",
        ),
    ],
)
def test_a_decision_is_one_sentence(facts: dict[str, str | None], expected: str) -> None:
    assert decision_text({**RUN, **facts}) == expected
