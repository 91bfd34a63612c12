"""Compiled plans of a program: it holds the text of one, and the gateway explains and executes it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from mt_core.client.exceptions import translating

if TYPE_CHECKING:
    from mt_core.client.http import GatewayClient

# A job of a stream ends when someone stops it: its id is needed before.
_AT_ONCE = {"table.dml-sync": "false"}
_LONGEST = 60


class CompiledPlan:
    """A compiled plan: `INSERT` statements with their operators, and how long each keeps its state.

    Its text stays as it is: to change a TTL, load another one. The connection has to be open to explain
    and execute it; a session that has ended in between is opened again.
    """

    def __init__(self, client: GatewayClient, name: str, text: str) -> None:
        self._client, self._name, self._text = client, name, text

    def as_json(self) -> str:
        """Return the text of the plan, which is that of a file of COMPILE PLAN."""
        return self._text

    def write(self, path: str | os.PathLike[str], *, replace: bool = False) -> None:
        """Write the text into a file of this machine; raises FileExistsError if it is there
        and *replace* is not set.
        """
        with Path(path).open("w" if replace else "x", encoding="utf-8") as file:
            file.write(self._text)

    def explain(self) -> str:
        """Return the operators with their states and TTLs, and whether the plan can be executed now."""
        with translating():
            operation = self._begin("EXPLAIN")
            [[text]] = [row for page in self._client.pages(operation) for row in page.rows]
            self._client.close_operation(operation)
        return str(text)

    def execute(self) -> str:
        """Start the job of the plan, and return its id; a plan in batch mode has ended then.

        Raises ProgrammingError, with what differs, if the statements give other operators now.
        """
        with translating():
            operation = self._begin("EXECUTE")
            first = next(self._client.pages(operation))
            self._client.close_operation(operation)
        return first.job_id or ""

    def _begin(self, verb: str) -> str:
        # In the session that is open now, which need not be the one of the last call.
        self._client.store_plan(self._name, self._text)
        return self._client.execute(f"{verb} PLAN '{self._name}'", properties=_AT_ONCE)


def plan_name(stem: str) -> str:
    """Return a name for a plan in the folder of a session, which no other plan has; messages show it."""
    return f"{re.sub(r'[^A-Za-z0-9_-]', '-', stem)[:_LONGEST] or 'plan'}-{uuid4().hex[:12]}.json"
