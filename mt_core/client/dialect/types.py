"""Column types of SQLAlchemy: those it lacks, what they are called in Spark SQL, and which one a logical type is."""

# SQLAlchemy finds what to call by the names of types, which are in capitals.
# ruff: noqa: N801, N802, N815

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy.sql import compiler, sqltypes
from sqlalchemy.types import TypeEngine

from mt_core.rowset import STRING_LENGTH, LogicalType

NUMERIC = (38, 18)


class TINYINT(sqltypes.Integer):
    """A whole number of 8 bits."""

    __visit_name__ = "TINYINT"


class INTERVAL_DAY_TIME(TypeEngine[timedelta]):
    """A span of days, hours, minutes and seconds."""

    __visit_name__ = "INTERVAL_DAY_TIME"


class INTERVAL_YEAR_MONTH(TypeEngine[int]):
    """A span of years and months, as a number of months."""

    __visit_name__ = "INTERVAL_YEAR_MONTH"


class VARIANT(TypeEngine[str]):
    """A value of any type, as its JSON text."""

    __visit_name__ = "VARIANT"


class MAP(TypeEngine[dict[str, Any]]):
    """Values by key."""

    __visit_name__ = "MAP"

    def __init__(self, key_type: TypeEngine[Any], value_type: TypeEngine[Any]) -> None:
        self.key_type, self.value_type = key_type, value_type


class STRUCT(TypeEngine[dict[str, Any]]):
    """Values by the names of fields."""

    __visit_name__ = "STRUCT"

    def __init__(self, fields: Mapping[str, TypeEngine[Any]]) -> None:
        self.fields = dict(fields)


def column_type(kind: LogicalType) -> TypeEngine[Any]:
    """Return the type of a column whose values are of *kind*."""
    extras = kind.extras
    match kind.root:
        case "CHAR" | "VARCHAR":
            return _text(kind.root, extras["length"])
        case "DECIMAL":
            return sqltypes.DECIMAL(extras["precision"], extras["scale"])
        case "TIMESTAMP_WITHOUT_TIME_ZONE":
            return sqltypes.TIMESTAMP(timezone=False)
        case "TIMESTAMP_WITH_LOCAL_TIME_ZONE" | "TIMESTAMP_WITH_TIME_ZONE":
            return sqltypes.TIMESTAMP(timezone=True)
        case "ARRAY":
            return sqltypes.ARRAY(_part(extras["elementType"]))
        case "MAP":
            return MAP(_part(extras["keyType"]), _part(extras["valueType"]))
        case "ROW":
            return STRUCT({field["name"]: _part(field["fieldType"]) for field in extras["fields"]})
        case _:
            return _SCALARS.get(kind.root, sqltypes.NullType)()


def _part(body: Mapping[str, Any]) -> TypeEngine[Any]:
    return column_type(LogicalType.from_json(body))


def _text(root: str, length: int) -> TypeEngine[Any]:
    if length == STRING_LENGTH:
        return sqltypes.String()
    return sqltypes.CHAR(length) if root == "CHAR" else sqltypes.VARCHAR(length)


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
    "INTERVAL_DAY_TIME": INTERVAL_DAY_TIME,
    "INTERVAL_YEAR_MONTH": INTERVAL_YEAR_MONTH,
    "VARIANT": VARIANT,
}


class SparkTypeCompiler(compiler.GenericTypeCompiler):
    """Writes types as Spark SQL calls them. Lengths of plain strings are left out: Spark has no limit on them."""

    def visit_INTEGER(self, type_: Any, **kw: Any) -> str:
        return "INT"

    def visit_TINYINT(self, type_: Any, **kw: Any) -> str:
        return "TINYINT"

    def visit_NUMERIC(self, type_: Any, **kw: Any) -> str:
        if type_.precision is None:
            # Spark's own default, DECIMAL(10, 0), would drop every fraction.
            return f"DECIMAL{NUMERIC}"
        return f"DECIMAL({type_.precision}, {type_.scale or 0})"

    def visit_DECIMAL(self, type_: Any, **kw: Any) -> str:
        return self.visit_NUMERIC(type_, **kw)

    def visit_FLOAT(self, type_: Any, **kw: Any) -> str:
        return "DOUBLE"

    def visit_REAL(self, type_: Any, **kw: Any) -> str:
        return "FLOAT"

    def visit_DOUBLE(self, type_: Any, **kw: Any) -> str:
        return "DOUBLE"

    def visit_DOUBLE_PRECISION(self, type_: Any, **kw: Any) -> str:
        return "DOUBLE"

    def visit_TIMESTAMP(self, type_: Any, **kw: Any) -> str:
        return "TIMESTAMP" if type_.timezone else "TIMESTAMP_NTZ"

    def visit_DATETIME(self, type_: Any, **kw: Any) -> str:
        return self.visit_TIMESTAMP(type_, **kw)

    def visit_datetime(self, type_: Any, **kw: Any) -> str:
        return self.visit_TIMESTAMP(type_, **kw)

    def visit_string(self, type_: Any, **kw: Any) -> str:
        return "STRING"

    def visit_VARCHAR(self, type_: Any, **kw: Any) -> str:
        return "STRING" if type_.length is None else f"VARCHAR({type_.length})"

    def visit_CHAR(self, type_: Any, **kw: Any) -> str:
        return f"CHAR({type_.length or 1})"

    def _as_string(self, type_: Any, **kw: Any) -> str:
        return "STRING"

    visit_unicode = visit_unicode_text = visit_text = visit_enum = visit_uuid = _as_string
    visit_TEXT = visit_CLOB = visit_JSON = visit_UUID = visit_NVARCHAR = visit_NCHAR = _as_string

    def visit_large_binary(self, type_: Any, **kw: Any) -> str:
        return "BINARY"

    def visit_BINARY(self, type_: Any, **kw: Any) -> str:
        return "BINARY"

    visit_VARBINARY = visit_BLOB = visit_BINARY

    def visit_INTERVAL_DAY_TIME(self, type_: Any, **kw: Any) -> str:
        return "INTERVAL DAY TO SECOND"

    def visit_INTERVAL_YEAR_MONTH(self, type_: Any, **kw: Any) -> str:
        return "INTERVAL YEAR TO MONTH"

    def visit_VARIANT(self, type_: Any, **kw: Any) -> str:
        return "VARIANT"

    def visit_ARRAY(self, type_: Any, **kw: Any) -> str:
        inner = self.process(type_.item_type, **kw)
        for _ in range((type_.dimensions or 1) - 1):
            inner = f"ARRAY<{inner}>"
        return f"ARRAY<{inner}>"

    def visit_MAP(self, type_: Any, **kw: Any) -> str:
        return f"MAP<{self.process(type_.key_type, **kw)}, {self.process(type_.value_type, **kw)}>"

    def visit_STRUCT(self, type_: Any, **kw: Any) -> str:
        quote = self.dialect.identifier_preparer.quote
        fields = (f"{quote(name)}: {self.process(field, **kw)}" for name, field in type_.fields.items())
        return f"STRUCT<{', '.join(fields)}>"
