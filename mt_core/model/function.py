"""Functions that CREATE FUNCTION created."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from hashlib import sha256
from inspect import Parameter, Signature
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from mt_core.base.identifiers import quote, string_literal

PIN = "#sha256="
_KINDS = (
    Parameter.POSITIONAL_ONLY,
    Parameter.POSITIONAL_OR_KEYWORD,
    Parameter.VAR_POSITIONAL,
    Parameter.KEYWORD_ONLY,
    Parameter.VAR_KEYWORD,
)


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
    """One file of a function: where its user has it, and the hash of its content, by which it is kept;
    empty before that.

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


class PythonForm(StrEnum):
    """What an object of a module of Python gives when it is called."""

    VALUE = "VALUE"
    ROWS = "ROWS"
    GENERATOR = "GENERATOR"
    COROUTINE = "COROUTINE"
    NOTHING = "NOTHING"


class Analyze(StrEnum):
    """Whether a class with rows says its columns for each call: by a static method `analyze`,
    as Spark needs it, or another.
    """

    NONE = "NONE"
    STATIC = "STATIC"
    OTHER = "OTHER"


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonParameter:
    """A parameter of a function in Python; `kind` is `inspect`'s name of its kind,
    `type` Spark's type of its hint or empty.
    """

    name: str
    kind: str
    type: str = ""
    has_default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonDeclaration:
    """What an object in a module declares, as a process other than the gateway read it with the Python
    of that version.

    `is_made` objects are those of PySpark's decorators, with PySpark's kind and their type: `returns_json`
    as Spark's JSON, else `returns` as text. Of a plain function `returns` is Spark's type of its hint,
    and `no_hints` why its hints cannot be read. `parameters` are None for a function that does not say them;
    `signature` is what Python shows of them.
    """

    python: str
    form: PythonForm
    name: str
    is_made: bool = False
    eval_type: int = 0
    is_deterministic: bool = False
    returns: str = ""
    returns_json: str = ""
    signature: str = ""
    parameters: tuple[PythonParameter, ...] | None = None
    no_hints: str = ""
    analyze: Analyze = Analyze.NONE

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> PythonDeclaration:
        """Return the declaration that `to_json` gave; raises ValueError for anything else."""
        try:
            parameters = body["parameters"]
            found = cls(
                **{
                    **body,
                    "form": PythonForm(body["form"]),
                    "analyze": Analyze(body["analyze"]),
                    "parameters": parameters
                    if parameters is None
                    else tuple(PythonParameter(**each) for each in parameters),
                }
            )
        except (KeyError, TypeError) as cause:
            raise ValueError(f"no declaration: {cause}") from cause
        texts = (found.python, found.name, found.returns, found.returns_json, found.signature, found.no_hints)
        if not (
            all(isinstance(each, str) for each in (*texts, *(each.type for each in found.parameters or ())))
            and type(found.eval_type) is int
            and {type(found.is_made), type(found.is_deterministic)} == {bool}
            and found.name.isprintable()
        ):
            raise ValueError("no declaration: a value of another type")
        found.python_signature()
        return found

    def python_signature(self) -> Signature:
        """Return the parameters as Python has them, without their hints and values;
        raises ValueError if there are none such.
        """
        kinds = {kind.name: kind for kind in _KINDS}
        try:
            return Signature(
                [
                    Parameter(
                        each.name, kinds[each.kind], default=None if each.has_default else Parameter.empty
                    )
                    for each in self.parameters or ()
                ]
            )
        except (KeyError, TypeError) as cause:
            raise ValueError(f"no parameter: {cause}") from cause


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedFunction:
    """One function, its name in lower case.

    `body` is an expression or a query in SQL, else the name of a class, or in Python `module.name`.
    `parameters` are as written, None without a list; `returns` is a type of Spark's, or for a table function
    its columns, and empty if the code itself says it. `deterministic` is None if its user did not say. Names
    in a body of SQL are those of `catalog` and `namespace`. `declared` is what the object in Python declares;
    None before it is read, and in what earlier releases stored.
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
    declared: PythonDeclaration | None = None

    @property
    def digest(self) -> str:
        """A hash of what decides its values."""
        parts: Sequence[Any] = [
            *(
                self.name,
                self.language,
                self.body,
                self.parameters,
                self.returns,
                self.kind,
                self.deterministic,
            ),
            *(self.catalog, self.namespace, [(each.kind, each.content) for each in self.files]),
        ]
        return sha256(json.dumps(parts).encode()).hexdigest()[:32]

    @property
    def signature(self) -> str:
        """Its name with its parameters, as they were written."""
        return quote(self.name) + (f"({self.parameters})" if self.parameters is not None else "")


def show_create_function(function: CreatedFunction, *, temporary: bool = False, pinned: bool = False) -> str:
    """Return the statement that creates *function*; if it is *pinned*, with the content
    that its files have now.
    """
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
