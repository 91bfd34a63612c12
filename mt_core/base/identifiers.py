"""SQL identifiers: the only module that quotes names and string literals, for statements and for storage."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

Namespace = tuple[str, ...]
_LEVEL = re.compile(r"`(?:[^`]|``)*`|[^.]+")


def quote(part: str) -> str:
    """Return one part of a name in backquotes."""
    return "`" + part.replace("`", "``") + "`"


def unquote(text: str) -> str:
    """Return the name that *text* denotes, with or without backquotes."""
    return text[1:-1].replace("``", "`") if text.startswith("`") else text


def sql_name(parts: Iterable[str]) -> str:
    """Return a qualified name for a statement, with each part in backquotes."""
    return ".".join(map(quote, parts))


def display_name(parts: Iterable[str]) -> str:
    """Return a qualified name for users, with backquotes only where they are required."""
    return ".".join(part if part.isidentifier() and part.isascii() else quote(part) for part in parts)


def namespace_text(namespace: Namespace) -> str:
    """Return *namespace* as the registry stores it: levels joined by dots.

    A level is quoted only if it contains a dot, begins with a backquote, or is empty.
    """
    return ".".join(quote(level) if "." in level or level[:1] in {"", "`"} else level for level in namespace)


def namespace_of(text: str) -> Namespace:
    """Parse the text that `namespace_text` returned."""
    return tuple(map(unquote, _LEVEL.findall(text)))


def string_literal(text: str) -> str:
    """Return *text* as a string literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def property_list(options: Mapping[str, str], separator: str = ", ") -> str:
    """Return *options* as `'key' = 'value', …`, without the parentheses."""
    return separator.join(
        f"{string_literal(key)} = {string_literal(value)}" for key, value in options.items()
    )
