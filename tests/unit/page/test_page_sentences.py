"""The sentence about a table on its page, from its facts alone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mt_core.errors import FactUnreadable
from mt_core.gateway.page.sentences import Part, PartKind, Sentence, sentence, why
from mt_core.model.run import RunStatus
from mt_core.model.table import RefreshMode, RefreshStatus, SuspendedBy
from mt_core.tables.overview.facts import LastRun, Read, TableFacts
from mt_core.tables.overview.lateness import Fault, State
from mt_core.tables.pages import UnreadableTable
from tests.support.registry_facts import HOUR, NOON
from tests.support.table_facts import table_facts, table_named

LATE_AT = NOON + 2 * HOUR


def text_of(parts: Sentence) -> str:
    """Return a sentence with instants as hours and minutes, ages as `[since 12:00]` and names in `<>`."""
    return "".join(map(shown, parts))


def shown(part: Part) -> str:
    if part.kind is PartKind.TABLE:
        return f"<{part.text}>"
    if part.at is None:
        return part.text
    return f"[since {part.at:%H:%M}]" if part.kind is PartKind.AGE else f"{part.at:%H:%M}"


def failed(error: str | None = "division by zero") -> LastRun:
    return LastRun(
        run_id="r-1",
        status=RunStatus.FAILED,
        kind="PERIODIC",
        requested_at=NOON + HOUR,
        started_at=NOON + HOUR,
        finished_at=NOON + HOUR + timedelta(minutes=3),
        strategy=None,
        rows=None,
        reason=None,
        reason_code=None,
        error=error,
        attempt=1,
    )


def late(*words: Any, fault: Fault, **changes: Any) -> TableFacts:
    return table_facts(state=State.LATE, late_at=LATE_AT, fault=fault, words=words, **changes)


# --------------------------------------------------------------------------------------------------- late


def test_a_late_table_whose_query_fails_says_since_when_none_has_succeeded_and_the_error() -> None:
    table = late("its query fails: division by zero", fault=Fault.QUERY, last=failed())

    said = text_of(sentence(table))

    assert said == "Late by [since 14:00] because no refresh has succeeded since 12:00: division by zero"


def test_a_late_table_whose_first_refresh_failed_says_that_none_has_ever_succeeded() -> None:
    table = late("its query fails", fault=Fault.QUERY, last=failed(None), refreshed_at=None, shows=None)

    assert text_of(sentence(table)) == "Late by [since 14:00] because no refresh has ever succeeded"


def test_a_late_table_that_is_tried_again_says_how_long_this_already_takes() -> None:
    words = ("its refresh has been running since ", NOON + HOUR)
    table = late(*words, fault=Fault.QUERY, last=failed(), running=True)

    said = text_of(sentence(table))

    assert said == "Late by [since 14:00] because its refresh has been running since 13:00"


@pytest.mark.parametrize(
    ("fault", "words", "cause"),
    [
        (Fault.SOURCE, (table_named("revenue"), " is late"), "<lake.shop.revenue> is late"),
        (Fault.SOURCE, (table_named("revenue"), " is suspended"), "<lake.shop.revenue> is suspended"),
        (
            Fault.SOURCE,
            (table_named("revenue"), " read its sources at ", NOON),
            "<lake.shop.revenue> read its sources at 12:00",
        ),
        (
            Fault.QUEUE,
            ("its refresh has waited for a worker since ", NOON),
            "its refresh has waited for a worker since 12:00",
        ),
        (Fault.QUEUE, ("its refresh waited 40 s for a worker",), "its refresh waited 40 s for a worker"),
        (Fault.QUERY, ("its last batch took 9.5 s",), "its last batch took 9.5 s"),
        (
            Fault.SCHEDULE,
            ("no refresh was requested since ", NOON, ": is the scheduler running?"),
            "no refresh was requested since 12:00: is the scheduler running?",
        ),
    ],
)
def test_a_late_table_says_by_how_much_and_why(fault: Fault, words: Any, cause: str) -> None:
    assert text_of(sentence(late(*words, fault=fault))) == f"Late by [since 14:00] because {cause}"


def test_the_name_of_the_table_that_causes_it_is_a_part_of_its_own_with_its_quotes() -> None:
    table = late(table_named("a `b` <script>"), " is late", fault=Fault.SOURCE)

    [name] = [part for part in sentence(table) if part.kind is PartKind.TABLE]

    assert name.text == "lake.shop.`a ``b`` <script>`"


def test_a_late_table_without_a_cause_only_says_by_how_much() -> None:
    assert text_of(sentence(late(fault=Fault.QUERY))) == "Late by [since 14:00]"


# ------------------------------------------------------------------------------------------------- failing


def test_a_failing_table_says_until_when_it_is_in_time_and_what_failed_when() -> None:
    table = table_facts(state=State.FAILING, words=("its last refresh failed: x",), last=failed())

    assert text_of(sentence(table)) == (
        "Will be late at 14:00 unless the next refresh succeeds: the last one failed at 13:03: "
        "division by zero"
    )


def test_a_failing_table_that_is_never_late_only_says_what_failed() -> None:
    table = table_facts(state=State.FAILING, late_at=None, last=failed("x"))

    assert text_of(sentence(table)) == "Its last refresh failed at 13:03: x"


def test_a_failing_table_whose_last_refresh_succeeded_says_what_else_fails() -> None:
    table = table_facts(state=State.FAILING, words=("2 schedule times failed and will be refreshed",))

    assert text_of(sentence(table)) == "2 schedule times failed and will be refreshed"


def test_only_the_beginning_of_a_long_error_is_in_the_sentence_on_one_line() -> None:
    table = table_facts(state=State.FAILING, late_at=None, last=failed("first\n  second " + "x" * 300))

    said = text_of(sentence(table))

    assert said.startswith("Its last refresh failed at 13:03: first second xxx")
    assert len(said) < 160
    assert "\n" not in said


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` instead. SQLSTATE: 22012", "Division by zero"),
        (
            "[TABLE_OR_VIEW_NOT_FOUND] The table or view `lake`.`shop`.`rate` cannot be found. Verify it.",
            "The table or view `lake`.`shop`.`rate` cannot be found",
        ),
        ("Table lake.shop.rate was recreated; run ALTER.", "Table lake.shop.rate was recreated; run ALTER"),
        ("The file [1] has 1.5 rows.\nIt needs two.", "The file [1] has 1.5 rows"),
    ],
)
def test_only_the_first_sentence_of_an_error_is_in_the_sentence_and_no_code(error: str, said: str) -> None:
    failing = table_facts(state=State.FAILING, late_at=None, last=failed(error))
    late_too = late("its query fails", fault=Fault.QUERY, last=failed(error))

    assert text_of(sentence(failing)) == f"Its last refresh failed at 13:03: {said}"
    assert text_of(sentence(late_too)).endswith(f"no refresh has succeeded since 12:00: {said}")


# ----------------------------------------------------------------------------------------------- suspended


@pytest.mark.parametrize(
    ("by", "reason", "said"),
    [
        (SuspendedBy.USER, None, "Suspended since 12:00 by anna"),
        (SuspendedBy.USER, "the lake moves", "Suspended since 12:00 by anna: the lake moves"),
        (
            SuspendedBy.FAILURES,
            "3 refreshes failed",
            "Suspended since 12:00 because its refreshes failed: 3 refreshes failed",
        ),
        (
            SuspendedBy.JOB,
            "the topic is gone",
            "Suspended since 12:00 because its streaming job ended: the topic is gone",
        ),
    ],
)
def test_a_suspended_table_says_since_when_and_by_whom_or_why(
    by: SuspendedBy, reason: str | None, said: str
) -> None:
    table = table_facts(
        state=State.SUSPENDED,
        status=RefreshStatus.SUSPENDED,
        late_at=None,
        suspended_by=by,
        status_reason=reason,
    )

    assert text_of(sentence(table)) == said


def test_a_table_that_was_suspended_without_tokens_names_nobody() -> None:
    table = table_facts(state=State.SUSPENDED, suspended_by=SuspendedBy.USER, status_by="")

    assert text_of(sentence(table)) == "Suspended since 12:00"


# -------------------------------------------------------------------------------------- soon, empty, fresh


@pytest.mark.parametrize(
    ("changes", "then"),
    [
        ({"running": True}, "; a refresh is running"),
        ({"queued": 1}, "; a refresh waits for a worker"),
        ({}, "; the next refresh is at 13:00"),
        ({"next_run": None}, ""),
    ],
)
def test_a_table_that_soon_is_late_says_when_and_what_is_being_done(changes: Any, then: str) -> None:
    table = table_facts(state=State.SOON, **changes)

    assert text_of(sentence(table)) == f"Late at 14:00 unless it is refreshed before{then}"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"status": RefreshStatus.INITIALIZING}, "Has been under construction since 12:00"),
        ({"running": True}, "Has no rows yet: its first refresh is running"),
        ({"queued": 2}, "Has no rows yet: its first refresh waits for a worker"),
        ({}, "Has no rows yet: its first refresh is at 13:00"),
        ({"next_run": None}, "Has no rows yet"),
    ],
)
def test_a_table_without_rows_says_when_it_gets_some(changes: Any, said: str) -> None:
    table = table_facts(state=State.INITIALIZING, shows=None, last=None, **changes)

    assert text_of(sentence(table)) == said


def test_a_table_in_doubt_says_which_rows_and_what_to_do() -> None:
    doubt = (
        "it is not known whether the rows changed; VERIFY MATERIALIZED TABLE lake.shop.daily compares them"
    )

    said = text_of(sentence(table_facts(state=State.DOUBTED, words=(doubt,))))

    assert said == "I" + doubt[1:]


def test_a_fresh_table_says_what_it_shows_and_until_when_that_is_in_time() -> None:
    said = text_of(sentence(table_facts()))

    assert said == "Fresh: it shows its sources as they were at 12:00, and is not late before 14:00"


def test_a_fresh_table_whose_sources_are_silent_says_so() -> None:
    words = ("its sources have had no commit since ", NOON - HOUR)

    said = text_of(sentence(table_facts(fault=Fault.WRITER, words=words)))

    assert said == "Fresh, but its sources have had no commit since 11:00"


def test_a_table_of_a_stream_is_never_late_and_says_who_adds_its_rows() -> None:
    reads = (Read(name="flights", kind="stream"),)
    table = table_facts(mode=RefreshMode.CONTINUOUS, late_at=None, reads=reads)

    assert text_of(sentence(table)) == "Fresh: a streaming job adds rows as they arrive"


def test_a_table_that_cannot_be_read_says_why() -> None:
    error = FactUnreadable("the row of lake.shop.daily has version 7", columns={})
    table = UnreadableTable(identifier=table_named("daily"), error=error)

    assert text_of(sentence(table)).startswith("Cannot be read: the row of lake.shop.daily has version 7")
    assert text_of(why(table)).startswith("cannot be read: ")


# ---------------------------------------------------------------------------------------- in a row of a list


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (table_facts(), ""),
        (
            late(table_named("revenue"), " is late", fault=Fault.SOURCE),
            "<lake.shop.revenue> is late",
        ),
        (
            late("its query fails: x", fault=Fault.QUERY, last=failed("x")),
            "its query fails: x",
        ),
        (
            table_facts(state=State.FAILING, words=("its last refresh failed: x",), last=failed("x")),
            "its last refresh failed: x",
        ),
        (table_facts(state=State.SUSPENDED, words=("suspended by anna",)), "suspended by anna"),
        (table_facts(state=State.SOON), "late at 14:00 unless it is refreshed before"),
    ],
)
def test_a_list_only_says_what_is_wrong(table: TableFacts, said: str) -> None:
    assert text_of(why(table)) == said
