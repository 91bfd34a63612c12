"""The shard cache: a folder with the definitions of the last sync, used while the gateway is unreachable."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from freshtable_airflow.shard import SHARDS, Shard

EMPTY = Shard(etag="", workflows=())
SHARD, PARSED, PROBLEM = "shard_{:02d}.json", "parsed_{:02d}.txt", "problem.txt"


class ShardCache:
    """Definitions in the files of one folder. Safe for concurrent processes.

    Each file is replaced atomically, so readers see either the old or the new content.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, number: int) -> Shard:
        """Return the stored shard, or an empty shard if its file is missing or unreadable."""
        try:
            body = json.loads((self._folder / SHARD.format(number)).read_text(encoding="utf-8"))
            return Shard(etag=body["etag"], workflows=body["workflows"], state=body.get("state", ""))
        except (OSError, ValueError, KeyError, TypeError):
            return EMPTY

    def store(self, number: int, shard: Shard) -> None:
        body = json.dumps({"etag": shard.etag, "state": shard.state, "workflows": list(shard.workflows)})
        write_whole(self._folder / SHARD.format(number), body)

    def shard_with(self, name: str) -> int | None:
        """Return the number of the shard with the workflow *name*, or None, without decoding any file."""
        fragment = f'"name": {json.dumps(name)}'
        for number in range(SHARDS):
            path = self._folder / SHARD.format(number)
            if path.exists() and fragment in path.read_text(encoding="utf-8"):
                return number
        return None

    def state(self, number: int) -> str:
        """Return a hash that changes with everything that the DAGs in the shard's file show."""
        # Only the first anchor shows a problem, because parsing all files for it would cost too much.
        content = (self.read(number).etag, self.problem if number == 0 else "")
        return sha256(repr(content).encode()).hexdigest()[:16]

    def note_parsed(self, number: int, state: str) -> None:
        """Store the state that a parse of the shard's file has read."""
        # Without write permission, the only effect is that the file is parsed once more than necessary.
        with suppress(OSError):
            if not self.is_parsed(number, state):
                write_whole(self._folder / PARSED.format(number), state)

    def is_parsed(self, number: int, state: str) -> bool:
        """Return whether the last recorded parse of the shard's file read this state."""
        path = self._folder / PARSED.format(number)
        return path.exists() and path.read_text(encoding="utf-8") == state

    @property
    def problem(self) -> str:
        """Why the last sync failed, or ""."""
        path = self._folder / PROBLEM
        return path.read_text(encoding="utf-8") if path.exists() else ""

    @problem.setter
    def problem(self, text: str) -> None:
        if text != self.problem:
            write_whole(self._folder / PROBLEM, text)


def write_whole(path: Path, text: str) -> None:
    """Replace the content of a file atomically: readers get either the old or the new content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        # Airflow's components may run under different accounts, so all of them must be able to read the file.
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
