"""A writer that knows nothing of us: plain Spark SQL in a process of its own.

Run as a module with its configuration as JSON: it executes each line of its input and answers with a line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
_DONE = "done"


@contextmanager
def outside_spark(conf: Mapping[str, str]) -> Iterator[Callable[[str], None]]:
    """Start the process, and yield what executes one statement in it."""
    command = [sys.executable, "-m", __name__, json.dumps(conf)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    lines, answers = process.stdin, process.stdout

    def execute(statement: str) -> None:
        lines.write(f"{statement}\n")
        lines.flush()
        assert answers.readline().strip() == _DONE, statement

    try:
        yield execute
    finally:
        lines.close()
        answers.close()
        process.wait(60)


def _main(conf: Mapping[str, str]) -> None:
    from pyspark.sql import SparkSession

    # Java writes its warnings to the standard output too.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    for line in sys.stdin:
        session.sql(line)
        answers.write(f"{_DONE}\n")
        answers.flush()
    session.stop()


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
