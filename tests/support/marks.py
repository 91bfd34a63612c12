"""The refresh mark in table properties, for tests of the port."""

from __future__ import annotations

from mt_core.model.fence import Mark, RefreshWriter
from mt_core.model.storage import EPOCH, LAST_RUN, StorageMetadata


def mark(epoch: int | None = None, last_run: str | None = None) -> dict[str, str]:
    """Return the properties of a mark, without the values that are None."""
    given = {EPOCH: None if epoch is None else str(epoch), LAST_RUN: last_run}
    return {key: value for key, value in given.items() if value is not None}


def mark_of(metadata: StorageMetadata) -> Mark[str]:
    return RefreshWriter(number=0).mark_of(metadata.properties)


def epoch_of(metadata: StorageMetadata) -> int:
    return mark_of(metadata).number or 0


def last_run_of(metadata: StorageMetadata) -> str | None:
    return mark_of(metadata).published
