"""Identifiers in SQL: the one home of quoting, for names and string literals, and of their text
where they are stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

Namespace = tuple[str, ...]
_LEVEL = re.compile(r"`(?:[^`]|``)*`|[^.]+")


def quote(part: str) -> str:
    """Return one part of a name in back quotes."""
    return "`" + part.replace("`", "``") + "`"


def unquote(text: str) -> str:
    """Return the part of a name that *text* means, with or without back quotes."""
    return text[1:-1].replace("``", "`") if text.startswith("`") else text


def sql_name(parts: Iterable[str]) -> str:
    """Return a qualified name with every part in back quotes, for a statement."""
    return ".".join(map(quote, parts))


def display_name(parts: Iterable[str]) -> str:
    """Return a qualified name with back quotes only where they are needed, for people."""
    return ".".join(part if part.isidentifier() and part.isascii() else quote(part) for part in parts)


def namespace_text(namespace: Namespace) -> str:
    """Return *namespace* as the registry stores it: levels joined by dots, quoted only
    if they are ambiguous otherwise.
    """
    return ".".join(quote(level) if "." in level or level[:1] in {"", "`"} else level for level in namespace)


def namespace_of(text: str) -> Namespace:
    """Return the namespace that `namespace_text` wrote."""
    return tuple(map(unquote, _LEVEL.findall(text)))


def string_literal(text: str) -> str:
    """Return *text* as a string literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def property_list(options: Mapping[str, str], separator: str = ", ") -> str:
    """Return `'key' = 'value', …` without the parentheses."""
    return separator.join(
        f"{string_literal(key)} = {string_literal(value)}" for key, value in options.items()
    )
