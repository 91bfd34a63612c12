"""Formats of Kafka records: Spark expressions that convert between bytes and the columns of a table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mt_core.base.identifiers import quote, string_literal
from mt_core.base.options import BOOLEAN
from mt_core.errors import Unsupported
from mt_core.sql.statements import ColumnSpec

_WITH_LENGTH = re.compile(r"\b(?:VAR)?CHAR\(\d+\)", re.IGNORECASE)
_SQL, _ISO = "yyyy-MM-dd HH:mm:ss.SSSSSS", "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The key or the value of a record: the Kafka column with its bytes, its format, and its table columns.

    *prefix* precedes the column names in the table but not in the record.
    """

    table: str
    column: str
    format: str
    options: Mapping[str, str]
    fields: Sequence[ColumnSpec]
    prefix: str = ""

    def __post_init__(self) -> None:
        if self.format == "raw" and (
            len(self.fields) != 1 or self.fields[0].type not in ("STRING", "BINARY")
        ):
            raise Unsupported(
                f"Table {self.table}: format 'raw' of the {self.column} needs one column of type STRING or "
                "BYTES; decode it in the query."
            )

    # --------------------------------------------------------------------------------------------------- rows

    @property
    def condition(self) -> str:
        """The condition that selects the records that have a row in this part."""
        if self.format == "json" and self._is("ignore-parse-errors"):
            return f"get_json_object(CAST({self.column} AS STRING), '$') IS NOT NULL"
        return f"{self.column} IS NOT NULL"

    @property
    def parsed(self) -> tuple[str, ...]:
        """The SELECT item that parses all columns of this part together; empty if the format needs none."""
        if self.format == "raw":
            return ()
        schema = ", ".join(
            f"{quote(self._name(field))} {_WITH_LENGTH.sub('STRING', field.type or '')}"
            for field in self.fields
        )
        options = _map(
            {"mode": "PERMISSIVE" if self._is("ignore-parse-errors") else "FAILFAST", **self._reading()}
        )
        text = f"from_{self.format}(CAST({self.column} AS STRING), {string_literal(schema)}, {options})"
        return (f"{text} AS {quote('__' + self.column)}",)

    def item(self, field: ColumnSpec) -> str:
        """Return the expression for one column, over the record and `parsed`."""
        if self.format == "raw":
            charset = self.options.get("charset")
            if field.type == "BINARY":
                return self.column
            return (
                f"decode({self.column}, {string_literal(charset)})"
                if charset
                else f"CAST({self.column} AS STRING)"
            )
        return f"{quote('__' + self.column)}.{quote(self._name(field))}"

    # ------------------------------------------------------------------------------------------------ records

    @property
    def record(self) -> str:
        """The SELECT item that serializes this part, over the columns of the table."""
        casts = [f"CAST({quote(field.name)} AS {field.type})" for field in self.fields]
        if self.format == "raw":
            charset = self.options.get("charset")
            text = (
                f"encode({casts[0]}, {string_literal(charset)})" if charset else f"CAST({casts[0]} AS BINARY)"
            )
            return f"{text} AS {self.column}"
        pairs = ", ".join(
            f"{string_literal(self._name(field))}, {cast}"
            for field, cast in zip(self.fields, casts, strict=True)
        )
        return f"to_{self.format}(named_struct({pairs}), {_map(self._writing())}) AS {self.column}"

    # ----------------------------------------------------------------------------------------------- internal

    def _name(self, field: ColumnSpec) -> str:
        return field.name.removeprefix(self.prefix)

    def _is(self, key: str) -> bool:
        text = self.options.get(key, "false").strip()
        return BOOLEAN.accepts(text) and text.lower() == "true"

    def _reading(self) -> dict[str, str]:
        return self._separators() if self.format == "csv" else {}

    def _writing(self) -> dict[str, str]:
        """Return the options of Spark's writer. Instants are written in UTC, as in Flink."""
        pattern = _ISO if self.options.get("timestamp-format.standard", "").lower() == "iso-8601" else _SQL
        times = {"timeZone": "UTC", "timestampFormat": f"{pattern}'Z'", "timestampNTZFormat": pattern}
        if self.format == "csv":
            return times | self._separators()
        return times | {"ignoreNullFields": "true" if self._is("encode.ignore-null-fields") else "false"}

    def _separators(self) -> dict[str, str]:
        spark_names = {
            "field-delimiter": "sep",
            "quote-character": "quote",
            "escape-character": "escape",
            "null-literal": "nullValue",
        }
        options = {spark_names[key]: value for key, value in self.options.items() if key in spark_names}
        return options | ({"quote": ""} if self._is("disable-quote-character") else {})


def _map(options: Mapping[str, str]) -> str:
    return f"map({', '.join(string_literal(text) for pair in options.items() for text in pair)})"
