"""Files of compiled plans in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from mt_core.plans.errors import PlanExists, PlanNotFound
from mt_core.sessions.ports import PlanFiles


@dataclass(slots=True)
class FakePlans(PlanFiles):
    """A `PlanFiles`; `files` are those of all sessions, relative ones with the handle of theirs before them."""

    files: dict[str, str] = field(default_factory=dict)

    def exists(self, session_id: str, uri: str) -> bool:
        return _full(session_id, uri) in self.files

    def read(self, session_id: str, uri: str) -> str:
        if not self.exists(session_id, uri):
            raise PlanNotFound(f"There is no plan {uri}.", plan=uri)
        return self.files[_full(session_id, uri)]

    def write(self, session_id: str, uri: str, text: str, *, replace: bool) -> None:
        if not replace and self.exists(session_id, uri):
            raise PlanExists.at(uri)
        self.files[_full(session_id, uri)] = text


def _full(session_id: str, uri: str) -> str:
    return uri if urlsplit(uri).scheme or uri.startswith("/") else f"{session_id}/{uri}"
