"""Flink's JDBC driver, used by the Java program beside this file."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROGRAM = Path(__file__).with_name("Jdbc.java")
WAIT_S = 180
FAST = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Dfile.encoding=UTF-8")
Answer = list[list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcProgram:
    """The program, which runs, and the gateway that it connects to."""

    process: subprocess.Popen[str]
    endpoint: str

    def run(self, path: str, *commands: str) -> list[Answer]:
        """Connect to `jdbc:flink://host:port` + *path*, and return for each command the lines
        of values it gave.

        A connection that fails gives the lines of its error, and no command is run.
        """
        refused = self._perform(f"connect jdbc:flink://{self.endpoint}{path}")
        return [refused] if refused else [self._perform(command) for command in commands]

    def _perform(self, command: str) -> Answer:
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{command}\n")
        stdin.flush()
        answer: Answer = []
        while (line := stdout.readline()) != ".\n":
            assert line, f"the program ended at {command} after {answer}"
            answer.append(line.removesuffix("\n").split("\t"))
        return answer


@contextmanager
def jdbc_program(java: Path, jars: Sequence[Path], endpoint: str) -> Iterator[JdbcProgram]:
    """Start the program, and end it."""
    classes = os.pathsep.join(str(jar) for jar in jars)
    command = [str(java), *FAST, "-cp", classes, str(PROGRAM)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        try:
            yield JdbcProgram(process=process, endpoint=endpoint)
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(WAIT_S) == 0
        finally:
            process.kill()
