from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from mt_core.errors import EngineError
from mt_core.spark.results import spool as module
from mt_core.spark.results.spool import Spool, Spools

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
ROWS = 100
Fill = Callable[..., Spool]


def batch(first: int, rows: int = ROWS) -> pa.RecordBatch:
    numbers = range(first, first + rows)
    return pa.record_batch([pa.array(numbers, pa.int64()), pa.array(map(str, numbers))], schema=SCHEMA)


@pytest.fixture
def filled() -> Iterator[Callable[..., Spool]]:
    """Makes spools with rows 0, 1, 2 …, and closes them at the end."""
    made: list[Spool] = []

    def fill(spools: Spools, batches: int = 10) -> Spool:
        made.append(spools.new(SCHEMA))
        for number in range(batches):
            made[-1].append(batch(number * ROWS))
        return made[-1]

    yield fill
    for spool in made:
        spool.close()


def numbers(spool: Spool, start: int, count: int) -> list[int]:
    return [value for part in spool.read(start, count) for value in part.column(0).to_pylist()]


SIZE = batch(0).get_total_buffer_size()


@pytest.mark.parametrize("memory", [0, 3 * SIZE, 100 * SIZE])
@pytest.mark.parametrize(("start", "count"), [(0, 10), (95, 10), (250, 500), (990, 100), (1000, 5)])
def test_rows_are_the_same_wherever_they_are_kept(
    filled: Fill, tmp_path: Path, memory: int, start: int, count: int
) -> None:
    spool = filled(Spools(tmp_path / "results", max_memory=memory))

    assert numbers(spool, start, count) == list(range(start, min(start + count, 1000)))
    assert spool.rows == 1000


def test_nothing_is_written_while_there_is_memory(filled: Fill, tmp_path: Path) -> None:
    spool = filled(Spools(tmp_path / "results", max_memory=100 * SIZE))

    assert (spool.full, (tmp_path / "results").exists()) == (False, False)


def test_a_spool_that_is_closed_gives_its_memory_to_the_others(filled: Fill, tmp_path: Path) -> None:
    spools = Spools(tmp_path / "results", max_memory=11 * SIZE)
    filled(spools).close()

    filled(spools)

    assert not (tmp_path / "results").exists()


def test_released_rows_make_room_for_others_and_the_rest_stays(
    filled: Fill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SEGMENT_BYTES", 1)
    spool = filled(Spools(tmp_path / "results", max_memory=0, max_disk=9 * batch(0).serialize().size))
    before = spool.full

    spool.release(450)
    after = spool.full
    spool.append(batch(1000))

    assert (before, after, spool.full) == (True, False, False)
    assert numbers(spool, 450, 1000) == list(range(450, 1100))


def test_a_file_whose_rows_are_all_released_is_used_again(filled: Fill, tmp_path: Path) -> None:
    spool = filled(Spools(tmp_path / "results", max_memory=0, max_disk=1))

    spool.release(1000)
    released = spool.full
    spool.append(batch(1000))

    assert (released, numbers(spool, 1000, 10)) == (False, list(range(1000, 1010)))


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_the_space_of_all_results_is_known_with_its_limits(filled: Fill, tmp_path: Path, place: str) -> None:
    limit = 100 * SIZE if place == "memory" else 0
    sizes = [
        part.get_total_buffer_size() if limit else part.serialize().size for part in map(batch, (0, 100))
    ]
    spools = Spools(tmp_path / "results", max_memory=limit, max_disk=99)
    first, second = filled(spools, 2), filled(spools, 1)
    spaces = [spools.space()]

    first.release(150)
    spaces.append(spools.space())
    first.close()
    second.close()
    spaces.append(spools.space())

    assert [getattr(space, place) for space in spaces] == [sum(sizes) + sizes[0], sum(sizes), 0]
    assert [space.memory + space.disk for space in spaces] == [getattr(space, place) for space in spaces]
    assert (spaces[0].memory_limit, spaces[0].disk_limit) == (limit, 99)


def test_a_page_is_as_large_as_fits_but_never_empty(filled: Fill, tmp_path: Path) -> None:
    spool = filled(Spools(tmp_path / "results"))
    size = spool.read(0, ROWS)[0].get_total_buffer_size()

    cut = spool.fitting(0, 500, 2 * size)
    found = [
        spool.fitting(0, count, limit)
        for count, limit in ((50, size), (200, 3 * size), (500, 1), (5000, 99 * size))
    ]

    assert (ROWS < cut < 3 * ROWS, found) == (True, [50, 200, 1, 1000])
    assert spool.fitting(1000, 10, size) == 0


def test_what_a_killed_gateway_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "results" / "result-left"
    left.parent.mkdir()
    left.write_bytes(b"rows")

    Spools(tmp_path / "results")

    assert not left.exists()


def test_rows_that_cannot_be_written_are_an_error_that_says_where(filled: Fill, tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file")
    spools = Spools(tmp_path / "results" / "inside", max_memory=0)

    with pytest.raises(EngineError, match=r"Rows of the result cannot be written in .*inside.*max-memory"):
        filled(spools, 1)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_spool_whose_disk_is_full_can_be_closed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    full = Path("/dev/full")
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_options: full.open("wb"))
    spool = Spools(tmp_path / "results", max_memory=0).new(SCHEMA)
    with pytest.raises(EngineError, match="No space left on device"):
        spool.append(batch(0))

    spool.close()

    assert spool.rows == 0
