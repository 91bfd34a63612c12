"""What the ledger says of a run in a few words."""

from __future__ import annotations

from typing import Any

import pytest

from mt_core.gateway.page.ledger import changed_text, result_text
from mt_core.model.run import RunKind, RunStatus
from mt_core.tables.views.run_view import RunView
from tests.support.registry_facts import NOON, a_run


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"status": RunStatus.FAILED, "error": "division\n  by zero"}, "division by zero"),
        ({"status": RunStatus.FAILED}, "gave no reason"),
        ({"status": RunStatus.SUCCEEDED, "strategy": "append", "rows": 1204}, "append: 1,204 rows"),
        (
            {
                "status": RunStatus.SUCCEEDED,
                "strategy": "merge",
                "rows": 9,
                "rows_inserted": 7,
                "rows_deleted": 2,
            },
            "merge: 7 inserted, 2 deleted",
        ),
        (
            {"status": RunStatus.SUCCEEDED, "kind": RunKind.VERIFY, "reason": "rows are equal"},
            "rows are equal",
        ),
        ({"status": RunStatus.SKIPPED, "reason": "nothing changed"}, "nothing changed"),
        ({"status": RunStatus.QUEUED}, "waits for a worker"),
        (
            {"status": RunStatus.QUEUED, "waits_for": {"t": "lake.a at 12:00"}, "waits_until": NOON},
            "waits for lake.a at 12:00",
        ),
        ({"status": RunStatus.RUNNING, "cancel_requested": True}, "is being cancelled"),
        ({"status": RunStatus.COALESCED}, "another refresh covers it"),
        ({"status": RunStatus.CANCELED}, ""),
    ],
)
def test_the_result_of_a_run_is_a_few_words_on_one_line(changes: dict[str, Any], said: str) -> None:
    assert result_text(RunView.of(a_run(**changes), None)) == said


def test_a_run_that_changed_no_row_says_so_and_one_without_counts_says_nothing() -> None:
    assert changed_text(a_run(rows_inserted=0, rows_updated=0, rows_deleted=0)) == "0 rows"
    assert changed_text(a_run()) == ""
