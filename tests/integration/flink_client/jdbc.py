"""Flink's JDBC driver, used by the Java program beside this file."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROGRAM = Path(__file__).with_name("Jdbc.java")
WAIT_S = 180
FAST = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Dfile.encoding=UTF-8")
Answer = list[list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcProgram:
    """The driver's classes, and the gateway it is to talk to."""

    java: Path
    jars: Sequence[Path]
    endpoint: str

    def run(self, path: str, *commands: str) -> list[Answer]:
        """Connect to `jdbc:flink://host:port` + *path*, and return for each command the lines of values it gave."""
        classes = os.pathsep.join(str(jar) for jar in self.jars)
        done = subprocess.run(
            [str(self.java), *FAST, "-cp", classes, str(PROGRAM), f"jdbc:flink://{self.endpoint}{path}"],
            input="".join(f"{command}\n" for command in commands),
            capture_output=True,
            encoding="utf-8",
            timeout=WAIT_S,
            check=True,
        )
        answers: list[Answer] = [[]]
        for line in done.stdout.splitlines():
            if line == ".":
                answers.append([])
            else:
                answers[-1].append(line.split("\t"))
        return [answer for number, answer in enumerate(answers) if answer or number < len(commands)]
