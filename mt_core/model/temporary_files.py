"""Temporary tables of files: the parts of their statement that streams need, kept in view options.

Spark ignores these options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mt_core.base.identifiers import namespace_of, sql_name
from mt_core.model.connector_table import Watermark

_COLUMN = "freshtable.watermark.column"
_DELAY = "freshtable.watermark.delay"
_KEYS = "freshtable.partition-keys"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporaryFiles:
    """The parts of a temporary table of files that a Spark view cannot express."""

    watermark: Watermark | None = None
    partition_keys: tuple[str, ...] = ()

    def to_options(self) -> dict[str, str]:
        keys = {_KEYS: sql_name(self.partition_keys)} if self.partition_keys else {}
        mark = self.watermark
        return keys if mark is None else keys | {_COLUMN: mark.column, _DELAY: mark.delay}

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> TemporaryFiles:
        """Read the watermark and partition columns from view *options*, ignoring all other options.

        Keys of *options* must be in lower case.
        """
        column = options.get(_COLUMN)
        return cls(
            watermark=None if column is None else Watermark(column=column, delay=options[_DELAY]),
            partition_keys=namespace_of(options[_KEYS]) if _KEYS in options else (),
        )
