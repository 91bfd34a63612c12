"""What the page says of one refresh."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mt_core.gateway.page.run import SourceChange, headline, source_changes, steps_of
from mt_core.model.run import Batch, RunKind, RunStatus
from mt_core.tables.views.run_view import RunView, SourceView
from tests.support.registry_facts import NOON, a_run

SECOND = timedelta(seconds=1)
ENDED = {"requested_at": NOON, "started_at": NOON + SECOND, "finished_at": NOON + 4 * SECOND}


def said(after: timedelta = 60 * SECOND, **changes: Any) -> str:
    """Return the headline of a run, *after* its request."""
    return headline(RunView.of(a_run(**changes), None), NOON + after)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"rows": 1_204, "strategy": "append"}, "Wrote 1,204 rows by append in 3 s."),
        ({"rows": 1}, "Wrote 1 row in 3 s."),
        ({}, "Succeeded in 3 s."),
        ({"batches": 12}, "Published 12 batches in 3 s."),
        ({"kind": RunKind.VERIFY, "reason": "the rows are equal"}, "Verified in 3 s: the rows are equal."),
        ({"kind": RunKind.COMPACTION}, "Compacted in 3 s."),
    ],
)
def test_a_refresh_that_succeeded_says_what_it_wrote_and_how(changes: dict[str, Any], text: str) -> None:
    assert said(status=RunStatus.SUCCEEDED, **ENDED, **changes) == text


def test_a_failed_refresh_says_after_what_time_and_in_which_step() -> None:
    assert said(status=RunStatus.FAILED, steps={"queue": 1.0, "decide": 1.0}, **ENDED) == (
        "Failed after 3 s while it compared its sources."
    )
    assert said(status=RunStatus.FAILED, steps={"write": 1.0, "decide": 1.0}, **ENDED) == (
        "Failed after 3 s while it wrote."
    )
    assert said(status=RunStatus.FAILED, **ENDED) == "Failed after 3 s."


def test_a_refresh_that_did_nothing_says_why() -> None:
    assert said(status=RunStatus.SKIPPED, reason="sources unchanged") == "Skipped: sources unchanged."
    assert said(status=RunStatus.CANCELED) == "Cancelled."
    assert said(status=RunStatus.COALESCED).startswith("Another refresh covers this request")


def test_an_open_refresh_says_what_it_waits_for_or_since_when_it_has_been_running() -> None:
    running = {"status": RunStatus.RUNNING, "started_at": NOON + 20 * SECOND}

    assert said() == "Waiting for a worker since 12:00:00."
    assert said(waits_until=NOON, waits_for={"t-2": "lake.shop.b 12:00", "t-1": "lake.shop.a 12:00"}) == (
        "Waiting for the refresh of lake.shop.a 12:00, lake.shop.b 12:00."
    )
    assert said(**running) == "Running since 12:00:20."
    assert said(**running, batches=1, cancel_requested=True) == (
        "Running since 12:00:20, with 1 batch so far. It has been asked to stop."
    )


def test_the_steps_and_what_none_of_them_accounts_for_fill_the_time_from_request_to_end() -> None:
    run = a_run(
        status=RunStatus.SUCCEEDED,
        steps={"publish": 0.4, "write": 1.6, "decide": 0.4, "queue": 1.0},
        **ENDED,
    )

    steps = steps_of(run, NOON)

    assert [(step.name, step.seconds) for step in steps] == [
        ("queue", 1.0), ("decide", 0.4), ("write", 1.6), ("publish", 0.4), ("other", pytest.approx(0.6)),
    ]  # fmt: skip
    assert sum(step.share for step in steps) == pytest.approx(1)
    assert [step.begin for step in steps] == pytest.approx([0, 0.25, 0.35, 0.75, 0.85])


def test_a_queued_refresh_has_only_waited_and_a_running_one_is_at_work() -> None:
    queued, running = a_run(), a_run(status=RunStatus.RUNNING, started_at=NOON + SECOND)

    assert [(step.name, step.share) for step in steps_of(queued, NOON + SECOND)] == [("queue", 1.0)]
    assert [(step.name, step.share) for step in steps_of(queued, NOON)] == [("queue", 0.0)]
    assert [(step.name, step.seconds) for step in steps_of(running, NOON + 5 * SECOND)] == [
        ("queue", 1.0), ("other", 4.0),
    ]  # fmt: skip


def test_the_steps_of_a_refresh_with_batches_are_those_of_its_last_one() -> None:
    batch = Batch(number=1, began_at=NOON, seconds=4, lag=None, strategy="append", rows=1, snapshot_id="1")
    run = a_run(status=RunStatus.RUNNING, recent=(batch,), steps={"decide": 1.0, "write": 3.0})

    assert [(step.name, step.share) for step in steps_of(run, NOON + 600 * SECOND)] == [
        ("decide", 0.25), ("write", 0.75),
    ]  # fmt: skip


def source(name: str, version: str | None, *, versioned: bool = True) -> SourceView:
    return SourceView(name=name, kind="table", versioned=versioned, version=version)


def test_sources_are_compared_with_those_of_the_refresh_before() -> None:
    before = [source("a", "1"), source("b", "1"), source("gone", "7"), source("csv", None, versioned=False)]
    after = [source("new", "1"), source("b", "1"), source("a", "2"), source("csv", None, versioned=False)]

    changes = source_changes(before, after)

    assert [(each.name, each.before, each.after, each.changed) for each in changes] == [
        ("new", "", "1", None),
        ("b", "1", "1", False),
        ("a", "1", "2", True),
        ("csv", "", "", None),
        ("gone", "7", "", None),
    ]
    assert changes[3] == SourceChange(name="csv", kind="table", before="", after="", is_versioned=False)
