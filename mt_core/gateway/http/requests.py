"""Arguments of a request.

Paths are parsed strictly. Bodies are parsed leniently: an empty body is `{}`, null means absent, and unknown
fields are ignored.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import orjson
from fastapi import Depends, Path, Request

from mt_core.errors import RequestInvalid
from mt_core.gateway.http.bodies import BUFFERED, BufferedBody

MAX_INTEGER = 2**63 - 1
# Long texts cost many times their length, because a statement is tokenized and a session stores its
# properties.
MAX_STATEMENT_LENGTH = 4_194_304
MAX_TEXTS_LENGTH = 1_048_576
# A number in a path has only one spelling and fits into 64 bits.
_WHOLE_NUMBER = re.compile("0|-?[1-9][0-9]{0,17}")
_EXCERPT_LENGTH = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """The fields of a JSON object. The methods raise RequestInvalid naming an invalid field."""

    fields: Mapping[str, Any] = field(default_factory=dict)

    def text(self, name: str) -> str | None:
        """Return a string, or None if the field is absent."""
        value = self.fields.get(name)
        if value is not None and not isinstance(value, str):
            raise RequestInvalid(f"{name} must be a string, not {_shown(value)}.")
        return value

    def statement(self, absent: str | None = None) -> str:
        """Return the statement, or *absent* if the field is missing. If *absent* is None, it is required."""
        statement = self.text("statement")
        if statement is None:
            statement = absent
        if statement is None:
            raise RequestInvalid("statement is missing; it must be the text to run.")
        if len(statement) > MAX_STATEMENT_LENGTH:
            raise RequestInvalid(
                f"statement has {len(statement)} characters, the limit is {MAX_STATEMENT_LENGTH}; "
                "read rows from a file or a table instead of writing them into the statement."
            )
        return statement

    def flag(self, name: str, meaning: str) -> bool:
        """Return a required boolean. *meaning* explains its values in the error."""
        value = self.fields.get(name)
        if value is None:
            raise RequestInvalid(f"{name} is missing: {meaning}.")
        if not isinstance(value, bool):
            raise RequestInvalid(f"{name} must be true or false, not {_shown(value)}.")
        return value

    def integer(self, name: str) -> int:
        """Return an integer, or 0 if the field is absent."""
        value = self.fields.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise RequestInvalid(f"{name} must be an integer, not {_shown(value)}.")
        return value or 0

    def milliseconds(self, name: str) -> int:
        """Return a number of milliseconds, or 0 if the field is absent. It may also be a numeric string."""
        value = self.fields.get(name)
        if isinstance(value, str) and (not value or value.isdecimal()):
            value = int(value[:30] or 0)
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int) or abs(value) > MAX_INTEGER
        ):
            raise RequestInvalid(f"{name} must be a number of milliseconds, not {_shown(value)}.")
        return value or 0

    def choice(self, name: str, allowed: Sequence[str]) -> str | None:
        """Return a string that is one of *allowed*, in lower case, or None if the field is absent."""
        text = self.text(name)
        if text is not None and text.lower() not in allowed:
            raise RequestInvalid(f"{name} must be {' or '.join(allowed)}, not {_shown(text)}.")
        return text.lower() if text is not None else None

    def texts(self, name: str) -> dict[str, str]:
        """Return a map of strings, or an empty map if the field is absent.

        Numbers and booleans become their JSON text.
        """
        value = self.fields.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise RequestInvalid(f"{name} must be an object of strings, not {_shown(value)}.")
        texts: dict[str, str] = {}
        for key, item in value.items():
            if isinstance(item, str):
                texts[key] = item
            elif isinstance(item, bool | int | float):
                texts[key] = orjson.dumps(item).decode()
            elif item is not None:
                raise RequestInvalid(f"{name}.{key} must be a string, not {_shown(item)}.")
        length = sum(len(key) + len(text) for key, text in texts.items())
        if length > MAX_TEXTS_LENGTH:
            raise RequestInvalid(
                f"{name} has {length} characters, the limit is {MAX_TEXTS_LENGTH}; "
                "send fewer or shorter ones."
            )
        return texts


async def read_body(request: Request) -> Body:
    """Return the body. It counts towards the limits until the response is sent.

    Raises RequestInvalid, GatewayBusy.
    """
    buffered = request.scope[BUFFERED] = BufferedBody(limits=request.app.state.bodies)
    text = await buffered.read(request)
    if not text.strip():
        return Body()
    try:
        fields = orjson.loads(text)
    except orjson.JSONDecodeError as cause:
        raise RequestInvalid(f"The body is not JSON: {cause}") from cause
    if not isinstance(fields, dict):
        raise RequestInvalid(f"The body must be a JSON object, not {_shown(fields)}.")
    return Body(fields=fields)


# These are coroutines although they do not wait, because FastAPI runs any other dependency in a thread, one
# after the other.
async def session_handle(session_handle: Annotated[str, Path()]) -> str:
    """Return the session handle of the path in canonical form. Raises RequestInvalid."""
    return uuid_of("session_handle", session_handle)


async def operation_handle(operation_handle: Annotated[str, Path()]) -> str:
    """Return the operation handle of the path in canonical form. Raises RequestInvalid."""
    return uuid_of("operation_handle", operation_handle)


async def page_token(token: Annotated[str, Path()]) -> int:
    """Return the token of a result page. Raises RequestInvalid."""
    return _number("token", token)


async def shard_number(number: Annotated[str, Path()]) -> int:
    """Return the number of a workflow shard, which need not exist. Raises RequestInvalid."""
    return _number("number", number)


JsonBody = Annotated[Body, Depends(read_body)]
SessionHandle = Annotated[str, Depends(session_handle)]
OperationHandle = Annotated[str, Depends(operation_handle)]
PageToken = Annotated[int, Depends(page_token)]
ShardNumber = Annotated[int, Depends(shard_number)]


def uuid_of(name: str, text: str) -> str:
    """Return the canonical form of *text*, the handle in path parameter *name*. Raises RequestInvalid."""
    try:
        return str(uuid.UUID(text))
    except ValueError as cause:
        raise RequestInvalid(f'Cannot resolve path parameter ({name}) from value "{text}".') from cause


def _number(name: str, text: str) -> int:
    if _WHOLE_NUMBER.fullmatch(text) is None:
        raise RequestInvalid(f'Cannot resolve path parameter ({name}) from value "{text[:_EXCERPT_LENGTH]}".')
    return int(text)


def _shown(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= _EXCERPT_LENGTH else text[:_EXCERPT_LENGTH] + "..."
