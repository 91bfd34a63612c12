"""The fence of a table, for each kind of its writers: who may publish, and what the table says
of it stays readable.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
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
    Writer,
    carried_out,
)
from mt_core.model.storage import MetadataChange, StorageMetadata

JOB = "0d9f8a4e111142228333444455556666"
STORED = '{"version": 1, "attempt": 3, "batch": 17, "nonce": "5f0c"}'
FOREIGN = {"stream_other_9": "1", "run_other_1": "1", "kept": "1"}
Make = Callable[[int], Writer[Any]]


def refresh(number: int) -> RefreshWriter:
    return RefreshWriter(number=number, branch=f"run_r{number}_1")


def stream(number: int) -> StreamWriter:
    return StreamWriter.of(JOB, number)


@dataclass
class Table:
    """The metadata of a table, replaced by compare-and-set."""

    metadata: StorageMetadata = field(
        default_factory=lambda: StorageMetadata(location="", properties={}, main="1", branches={})
    )

    def read(self) -> StorageMetadata:
        return self.metadata

    def commit(self, metadata: StorageMetadata, change: MetadataChange) -> None:
        if metadata is not self.metadata:
            raise CommitConflict("changed")
        main = change.publish or metadata.main
        branches = {name: head for name, head in metadata.branches.items() if name not in change.drop}
        if change.branch is not None and main is not None:
            branches[change.branch] = main
        properties = {key: value for key, value in metadata.properties.items() if key not in change.removed}
        changed = replace(
            metadata, main=main, branches=branches, properties={**properties, **change.properties}
        )
        # As Iceberg does, which leaves out a commit that changes nothing.
        self.metadata = metadata if changed == metadata else changed

    def does(self, change: Callable[[StorageMetadata], MetadataChange]) -> None:
        self.commit(self.metadata, change(self.metadata))

    def publish(self, writer: Writer[Any], published: Any, snapshot: str, **options: Any) -> None:
        self.does(lambda metadata: writer.publish(metadata, published, snapshot, **options))


@pytest.fixture(params=[(refresh, "r1", "r2"), (stream, 1, 2)], ids=["refresh", "stream"])
def kind(request: pytest.FixtureRequest) -> tuple[Make, Any, Any]:
    given: tuple[Make, Any, Any] = request.param
    return given


def test_the_writer_that_opened_the_table_last_publishes(kind: tuple[Make, Any, Any]) -> None:
    make, first, _ = kind
    table, writer = Table(), make(1)

    table.does(writer.open)
    table.publish(writer, first, "2")

    assert (table.metadata.main, table.metadata.branches) == ("2", {})
    assert writer.mark_of(table.metadata.properties) == Mark(number=1, published=first)


def test_a_writer_is_fenced_by_the_open_of_a_later_one(kind: tuple[Make, Any, Any]) -> None:
    make, first, _ = kind
    table, earlier, later = Table(), make(1), make(2)

    table.does(earlier.open)
    table.does(later.open)

    assert set(table.metadata.branches) == {later.branch}
    for step in (earlier.open, lambda metadata: earlier.publish(metadata, first, "2")):
        with pytest.raises(Fenced):
            table.does(step)
    assert later.mark_of(table.metadata.properties).number == 2


def test_an_open_that_is_repeated_fences_nobody(kind: tuple[Make, Any, Any]) -> None:
    make, first, _ = kind
    table, writer = Table(), make(1)

    table.does(writer.open)
    table.does(writer.open)
    table.publish(writer, first, "2")

    assert table.metadata.main == "2"


def test_what_an_earlier_writer_published_is_still_known_after_an_open(kind: tuple[Make, Any, Any]) -> None:
    make, first, _ = kind
    table = Table()
    table.does(make(1).open)
    table.publish(make(1), first, "2")

    table.does(make(2).open)

    assert make(2).mark_of(table.metadata.properties) == Mark(number=2, published=first)


def test_a_writer_that_goes_on_has_its_branch_where_main_is(kind: tuple[Make, Any, Any]) -> None:
    make, first, second = kind
    table, writer = Table(), make(1)
    table.does(writer.open)

    table.publish(writer, first, "2", goes_on=True)
    follows = writer.is_at_main(table.metadata)
    table.metadata = replace(table.metadata, main="foreign")

    assert follows
    assert not writer.is_at_main(table.metadata)
    table.does(writer.open)
    table.publish(writer, second, "3")
    assert table.metadata.main == "3"


def test_nothing_staged_or_sent_before_a_close_lands_after_it(kind: tuple[Make, Any, Any]) -> None:
    make, first, _ = kind
    table, writer = Table(), make(1)
    table.does(writer.open)
    before = table.metadata
    in_flight = writer.publish(before, first, "2")

    table.does(writer.close)

    assert table.metadata.branches == {}
    with pytest.raises(CommitConflict):
        table.commit(before, in_flight)


def test_branches_of_other_writers_and_of_users_stay(kind: tuple[Make, Any, Any]) -> None:
    make, _, _ = kind
    table = Table(StorageMetadata(location="", properties={}, main="1", branches=FOREIGN))

    table.does(make(1).open)
    table.does(make(1).close)

    gone = FOREIGN.keys() - table.metadata.branches.keys()
    assert gone == ({"run_other_1"} if make is refresh else set())


def test_a_mark_is_read_as_it_was_written(kind: tuple[Make, Any, Any]) -> None:
    make, first, _ = kind
    mark = Mark(number=1, published=first)

    assert make(1).mark_of(make(1).properties_of(mark)) == mark


def test_each_mark_of_a_job_is_written_in_other_words() -> None:
    texts = [stream(1).properties_of(Mark(number=1, published=-1)) for _ in range(2)]

    assert texts[0] != texts[1]


def test_a_refresh_that_was_replaced_does_not_close_the_table() -> None:
    table = Table()
    table.does(refresh(2).open)

    with pytest.raises(Fenced):
        table.does(refresh(1).close)


def test_a_job_is_closed_whichever_attempt_has_the_table_open() -> None:
    table = Table()
    table.does(stream(7).open)

    table.does(stream(0).close)

    assert stream(0).mark_of(table.metadata.properties).number is None
    with pytest.raises(Fenced):
        table.publish(stream(7), 1, "2")


def test_a_stopped_job_may_go_on_with_any_attempt() -> None:
    table = Table()
    table.does(stream(7).open)

    table.does(stream(0).close)
    table.does(stream(1).open)

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
    table.does(stream(1).open)

    table.does(stream(1).forget)

    assert (dict(table.metadata.properties), dict(table.metadata.branches)) == ({}, {})


# ------------------------------------------------------------------------------------------ commits that lose


class Unlucky(Table):
    """A table of which the first commits have the given errors."""

    def __init__(self, *errors: Exception, lands: bool = False) -> None:
        super().__init__()
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

    steps = list(carried_out("mt", "open", table.read, refresh(1).open, table.commit))

    assert steps == ["open: read", "open: commit"] * 3
    assert refresh(1).mark_of(table.metadata.properties).number == 1


def test_a_change_finds_what_a_commit_without_an_answer_has_done() -> None:
    table, writer = Unlucky(CommitUnknown("no answer"), lands=True), refresh(1)

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
        list(carried_out("mt", "open", table.read, refresh(1).open, table.commit))


def test_commits_that_never_have_an_answer_end_with_its_reason() -> None:
    table = Unlucky(*[CommitUnknown("the disk is full")] * MAX_UNKNOWN)

    with pytest.raises(EngineError, match="the disk is full") as failure:
        list(carried_out("mt", "open", table.read, refresh(1).open, table.commit))
    assert type(failure.value) is EngineError


def test_a_change_that_finds_a_conflict_is_made_again() -> None:
    table, conflicts = Table(), [CommitConflict("moved")]

    def moved_once(metadata: StorageMetadata) -> MetadataChange:
        if conflicts:
            raise conflicts.pop()
        return refresh(1).open(metadata)

    assert list(carried_out("t", "open", table.read, moved_once, table.commit)) == [
        "open: read",
        "open: read",
        "open: commit",
    ]


def test_a_batch_without_rows_is_noted_where_another_writer_has_removed_main() -> None:
    table = Table()
    table.does(stream(1).open)
    table.metadata = replace(table.metadata, main=None, branches={})

    change = stream(1).publish(table.metadata, 3, None, goes_on=True)

    assert (change.branch, change.publish) == (None, None)
    assert stream(1).mark_of(change.properties).published == 3
