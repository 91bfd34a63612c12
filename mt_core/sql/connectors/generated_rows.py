"""Rows that the connectors `datagen` and `rate` generate, as expressions over a counter and a time.

A stream that fails repeats its last batch, and the sink must then receive the same rows again. No expression
therefore uses `rand()`. A random value is a hash of the counter and the column's name (`_Field.hash`), scaled
to the requested range; a sequence is an offset plus the counter. Rows are therefore a pure function of the
counter, and a batch is a range of counters, in any process. Only times and columns AS PROCTIME() come from
the batch. The range of each type is computed exactly. The span of a BIGINT range may exceed 63 bits, which is
why `_integer` distinguishes three cases. Text consists of SHA-256 digests of 64 characters each, so a length
is limited to 100,000 characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mt_core.base.identifiers import quote, string_literal
from mt_core.base.options import BOOLEAN, duration_of, suggestion
from mt_core.errors import DefinitionInvalid, Unsupported
from mt_core.model.connector_table import GeneratedRows
from mt_core.sql.statements import ColumnSpec

COUNTER, TIME = "value", "timestamp"
_ROWS_PER_SECOND, _NUMBER_OF_ROWS = "rows-per-second", "number-of-rows"
GENERATED_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "datagen": (_ROWS_PER_SECOND, _NUMBER_OF_ROWS),
    "rate": (_ROWS_PER_SECOND,),
}
"""The options of each connector, without the options of columns."""
_DEFAULT_PACE = {"datagen": 10_000, "rate": 1}
_FIELD_OPTION = re.compile(
    r"fields\.(?P<field>.+)\.(?P<key>kind|start|end|min|max|max-past|length|var-len|null-rate)", re.DOTALL
)
_WHOLE = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,38}(\.[0-9]{1,38})?([eE][+-]?[0-9]{1,3})?", re.ASCII)
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_LONGEST = 2**63 - 1
_LENGTH, _MOST_LETTERS, _LETTERS_A_HASH = 100, 100_000, 64
_GREATEST = {"FLOAT": "3.4028234E38", "DOUBLE": "1.7976931348623157E308"}
_SEQUENCES = frozenset({*_BITS, *_GREATEST, "DECIMAL", "STRING", "CHAR", "VARCHAR"})


@dataclass(frozen=True, slots=True)
class _Field:
    """A column with its options; `table` is the table's name for messages."""

    table: str
    spec: ColumnSpec
    options: Mapping[str, str]

    @property
    def kind(self) -> str:
        return (self.spec.type or "").partition("(")[0].partition("<")[0]

    def number(self, key: str, default: str, form: re.Pattern[str] = _NUMBER) -> str:
        """Return the number in an option. Raises DefinitionInvalid if the text is not a number."""
        text = self.options.get(key, default).strip()
        if not form.fullmatch(text):
            raise self.invalid(key, "a whole number" if form is _WHOLE else "a number")
        return text

    def whole(self, key: str, default: int) -> int:
        return int(self.number(key, str(default), _WHOLE))

    def invalid(self, key: str, expected: str) -> DefinitionInvalid:
        return DefinitionInvalid(
            f"Table {self.table}: option 'fields.{self.spec.name}.{key}' is '{self.options.get(key, '')}'; "
            f"expected {expected}."
        )

    def hash(self, purpose: str = "") -> str:
        """Return a BIGINT expression whose value depends on the row, the column and *purpose*."""
        return f"xxhash64({COUNTER}, {string_literal(self.spec.name + purpose)})"

    def share(self, purpose: str = "") -> str:
        """Return a DOUBLE expression from 0 (inclusive) to 1 (exclusive)."""
        return f"(pmod({self.hash(purpose)}, 9007199254740992) / 9007199254740992D)"


def generated_rows(
    table: str, options: Mapping[str, str], specs: Sequence[ColumnSpec], now_columns: frozenset[str]
) -> GeneratedRows:
    """Return the rows of a table with the connector `datagen` or `rate`.

    *now_columns* are the columns AS PROCTIME(). Raises DefinitionInvalid or Unsupported naming the option or
    the column.
    """
    connector = options["connector"].lower()
    rest = {key: value for key, value in options.items() if key != "connector"}
    pace = _positive(table, rest, _ROWS_PER_SECOND, _DEFAULT_PACE[connector])
    declared = [each for each in specs if each.name not in now_columns]
    if connector == "rate":
        _check_known(table, rest, GENERATED_OPTIONS[connector])
        items, limit = _rate_items(table, specs, now_columns), None
    else:
        if not declared:
            raise DefinitionInvalid(
                f"Table {table}: connector 'datagen' needs columns; write them after the name."
            )
        fields = _fields(table, rest, declared)
        items = [_item(spec, fields.get(spec.name)) for spec in specs]
        limits = [
            each.whole("end", 0) - each.whole("start", 0) + 1
            for each in fields.values()
            if _is_sequence(each)
        ]
        if _NUMBER_OF_ROWS in rest:
            limits.append(_positive(table, rest, _NUMBER_OF_ROWS, 1))
        limit = min(limits, default=None)
    return GeneratedRows(items=tuple(items), rows_per_second=pace, number_of_rows=limit)


def _rate_items(table: str, specs: Sequence[ColumnSpec], now_columns: frozenset[str]) -> list[str]:
    sources = {"TIMESTAMP": TIME, "TIMESTAMP_NTZ": f"CAST({TIME} AS TIMESTAMP_NTZ)", "BIGINT": COUNTER}
    items = []
    for spec in specs:
        if spec.name in now_columns:
            items.append(_item(spec, None))
            continue
        if spec.type not in sources:
            raise Unsupported(
                f"Table {table}, column {spec.name}: connector 'rate' generates a time and a counter, so a "
                "column is TIMESTAMP(3), TIMESTAMP_LTZ(3) or BIGINT; use connector 'datagen' for others."
            )
        items.append(f"{sources[spec.type]} AS {quote(spec.name)}")
    return items or [TIME, COUNTER]


def _fields(table: str, options: Mapping[str, str], specs: Sequence[ColumnSpec]) -> dict[str, _Field]:
    """Return the columns with their options, by name and in the order of *specs*."""
    by_field: dict[str, dict[str, str]] = {spec.name: {} for spec in specs}
    others = []
    for key, value in options.items():
        match = _FIELD_OPTION.fullmatch(key)
        if match is None:
            others.append(key)
        elif match["field"] not in by_field:
            raise DefinitionInvalid(
                f"Table {table}: option '{key}' names the column {match['field']}, which does not exist; "
                f"the columns are {', '.join(by_field)}."
            )
        else:
            by_field[match["field"]][match["key"]] = value
    _check_known(table, others, GENERATED_OPTIONS["datagen"])
    return {spec.name: _Field(table, spec, by_field[spec.name]) for spec in specs}


def _check_known(table: str, keys: Mapping[str, str] | Sequence[str], known: Sequence[str]) -> None:
    for key in keys:
        if key not in known:
            near = (
                suggestion(key, known, likeness=0.6)
                or f"the options are {', '.join(known)}, and fields.<column>.<option>."
            )
            raise DefinitionInvalid(f"Table {table}: option '{key}' does not exist; {near}")


def _positive(table: str, options: Mapping[str, str], key: str, default: int) -> int:
    text = options.get(key, str(default)).strip()
    if not _WHOLE.fullmatch(text) or not 0 < int(text) <= _LONGEST:
        raise DefinitionInvalid(
            f"Table {table}: option '{key}' is '{text}'; expected a whole number above 0."
        )
    return int(text)


# ------------------------------------------------------------------------------------------------ expressions


def _item(spec: ColumnSpec, field: _Field | None) -> str:
    """Return the SELECT item of a column. *field* is None for a column AS PROCTIME()."""
    if field is None:
        return f"current_timestamp() AS {quote(spec.name)}"
    kind = field.options.get("kind", "random").lower()
    if kind not in {"random", "sequence"}:
        raise field.invalid("kind", "random or sequence")
    expression = _sequence(field) if kind == "sequence" else _random(field)
    nulls = field.number("null-rate", "0")
    if not 0 <= float(nulls) <= 1:
        raise field.invalid("null-rate", "a number from 0 to 1")
    if float(nulls):
        expression = f"IF({field.share(' null')} < {nulls}D, NULL, {expression})"
    return f"{expression} AS {quote(spec.name)}"


def _is_sequence(field: _Field) -> bool:
    return field.options.get("kind", "").lower() == "sequence"


def _sequence(field: _Field) -> str:
    for key in ("start", "end"):
        if key not in field.options:
            raise DefinitionInvalid(
                f"Table {field.table}, column {field.spec.name}: "
                f"a sequence needs 'fields.{field.spec.name}.{key}'."
            )
    start = field.whole("start", 0)
    if field.whole("end", 0) < start:
        raise field.invalid("end", f"a whole number from {start} on")
    if field.kind not in _SEQUENCES:
        raise Unsupported(
            f"Table {field.table}, column {field.spec.name}: a sequence generates numbers, "
            f"which a column of type {field.spec.type} cannot hold; use a number or STRING."
        )
    return f"CAST({start}L + {COUNTER} AS {field.spec.type})"


def _random(field: _Field) -> str:
    writer = _WRITERS.get(field.kind)
    if writer is None:
        raise Unsupported(
            f"Table {field.table}, column {field.spec.name}: connector 'datagen' cannot generate values of "
            f"type {field.spec.type}; use a number, STRING, BYTES, BOOLEAN, DATE or TIMESTAMP."
        )
    return writer(field)


def _bounds(field: _Field, least: str, greatest: str, form: re.Pattern[str]) -> tuple[str, str]:
    lower, upper = field.number("min", least, form), field.number("max", greatest, form)
    if float(upper) < float(lower):
        raise field.invalid("max", f"a number from {lower} on")
    return lower, upper


def _integer(field: _Field) -> str:
    most = 2 ** (_BITS[field.kind] - 1)
    low, high = _bounds(field, str(-most), str(most - 1), _WHOLE)
    lower, upper = int(low), int(high)
    if not -most <= lower <= upper < most:
        raise field.invalid(
            "max" if "max" in field.options else "min", f"a number that {field.kind} can hold"
        )
    span = upper - lower + 1
    if span == 2 * _LONGEST + 2:
        return field.hash()
    if span <= _LONGEST:
        return f"CAST({lower}L + pmod({field.hash()}, {span}L) AS {field.kind})"
    return f"CAST({lower}BD + pmod(CAST({field.hash()} AS DECIMAL(20, 0)), {span}BD) AS BIGINT)"


def _fraction(field: _Field) -> str:
    lower, upper = _bounds(field, "0", _GREATEST[field.kind], _NUMBER)
    return f"CAST({_between(field, lower, upper)} AS {field.kind})"


def _decimal(field: _Field) -> str:
    digits = [
        int(each) for each in (field.spec.type or "").partition("(")[2].rstrip(")").split(",") if each.strip()
    ]
    precision, scale = (*digits, *(10, 0)[len(digits) :])
    lower, upper = _bounds(field, "0", "9" * max(precision - scale - 1, 1), _NUMBER)
    return f"CAST({_between(field, lower, upper)} AS {field.spec.type})"


def _between(field: _Field, lower: str, upper: str) -> str:
    return f"{lower}D + {field.share()} * ({upper}D - {lower}D)"


def _text(field: _Field) -> str:
    return _letters(field, _length(field))


def _bytes(field: _Field) -> str:
    return f"unhex({_letters(field, 2 * _length(field))})"


def _length(field: _Field) -> int:
    _, bracket, numbers = (field.spec.type or "").partition("(")
    length = field.whole("length", int(numbers.rstrip(")")) if bracket else _LENGTH)
    if not 0 < length <= _MOST_LETTERS:
        raise field.invalid("length", f"a whole number from 1 to {_MOST_LETTERS}")
    return length


def _letters(field: _Field, length: int) -> str:
    seed = f"CAST({COUNTER} AS STRING), {string_literal('/' + field.spec.name + '/')}"
    hashes = -(-length // _LETTERS_A_HASH)
    text = (
        f"sha2(concat({seed}), 256)"
        if hashes == 1
        else (
            f"array_join(transform(sequence(1, {hashes}), "
            f"i -> sha2(concat({seed}, CAST(i AS STRING)), 256)), '')"
        )
    )
    varies = field.options.get("var-len", "false")
    if not BOOLEAN.accepts(varies):
        raise field.invalid("var-len", BOOLEAN.name)
    most = str(length)
    if varies.strip().lower() == "true":
        # Two hexadecimal digits make one byte.
        step = 2 if field.kind == "BINARY" else 1
        most = f"CAST({step} * (1 + pmod({field.hash(' length')}, {length // step}L)) AS INT)"
    return f"substring({text}, 1, {most})"


def _time(field: _Field) -> str:
    past = duration_of(field.options.get("max-past", "0"))
    if past is None:
        raise field.invalid("max-past", "a duration such as 10 min")
    moment = TIME
    if past:
        moment = f"({TIME} - make_dt_interval(0, 0, 0, {field.share()} * {past.total_seconds()}D))"
    return f"CAST({moment} AS {field.kind})"


_WRITERS: Mapping[str, Callable[[_Field], str]] = {
    **dict.fromkeys(_BITS, _integer),
    **dict.fromkeys(_GREATEST, _fraction),
    **dict.fromkeys(("STRING", "CHAR", "VARCHAR"), _text),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_NTZ"), _time),
    "DECIMAL": _decimal,
    "BINARY": _bytes,
    "BOOLEAN": lambda field: f"(pmod({field.hash()}, 2) = 0)",
    "DATE": lambda field: f"CAST({TIME} AS DATE)",
}
