"""Values of settings: parsing to Python values, and printing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from zoneinfo import ZoneInfo

from mt_core.base.access import Token, parse_tokens
from mt_core.base.options import bytes_of, duration_of
from mt_core.base.secrets import MASK, Secret, secret_url
from mt_core.config.settings import Kind, Setting
from mt_core.errors import ConfigError

# Of settings whose URL is not that of a database.
_EXAMPLES = {"catalog.uri": "https://catalog.example.com/iceberg"}

Value = str | int | bool | timedelta | Secret | tuple[Token, ...] | tuple[str, ...]


def value_of(setting: Setting, text: str, source: str) -> Value:
    """Return the value of *text* for *setting*.

    Raises ConfigError naming the key, the value, the expected form and *source*.
    """
    try:
        value = _PARSERS[setting.kind](setting, text.strip())
    except ConfigError as cause:
        raise ConfigError(f"{setting.key} ({source}): {cause}", key=setting.key) from cause
    if value is None:
        shown_text = MASK if setting.secret else f"'{text}'"
        raise ConfigError(
            f"{setting.key}: {shown_text} ({source}) cannot be used; expected {_expected(setting)}.",
            key=setting.key,
        )
    return value


def _parse_integer(setting: Setting, text: str) -> int | None:
    if not re.fullmatch(r"-?[0-9]{1,18}", text, re.ASCII):
        return None
    return int(text) if setting.minimum <= int(text) <= setting.maximum else None


def _parse_boolean(setting: Setting, text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _parse_duration(setting: Setting, text: str) -> timedelta | str | None:
    if not text and setting.shown:
        return ""
    duration = duration_of(text)
    return duration if duration is not None and duration >= timedelta(seconds=setting.minimum) else None


def _parse_choice(setting: Setting, text: str) -> str | None:
    return text.lower() if text.lower() in setting.choices else None


def zone_key(text: str) -> str | None:
    """Return the name of the time zone *text*, or None if there is no such zone."""
    try:
        return ZoneInfo(text).key
    except (KeyError, ValueError, OSError):
        return None


def _parse_url(setting: Setting, text: str) -> Secret | None:
    return secret_url(text) if not text or "://" in text else None


def _parse_names(setting: Setting, text: str) -> tuple[str, ...]:
    return tuple(part.strip().lower() for part in text.split(",") if part.strip())


_PARSERS: Mapping[Kind, Callable[[Setting, str], Value | None]] = {
    Kind.TEXT: lambda setting, text: text or (None if setting.default else ""),
    Kind.INTEGER: _parse_integer,
    Kind.BOOLEAN: _parse_boolean,
    Kind.DURATION: _parse_duration,
    Kind.SIZE: lambda setting, text: bytes_of(text),
    Kind.CHOICE: _parse_choice,
    Kind.ZONE: lambda setting, text: zone_key(text),
    Kind.URL: _parse_url,
    Kind.SECRET: lambda setting, text: Secret(text, MASK if text else ""),
    Kind.TOKENS: lambda setting, text: parse_tokens(text),
    Kind.NAMES: _parse_names,
}


def _expected(setting: Setting) -> str:
    match setting.kind:
        case Kind.INTEGER:
            return f"a whole number from {setting.minimum} to {setting.maximum}"
        case Kind.DURATION:
            least = f", at least {setting.minimum} s" if setting.minimum else ""
            return f"a duration such as 30 min, 10 s, 500 ms, 1 h or 7 d{least}"
        case Kind.SIZE:
            return "a size such as 64 mb, 2 gb or a number of bytes"
        case Kind.CHOICE:
            return " or ".join(setting.choices)
        case Kind.ZONE:
            return "an IANA name such as Europe/Berlin"
        case Kind.URL:
            return f"a URL such as {_EXAMPLES.get(setting.key, 'postgresql://user:password@host:5432/db')}"
        case Kind.BOOLEAN:
            return "true or false"
        case _:
            return "a non-empty text"


def shown(value: Value) -> str:
    """Return the text of a value for printing, without its secrets."""
    if isinstance(value, tuple):
        return ", ".join(str(part) for part in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
