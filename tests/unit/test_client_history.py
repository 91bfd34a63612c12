from __future__ import annotations

import stat
from pathlib import Path

import pytest

from mt_core.terminal.editor.history import StatementHistory, entries_of, history_file


def newest_first(path: Path) -> list[str]:
    return list(StatementHistory(path).load_history_strings())


def test_each_statement_and_command_is_an_entry_that_the_next_client_finds(tmp_path: Path) -> None:
    file = tmp_path / "state" / "history"
    history = StatementHistory(file)

    for typed in ("SELECT 1;\nSELECT\n  'ü';", "\\dt\n", "\\dt", "-- only a note", "  "):
        history.append_string(typed)

    assert newest_first(file) == [r"\dt", "SELECT\n  'ü';", "SELECT 1;"]
    assert history.get_strings() == ["SELECT 1;", "SELECT\n  'ü';", r"\dt"]


def test_only_its_owner_can_read_the_file(tmp_path: Path) -> None:
    file = tmp_path / "state" / "history"

    StatementHistory(file).append_string("SELECT 1;")

    assert [stat.S_IMODE(each.stat().st_mode) for each in (file, file.parent)] == [0o600, 0o700]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE CATALOG c WITH ('type' = 'jdbc', 'password' = 'hunter2');",
        "SET 's3.secret-key' = 'hunter2';",
        "ADD JAR 'https://ada:hunter2@example.com/a.jar';",
        r"\set s3.secret-key hunter2",
        r"\set  s3.secret-key = hunter2;",
        r"\set s3.secret-key 'hunter2'",
    ],
)
def test_a_statement_with_a_secret_stays_in_memory(tmp_path: Path, statement: str) -> None:
    history = StatementHistory(tmp_path / "history")

    history.append_string(statement)

    assert history.get_strings() == [statement]
    assert not (tmp_path / "history").exists()


def test_a_broken_line_and_a_missing_file_are_no_errors(tmp_path: Path) -> None:
    file = tmp_path / "history"
    file.write_text('"SELECT 1;"\n"SELECT\n7\n"SELECT 2;"\n')

    assert newest_first(file) == ["SELECT 2;", "SELECT 1;"]
    assert newest_first(tmp_path / "none") == []


def test_a_history_that_cannot_be_written_is_kept_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    history = StatementHistory(tmp_path / "file" / "history")

    history.append_string("SELECT 1;")

    assert history.get_strings() == ["SELECT 1;"]


def test_what_cannot_be_split_is_one_entry() -> None:
    assert entries_of("SELECT 'open; SELECT 1;") == ["SELECT 'open; SELECT 1;"]


def test_the_history_is_in_the_folder_of_states() -> None:
    assert history_file({"XDG_STATE_HOME": "/s", "HOME": "/h"}) == Path("/s/freshtable/sql_history")
    assert history_file({"HOME": "/h"}) == Path("/h/.local/state/freshtable/sql_history")


def test_a_line_that_asks_for_an_editor_is_no_part_of_its_statement() -> None:
    assert entries_of("SELECT 1\n\\e\n") == ["SELECT 1"]
    assert entries_of("\\e") == ["\\e"]
