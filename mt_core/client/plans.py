"""Compiled plans in a program. The client stores the text; the gateway explains and executes it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from mt_core.client.exceptions import translating

if TYPE_CHECKING:
    from mt_core.client.http import GatewayClient

# A streaming job runs until it is stopped, so its id must be returned without waiting for its end.
_AT_ONCE = {"table.dml-sync": "false"}
_LONGEST = 60


class CompiledPlan:
    """A compiled plan: INSERT statements with their operators and state TTLs.

    A plan is immutable; to change a TTL, load another plan. The connection must be open to explain or execute
    the plan, but a lost session is reopened.
    """

    def __init__(self, client: GatewayClient, name: str, text: str) -> None:
        self._client, self._name, self._text = client, name, text

    def as_json(self) -> str:
        """Return the text of the plan, identical to a file that COMPILE PLAN writes."""
        return self._text

    def write(self, path: str | os.PathLike[str], *, replace: bool = False) -> None:
        """Write the text to a local file. Raises FileExistsError if it exists and *replace* is false."""
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
        """Start the job of the plan and return its id. The job of a batch plan has then completed.

        Raises ProgrammingError with the differences if the statements now have other operators.
        """
        with translating():
            operation = self._begin("EXECUTE")
            first = next(self._client.pages(operation))
            self._client.close_operation(operation)
        return first.job_id or ""

    def _begin(self, verb: str) -> str:
        # The text is stored each time, because the session may be a new one.
        self._client.store_plan(self._name, self._text)
        return self._client.execute(f"{verb} PLAN '{self._name}'", properties=_AT_ONCE)


def plan_name(stem: str) -> str:
    """Return a unique name, readable in messages, for a plan in the folder of a session."""
    return f"{re.sub(r'[^A-Za-z0-9_-]', '-', stem)[:_LONGEST] or 'plan'}-{uuid4().hex[:12]}.json"
