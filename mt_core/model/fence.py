"""The fence of a table: decides which of its writers may publish.

Two processes may both believe that they are the writer of a table. A writer that was replaced may notice this
late, and a commit that it sent may take effect even later. So the table itself records who may publish. Its
properties contain a *mark*: the number of the writer that last opened the table, and what was published last.
Later writers have higher numbers.

A writer *opens* the table: its mark replaces that of an earlier writer, and it gets a branch that starts at
main. It *stages* snapshots on the branch, where readers do not see them. It *publishes* a snapshot: one
commit makes the snapshot main and records it in the mark. It *closes* the table: from then on, nothing that
it sent earlier can be published.

Opening, publishing and closing are each one compare-and-set: the change is computed from metadata that was
read, and takes effect only if that metadata is still current. A writer that finds a mark with a higher number
is *fenced* and commits nothing. If the compare-and-set fails, or its response is lost, the writer reads the
metadata and computes the change again (`carried_out`). Every change must write a value that differs from all
others. Iceberg omits a commit that changes nothing, and an earlier commit still in flight could then take
effect after it. For this reason the mark of a job has a random part, and each commit to a materialized table
sets `freshtable.fence`.

The refreshes of a materialized table are one kind of writer, numbered by the claims of the ledger. Each
streaming job that writes a table is another kind, numbered by its attempts. docs/design/refresh-protocol.md
describes the protocol of refreshes.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import uuid4

from mt_core.errors import CommitConflict, CommitUnknown, EngineError
from mt_core.model.storage import (
    EPOCH,
    LAST_RUN,
    STREAM,
    MetadataChange,
    StorageMetadata,
    is_run_branch,
)

MAX_CONFLICTS = 100
MAX_UNKNOWN = 10
_STREAM_BRANCH = "stream_"
Published = TypeVar("Published", str, int)


class Fenced(Exception):
    """Raised if another writer of the same kind has opened or closed the table in the meantime."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark(Generic[Published]):
    """What the table records about one kind of writer: who may publish, and what was published last.

    `number` is None if no writer may publish.
    """

    number: int | None = None
    published: Published | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer(ABC, Generic[Published]):
    """A writer of a table, which stages its snapshots on `branch`.

    It has the table open while the mark contains its `number`.
    """

    number: int
    branch: str

    @abstractmethod
    def mark_of(self, properties: Mapping[str, str]) -> Mark[Published]:
        """Read the mark of this kind of writer from the properties of a table."""

    @abstractmethod
    def properties_of(self, mark: Mark[Published]) -> dict[str, str]:
        """Return the table properties that record *mark*."""

    @abstractmethod
    def is_of_kind(self, branch: str) -> bool:
        """Return whether *branch* belongs to this kind of writer."""

    def open(self, metadata: StorageMetadata) -> MetadataChange:
        """Return the change that takes the table over from earlier writers and drops their branches.

        Raises Fenced if a later writer has opened the table.
        """
        mark = self.mark_of(metadata.properties)
        self._refuse_earlier(mark)
        return MetadataChange(
            properties=self.properties_of(Mark(number=self.number, published=mark.published)),
            branch=self.branch,
            drop=tuple(name for name in self._branches(metadata) if name != self.branch),
        )

    def is_at_main(self, metadata: StorageMetadata) -> bool:
        """Return whether this writer has the table open and its branch is at main.

        Only then can its next snapshot be staged without opening the table again.
        """
        is_open = self.mark_of(metadata.properties).number == self.number
        return is_open and metadata.main is not None and metadata.branches.get(self.branch) == metadata.main

    def check_open(self, metadata: StorageMetadata) -> None:
        """Raise Fenced unless this writer was the last to open the table."""
        if self.mark_of(metadata.properties).number != self.number:
            raise Fenced

    def publish(
        self,
        metadata: StorageMetadata,
        published: Published,
        snapshot_id: str | None,
        *,
        pending: Any | None = None,
        goes_on: bool = False,
    ) -> MetadataChange:
        """Return the change that makes *snapshot_id* main and records what was *published*.

        If *snapshot_id* is None, main stays the same. *pending* is the engine's form of a snapshot that the
        table does not contain yet. The branch is moved to main if the writer *goes_on*, and dropped if not.
        Raises Fenced if another writer has opened the table.
        """
        self.check_open(metadata)
        continues_branch = goes_on and (snapshot_id or metadata.main) is not None
        return MetadataChange(
            properties=self.properties_of(Mark(number=self.number, published=published)),
            publish=snapshot_id,
            pending=pending,
            branch=self.branch if continues_branch else None,
            drop=() if goes_on else (self.branch,),
        )

    @abstractmethod
    def close(self, metadata: StorageMetadata) -> MetadataChange:
        """Return the change after which nothing that this or an earlier writer has sent can be published."""

    def _refuse_earlier(self, mark: Mark[Published]) -> None:
        if mark.number is not None and mark.number > self.number:
            raise Fenced

    def _branches(self, metadata: StorageMetadata) -> tuple[str, ...]:
        return tuple(sorted(filter(self.is_of_kind, metadata.branches)))


class RefreshWriter(Writer[str]):
    """A claimed run of a materialized table; it publishes under its own name, or under that of its batch."""

    __slots__ = ()

    def mark_of(self, properties: Mapping[str, str]) -> Mark[str]:
        return Mark(number=int(properties.get(EPOCH) or 0), published=properties.get(LAST_RUN))

    def properties_of(self, mark: Mark[str]) -> dict[str, str]:
        published = {} if mark.published is None else {LAST_RUN: mark.published}
        return {EPOCH: str(mark.number or 0), **published}

    def is_of_kind(self, branch: str) -> bool:
        return is_run_branch(branch)

    def close(self, metadata: StorageMetadata) -> MetadataChange:
        mark = self.mark_of(metadata.properties)
        self._refuse_earlier(mark)
        return MetadataChange(
            properties=self.properties_of(Mark(number=self.number, published=mark.published)),
            drop=self._branches(metadata),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWriter(Writer[int]):
    """An attempt of a streaming job, which publishes batches by number.

    Several jobs may write to the same table.
    """

    job_id: str

    @classmethod
    def of(cls, job_id: str, attempt: int) -> StreamWriter:
        return cls(job_id=job_id, number=attempt, branch=f"{_STREAM_BRANCH}{job_id}_{attempt}")

    @property
    def key(self) -> str:
        """The table property that contains the mark of this job."""
        return STREAM + self.job_id

    def is_known(self, metadata: StorageMetadata) -> bool:
        """Return whether the table has a mark of this job."""
        return self.key in metadata.properties

    def mark_of(self, properties: Mapping[str, str]) -> Mark[int]:
        if self.key not in properties:
            return Mark()
        body = json.loads(properties[self.key])
        return Mark(number=body["attempt"], published=body["batch"])

    def properties_of(self, mark: Mark[int]) -> dict[str, str]:
        body = {"version": 1, "attempt": mark.number, "batch": mark.published, "nonce": uuid4().hex}
        return {self.key: json.dumps(body)}

    def is_of_kind(self, branch: str) -> bool:
        return branch.startswith(f"{_STREAM_BRANCH}{self.job_id}_")

    def close(self, metadata: StorageMetadata) -> MetadataChange:
        """Return the change after which no attempt can publish until the next one opens the table."""
        mark = self.mark_of(metadata.properties)
        return MetadataChange(
            properties=self.properties_of(Mark(published=mark.published)), drop=self._branches(metadata)
        )

    def forget(self, metadata: StorageMetadata) -> MetadataChange:
        """Return the change that removes the mark and the branches of this job."""
        return MetadataChange(removed=(self.key,), drop=self._branches(metadata))


def carried_out(
    table: str,
    step: str,
    read: Callable[[], StorageMetadata],
    change: Callable[[StorageMetadata], MetadataChange | None],
    commit: Callable[[StorageMetadata, MetadataChange], None],
    *,
    known: StorageMetadata | None = None,
) -> Generator[str, None, None]:
    """Read the metadata, compute the change and commit it; repeat this after a failed compare-and-set.

    *change* returns None if there is nothing to do. It may raise CommitConflict, as *commit* does, and any
    other exception to refuse the change. *known* metadata is used for the first try; if it is outdated, that
    commit fails. Yields the name of each part of the *step* before carrying it out. Raises EngineError, which
    names the *table*, after `MAX_CONFLICTS` tries, or after `MAX_UNKNOWN` commits whose outcome is unknown.
    """
    unknown_outcomes, last_conflict = 0, None
    for _ in range(MAX_CONFLICTS):
        yield f"{step}: read"
        metadata, known = known or read(), None
        try:
            planned_change = change(metadata)
            if planned_change is None:
                return
            yield f"{step}: commit"
            commit(metadata, planned_change)
            return
        except CommitConflict as conflict:
            last_conflict = conflict
        except CommitUnknown as no_answer:
            unknown_outcomes += 1
            if unknown_outcomes == MAX_UNKNOWN:
                raise EngineError(no_answer.message) from no_answer
    raise EngineError(
        f"Other writers commit to {table} so often that {MAX_CONFLICTS} attempts to {step} it failed."
    ) from last_conflict
