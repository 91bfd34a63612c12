"""Reservations: what CREATE TABLE AS may leave behind, recorded so that any process can remove it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

RESERVATION_VERSION = 1


class Atomicity(StrEnum):
    """What readers see while a query fills a table, and what a failure leaves behind (FLIP-218)."""

    NONE = "none"
    CLEANED_UP = "cleaned up"
    ATOMIC = "atomic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """The table that a job creates or replaces: its full name, and the folder that only this job uses.

    `folder` is None if the job has no folder of its own. `made` are the missing parent folders that the job
    creates, deepest first. `emptied` is True if the folder already existed, without files.
    """

    job_id: str
    table: tuple[str, ...]
    atomicity: Atomicity
    folder: str | None = None
    made: tuple[str, ...] = ()
    emptied: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "version": RESERVATION_VERSION,
            "job": self.job_id,
            "table": list(self.table),
            "atomicity": self.atomicity.value,
            "folder": self.folder,
            "made": list(self.made),
            "emptied": self.emptied,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Reservation:
        return cls(
            job_id=body["job"],
            table=tuple(body["table"]),
            atomicity=Atomicity(body["atomicity"]),
            folder=body["folder"],
            made=tuple(body["made"]),
            emptied=body["emptied"],
        )
