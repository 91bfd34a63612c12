"""Functions that CREATE FUNCTION created."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from mt_core.identifiers import quote, string_literal

PIN = "#sha256="


class FunctionLanguage(StrEnum):
    """What the body of a function is written in."""

    SQL = "SQL"
    JAVA = "JAVA"
    SCALA = "SCALA"
    PYTHON = "PYTHON"


class FunctionKind(StrEnum):
    """What a function makes of its arguments: a value, a value of a group's rows, or rows."""

    SCALAR = "SCALAR"
    AGGREGATE = "AGGREGATE"
    TABLE = "TABLE"


class FileKind(StrEnum):
    """What USING calls a file."""

    JAR = "JAR"
    FILE = "FILE"
    ARCHIVE = "ARCHIVE"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionFile:
    """One file of a function: where its user has it, and the hash of its content, by which it is kept; empty before that.

    In SQL `uri#sha256=hash` names a file with the content that it must have.
    """

    kind: FileKind
    uri: str
    content: str = ""

    @property
    def stem(self) -> str:
        """The file's name without its suffix: that of its module."""
        url = urlsplit(self.uri)
        return PurePosixPath(unquote(url.path) if url.scheme else self.uri).stem


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedFunction:
    """One function, its name in lower case.

    `body` is an expression or a query in SQL, else the name of a class, or in Python `module.name`. `parameters` are as
    written, None without a list; `returns` is a type of Spark's, or for a table function its columns, and empty if the code
    itself says it. `deterministic` is None if its user did not say. Names in a body of SQL are those of `catalog` and `namespace`.
    """

    name: str
    language: FunctionLanguage
    body: str
    parameters: str | None = None
    returns: str = ""
    kind: FunctionKind = FunctionKind.SCALAR
    deterministic: bool | None = None
    comment: str | None = None
    files: tuple[FunctionFile, ...] = ()
    catalog: str = ""
    namespace: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """A hash of what decides its values."""
        parts: Sequence[Any] = [
            *(self.name, self.language, self.body, self.parameters, self.returns, self.kind, self.deterministic),
            *(self.catalog, self.namespace, [(each.kind, each.content) for each in self.files]),
        ]
        return sha256(json.dumps(parts).encode()).hexdigest()[:32]

    @property
    def signature(self) -> str:
        """Its name with its parameters, as they were written."""
        return quote(self.name) + (f"({self.parameters})" if self.parameters is not None else "")


def show_create_function(function: CreatedFunction, *, temporary: bool = False, pinned: bool = False) -> str:
    """Return the statement that creates *function*; if it is *pinned*, with the content that its files have now."""
    lines = [f"CREATE {'TEMPORARY ' if temporary else ''}FUNCTION {function.signature}"]
    if function.kind is FunctionKind.TABLE:
        lines.append(f"RETURNS TABLE ({function.returns})" if function.returns else "RETURNS TABLE")
    elif function.returns:
        lines.append(f"RETURNS {function.returns}")
    if function.deterministic is not None:
        lines.append("DETERMINISTIC" if function.deterministic else "NOT DETERMINISTIC")
    if function.comment is not None:
        lines.append(f"COMMENT {string_literal(function.comment)}")
    if function.language is FunctionLanguage.SQL:
        return "\n".join([*lines, f"RETURN {function.body}"]) + "\n"
    lines.append(f"AS {string_literal(function.body)} LANGUAGE {function.language}")
    if function.files:
        uris = [f"{each.uri}{PIN}{each.content}" if pinned else each.uri for each in function.files]
        files = zip(function.files, uris, strict=True)
        lines.append("USING " + ", ".join(f"{each.kind} {string_literal(uri)}" for each, uri in files))
    return "\n".join(lines) + "\n"
