"""Rows as lines for programs: CSV, TSV and JSON."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from typing import IO, Any

from mt_core.client.pages import ResultPage
from mt_core.client.values import FLOATS, converter

OP = "op"
TSV_NULL = r"\N"
_TSV_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def print_delimited(pages: Iterable[ResultPage], out: IO[str], *, tabs: bool) -> None:
    """Print a header and one line per row, as TSV if *tabs* is set, else as CSV.

    For a changelog, the first column `op` contains the kind of each change.
    """
    writer = csv.writer(out, lineterminator="\n")
    for number, page in enumerate(map(with_numbers, pages)):
        if page.has_content:
            header = [*(() if page.kinds is None else (OP,)), *(column.name for column in page.columns)]
            rows = [header] if number == 0 else []
            null = TSV_NULL if tabs else ""
            texts = [[null if value is None else _text(value, tabs) for value in row] for row in page.rows]
            if page.kinds is not None:
                texts = [[kind.value, *row] for kind, row in zip(page.kinds, texts, strict=True)]
            if tabs:
                header[:] = [name.translate(_TSV_ESCAPES) for name in header]
                out.writelines("\t".join(row) + "\n" for row in (*rows, *texts))
            else:
                writer.writerows((*rows, *texts))
            # The next page of an unbounded result may take long.
            out.flush()


def print_json(pages: Iterable[ResultPage], out: IO[str]) -> None:
    """Print each row as a JSON object on one line. A change is an object with its kind and its row."""
    for page in map(with_numbers, pages):
        names = [column.name for column in page.columns]
        objects: list[Any] = [dict(zip(names, row, strict=True)) for row in page.rows if page.has_content]
        if page.kinds is not None:
            objects = [{OP: kind.value, "row": each} for kind, each in zip(page.kinds, objects, strict=True)]
        out.writelines(_json(each) + "\n" for each in objects)
        out.flush()


def with_numbers(page: ResultPage) -> ResultPage:
    """Return *page* with decimals in the scale of their column, because JSON drops trailing zeros."""
    converts = [converter(column.type, FLOATS) for column in page.columns]
    rows = [
        [None if value is None else convert(value) for convert, value in zip(converts, row, strict=True)]
        for row in page.rows
    ]
    return replace(page, rows=rows)


def _text(value: Any, tabs: bool) -> str:
    text = value if isinstance(value, str) else _json(value)
    return text.translate(_TSV_ESCAPES) if tabs else text


def _json(value: Any) -> str:
    """Return *value* as JSON, with all digits of its decimals."""
    match value:
        case Decimal():
            return format(value, "f")
        case dict():
            return "{" + ", ".join(f"{_json(key)}: {_json(part)}" for key, part in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_json, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)
