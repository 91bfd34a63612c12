"""Flink's SQL client in gateway mode, given a script or sat before."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.terminal import Terminal, plain

PROMPT = "Flink SQL> "
WAIT_S = 180
FAST = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")
DONE = "[INFO] Execute statement succeeded."
TABLEAU = "SET 'sql-client.execution.result-mode' = 'tableau';"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlClient:
    """The client's classes, a folder of its own for what it writes, and the gateway it is to talk to."""

    java: Path
    jars: Sequence[Path]
    folder: Path
    url: str

    def run(self, script: str, *arguments: str) -> list[str]:
        """Run *script* with `-f`, results as text tables; return what each of its statements showed.

        The client stops at the first statement that fails.
        """
        file = self.folder / "script.sql"
        file.write_text(f"{TABLEAU}\n{script}", encoding="utf-8")
        done = subprocess.run(
            self.command("-f", str(file), *arguments),
            env=self._environ(),
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=True,
        )
        shown, _, _ = plain(done.stdout).rpartition("\nShutting down the session...")
        return [answer.strip() for answer in shown.removesuffix(PROMPT).split(PROMPT)[2:]]

    def terminal(self, *arguments: str) -> Terminal:
        """Return the client in a terminal; it shows its prompt once it is ready."""
        return Terminal(self.command(*arguments), self._environ())

    def command(self, *arguments: str) -> list[str]:
        """Return what the script `sql-client.sh gateway` of Flink's distribution executes."""
        classes = os.pathsep.join(str(jar) for jar in self.jars)
        history = ("-hist", str(self.folder / "history"))
        client = "org.apache.flink.table.client.SqlClient"
        return [
            str(self.java),
            *FAST,
            "-cp",
            classes,
            client,
            "gateway",
            "-e",
            self.endpoint,
            *history,
            *arguments,
        ]

    @property
    def endpoint(self) -> str:
        return self.url.removeprefix("http://")

    def _environ(self) -> dict[str, str]:
        (self.folder / "config.yaml").touch()
        return {**os.environ, "FLINK_CONF_DIR": str(self.folder), "LC_ALL": "C.UTF-8"}


def rows(answer: str) -> list[list[str]]:
    """Return the header and the rows of the text table in *answer*."""
    lines = [line for line in answer.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def column(answer: str) -> list[str]:
    """Return the values of a text table's first column."""
    return [row[0] for row in rows(answer)[1:]]


def error(answer: str) -> str:
    """Return the reason that the client shows of a statement that failed."""
    found = re.search(
        r"\[ERROR\] Could not execute SQL statement\. Reason:\n(.*?)(?:\n\n|\Z)", answer, re.DOTALL
    )
    assert found is not None, answer
    return found[1].strip()
