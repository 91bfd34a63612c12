"""Output formats."""

from __future__ import annotations

from enum import StrEnum


class Form(StrEnum):
    """The values of `--format`."""

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
        """Whether the format is meant for people and not for programs."""
        return self in {Form.TABLE, Form.TABLEAU, Form.VERTICAL, Form.MARKDOWN}

    @property
    def is_columnar(self) -> bool:
        """Whether the format is a columnar file."""
        return self in {Form.ARROW, Form.PARQUET}
