"""SQLAlchemy column types: additional types, Spark SQL type names, and the types of result columns."""

# SQLAlchemy derives method names from type names, which are in capitals.
# ruff: noqa: N801, N802, N815

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy.sql import compiler, sqltypes
from sqlalchemy.types import TypeEngine

from mt_core.base.rowset import STRING_LENGTH, LogicalType

NUMERIC = (38, 18)


class TINYINT(sqltypes.Integer):
    """An 8-bit integer."""

    __visit_name__ = "TINYINT"


class INTERVAL_DAY_TIME(TypeEngine[timedelta]):
    """A span of days, hours, minutes and seconds."""

    __visit_name__ = "INTERVAL_DAY_TIME"


class INTERVAL_YEAR_MONTH(TypeEngine[int]):
    """A span of years and months, as a number of months."""

    __visit_name__ = "INTERVAL_YEAR_MONTH"


class VARIANT(TypeEngine[str]):
    """A value of any type, as JSON text."""

    __visit_name__ = "VARIANT"


@dataclass(eq=False, repr=False)
class MAP(TypeEngine[dict[str, Any]]):
    """A map from keys to values."""

    __visit_name__ = "MAP"

    key_type: TypeEngine[Any]
    value_type: TypeEngine[Any]


@dataclass(eq=False, repr=False)
class STRUCT(TypeEngine[dict[str, Any]]):
    """A struct, as a dict with field names as keys."""

    __visit_name__ = "STRUCT"

    fields: Mapping[str, TypeEngine[Any]]


def column_type(kind: LogicalType) -> TypeEngine[Any]:
    """Return the SQLAlchemy type for values of *kind*."""
    extras = kind.extras
    parts = {name: column_type(part) for name, part in kind.parts}
    match kind.root:
        case "CHAR" | "VARCHAR" if extras["length"] == STRING_LENGTH:
            return sqltypes.String()
        case "CHAR" | "VARCHAR":
            return (sqltypes.CHAR if kind.root == "CHAR" else sqltypes.VARCHAR)(extras["length"])
        case "DECIMAL":
            return sqltypes.DECIMAL(extras["precision"], extras["scale"])
        case "TIMESTAMP_WITH_LOCAL_TIME_ZONE" | "TIMESTAMP_WITH_TIME_ZONE":
            return sqltypes.TIMESTAMP(timezone=True)
        case "ARRAY":
            return sqltypes.ARRAY(parts["element"])
        case "MAP":
            return MAP(parts["key"], parts["value"])
        case "ROW":
            return STRUCT(parts)
        case _:
            return _SCALARS.get(kind.root, sqltypes.NullType)()


_SCALARS: dict[str, type[TypeEngine[Any]]] = {
    "BOOLEAN": sqltypes.BOOLEAN,
    "TINYINT": TINYINT,
    "SMALLINT": sqltypes.SMALLINT,
    "INTEGER": sqltypes.INTEGER,
    "BIGINT": sqltypes.BIGINT,
    "FLOAT": sqltypes.REAL,
    "DOUBLE": sqltypes.DOUBLE,
    "BINARY": sqltypes.LargeBinary,
    "VARBINARY": sqltypes.LargeBinary,
    "DATE": sqltypes.DATE,
    "TIME_WITHOUT_TIME_ZONE": sqltypes.TIME,
    "TIMESTAMP_WITHOUT_TIME_ZONE": sqltypes.TIMESTAMP,
    "INTERVAL_DAY_TIME": INTERVAL_DAY_TIME,
    "INTERVAL_YEAR_MONTH": INTERVAL_YEAR_MONTH,
    "VARIANT": VARIANT,
}


def _named(name: str) -> Any:
    """Return a method that compiles a type to the fixed name *name*."""
    return lambda self, type_, **kw: name


class SparkTypeCompiler(compiler.GenericTypeCompiler):
    """Compiles types to their names in Spark SQL.

    Strings have no length, because Spark would not enforce it.
    """

    visit_INTEGER, visit_TINYINT = _named("INT"), _named("TINYINT")
    visit_REAL = _named("FLOAT")
    visit_FLOAT = visit_DOUBLE_PRECISION = _named("DOUBLE")
    visit_large_binary = visit_BINARY = visit_VARBINARY = visit_BLOB = _named("BINARY")
    visit_INTERVAL_DAY_TIME = _named("INTERVAL DAY TO SECOND")
    visit_INTERVAL_YEAR_MONTH = _named("INTERVAL YEAR TO MONTH")
    visit_VARIANT = _named("VARIANT")
    visit_string = visit_unicode = visit_unicode_text = visit_text = visit_enum = visit_uuid = _named(
        "STRING"
    )
    visit_TEXT = visit_CLOB = visit_JSON = visit_UUID = visit_NVARCHAR = visit_NCHAR = _named("STRING")

    def visit_VARCHAR(self, type_: Any, **kw: Any) -> str:
        return "STRING" if type_.length is None else f"VARCHAR({type_.length})"

    def visit_CHAR(self, type_: Any, **kw: Any) -> str:
        return f"CHAR({type_.length or 1})"

    def visit_NUMERIC(self, type_: Any, **kw: Any) -> str:
        if type_.precision is None:
            # Spark's default, DECIMAL(10, 0), would drop fractions.
            return f"DECIMAL{NUMERIC}"
        return f"DECIMAL({type_.precision}, {type_.scale or 0})"

    visit_DECIMAL = visit_NUMERIC

    def visit_TIMESTAMP(self, type_: Any, **kw: Any) -> str:
        return "TIMESTAMP" if type_.timezone else "TIMESTAMP_NTZ"

    visit_DATETIME = visit_datetime = visit_TIMESTAMP

    def visit_ARRAY(self, type_: Any, **kw: Any) -> str:
        depth = type_.dimensions or 1
        return "ARRAY<" * depth + self.process(type_.item_type, **kw) + ">" * depth

    def visit_MAP(self, type_: Any, **kw: Any) -> str:
        return f"MAP<{self.process(type_.key_type, **kw)}, {self.process(type_.value_type, **kw)}>"

    def visit_STRUCT(self, type_: Any, **kw: Any) -> str:
        quote = self.dialect.identifier_preparer.quote
        fields = (f"{quote(name)}: {self.process(field, **kw)}" for name, field in type_.fields.items())
        return f"STRUCT<{', '.join(fields)}>"
