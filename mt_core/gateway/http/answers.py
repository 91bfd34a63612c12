"""The JSON response of every endpoint, and the response to a client that has it already.

Unlike Flink's responses, it has no Access-Control-Allow-Origin header, so web pages of other sites cannot
read it.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import orjson
from fastapi import Response

CONTENT_TYPE = "application/json; charset=UTF-8"
NOT_MODIFIED = 304


class JsonAnswer(Response):
    """A response with a body encoded by orjson, and with the content type that Flink sends."""

    media_type = CONTENT_TYPE

    def __init__(self, content: Any, status_code: int = 200, headers: dict[str, str] | None = None) -> None:
        super().__init__(content, status_code, headers)

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content, default=_encode)


def not_modified(etag: str, if_none_match: str | None) -> Response | None:
    """Return the response to a request whose header If-None-Match contains *etag*, or None if it does not.

    Weak and strong ETags are equal, because proxies may change a strong one to a weak one.
    """
    present = {_opaque(each) for each in (if_none_match or "").split(",")}
    if present.isdisjoint({_opaque(etag), "*"}):
        return None
    return Response(status_code=NOT_MODIFIED, headers={"ETag": etag})


def _opaque(etag: str) -> str:
    return etag.strip().removeprefix("W/").strip('"')


def _encode(value: Any) -> Any:
    if isinstance(value, Decimal):
        return orjson.Fragment(str(value))
    raise TypeError(f"{type(value).__name__} has no JSON form")
