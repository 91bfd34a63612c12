from __future__ import annotations

import pytest

from mt_core.incremental.changes import (
    ChangeKind,
    Commit,
    SourceChange,
    can_be_compared,
    can_be_looked_up,
    change_between,
)


def log(*commits: tuple[str, str | None, str, dict[str, str]]) -> dict[str, Commit]:
    return {
        snapshot: Commit(snapshot_id=snapshot, parent_id=parent, operation=operation, summary=summary)
        for snapshot, parent, operation, summary in commits
    }


FIRST = ("1", None, "append", {"added-records": "5"})


def append(snapshot: str, parent: str, rows: int = 2) -> tuple[str, str, str, dict[str, str]]:
    return snapshot, parent, "append", {"added-records": str(rows), "added-files-size": str(rows * 10)}


def compaction(snapshot: str, parent: str) -> tuple[str, str, str, dict[str, str]]:
    return snapshot, parent, "replace", {"added-records": "9", "deleted-records": "9"}


def delete(snapshot: str, parent: str) -> tuple[str, str, str, dict[str, str]]:
    return snapshot, parent, "delete", {"deleted-records": "1", "deleted-data-files": "1"}


def kind(commits: dict[str, Commit], old: str, new: str) -> ChangeKind:
    return change_between(commits, old, new).kind


def test_the_same_version_has_no_change() -> None:
    assert kind(log(FIRST), "1", "1") is ChangeKind.NOTHING


def test_appends_are_counted_over_all_commits() -> None:
    commits = log(FIRST, append("2", "1"), append("3", "2", rows=4))

    assert change_between(commits, "1", "3") == SourceChange(kind=ChangeKind.APPENDS, rows=6, size=60)


def test_compaction_alone_changes_no_row_and_counts_none_among_appends() -> None:
    commits = log(FIRST, compaction("2", "1"), append("3", "2"))

    assert change_between(commits, "1", "2") == SourceChange(kind=ChangeKind.COMPACTION)
    assert change_between(commits, "1", "3") == SourceChange(kind=ChangeKind.APPENDS, rows=2, size=20)


def test_a_refresh_that_appended_no_file_changes_no_row_and_another_writer_may_not_say_so() -> None:
    of_run, of_others = {"freshtable.run-id": "a"}, {"spark.app.id": "b"}

    assert kind(log(FIRST, ("2", "1", "append", of_run)), "1", "2") is ChangeKind.COMPACTION
    assert (
        kind(log(FIRST, ("2", "1", "append", of_run | {"added-data-files": "1"})), "1", "2")
        is ChangeKind.APPENDS
    )
    assert kind(log(FIRST, ("2", "1", "append", of_others)), "1", "2") is ChangeKind.APPENDS


def test_one_delete_among_appends_makes_the_whole_a_change_of_rows() -> None:
    assert kind(log(FIRST, append("2", "1"), delete("3", "2"), append("4", "3")), "1", "4") is ChangeKind.ROWS


def test_an_overwrite_that_only_adds_is_a_change_of_rows_since_the_append_reader_leaves_it_out() -> None:
    overwrite = ("2", "1", "overwrite", {"added-records": "3", "added-files-size": "30"})

    assert kind(log(FIRST, overwrite), "1", "2") is ChangeKind.ROWS


def test_an_overwrite_without_rows_or_files_changes_nothing() -> None:
    assert kind(log(FIRST, ("2", "1", "overwrite", {})), "1", "2") is ChangeKind.COMPACTION


def test_deletes_of_rows_in_delete_files_are_a_change_of_rows() -> None:
    assert kind(log(FIRST, ("2", "1", "overwrite", {"added-delete-files": "1"})), "1", "2") is ChangeKind.ROWS


def test_a_version_that_is_no_ancestor_but_live_differs_by_rows_of_unknown_number() -> None:
    commits = log(FIRST, append("2", "1"), append("3", "1"))

    assert change_between(commits, "2", "3") == SourceChange(kind=ChangeKind.ROWS, rows=None, size=None)


def test_appends_since_an_expired_version_are_known_if_its_child_is_live() -> None:
    commits = log(append("2", "1"), append("3", "2"))

    assert change_between(commits, "1", "3") == SourceChange(
        kind=ChangeKind.APPENDS, rows=4, size=40, base_live=False
    )


def test_rows_changed_since_an_expired_version_are_not_known() -> None:
    assert change_between(log(delete("2", "1")), "1", "2").reason == "snapshot 1 has expired"
    assert kind(log(append("3", "2")), "1", "3") is ChangeKind.UNKNOWN


def test_a_new_version_that_has_expired_is_not_known() -> None:
    assert change_between(log(FIRST), "1", "2").reason == "snapshot 2 has expired"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (SourceChange(kind=ChangeKind.NOTHING), "nothing changed"),
        (SourceChange(kind=ChangeKind.COMPACTION), "compacted, no row changed"),
        (SourceChange(kind=ChangeKind.UNREAD), "no row changed that the query reads"),
        (SourceChange(kind=ChangeKind.APPENDS, rows=1, size=1000), "1 row appended, 1,000 bytes"),
        (SourceChange(kind=ChangeKind.ROWS, rows=1000, size=1), "1,000 rows changed, 1 byte"),
        (SourceChange(kind=ChangeKind.ROWS, rows=None, size=None), "rows changed"),
        (SourceChange(kind=ChangeKind.UNKNOWN, rows=None, size=None, reason="gone"), "not known: gone"),
    ],
)
def test_a_change_is_told_in_words(change: SourceChange, text: str) -> None:
    assert str(change) == text


@pytest.mark.parametrize(
    ("type_", "looked_up", "told_apart"),
    [
        ("decimal(9,2)", True, True),
        ("array<struct<a:string>>", True, True),
        ("MAP<STRING, INT>", False, True),
        ("map<string,map<int,int>>", False, False),
        ("array<map<string,int>>", False, False),
        ("variant", False, False),
    ],
)
def test_maps_tell_rows_apart_and_are_not_looked_up(type_: str, looked_up: bool, told_apart: bool) -> None:
    assert (can_be_looked_up(type_), can_be_compared(type_)) == (looked_up, told_apart)
