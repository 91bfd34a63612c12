"""Readers of statements about functions. A reader returns None to leave a statement to Spark.

In Spark, a function in a database belongs to a catalog. Freshtable's functions have no database; they are
stored in the registry and visible to all sessions. Therefore a statement with a qualified name is left to
Spark, unless the statement has a form that Spark cannot parse (parameters, LANGUAGE). A statement of this
kind is refused, and the message gives the name to write. Expressions, types and column lists are not parsed.
Their text is stored as written, and checked by Spark or by the Python process that inspects the code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mt_core.base.identifiers import display_name
from mt_core.errors import DefinitionInvalid, Unsupported
from mt_core.model.function import (
    PIN,
    CreatedFunction,
    FileKind,
    FunctionFile,
    FunctionKind,
    FunctionLanguage,
)
from mt_core.sql.catalog import CatalogStatement
from mt_core.sql.cursor import TokenCursor
from mt_core.sql.functions import (
    AlterFunction,
    CreateFunction,
    DescribeFunction,
    DropFunction,
    ShowCreateFunction,
)
from mt_core.sql.statements import DescribeTable

Reader = Callable[[TokenCursor, str], CatalogStatement | None]
_OPENING, _CLOSING = frozenset("(<["), frozenset(")>]")
_AFTER_TYPE = frozenset({"NOT", "DETERMINISTIC", "COMMENT", "LANGUAGE", "AS", "RETURN"})
_FILES_OF = {
    FunctionLanguage.JAVA: (FileKind.JAR,),
    FunctionLanguage.SCALA: (FileKind.JAR,),
    FunctionLanguage.PYTHON: (FileKind.FILE, FileKind.ARCHIVE),
}
_NAME = "the name of a function"


def create_function(*, temporary: bool = False, or_replace: bool = False) -> Reader:
    """Return the function that reads the rest of CREATE … FUNCTION."""

    def read(cursor: TokenCursor, text: str) -> CatalogStatement | None:
        if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
        name = cursor.name(_NAME)
        if len(name) > 1:
            _refuse_language(cursor, name)
            return None
        if or_replace and if_not_exists:
            raise DefinitionInvalid(
                f"Function {name[0]}: OR REPLACE and IF NOT EXISTS exclude each other; keep one of them."
            )
        return CreateFunction(
            function=_definition(cursor, name[0]),
            temporary=temporary,
            or_replace=or_replace,
            if_not_exists=if_not_exists,
        )

    return read


def alter_function(cursor: TokenCursor, text: str) -> CatalogStatement | None:
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name(_NAME)
    return (
        None if len(name) > 1 else AlterFunction(function=_definition(cursor, name[0]), if_exists=if_exists)
    )


def alter_temporary_function(cursor: TokenCursor, text: str) -> None:
    """Refuse ALTER of a temporary function. Flink parses it but refuses it too."""
    cursor.accept("IF", "EXISTS")
    raise Unsupported(
        "ALTER of a temporary function is not supported, as in Flink; "
        f"write CREATE OR REPLACE TEMPORARY FUNCTION {display_name(cursor.name(_NAME)[-1:])} in its place."
    )


def drop_function(*, temporary: bool = False) -> Reader:
    """Return the function that reads the rest of DROP … FUNCTION."""

    def read(cursor: TokenCursor, text: str) -> CatalogStatement | None:
        if_exists = cursor.accept("IF", "EXISTS")
        name = cursor.name(_NAME)
        cursor.expect_end()
        if len(name) > 1:
            return None
        return DropFunction(name=name[0].lower(), text=text, temporary=temporary, if_exists=if_exists)

    return read


def show_create_function(cursor: TokenCursor, text: str) -> CatalogStatement | None:
    name = _single(cursor.name(_NAME))
    cursor.expect_end()
    return ShowCreateFunction(name=name)


def describe_function(cursor: TokenCursor, text: str) -> CatalogStatement | DescribeTable | None:
    if cursor.at_end:
        return DescribeTable(name=("function",), text=text)
    extended = cursor.peek(1) is not None and cursor.accept("EXTENDED")
    token, qualified = cursor.peek(), cursor.word(1) == "."
    if token is None or qualified or cursor.peek(1) is not None:
        return None
    # In Spark, operators such as + are functions too.
    return DescribeFunction(name=token.value.lower() or token.text, text=text, extended=extended)


def _single(name: tuple[str, ...]) -> str:
    if len(name) > 1:
        raise Unsupported(
            f"Function {display_name(name)}: functions of CREATE FUNCTION have a name without a database "
            f"and are visible to all sessions; write {name[-1]}."
        )
    return name[0].lower()


def _refuse_language(cursor: TokenCursor, name: tuple[str, ...]) -> None:
    """Raise Unsupported if a qualified function has a form that Spark cannot parse.

    These forms are parameters and LANGUAGE.
    """
    if cursor.word() == "(" or (
        cursor.accept("AS") and cursor.string("the class of the function") and cursor.accept("LANGUAGE")
    ):
        _single(name)


# ------------------------------------------------------------------------------------------------ definitions


def _definition(cursor: TokenCursor, name: str) -> CreatedFunction:
    parameters = _brackets(cursor, "the parameters") if cursor.word() == "(" else None
    returns, is_table = _returns(cursor)
    deterministic, comment = _characteristics(cursor)
    common = CreatedFunction(
        name=name.lower(),
        language=FunctionLanguage.SQL,
        body="",
        parameters=parameters,
        returns=returns,
        kind=FunctionKind.TABLE if is_table else FunctionKind.SCALAR,
        deterministic=deterministic,
        comment=comment,
    )
    return _with_body(cursor, common)


def _with_body(cursor: TokenCursor, common: CreatedFunction) -> CreatedFunction:
    if cursor.accept("RETURN"):
        if cursor.at_end:
            raise cursor.error("an expression after RETURN")
        body, _, _ = cursor.query()
        return replace(common, body=body.strip())
    if not cursor.accept("AS"):
        raise cursor.error("AS 'class or module.function', or RETURN expression")
    body = cursor.string("the class of the function, or module.function, in quotes")
    language = _language(cursor) if cursor.accept("LANGUAGE") else FunctionLanguage.JAVA
    files = _files(cursor, common.name, language)
    cursor.expect_end()
    return replace(common, body=body, language=language, files=files)


def _language(cursor: TokenCursor) -> FunctionLanguage:
    word = cursor.word()
    if word not in set(_FILES_OF):
        raise cursor.error("JAVA, SCALA or PYTHON")
    cursor.take()
    return FunctionLanguage(word)


def _files(cursor: TokenCursor, name: str, language: FunctionLanguage) -> tuple[FunctionFile, ...]:
    """Read [USING {JAR | FILE | ARCHIVE} 'uri' [, …]].

    Raises DefinitionInvalid for a kind of file that the language cannot use.
    """
    files: list[FunctionFile] = []
    more = cursor.accept("USING")
    while more:
        if cursor.word() not in set(FileKind):
            raise cursor.error("JAR, FILE or ARCHIVE")
        kind = FileKind(cursor.word())
        if kind not in _FILES_OF[language]:
            of_jars = FileKind.JAR in _FILES_OF[language]
            way_out = "write LANGUAGE PYTHON" if of_jars else "a jar contains Java or Scala classes"
            raise DefinitionInvalid(
                f"Function {name}: a function in {language} uses {' or '.join(_FILES_OF[language])}, "
                f"not {kind}; {way_out}."
            )
        cursor.take()
        uri, _, content = cursor.string(f"the URI of the {kind} in quotes").partition(PIN)
        files.append(FunctionFile(kind=kind, uri=uri, content=content))
        more = cursor.accept(",")
    return tuple(files)


def _returns(cursor: TokenCursor) -> tuple[str, bool]:
    """Read [RETURNS type | RETURNS TABLE [(columns)]].

    Return the type or the columns as written, and whether the function returns a table.
    """
    if not cursor.accept("RETURNS"):
        return "", False
    if cursor.accept("TABLE"):
        return (_brackets(cursor, "the columns") if cursor.word() == "(" else ""), True
    return cursor.text_of(lambda: _skip_type(cursor), "a type after RETURNS"), False


def _characteristics(cursor: TokenCursor) -> tuple[bool | None, str | None]:
    deterministic: bool | None = None
    comment: str | None = None
    while True:
        if cursor.accept("NOT", "DETERMINISTIC"):
            deterministic = False
        elif cursor.accept("DETERMINISTIC"):
            deterministic = True
        elif cursor.word() == "COMMENT":
            comment = cursor.comment()
        else:
            return deterministic, comment


def _skip_type(cursor: TokenCursor) -> None:
    depth = 0
    while not cursor.at_end and (depth or cursor.word() not in _AFTER_TYPE):
        word = cursor.word()
        depth += (word in _OPENING) - (word in _CLOSING)
        cursor.take()


def _brackets(cursor: TokenCursor, what: str) -> str:
    """Read `( … )` and return the text between the brackets."""

    def skip() -> None:
        depth = 0
        while token := cursor.take():
            depth += (token.text == "(") - (token.text == ")")
            if not depth:
                return
        raise cursor.error(f") after {what}")

    return cursor.text_of(skip, what)[1:-1].strip()
