"""The fence of a table, for each kind of its writers: who may publish, and what the table says
of it stays readable.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

from mt_core.errors import CommitConflict, CommitUnknown, EngineError
from mt_core.model.fence import (
    MAX_CONFLICTS,
    MAX_UNKNOWN,
    Fenced,
    Mark,
    RefreshWriter,
    StreamWriter,
    carried_out,
)
from mt_core.model.storage import MetadataChange, StorageMetadata

JOB = "0d9f8a4e111142228333444455556666"
STORED = '{"version": 1, "attempt": 3, "batch": 17, "nonce": "5f0c"}'
FOREIGN = {"stream_other_9": "1", "run_other_1": "1", "kept": "1"}
Make = Callable[[int], Any]


def refresh(number: int) -> RefreshWriter:
    return RefreshWriter(number=number)


def stream(number: int) -> StreamWriter:
    return StreamWriter(job_id=JOB, number=number)


@dataclass
class Table:
    """The metadata of a table. A commit is compared only with the branches that it names."""

    metadata: StorageMetadata = field(
        default_factory=lambda: StorageMetadata(location="", properties={}, main="1", branches={})
    )

    def read(self) -> StorageMetadata:
        return self.metadata

    def commit(self, metadata: StorageMetadata, change: MetadataChange) -> None:
        now, main = self.metadata, self.metadata.main
        if change.closes is not None:
            main = f"{metadata.main}, closed"
        elif change.publish is not None:
            main = change.publish
        if main != now.main and metadata.main != now.main:
            raise CommitConflict("main has moved")
        for name in {*change.branches, *change.drop}:
            if metadata.branches.get(name) != now.branches.get(name):
                raise CommitConflict(f"{name} has moved")
        branches = {name: head for name, head in now.branches.items() if name not in change.drop}
        properties = {key: value for key, value in now.properties.items() if key not in change.removed}
        self.metadata = replace(
            now,
            main=main,
            branches={**branches, **change.branches},
            properties={**properties, **change.properties},
        )

    def does(self, change: Callable[[StorageMetadata], MetadataChange]) -> None:
        self.commit(self.metadata, change(self.metadata))

    def close(self, writer: RefreshWriter | StreamWriter) -> None:
        if (change := writer.close(self.metadata)) is not None:
            self.commit(self.metadata, change)

    def open(self, writer: StreamWriter) -> None:
        if not writer.is_begun(self.metadata):
            self.commit(self.metadata, writer.begin(str(self.metadata.main)))
        self.does(writer.open)

    def publish(
        self, writer: RefreshWriter | StreamWriter, published: Any, snapshot: str, **options: Any
    ) -> None:
        self.does(lambda metadata: writer.publish(metadata, published, snapshot, **options))

    def in_flight(self, change: Callable[[StorageMetadata], MetadataChange]) -> Callable[[], None]:
        """Return the commit of a change, which is computed now and arrives later."""
        metadata = self.metadata
        return partial(self.commit, metadata, change(metadata))


# -------------------------------------------------------------------------------------------------- refreshes


def test_a_refresh_publishes_without_having_opened_the_table() -> None:
    table, writer = Table(), refresh(1)

    table.publish(writer, "r1", "2")

    assert (table.metadata.main, table.metadata.branches) == ("2", {})
    assert writer.mark_of(table.metadata.properties) == Mark(number=1, published="r1")


def test_a_publish_sets_the_states_that_it_gives_and_one_without_removes_them() -> None:
    table = Table()

    def states() -> str | None:
        return table.metadata.properties.get("freshtable.states")

    table.publish(refresh(1), "r1", "2", states="of r1")
    first = states()
    table.does(refresh(2).close)
    closed = states()
    table.publish(refresh(2), "r2", "3")

    assert (first, closed, states()) == ("of r1", "of r1", None)


def test_a_refresh_is_fenced_by_the_publish_of_a_later_one() -> None:
    table, earlier, later = Table(), refresh(1), refresh(2)
    table.publish(later, "r2", "2")

    for step in (earlier.close, lambda metadata: earlier.publish(metadata, "r1", "3")):
        with pytest.raises(Fenced):
            table.does(step)

    assert later.mark_of(table.metadata.properties) == Mark(number=2, published="r2")


def test_a_publish_on_its_way_lands_before_any_other_or_not_at_all() -> None:
    table, earlier, later = Table(), refresh(1), refresh(2)
    first = table.in_flight(lambda metadata: earlier.publish(metadata, "r1", "2"))
    again = table.in_flight(lambda metadata: earlier.publish(metadata, "r1", "3"))

    first()
    with pytest.raises(CommitConflict):
        again()
    assert later.mark_of(table.metadata.properties) == Mark(number=1, published="r1")
    table.publish(later, "r2", "4")
    assert table.metadata.main == "4"


def test_nothing_of_a_refresh_lands_after_a_close() -> None:
    table = Table()
    in_flight = table.in_flight(lambda metadata: refresh(1).publish(metadata, "r1", "2"))

    table.does(refresh(2).close)

    with pytest.raises(CommitConflict):
        in_flight()
    assert refresh(2).mark_of(table.metadata.properties) == Mark(number=2)
    with pytest.raises(Fenced):
        table.publish(refresh(1), "r1", "2")


def test_a_close_keeps_what_was_published_last() -> None:
    table = Table()
    table.publish(refresh(1), "r1", "2")

    table.does(refresh(2).close)

    assert refresh(3).mark_of(table.metadata.properties) == Mark(number=2, published="r1")


def test_a_publish_drops_the_branches_that_runs_of_an_earlier_release_have_left() -> None:
    branches = {**FOREIGN, "run_r1_1": "1"}
    table = Table(StorageMetadata(location="", properties={}, main="1", branches=branches))

    table.publish(refresh(2), "r2", "3")

    assert set(table.metadata.branches) == {"stream_other_9", "kept"}


# ---------------------------------------------------------------------------------------------------- streams


def test_the_attempt_that_opened_the_table_last_publishes() -> None:
    table, writer = Table(), stream(1)

    table.open(writer)
    table.publish(writer, 1, "2")

    assert (table.metadata.main, dict(table.metadata.branches)) == ("2", {writer.branch: "2"})
    assert writer.mark_of(table.metadata.properties) == Mark(number=1, published=1)


def test_an_attempt_is_fenced_by_the_open_of_a_later_one() -> None:
    table, earlier, later = Table(), stream(1), stream(2)
    table.open(earlier)
    in_flight = table.in_flight(lambda metadata: earlier.publish(metadata, 1, "2"))

    table.open(later)

    assert set(table.metadata.branches) == {later.branch}
    for step in (earlier.open, lambda metadata: earlier.publish(metadata, 1, "2")):
        with pytest.raises(Fenced):
            table.does(step)
    with pytest.raises(CommitConflict):
        in_flight()
    assert later.mark_of(table.metadata.properties).number == 2


@pytest.mark.parametrize("attempts", [(1, 2), (2, 3)], ids=["of the first attempt", "of a later attempt"])
def test_an_open_on_its_way_lands_before_the_next_one_or_not_at_all(attempts: tuple[int, int]) -> None:
    table, (earlier, later) = Table(), map(stream, attempts)
    if attempts[0] > 1:
        table.open(stream(1))
    else:
        table.commit(table.metadata, earlier.begin("1"))
    in_flight = table.in_flight(earlier.open)

    table.open(later)
    table.publish(later, 1, "2")

    with pytest.raises(CommitConflict):
        in_flight()
    assert later.mark_of(table.metadata.properties) == Mark(number=attempts[1], published=1)


def test_an_open_on_its_way_does_not_land_after_a_close() -> None:
    table, writer = Table(), stream(1)
    table.commit(table.metadata, writer.begin("1"))
    in_flight = table.in_flight(writer.open)

    table.close(writer)

    with pytest.raises(CommitConflict):
        in_flight()
    with pytest.raises(Fenced):
        table.does(writer.open)
    assert (dict(table.metadata.properties), dict(table.metadata.branches)) == ({}, {})


def test_an_open_that_is_repeated_on_its_way_does_not_take_back_a_batch() -> None:
    table, writer = Table(), stream(1)
    table.open(writer)
    in_flight = table.in_flight(writer.open)

    table.publish(writer, 1, "2")

    with pytest.raises(CommitConflict):
        in_flight()
    assert writer.mark_of(table.metadata.properties) == Mark(number=1, published=1)


def test_an_open_that_is_repeated_fences_nobody() -> None:
    table, writer = Table(), stream(1)

    table.open(writer)
    table.open(writer)
    table.publish(writer, 1, "2")

    assert table.metadata.main == "2"


def test_what_an_earlier_attempt_published_is_still_known_after_an_open() -> None:
    table = Table()
    table.open(stream(1))
    table.publish(stream(1), 1, "2")

    table.open(stream(2))

    assert stream(2).mark_of(table.metadata.properties) == Mark(number=2, published=1)


def test_nothing_of_a_job_lands_after_a_close_though_other_writers_do_not_move_main() -> None:
    table, writer = Table(), stream(1)
    table.open(writer)
    in_flight = table.in_flight(lambda metadata: writer.publish(metadata, 1, "2"))

    table.close(writer)

    assert table.metadata.branches == {}
    with pytest.raises(CommitConflict):
        in_flight()


@pytest.fixture(params=[(refresh, "r1"), (stream, 1)], ids=["refresh", "stream"])
def kind(request: pytest.FixtureRequest) -> tuple[Make, Any]:
    given: tuple[Make, Any] = request.param
    return given


def test_branches_of_other_writers_and_of_users_stay(kind: tuple[Make, Any]) -> None:
    make, _ = kind
    table = Table(StorageMetadata(location="", properties={}, main="1", branches=FOREIGN))

    table.close(make(1))

    gone = FOREIGN.keys() - table.metadata.branches.keys()
    assert gone == ({"run_other_1"} if make is refresh else set())


def test_a_mark_is_read_as_it_was_written(kind: tuple[Make, Any]) -> None:
    make, first = kind
    mark = Mark(number=1, published=first)

    assert make(1).mark_of(make(1).properties_of(mark)) == mark


def test_each_mark_of_a_job_is_written_in_other_words() -> None:
    texts = [stream(1).properties_of(Mark(number=1, published=-1)) for _ in range(2)]

    assert texts[0] != texts[1]


def test_a_job_is_closed_whichever_attempt_has_the_table_open() -> None:
    table = Table()
    table.open(stream(7))

    table.close(stream(0))

    assert stream(0).mark_of(table.metadata.properties).number is None
    with pytest.raises(Fenced):
        table.publish(stream(7), 1, "2")


def test_a_stopped_job_may_go_on_with_any_attempt() -> None:
    table = Table()
    table.open(stream(7))

    table.close(stream(0))
    table.open(stream(1))

    assert stream(1).mark_of(table.metadata.properties).number == 1


def test_the_mark_of_a_job_is_found_under_its_id_in_version_1() -> None:
    properties = {f"freshtable.stream.{JOB}": STORED, "freshtable.stream.other": "{}"}

    assert stream(1).mark_of(properties) == Mark(number=3, published=17)
    assert stream(1).mark_of({}) == Mark()
    assert json.loads(stream(1).properties_of(Mark(number=3))[f"freshtable.stream.{JOB}"])["version"] == 1


def test_the_mark_of_refreshes_is_found_under_the_names_of_version_1() -> None:
    properties = {"freshtable.epoch": "3", "freshtable.last-run": "r/2"}

    assert refresh(1).mark_of(properties) == Mark(number=3, published="r/2")
    assert refresh(1).mark_of({}) == Mark(number=0)


def test_a_job_that_is_forgotten_leaves_nothing() -> None:
    table = Table()
    table.open(stream(1))

    table.does(stream(1).forget)

    assert (dict(table.metadata.properties), dict(table.metadata.branches)) == ({}, {})


# ------------------------------------------------------------------------------------------ commits that lose


class Unlucky(Table):
    """A table of which the first commits have the given errors."""

    def __init__(self, *errors: Exception, lands: bool = False) -> None:
        super().__init__()
        super().commit(self.metadata, stream(1).begin("1"))
        self.errors, self.lands, self.tries = list(errors), lands, 0

    def commit(self, metadata: StorageMetadata, change: MetadataChange) -> None:
        self.tries += 1
        error = self.errors.pop(0) if self.errors else None
        if error is None or self.lands:
            super().commit(metadata, change)
        if error is not None:
            raise error


def test_a_commit_that_lost_is_read_again_and_decided_again() -> None:
    table = Unlucky(CommitConflict("another"), CommitUnknown("no answer"))

    steps = list(carried_out("mt", "open", table.read, stream(1).open, table.commit))

    assert steps == ["open: read", "open: commit"] * 3
    assert stream(1).mark_of(table.metadata.properties).number == 1


def test_a_change_finds_what_a_commit_without_an_answer_has_done() -> None:
    table, writer = Unlucky(CommitUnknown("no answer"), lands=True), stream(1)

    def once(metadata: StorageMetadata) -> MetadataChange | None:
        return None if writer.mark_of(metadata.properties).number == 1 else writer.open(metadata)

    assert list(carried_out("mt", "open", table.read, once, table.commit)) == [
        "open: read",
        "open: commit",
        "open: read",
    ]
    assert table.tries == 1


def test_whoever_loses_each_time_gives_up() -> None:
    table = Unlucky(*[CommitConflict("another")] * MAX_CONFLICTS)

    with pytest.raises(
        EngineError, match="Other writers commit to mt so often that 100 attempts to open it failed"
    ):
        list(carried_out("mt", "open", table.read, stream(1).open, table.commit))


def test_commits_that_never_have_an_answer_end_with_its_reason() -> None:
    table = Unlucky(*[CommitUnknown("the disk is full")] * MAX_UNKNOWN)

    with pytest.raises(EngineError, match="the disk is full") as failure:
        list(carried_out("mt", "open", table.read, stream(1).open, table.commit))
    assert type(failure.value) is EngineError


def test_a_change_that_finds_a_conflict_is_made_again() -> None:
    table, conflicts = Unlucky(), [CommitConflict("moved")]

    def moved_once(metadata: StorageMetadata) -> MetadataChange:
        if conflicts:
            raise conflicts.pop()
        return stream(1).open(metadata)

    assert list(carried_out("t", "open", table.read, moved_once, table.commit)) == [
        "open: read",
        "open: read",
        "open: commit",
    ]
