"""A restore that is killed at any step is repeated whole, on a store without atomic folders too."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from mt_core.spark.files.hadoop_files import Files
from mt_core.spark.streams import checkpoints
from mt_core.spark.streams.checkpoints import Checkpoints

NO_SESSION = cast(SparkSession, None)
OFFSETS = "v1\n{}\n"


class Killed(Exception):
    """The process ends here."""


class ObjectFiles(Files):
    """Files below a local folder, which are written, copied and deleted one by one, until a kill."""

    def __init__(self, steps: int) -> None:
        super().__init__(NO_SESSION)
        self._steps = steps

    def _step(self) -> None:
        self._steps -= 1
        if self._steps < 0:
            raise Killed

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def names(self, folder: str) -> list[str]:
        return [path.name for path in Path(folder).iterdir()] if self.exists(folder) else []

    def read(self, file: str) -> str:
        return Path(file).read_text(encoding="utf-8")

    def write(self, file: str, text: str) -> None:
        part = Path(f"{file}.part")
        self._step()
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        self._step()
        part.rename(file)

    def copy(self, source: str, target: str) -> None:
        for file in files_below(Path(source)):
            self._step()
            place = Path(target) / file.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.read_bytes())

    def delete(self, path: str) -> None:
        for file in files_below(Path(path)):
            self._step()
            file.unlink()
        shutil.rmtree(path, ignore_errors=True)


def files_below(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())


def contents(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text() for file in files_below(folder)}


def test_a_restore_that_is_killed_at_any_step_is_repeated_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    savepoint = tmp_path / "savepoint"
    for name, text in {
        "savepoint.json": json.dumps({"version": 1}),
        "checkpoint/job": "the first job",
        "checkpoint/metadata": "the first query",
        "checkpoint/operators": '{"layout": 3}',
        "checkpoint/commits/0": "v1",
        "checkpoint/offsets/0": f"{OFFSETS}first\nsecond",
        "checkpoint/sources/0/log": "of the first",
        "checkpoint/sources/1/log": "of the second",
    }.items():
        (savepoint / name).parent.mkdir(parents=True, exist_ok=True)
        (savepoint / name).write_text(text)
    kills, ended = 0, False

    def restore(steps: int, target: Path) -> None:
        monkeypatch.setattr(checkpoints, "Files", lambda _session: ObjectFiles(steps))
        Checkpoints(NO_SESSION).restore(str(savepoint), str(target), [1, 0])

    while not ended:
        target = tmp_path / f"job{kills}"
        try:
            restore(kills, target)
            ended = True
        except Killed:
            with suppress(Killed):
                restore(kills // 2, target)
            restore(1000, target)
            kills += 1
        # The checkpoint is complete, so another restore takes no step.
        restore(0, target)

        assert contents(target) == {
            "operators": '{"layout": 3}',
            "commits/0": "v1",
            "offsets/0": f"{OFFSETS}second\nfirst",
            "sources/0/log": "of the second",
            "sources/1/log": "of the first",
        }

    assert kills > 10
