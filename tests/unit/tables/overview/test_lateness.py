"""From when on a table is late, how late it is, and whose fault that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mt_core.errors import QueryFailed
from mt_core.model.cadence import Cadence
from mt_core.model.cron import Cron
from mt_core.model.freshness import Freshness
from mt_core.model.run import Batch, RefreshRun, RunKind, RunStatus
from mt_core.model.storage import COMMITTED
from mt_core.model.table import MaterializedTable, RefreshMode, RefreshStatus
from mt_core.tables.overview.chain import Chain
from mt_core.tables.overview.facts import TableFacts
from mt_core.tables.overview.judgement import judge
from mt_core.tables.overview.lateness import Fault, Promise, State
from mt_core.tables.overview.standing import Refreshes, Standing
from tests.support.manager_world import COMPUTED_TABLE, ManagerWorld
from tests.support.registry_facts import HOUR, NOON, a_run, a_table

MINUTE = timedelta(minutes=1)
FRESHNESS = HOUR
LATE = NOON - 3 * FRESHNESS
EARLY = NOON - 99 * HOUR


def a_standing(table: MaterializedTable, *runs: RefreshRun, job_error: str | None = None) -> Standing:
    """Return the standing of a table with these runs, newest first."""
    return replace(Standing.of(table), refreshes=Refreshes.of(runs, has_older=False), job_error=job_error)


def facts_of(
    standing: Standing,
    *below: Standing,
    now: datetime = NOON,
    fresh_at: Mapping[str, datetime] | None = None,
) -> TableFacts:
    named = {each.identifier: each for each in (standing, *below)}
    return judge(standing, Chain(standings=named, fresh_at=fresh_at or {}), now).facts


def created(name: str = "daily", **changes: Any) -> MaterializedTable:
    return a_table(name, **{"created_at": EARLY, "status_at": EARLY, **changes})


def with_definition(table: MaterializedTable, **changes: Any) -> MaterializedTable:
    return replace(table, definition=replace(table.definition, **changes))


def continuous_table(name: str = "daily") -> MaterializedTable:
    return with_definition(created(name), refresh_mode=RefreshMode.CONTINUOUS)


def done(at: datetime, *read: tuple[str, str | None], committed: datetime | None = None) -> RefreshRun:
    """Return a refresh that read tables `lake.sales.…` at these snapshots at an instant."""
    version = {} if committed is None else {COMMITTED: committed.isoformat()}
    vector = tuple(
        {"name": f"lake.sales.{name}", "kind": "table", "version": {"snapshot": snapshot, **version}}
        for name, snapshot in read
    )
    return a_run(
        status=RunStatus.SUCCEEDED,
        requested_at=at,
        started_at=at,
        finished_at=at + MINUTE,
        snapshot_id="1",
        vector=vector,
    )


# --------------------------------------------------------------------------------------- from when it is late

ZONES = ("UTC", "Europe/Rome", "Australia/Lord_Howe", "America/Santiago", "Asia/Kathmandu")
CRONS = ("*/7 * * * *", "0 6 * * MON-FRI", "30 2 * * *", "0 0 1 * *", "15 3,15 * * *")
FRESHNESSES = st.builds(Freshness, st.integers(1, 90), st.sampled_from(["SECOND", "MINUTE", "HOUR", "DAY"]))
CADENCES: st.SearchStrategy[Cadence] = st.one_of(FRESHNESSES, st.sampled_from(CRONS).map(Cron))
INSTANTS = st.integers(0, 400 * 86_400 * 1_000).map(
    lambda millis: datetime(2025, 12, 1, tzinfo=UTC) + timedelta(milliseconds=millis)
)
SPRING_IN_ROME = datetime(2026, 3, 29, 1, tzinfo=UTC)


def oldest_allowed(cadence: Cadence, zone: str, now: datetime) -> datetime:
    """Return the oldest data-as-of time that a fresh table with a schedule may have at *now*.

    This is the schedule time before the last one, which was the definition until late_at replaced it.
    """
    grid = cadence.grid(zone)
    return grid.at_or_before(grid.at_or_before(now) - timedelta(microseconds=1))


@given(CADENCES, st.sampled_from(ZONES), INSTANTS, st.timedeltas(timedelta(0), timedelta(days=70)))
@example(Freshness(1, "HOUR"), "Europe/Rome", SPRING_IN_ROME, 2 * HOUR)
@example(Freshness(1, "DAY"), "America/Santiago", datetime(2026, 9, 5, 12, tzinfo=UTC), timedelta(days=1))
def test_a_table_is_late_from_late_at_on_exactly_while_it_shows_too_old_rows(
    cadence: Cadence, zone: str, read_at: datetime, later: timedelta
) -> None:
    promise = Promise(mode=RefreshMode.FULL, cadence=cadence, zone=zone)
    late_at, instant = promise.late_from(read_at), timedelta(microseconds=1)

    for now in (read_at + later, late_at - instant, late_at, late_at + instant):
        assert (now >= late_at) == (read_at < oldest_allowed(cadence, zone, now))


@given(CADENCES, FRESHNESSES, st.sampled_from(ZONES), INSTANTS, st.integers(0, 10**7))
def test_what_a_table_below_shows_makes_it_late_exactly_while_it_is_too_old(
    cadence: Cadence, below: Freshness, zone: str, read_at: datetime, seconds: int
) -> None:
    freshness = {"freshness": None, "cron": cadence} if isinstance(cadence, Cron) else {"freshness": cadence}
    ancient = {"created_at": datetime(2020, 1, 1, tzinfo=UTC), "status_at": datetime(2020, 1, 1, tzinfo=UTC)}
    high = with_definition(a_table("high", **ancient), zone=zone, **freshness)
    low = a_standing(with_definition(a_table("low", **ancient), zone=zone, freshness=below), done(read_at))
    now = read_at + timedelta(seconds=seconds)
    # It was read this moment, so that it is never late by itself.
    standing = a_standing(high, done(now, ("low", "1")))

    facts = facts_of(standing, low, now=now)

    expected = read_at + timedelta(seconds=below.seconds) < oldest_allowed(cadence, zone, now)
    assert (facts.state is State.LATE) == expected
    assert facts.inherited == expected


@given(FRESHNESSES, st.timedeltas(timedelta(0), timedelta(days=99)))
def test_a_continuous_table_is_late_once_its_freshness_has_passed(
    freshness: Freshness, later: timedelta
) -> None:
    table = with_definition(continuous_table(), freshness=freshness)

    facts = facts_of(a_standing(table, done(NOON)), now=NOON + later)

    assert facts.late_at == NOON + timedelta(seconds=freshness.seconds)
    assert (facts.state is State.LATE) == (later >= timedelta(seconds=freshness.seconds))


@pytest.mark.parametrize("status", [RefreshStatus.INITIALIZING, RefreshStatus.SUSPENDED])
def test_a_table_that_nothing_refreshes_is_never_late(status: RefreshStatus) -> None:
    facts = facts_of(a_standing(created(status=status), done(LATE)), now=NOON + 99 * HOUR)

    assert (facts.late_at, facts.late_by(NOON), facts.fault, facts.state) == (
        None,
        None,
        None,
        State(status.value),
    )


def test_a_table_without_rows_is_late_if_nothing_has_refreshed_it_since_it_was_created() -> None:
    standing = a_standing(a_table())

    before, after = facts_of(standing, now=NOON + HOUR), facts_of(standing, now=NOON + 2 * HOUR)

    assert (before.state, before.because) == (State.INITIALIZING, "it has no rows yet")
    assert (after.state, after.fault, after.shows) == (State.LATE, Fault.SCHEDULE, None)


def test_a_table_whose_first_refresh_failed_is_failing() -> None:
    failed = a_run(status=RunStatus.FAILED, finished_at=NOON, error="division by zero")

    facts = facts_of(a_standing(a_table(status=RefreshStatus.INITIALIZING), failed))

    assert (facts.state, facts.because) == (State.FAILING, "its last refresh failed: division by zero")


def test_nobody_knows_how_far_a_streaming_job_lags_but_it_is_failing_while_it_has_an_error() -> None:
    table = with_definition(continuous_table(), streams=("lake.sales.clicks",))

    well = facts_of(a_standing(table), now=NOON + 99 * HOUR)
    ill = facts_of(a_standing(table, job_error="no broker"), now=NOON + 99 * HOUR)

    assert (well.state, well.late_at, well.because) == (State.OK, None, "")
    assert (ill.state, ill.late_at, ill.because) == (
        State.FAILING,
        None,
        "its streaming job fails: no broker",
    )
    assert [read.kind for read in well.reads] == ["stream"]


def test_the_age_of_a_resumed_table_counts_from_the_resume() -> None:
    resumed = a_standing(created(status_at=NOON), done(LATE))

    assert facts_of(resumed).late_at == NOON + 2 * HOUR
    assert facts_of(resumed, now=NOON + 3 * HOUR).late_by(NOON + 3 * HOUR) == HOUR


def test_what_a_table_below_shows_counts_from_the_resume_as_well() -> None:
    low = a_standing(created("low", status=RefreshStatus.SUSPENDED), done(EARLY))
    resumed = a_standing(created("high", status_at=NOON), done(NOON, ("low", "1")))

    assert facts_of(resumed, low).late_at == NOON + 2 * HOUR


def test_a_status_time_in_the_future_counts_for_nothing_because_the_clock_was_set_back() -> None:
    standing = a_standing(created(status_at=NOON + 99 * HOUR), done(LATE))

    facts = facts_of(standing)

    assert (facts.state, facts.late_at) == (State.LATE, LATE + 2 * HOUR)


# ------------------------------------------------------------------------------------------------------- soon


@pytest.mark.parametrize(
    ("took", "margin"),
    [
        (timedelta(0), 12 * MINUTE),
        (30 * MINUTE, 30 * MINUTE),
        (5 * HOUR, HOUR),
    ],
)
def test_a_table_is_soon_late_if_a_refresh_that_begins_now_would_end_too_late(
    took: timedelta, margin: timedelta
) -> None:
    run = replace(done(NOON), requested_at=NOON - took + MINUTE, finished_at=NOON + MINUTE)
    standing = a_standing(created(), run)
    soon_at = NOON + 2 * HOUR - margin

    assert facts_of(standing, now=soon_at - timedelta(seconds=1)).state is State.OK
    soon = facts_of(standing, now=soon_at)

    assert (soon.state, soon.late_by(NOON)) == (State.SOON, None)
    assert soon.because == "late at 15:00 Europe/Rome unless it is refreshed before"


# ------------------------------------------------------------------------------------------------ whose fault


def stretch(seconds: float) -> RefreshRun:
    batch = Batch(
        number=1, began_at=LATE, seconds=seconds, lag=None, strategy="append", rows=1, snapshot_id="7"
    )
    return a_run(
        kind=RunKind.CONTINUOUS, status=RunStatus.RUNNING, started_at=LATE, recent=(batch,), batches=1
    )


QUEUED = a_run(status=RunStatus.QUEUED, requested_at=NOON - HOUR)
FAILED = a_run(status=RunStatus.FAILED, finished_at=NOON - HOUR, error="division by zero")
DONE = done(LATE)


def running(*, waited: timedelta, worked: timedelta) -> RefreshRun:
    return a_run(status=RunStatus.RUNNING, requested_at=NOON - worked - waited, started_at=NOON - worked)


@pytest.mark.parametrize(
    ("runs", "fault", "cause"),
    [
        (
            [DONE],
            Fault.SCHEDULE,
            "no refresh has been requested since 10:00 Europe/Rome: is the scheduler running?",
        ),
        ([QUEUED, DONE], Fault.QUEUE, "its refresh has waited for a worker since 12:00 Europe/Rome"),
        ([QUEUED, FAILED, DONE], Fault.QUERY, "its query fails: division by zero"),
        ([FAILED, DONE], Fault.QUERY, "its query fails: division by zero"),
        (
            [running(waited=HOUR, worked=MINUTE), DONE],
            Fault.QUEUE,
            "its refresh waited 60 min for a worker",
        ),
        (
            [running(waited=MINUTE, worked=HOUR), DONE],
            Fault.QUERY,
            "its refresh has been running since 12:00 Europe/Rome",
        ),
    ],
)
def test_a_table_that_is_refreshed_too_late_says_since_when_and_why(
    runs: list[RefreshRun], fault: Fault, cause: str
) -> None:
    facts = facts_of(a_standing(created(), *runs))

    assert (facts.state, facts.fault, facts.late_by(NOON)) == (State.LATE, fault, HOUR)
    assert (facts.inherited, facts.below) == (False, None)
    assert facts.because == f"late since 12:00 Europe/Rome: {cause}"


def test_sentences_name_times_in_the_zone_of_the_table() -> None:
    # In Auckland, the day begins at 11:00 UTC.
    table = with_definition(created(), zone="Pacific/Auckland")

    late = facts_of(a_standing(table, DONE))
    soon = facts_of(a_standing(table, done(NOON)), now=NOON + 2 * HOUR - MINUTE)

    assert late.because == (
        "late since 00:00 Pacific/Auckland: no refresh has been requested since "
        "2026-03-01 22:00 Pacific/Auckland: is the scheduler running?"
    )
    assert soon.because == "late at 03:00 Pacific/Auckland unless it is refreshed before"


def test_at_midnight_in_the_zone_of_the_table_a_sentence_is_due_that_names_the_date() -> None:
    table = with_definition(created(), zone="Europe/Rome", freshness=Freshness(1, "DAY"))
    standing = a_standing(table, FAILED, done(NOON - HOUR))
    midnight = datetime(2026, 3, 1, 23, tzinfo=UTC)

    judgement = judge(standing, Chain(standings={}, fresh_at={}), NOON)

    assert judgement.facts.because
    assert judgement.turn == midnight


def test_the_words_of_the_reason_have_instants_and_names_as_values() -> None:
    waiting = facts_of(a_standing(created(), a_run(requested_at=EARLY), done(EARLY - HOUR)))
    low = a_standing(created("low", status=RefreshStatus.SUSPENDED), done(EARLY - 2 * HOUR))
    above = facts_of(a_standing(created("high"), done(NOON, ("low", "1"))), low)

    assert waiting.words == ("its refresh has waited for a worker since ", EARLY)
    assert waiting.because.endswith(
        ": its refresh has waited for a worker since 2026-02-25 10:00 Europe/Rome"
    )
    assert above.words == (low.identifier, " is suspended")
    assert above.because.endswith(f": {low.identifier} is suspended")


@pytest.mark.parametrize(
    ("runs", "fault"),
    [
        ([stretch(FRESHNESS.total_seconds())], Fault.QUERY),
        ([stretch(0.1)], Fault.QUEUE),
        ([DONE], Fault.QUEUE),
        ([FAILED, DONE], Fault.QUERY),
    ],
)
def test_a_continuous_table_waits_for_a_thread_or_takes_too_long(
    runs: list[RefreshRun], fault: Fault
) -> None:
    standing = a_standing(continuous_table(), *runs)

    facts = facts_of(standing, fresh_at={standing.table_id: LATE})

    assert (facts.state, facts.fault) == (State.LATE, fault)


@pytest.mark.parametrize(
    ("runs", "fault"),
    [
        ([DONE], Fault.SCHEDULE),
        ([stretch(0.1)], Fault.SCHEDULE),
        ([running(waited=timedelta(0), worked=MINUTE), DONE], Fault.SCHEDULE),
        ([running(waited=timedelta(0), worked=2 * FRESHNESS), DONE], Fault.QUERY),
        ([FAILED, DONE], Fault.QUERY),
        ([QUEUED, DONE], Fault.QUEUE),
    ],
)
def test_a_continuous_table_that_nobody_looked_at_since_the_gateway_began_waits_for_no_worker(
    runs: list[RefreshRun], fault: Fault
) -> None:
    facts = facts_of(a_standing(continuous_table(), *runs))

    assert (facts.state, facts.fault, facts.late_by(NOON)) == (State.LATE, fault, 2 * FRESHNESS)


def test_a_continuous_table_is_as_fresh_as_its_sources_were_last_found_unchanged() -> None:
    standing = a_standing(continuous_table(), DONE)

    facts = facts_of(standing, fresh_at={standing.table_id: NOON - MINUTE})

    assert (facts.state, facts.late_at, facts.shows) == (State.OK, NOON + 59 * MINUTE, NOON - MINUTE)


def test_a_table_that_reads_one_which_is_late_is_late_by_its_source() -> None:
    low = a_standing(created("low"), DONE)

    facts = facts_of(a_standing(created("high"), done(NOON, ("low", "1"))), low)

    assert (facts.state, facts.inherited, facts.fault) == (State.LATE, True, Fault.SOURCE)
    assert (facts.below, facts.shows_by) == (low.identifier, low.identifier)
    assert facts.because == "late since 13:00 Europe/Rome: lake.sales.low is late"


def test_the_cause_is_the_lowest_table_that_is_late_by_itself() -> None:
    low = a_standing(created("low"), DONE)
    middle = a_standing(created("middle"), done(NOON, ("low", "1")))
    high = a_standing(created("high"), done(NOON, ("middle", "1"), ("orders", "9")))

    assert facts_of(high, middle, low).below == low.identifier


def test_a_cause_that_is_suspended_is_called_so() -> None:
    low = a_standing(created("low", status=RefreshStatus.SUSPENDED), DONE)

    facts = facts_of(a_standing(created("high"), done(NOON, ("low", "1"))), low)

    assert facts.because == "late since 13:00 Europe/Rome: lake.sales.low is suspended"


def test_a_table_below_that_was_refreshed_since_is_the_cause_but_is_not_called_late() -> None:
    low = a_standing(created("low"), replace(done(NOON), snapshot_id="2"), DONE)

    facts = facts_of(a_standing(created("high"), done(NOON - MINUTE, ("low", "1"))), low)

    assert (
        facts.because == "late since 13:00 Europe/Rome: lake.sales.low read its sources at 10:00 Europe/Rome"
    )


def test_tables_that_read_each_other_end_the_search_for_a_cause() -> None:
    one = a_standing(created("one"), done(LATE, ("two", "1")))
    two = a_standing(created("two"), done(LATE, ("one", "1")))

    facts = facts_of(one, two)

    assert (facts.state, facts.inherited) == (State.LATE, False)
    assert facts_of(a_standing(created("top"), done(NOON, ("one", "1"))), one, two).inherited


def test_a_table_whose_refresh_failed_blames_no_source() -> None:
    low = a_standing(created("low"), DONE)

    facts = facts_of(a_standing(created("high"), FAILED, done(NOON, ("low", "1"))), low)

    assert (facts.fault, facts.below) == (Fault.QUERY, None)


def test_a_table_whose_sources_nobody_writes_to_is_not_late_but_says_so() -> None:
    standing = a_standing(created(), done(NOON, ("orders", "1"), committed=LATE))

    facts = facts_of(standing)

    assert (facts.state, facts.late_by(NOON), facts.fault) == (State.OK, None, Fault.WRITER)
    assert (facts.silent_at, facts.silent_by(NOON)) == (NOON - HOUR, HOUR)
    assert facts.because == "its sources have had no commit since 10:00 Europe/Rome"


def test_a_table_whose_sources_were_written_in_time_says_nothing() -> None:
    facts = facts_of(a_standing(created(), done(NOON, ("orders", "1"), committed=NOON - FRESHNESS)))

    assert (facts.state, facts.fault, facts.because) == (State.OK, None, "")
    assert (facts.silent_at, facts.silent_by(NOON)) == (NOON + HOUR, None)


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"status": RefreshStatus.SUSPENDED, "failing": (NOON,)}, State.SUSPENDED),
        ({"failing": (NOON,), "status_at": EARLY}, State.LATE),
        ({"failing": (NOON,), "status_at": NOON}, State.FAILING),
        ({"status_at": NOON}, State.OK),
    ],
)
def test_the_first_state_that_holds_is_shown(changes: dict[str, Any], state: State) -> None:
    assert facts_of(a_standing(created(**changes), DONE)).state is state


# ------------------------------------------------------------------------------------------------------ shown


def test_show_and_describe_say_how_late_a_table_is_and_why() -> None:
    world = ManagerWorld()
    world.sql(COMPUTED_TABLE)
    world.work()
    world.clock.advance(5 * HOUR)

    def said() -> tuple[object, object]:
        (shown,) = world.show("SHOW MATERIALIZED TABLES EXTENDED")
        facts = {row["name"]: row["type"] for row in world.show("DESCRIBE EXTENDED totals")}
        return shown["late by"], facts["late by"]

    assert said() == ("3 h (schedule)", "3 h: no refresh was requested")

    world.tick(world.latest_point("totals"), "totals")
    assert said() == ("3 h (queue)", "3 h: its refresh waits for a worker, or did for most of its time")

    world.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 2}])
    world.engine.failing["write"] = QueryFailed("division by zero", error_class="DIVIDE_BY_ZERO")
    world.work()
    assert said() == ("3 h (query)", "3 h: its refreshes fail, or take too long")

    world.tick(world.latest_point("totals"), "totals", key=None)
    world.work()
    assert said() == (None, "no")


def late(world: ManagerWorld, name: str = "totals") -> tuple[object, object]:
    """Refresh a table, and return what SHOW and DESCRIBE say of its lateness."""
    world.tick(world.latest_point(name), name, key=None)
    world.work()
    (shown,) = world.show(f"SHOW MATERIALIZED TABLES LIKE '{name}' EXTENDED")
    facts = {row["name"]: row["type"] for row in world.show(f"DESCRIBE EXTENDED {name}")}
    return shown["late by"], facts["late by"]


def test_a_source_that_nobody_writes_to_makes_its_table_late_until_somebody_does() -> None:
    world = ManagerWorld()
    world.sql(COMPUTED_TABLE)
    world.work()
    world.clock.advance(5 * HOUR)

    assert late(world) == ("3 h (writer)", "3 h: its sources have no new rows")

    world.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 1}], compaction=True)
    assert late(world)[0] == "3 h (writer)"

    world.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 2}])
    assert late(world) == (None, "no")


def test_a_failing_table_is_late_by_its_query_though_nobody_had_written_before() -> None:
    world = ManagerWorld()
    world.sql(COMPUTED_TABLE)
    world.work()
    world.clock.advance(5 * HOUR)
    assert late(world)[0] == "3 h (writer)"

    world.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 2}])
    world.engine.failing["write"] = QueryFailed("division by zero", error_class="DIVIDE_BY_ZERO")

    assert late(world) == ("3 h (query)", "3 h: its refreshes fail, or take too long")


def test_a_table_over_a_materialized_table_leaves_the_writers_to_that_one() -> None:
    world = ManagerWorld()
    world.sql(COMPUTED_TABLE)
    world.work()
    world.sql(COMPUTED_TABLE.replace("totals", "above").replace("FROM orders", "FROM totals"))
    world.work()
    world.clock.advance(5 * HOUR)

    assert late(world) == ("3 h (writer)", "3 h: its sources have no new rows")
    assert late(world, "above") == (None, "no")


def test_a_table_whose_sources_record_no_commit_times_has_no_writer_to_blame() -> None:
    world = ManagerWorld()
    world.sql(COMPUTED_TABLE)
    world.engine.sources["lake.default.orders"].committed.clear()
    world.work()
    world.clock.advance(5 * HOUR)

    assert late(world) == (None, "no")
