from __future__ import annotations

import os
from pathlib import Path

from mt_core.terminal.output.replaced_file import replacing


def mode(file: Path) -> int:
    return file.stat().st_mode & 0o777


def test_a_file_that_others_must_not_read_is_hidden_from_them_while_it_is_written(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.touch(mode=0o600)

    with replacing(file) as beside:
        beside.write_text("new")
        written = mode(beside)

    assert (written, mode(file), file.read_text()) == (0o600, 0o600, "new")


def test_a_new_file_is_as_readable_as_the_user_has_it(tmp_path: Path) -> None:
    (tmp_path / "usual").write_text("")

    with replacing(tmp_path / "rows.csv") as beside:
        beside.write_text("new")

    assert mode(tmp_path / "rows.csv") == mode(tmp_path / "usual")


def test_a_link_in_the_place_of_what_is_written_is_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("of another")
    (tmp_path / f".rows.csv.{os.getpid()}").symlink_to(other)

    with replacing(tmp_path / "rows.csv") as beside:
        beside.write_text("new")

    assert (other.read_text(), (tmp_path / "rows.csv").read_text()) == ("of another", "new")
    assert {each.name for each in tmp_path.iterdir()} == {"other", "rows.csv"}
