from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from rich.console import Console

from mt_core.errors import GatewayError
from mt_core.tables.runs.decide import REFRESH, SKIP
from mt_core.terminal.prompt.commands import decision_text
from mt_core.terminal.prompt.lineage import lineage

Row = Mapping[str, Any]


def row(depth: int, table: str, *reads: str, **facts: str) -> Row:
    """Return a row of SHOW LINEAGE EXTENDED about a materialized table, or about another source of a kind."""
    times = dict.fromkeys(("state", "freshness", "stale for", "late by"))
    read = {"table": table, "kind": "materialized table", "reads": ", ".join(reads) or None, "depth": depth}
    return {**read, **times, **{key.replace("_", " "): value for key, value in facts.items()}}


DAILY = {"state": "OK", "freshness": "INTERVAL '1' DAY", "stale_for": "2 h"}
ROWS = [
    row(0, "lake.shop.daily", "lake.shop.hourly", "lake.shop.`a; b`", **DAILY),
    row(1, "lake.shop.hourly", "lake.shop.orders", "lake.shop.daily", state="LATE", late_by="3 h (query)"),
    row(2, "lake.shop.orders", kind="table"),
    row(2, "lake.shop.daily", "lake.shop.hourly", "lake.shop.`a; b`", **DAILY),
    row(1, "lake.shop.`a; b`", kind="view"),
]


def drawn(rows: Sequence[Row]) -> list[str]:
    shown = io.StringIO()
    Console(file=shown, width=200, highlight=False).print(lineage("daily", lambda _: rows))
    return shown.getvalue().splitlines()


def test_lineage_is_a_tree_down_to_tables_that_others_write() -> None:
    assert drawn(ROWS) == [
        "lake.shop.daily: OK, freshness INTERVAL '1' DAY, stale for 2 h",
        "├── lake.shop.hourly: LATE, late by 3 h (query)",
        "│   ├── lake.shop.orders (table)",
        "│   └── lake.shop.daily: OK, freshness INTERVAL '1' DAY, stale for 2 h (its sources: above)",
        "└── lake.shop.`a; b` (view)",
    ]


def test_names_are_not_read_as_markup() -> None:
    assert drawn([row(0, "lake.shop.`[red]`", state="OK")]) == ["lake.shop.`[red]`: OK"]


def test_a_source_that_is_read_twice_and_reads_nothing_has_no_note() -> None:
    rows = [
        row(0, "daily", "left", "orders", state="OK"),
        row(1, "left", "orders", state="OK"),
        row(2, "orders", kind="table"),
        row(1, "orders", kind="table"),
    ]

    assert drawn(rows) == ["daily: OK", "├── left: OK", "│   └── orders (table)", "└── orders (table)"]


def test_the_lineage_is_one_statement() -> None:
    asked = list[str]()

    def rows(statement: str) -> Sequence[Row]:
        asked.append(statement)
        return ROWS

    lineage("shop.daily", rows)

    assert asked == ["SHOW LINEAGE OF shop.daily EXTENDED"]


@pytest.mark.parametrize(
    ("error_class", "message"),
    [
        ("TABLE_NOT_FOUND", r"^There is no nope\.$"),
        ("PARSE_SYNTAX_ERROR", r"needs a gateway that knows SHOW LINEAGE, and this one is older; upgrade"),
    ],
)
def test_a_refusal_is_the_gateways_unless_it_does_not_know_the_statement(
    error_class: str, message: str
) -> None:
    def rows(statement: str) -> Sequence[Row]:
        raise GatewayError("There is no nope.", facts={"error_class": error_class})

    with pytest.raises(GatewayError, match=message):
        lineage("nope", rows)


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
