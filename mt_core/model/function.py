"""Functions created by CREATE FUNCTION.

A function's code belongs to its user and may change under the same URI, but the rows of a table must not
change without notice. So the registry stores the content hash of each file. `digest` covers everything that
determines the function's values, and is one of the source versions that a refresh compares. The gateway never
imports Python code: another process inspects the object with the Python that will run it, and reports its
form, parameters and types as a `PythonDeclaration`. That report comes from user code, so `from_json`
validates it. A function without a declaration is inspected at its first use.
"""

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
    """The language of a function's body."""

    SQL = "SQL"
    JAVA = "JAVA"
    SCALA = "SCALA"
    PYTHON = "PYTHON"


class FunctionKind(StrEnum):
    """What a function returns: a value, a value for a group of rows, or rows."""

    SCALAR = "SCALAR"
    AGGREGATE = "AGGREGATE"
    TABLE = "TABLE"


class FileKind(StrEnum):
    """The kind of a file in the USING clause."""

    JAR = "JAR"
    FILE = "FILE"
    ARCHIVE = "ARCHIVE"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionFile:
    """A file of a function: its URI, and the hash of its stored content, which is empty until it is stored.

    In SQL, `uri#sha256=hash` requires that the file has this content.
    """

    kind: FileKind
    uri: str
    content: str = ""

    @property
    def stem(self) -> str:
        """The file name without its suffix, which is also the name of its module."""
        url = urlsplit(self.uri)
        return PurePosixPath(unquote(url.path) if url.scheme else self.uri).stem


class PythonForm(StrEnum):
    """What a call of a function's Python object returns."""

    VALUE = "VALUE"
    ROWS = "ROWS"
    GENERATOR = "GENERATOR"
    COROUTINE = "COROUTINE"
    NOTHING = "NOTHING"


class Analyze(StrEnum):
    """How a Python table function class computes its columns for each call.

    NONE: it does not compute them. STATIC: with a static method `analyze`, as Spark requires. OTHER: with
    another kind of method.
    """

    NONE = "NONE"
    STATIC = "STATIC"
    OTHER = "OTHER"


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonParameter:
    """A parameter of a Python function.

    `kind` is the name of its kind in `inspect`, and `type` the Spark type of its hint or "".
    """

    name: str
    kind: str
    type: str = ""
    has_default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonDeclaration:
    """What the Python object of a function declares, as inspected by a process other than the gateway.

    `python` is the version of the inspecting Python. If `is_made` is True, one of PySpark's decorators
    created the object, which then has PySpark's `eval_type` and a return type: `returns_json` as Spark's
    JSON, or else `returns` as text. For a plain function, `returns` is the Spark type of its return hint, and
    `no_hints` says why its hints cannot be read. `parameters` is None for an object that does not declare
    them; `signature` is Python's text of them.
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
        """Parse the JSON that `to_json` returned; raise ValueError for any other content."""
        try:
            parameters = body["parameters"]
            declaration = cls(
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
            raise ValueError(f"not a declaration: {cause}") from cause
        texts = (
            declaration.python,
            declaration.name,
            declaration.returns,
            declaration.returns_json,
            declaration.signature,
            declaration.no_hints,
        )
        if not (
            all(
                isinstance(each, str)
                for each in (*texts, *(each.type for each in declaration.parameters or ()))
            )
            and type(declaration.eval_type) is int
            and {type(declaration.is_made), type(declaration.is_deterministic)} == {bool}
            and declaration.name.isprintable()
        ):
            raise ValueError("not a declaration: a value has the wrong type")
        declaration.python_signature()
        return declaration

    def python_signature(self) -> Signature:
        """Return the Python signature without hints and default values.

        Raises ValueError for invalid parameters.
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
            raise ValueError(f"not a parameter: {cause}") from cause


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedFunction:
    """A function created by CREATE FUNCTION; its name is in lower case.

    `body` is an expression or a query in SQL, `module.name` in Python, or else the name of a class.
    `parameters` are as written, None without a list. `returns` is a Spark type, or the columns of a table
    function; it is empty if the code itself declares them. `deterministic` is None if the statement did not
    declare it. Names in a SQL body are resolved in `catalog` and `namespace`. `declared` is what the Python
    object declares, None before it is inspected.
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
        """A hash of everything that determines the function's values."""
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
        """The quoted name with the parameters as written in the statement."""
        return quote(self.name) + (f"({self.parameters})" if self.parameters is not None else "")


def show_create_function(function: CreatedFunction, *, temporary: bool = False, pinned: bool = False) -> str:
    """Return the statement that creates *function*; with *pinned*, URIs include the hashes of the files."""
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
