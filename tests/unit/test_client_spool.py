from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mt_core.errors import ConfigError
from mt_core.terminal.viewer.spool import SEGMENT_ROWS, Spool


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def spool(folder: Path) -> Iterator[Spool]:
    made = Spool()
    yield made
    made.close()


def rows(start: int, stop: int) -> list[list[str | None]]:
    return [[str(number), None] for number in range(start, stop)]


def on_disk(folder: Path) -> list[int]:
    """Return the sizes of the files in *folder* that this process has open, named or not."""
    opened = [Path("/proc/self/fd", number) for number in os.listdir("/proc/self/fd")]
    return [
        path.stat().st_size
        for path in opened
        if path.is_symlink() and str(path.readlink()).startswith(str(folder))
    ]


def test_rows_keep_their_numbers_over_files_and_memory(spool: Spool, folder: Path) -> None:
    for start in range(0, 2_500, 500):
        spool.add(rows(start, start + 500))

    assert (spool.first, spool.end, len(on_disk(folder))) == (0, 2_500, 1)
    assert spool.rows(0, 2) == rows(0, 2)
    assert spool.rows(990, 2_010) == rows(990, 2_010)
    assert spool.rows(2_400, 9_000) == rows(2_400, 2_500)
    assert spool.rows(9_000, 9_001) == []


def test_dropped_rows_leave_the_disk_by_whole_files(
    spool: Spool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mt_core.terminal.viewer.spool.FILE_BYTES", 20_000)
    spool.add(rows(0, 4_500))
    before = len(on_disk(folder))

    spool.drop(SEGMENT_ROWS + 1)
    with_half_a_file = len(on_disk(folder))
    spool.drop(3 * SEGMENT_ROWS)

    assert (before, with_half_a_file, len(on_disk(folder))) == (2, 2, 1)
    assert (spool.first, spool.end) == (3_000, 4_500)
    assert spool.rows(0, 3_001) == rows(3_000, 3_001)
    spool.add(rows(4_500, 6_000))
    assert spool.rows(2_000, 6_000) == rows(3_000, 6_000)


def test_rows_that_are_not_on_disk_yet_are_not_dropped(spool: Spool) -> None:
    spool.add(rows(0, 1_500))

    spool.drop(1_500)

    assert spool.rows(0, 2_000) == rows(1_000, 1_500)


def test_the_files_have_no_names_and_end_with_the_spool(spool: Spool, folder: Path) -> None:
    spool.add(rows(0, SEGMENT_ROWS))
    named, open_files = list(folder.iterdir()), len(on_disk(folder))

    spool.close()

    assert (named, open_files, on_disk(folder), spool.rows(0, 10)) == ([], 1, [], [])


def test_nothing_is_left_of_rows_after_a_process_that_was_killed(folder: Path) -> None:
    code = (
        "import os, signal; from mt_core.terminal.viewer.spool import Spool;"
        "spool = Spool(); spool.add([['1']] * 5000); assert spool.rows(0, 1) == [['1']];"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )

    killed = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(folder)}, check=False
    )

    assert (killed.returncode, list(folder.iterdir())) == (-signal.SIGKILL, [])


def test_rows_that_cannot_be_written_are_refused_with_the_ways_out_and_stay_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/dev/null")
    spool = Spool()

    with pytest.raises(
        ConfigError, match=r"stored in /dev/null: Not a directory; free space there, or set TMPDIR"
    ):
        spool.add(rows(0, SEGMENT_ROWS))
    assert spool.rows(0, 9_000) == rows(0, SEGMENT_ROWS)


def test_rows_can_have_any_character(spool: Spool) -> None:
    odd: list[list[str | None]] = [["\n\t\x1b[2J\ud800 é 漢", ""]] * SEGMENT_ROWS

    spool.add(odd)

    assert spool.rows(0, 1) == odd[:1]
