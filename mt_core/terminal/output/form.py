"""The form in which rows are printed."""

from __future__ import annotations

from enum import StrEnum


class Form(StrEnum):
    """The names of `--format`."""

    TABLE = "table"
    TABLEAU = "tableau"
    VERTICAL = "vertical"
    MARKDOWN = "markdown"
    CSV = "csv"
    TSV = "tsv"
    JSON = "json"
    JSONL = "jsonl"
    ARROW = "arrow"
    PARQUET = "parquet"

    @property
    def is_for_people(self) -> bool:
        """Whether a person reads the form; programs read the others."""
        return self in {Form.TABLE, Form.TABLEAU, Form.VERTICAL, Form.MARKDOWN}

    @property
    def is_columnar(self) -> bool:
        """Whether the form is a file of columns, for programs."""
        return self in {Form.ARROW, Form.PARQUET}
