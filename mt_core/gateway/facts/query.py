"""The query of a request for facts.

Every parameter acts, or the request is refused with the name of the parameter and what is allowed: a filter
that is misspelt would otherwise return everything, as if it matched. An empty text is the same as no
parameter, as in a form that was not filled in.

A cursor is the position after the last entry of a page, not the number of that entry. So the following page
neither repeats nor omits an entry that existed all the time, whatever was added and removed in between. It is
JSON that says which list it is for, encoded so that clients do not take it apart.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

import orjson
from fastapi import Request

from mt_core.errors import RequestInvalid, SqlSyntaxError
from mt_core.gateway.http.schemas import NUMBER, TEXT, Schema
from mt_core.sql.parser import parse_name

E = TypeVar("E", bound=StrEnum)
MOST, USUAL = 500, 100
LONGEST = 10_000
_WHOLE_NUMBER = re.compile("[0-9]{1,9}")
_EXCERPT_LENGTH = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a query, with its description for the OpenAPI documents."""

    name: str
    description: str
    schema: Schema = field(default_factory=lambda: TEXT)


def of_query(parameters: Iterable[Parameter]) -> list[Schema]:
    """Return the descriptions of *parameters* in OpenAPI."""
    return [
        {
            "name": parameter.name,
            "in": "query",
            "required": False,
            "description": parameter.description,
            "schema": parameter.schema,
        }
        for parameter in parameters
    ]


def whole_number(name: str, description: str, *, least: int, most: int, usual: int) -> Parameter:
    """Return a parameter that is a number from *least* to *most*, *usual* if it is absent."""
    schema = {**NUMBER, "minimum": least, "maximum": most, "default": usual}
    return Parameter(name=name, description=description, schema=schema)


AFTER = Parameter(
    name="after", description="`next` of the previous page, to continue the list. Absent: from its beginning."
)
LIMIT = whole_number("limit", "The maximum number of entries.", least=1, most=MOST, usual=USUAL)


@dataclass(frozen=True, slots=True)
class Query:
    """The parameters of a request. The methods raise RequestInvalid naming an invalid one."""

    texts: Mapping[str, str]

    @classmethod
    def of(cls, request: Request, parameters: Iterable[Parameter] = ()) -> Query:
        """Return the query of *request*, which may have these *parameters*, each of them once."""
        names, texts = [parameter.name for parameter in parameters], dict[str, str]()
        allowed = f"its parameters are {', '.join(names)}" if names else "it has none"
        for name, text in request.query_params.multi_items():
            if name not in names:
                raise RequestInvalid(f"{_excerpt(name)} is not a parameter of {request.url.path}; {allowed}.")
            if name in texts:
                raise RequestInvalid(f"{name} is given more than once; give it once.")
            if len(text) > LONGEST:
                raise RequestInvalid(f"{name} has {len(text)} characters, the limit is {LONGEST}.")
            texts[name] = text
        return cls(texts)

    def text(self, name: str) -> str:
        """Return the text of a parameter, "" if it is absent."""
        return self.texts.get(name, "")

    def number(self, parameter: Parameter) -> int:
        """Return the number of a parameter that `whole_number` made."""
        text, schema = self.text(parameter.name), parameter.schema
        if not text:
            return int(schema["default"])
        if _WHOLE_NUMBER.fullmatch(text) is None or not schema["minimum"] <= int(text) <= schema["maximum"]:
            raise RequestInvalid(
                f"{parameter.name} must be a whole number from {schema['minimum']} to {schema['maximum']}, "
                f"not '{_excerpt(text)}'."
            )
        return int(text)

    def choice(self, name: str, allowed: type[E]) -> E | None:
        """Return the one of *allowed* that a parameter names in any case, None if it is absent."""
        chosen = self.choices(name, allowed)
        if len(chosen) > 1:
            raise RequestInvalid(f"{name} must be one of {', '.join(allowed)}, not several.")
        return next(iter(chosen), None)

    def choices(self, name: str, allowed: type[E]) -> frozenset[E]:
        """Return those of *allowed* that a parameter names, separated by commas, in any case."""
        by_text = {each.value.lower(): each for each in allowed}
        parts = [part.strip() for part in self.text(name).split(",") if part.strip()]
        for part in parts:
            if part.lower() not in by_text:
                raise RequestInvalid(f"{name} must be {_either(allowed)}, not '{_excerpt(part)}'.")
        return frozenset(by_text[part.lower()] for part in parts)

    def parts(self, name: str) -> tuple[str, ...]:
        """Return the parts of a qualified name, quoted or not; none if the parameter is absent."""
        text = self.text(name)
        if not text.strip():
            return ()
        try:
            return parse_name(text)
        except SqlSyntaxError as cause:
            raise RequestInvalid(
                f"{name} must be a name such as lake.sales, with back quotes around parts that need them, "
                f"not '{_excerpt(text)}': {cause}"
            ) from cause

    def instant(self, name: str) -> datetime | None:
        """Return an instant, in UTC if the text has no offset; None if the parameter is absent."""
        text = self.text(name)
        if not text:
            return None
        try:
            # The plus sign of an offset that was not encoded arrives as a space.
            instant = datetime.fromisoformat(text.replace(" ", "+"))
            return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)
        except (ValueError, OverflowError) as cause:
            raise RequestInvalid(
                f"{name} must be an instant such as 2026-03-01T12:00:00Z, not '{_excerpt(text)}'."
            ) from cause

    def position(self, kind: str, *types: type) -> list[Any] | None:
        """Return the position in parameter `after`, a cursor of lists of *kind* with values of *types*.

        None if it is absent.
        """
        text = self.text(AFTER.name)
        if not text:
            return None
        try:
            padded = text.encode("ascii") + b"=" * (-len(text) % 4)
            found = orjson.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        except (ValueError, binascii.Error):
            found = None
        if isinstance(found, list) and found[:1] == [kind] and len(found) == len(types) + 1:
            position = found[1:]
            if all(isinstance(each, type_) for each, type_ in zip(position, types, strict=True)):
                return position
        raise not_a_cursor()


def cursor(kind: str, *position: object) -> str:
    """Return the cursor at a *position* in a list of *kind*."""
    return base64.urlsafe_b64encode(orjson.dumps([kind, *position])).decode("ascii").rstrip("=")


def not_a_cursor() -> RequestInvalid:
    """Return the error for a cursor that is not one of the requested list."""
    return RequestInvalid(
        f"{AFTER.name} must be `next` of an earlier answer to the same request; "
        "leave it out to begin with the first page."
    )


def _either(allowed: Sequence[str] | type[StrEnum]) -> str:
    *others, last = allowed
    return f"{', '.join(others)} or {last}"


def _excerpt(text: str) -> str:
    return text if len(text) <= _EXCERPT_LENGTH else text[:_EXCERPT_LENGTH] + "..."
