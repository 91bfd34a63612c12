"""Compiled plan files in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from posixpath import normpath
from urllib.parse import unquote, urlsplit

from mt_core.errors import DefinitionInvalid
from mt_core.plans.errors import PlanExists, PlanNotFound
from mt_core.sessions.ports import PlanFiles


@dataclass(slots=True)
class FakePlans(PlanFiles):
    """A `PlanFiles`. `files` has the files of all sessions.

    Relative paths have the handle of their session as a prefix. `before_write` is called before each write.
    """

    files: dict[str, str] = field(default_factory=dict)
    before_write: Callable[[], object] = lambda: None

    def exists(self, session_id: str, uri: str) -> bool:
        return _full(session_id, uri) in self.files

    def read(self, session_id: str, uri: str) -> str:
        if not self.exists(session_id, uri):
            raise PlanNotFound(f"There is no plan {uri}.", plan=uri)
        return self.files[_full(session_id, uri)]

    def write(self, session_id: str, uri: str, text: str, *, replace: bool) -> None:
        self.before_write()
        if not replace and self.exists(session_id, uri):
            raise PlanExists.at(uri)
        self.files[_full(session_id, uri)] = text


def _full(session_id: str, uri: str) -> str:
    url = urlsplit(uri)
    path = unquote(url.path) if url.scheme else uri
    if path.startswith("/") or url.netloc:
        return uri
    inside = normpath(path)
    if inside.startswith(".."):
        raise DefinitionInvalid(
            f"Plan {uri} leaves the folder of the session; name a file in it, or give an absolute path."
        )
    return f"{session_id}/{inside}"
