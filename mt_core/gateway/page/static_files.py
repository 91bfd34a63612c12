"""The scripts and styles of the page, at addresses that change with their content, for browsers to keep."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from functools import cached_property, lru_cache
from importlib.resources import files

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from mt_core.gateway.services import PageLibraries

TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
PUBLIC = frozenset({"/", "/favicon.ico"})
"""The paths at the root of the gateway that lead to the page, and need no token."""

_FOREVER = "public, max-age=31536000, immutable"
_FOLDER = "mt_core.gateway.page"


class StaticFiles:
    """The page's own files, and the files of libraries if the gateway has them."""

    def __init__(self, libraries: PageLibraries | None) -> None:
        self._libraries = libraries
        self._digests: dict[str, str] = {}

    @property
    def libraries(self) -> frozenset[str]:
        """The names of the files of libraries that the gateway has."""
        return frozenset() if self._libraries is None else self._libraries.names()

    @cached_property
    def own(self) -> dict[str, bytes]:
        """The page's own files by name."""
        return {name: content for name, content in _own_files() if name.rpartition(".")[2] in TYPES}

    @cached_property
    def digest(self) -> str:
        """The digest of all own files; scripts import each other beside themselves."""
        every = hashlib.sha256()
        for name, content in sorted(self.own.items()):
            every.update(name.encode() + b"\0" + content)
        return every.hexdigest()[:12]

    def address(self, base: str, name: str) -> str:
        if name not in self.own:
            raise LookupError(f"the page has no file {name}")
        return f"{base}/static/{self.digest}/{name}"

    def library_address(self, base: str, name: str) -> str:
        if name not in self._digests:
            self._digests[name] = hashlib.sha256(self.library(name) or b"").hexdigest()[:12]
        return f"{base}/libraries/{self._digests[name]}/{name}"

    def library(self, name: str) -> bytes | None:
        return None if self._libraries is None else self._libraries.file(name)


def static_router(static: StaticFiles, router: APIRouter) -> APIRouter:
    """Return *router* with the endpoints of *static*, which need no sign-in."""

    @router.get("/static/{digest}/{name}")
    def get_static(request: Request, digest: str, name: str) -> Response:
        return _file(request, static.own.get(name), name, digest == static.digest)

    @router.get("/libraries/{digest}/{name}")
    def get_library(request: Request, digest: str, name: str) -> Response:
        content = static.library(name) if name in static.libraries else None
        current = content is not None and hashlib.sha256(content).hexdigest()[:12] == digest
        return _file(request, content, name, current)

    return router


def icon_router(static: StaticFiles, router: APIRouter, page: str) -> APIRouter:
    """Return *router* with what browsers ask for at the root: its icon, and the way to the *page*."""

    @router.get("/", include_in_schema=False)
    def get_root(request: Request) -> Response:
        return Response(status_code=303, headers={"Location": f"{page}/"})

    @router.get("/favicon.ico", include_in_schema=False)
    def get_icon(request: Request) -> Response:
        return Response(
            static.own["icon.svg"],
            media_type=TYPES["svg"],
            headers={"Cache-Control": "public, max-age=86400"},
        )

    return router


def _file(request: Request, content: bytes | None, name: str, current: bool) -> Response:
    """Return a file, compressed if the browser allows it. Browsers keep it only under its own address."""
    if content is None:
        raise HTTPException(404)
    headers = {"Cache-Control": _FOREVER if current else "no-store"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        content, headers["Content-Encoding"] = _compressed(content), "gzip"
    return Response(content, media_type=TYPES[name.rpartition(".")[2]], headers=headers)


@lru_cache(maxsize=100)
def _compressed(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def _own_files() -> Iterator[tuple[str, bytes]]:
    for each in (files(_FOLDER) / "static").iterdir():
        if each.is_file():
            yield each.name, each.read_bytes()
