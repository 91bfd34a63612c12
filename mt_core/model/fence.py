"""The fence of a table: which of its writers may publish, by open, publish and close.

Two processes may both take themselves for the writer of a table: one that was replaced finds out late,
and a commit that it sent may land later still. So the table itself says who may publish. Its properties carry
a *mark*: the number of the writer that opened the table last, and what was published last. Whoever writes
later has the higher number.

A writer *opens* the table: its mark replaces that of an earlier writer, and it has a branch that begins at
main. It *stages* snapshots on the branch, which no reader sees. It *publishes* one: the snapshot becomes
main, and the mark says so, in one commit. It *closes* the table, so that nothing which it has sent before
can be published any more.

Each of the three is one compare-and-set: it is computed from metadata that was read, and lands only if
that is still current. A writer that finds a mark with a higher number is *fenced*, and commits nothing.
A compare-and-set that lost, or whose answer was lost, is read again and computed again (`carried_out`). Every
change has to write something that differs from all others: Iceberg leaves out a commit that changes nothing,
and an earlier one that is still on its way could then land after it. So the mark of a job has a random part,
and each commit to a materialized table sets `freshtable.fence`.

The refreshes of a materialized table are one kind of writers, with the claims of the ledger as numbers;
each streaming job that writes a table is another, with its attempts. docs/decisions/0003-refresh-protocol.md
has the protocol of refreshes.
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
    """Another writer of the kind has opened the table since, or closed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark(Generic[Published]):
    """What a table says of one kind of its writers: who may publish, None if nobody may,
    and what was published last.
    """

    number: int | None = None
    published: Published | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer(ABC, Generic[Published]):
    """One writer of a table, with the `number` that it claims to be the last to have, and its `branch`."""

    number: int
    branch: str

    @abstractmethod
    def mark_of(self, properties: Mapping[str, str]) -> Mark[Published]:
        """Return the mark of this kind of writers in the properties of a table."""

    @abstractmethod
    def properties_of(self, mark: Mark[Published]) -> dict[str, str]:
        """Return the properties that record *mark*."""

    @abstractmethod
    def is_of_kind(self, branch: str) -> bool:
        """Return whether a branch belongs to a writer of this kind."""

    def open(self, metadata: StorageMetadata) -> MetadataChange:
        """Take the table over from earlier writers, whose branches go."""
        mark = self.mark_of(metadata.properties)
        self._refuse_earlier(mark)
        return MetadataChange(
            properties=self.properties_of(Mark(number=self.number, published=mark.published)),
            branch=self.branch,
            drop=tuple(name for name in self._branches(metadata) if name != self.branch),
        )

    def is_at_main(self, metadata: StorageMetadata) -> bool:
        """Return whether this writer has the table open, and its branch ends where main does:
        the next snapshot may follow.
        """
        has_it = self.mark_of(metadata.properties).number == self.number
        return has_it and metadata.main is not None and metadata.branches.get(self.branch) == metadata.main

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
        held: Any | None = None,
        goes_on: bool = False,
    ) -> MetadataChange:
        """Make *snapshot_id* main, None: leave main as it is, and record what was *published*.

        *held* is the engine's form of a snapshot that the table does not have yet.
        The branch goes, unless the writer *goes_on*: then it ends where main does.
        """
        self.check_open(metadata)
        begins = goes_on and (snapshot_id or metadata.main) is not None
        return MetadataChange(
            properties=self.properties_of(Mark(number=self.number, published=published)),
            publish=snapshot_id,
            held=held,
            branch=self.branch if begins else None,
            drop=() if goes_on else (self.branch,),
        )

    @abstractmethod
    def close(self, metadata: StorageMetadata) -> MetadataChange:
        """Let nothing be published any more that this writer, or an earlier one, has sent or staged."""

    def _refuse_earlier(self, mark: Mark[Published]) -> None:
        if mark.number is not None and mark.number > self.number:
            raise Fenced

    def _branches(self, metadata: StorageMetadata) -> tuple[str, ...]:
        return tuple(sorted(filter(self.is_of_kind, metadata.branches)))


class RefreshWriter(Writer[str]):
    """A claimed run of a materialized table.

    What it publishes is named after the run, and after the batch if there are several.
    """

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
    """An attempt of a streaming job, which publishes batches by their numbers.

    A table may be written by several jobs.
    """

    job_id: str

    @classmethod
    def of(cls, job_id: str, attempt: int) -> StreamWriter:
        return cls(job_id=job_id, number=attempt, branch=f"{_STREAM_BRANCH}{job_id}_{attempt}")

    @property
    def key(self) -> str:
        """The property that has the mark."""
        return STREAM + self.job_id

    def is_known(self, metadata: StorageMetadata) -> bool:
        """Return whether the table says anything of the job."""
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
        """Let no attempt of the job publish any more, whichever has the table open,
        until the next one opens it.
        """
        mark = self.mark_of(metadata.properties)
        return MetadataChange(
            properties=self.properties_of(Mark(published=mark.published)), drop=self._branches(metadata)
        )

    def forget(self, metadata: StorageMetadata) -> MetadataChange:
        """Remove all that the table says of the job."""
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
    """Read, compute the change, which may refuse or be None for nothing to do, and commit;
    repeat this after a commit that lost.

    Metadata that is *known* serves for the first try: its commit loses unless it is still current.
    A change may raise CommitConflict as a commit does. Yields the name of each part of the *step* before
    it happens. Raises EngineError, which names the *table*, after `MAX_CONFLICTS` commits that lost, or
    `MAX_UNKNOWN` without an answer.
    """
    unknown, lost = 0, None
    for _ in range(MAX_CONFLICTS):
        yield f"{step}: read"
        metadata, known = known or read(), None
        try:
            wanted = change(metadata)
            if wanted is None:
                return
            yield f"{step}: commit"
            commit(metadata, wanted)
            return
        except CommitConflict as conflict:
            lost = conflict
        except CommitUnknown as no_answer:
            unknown += 1
            if unknown == MAX_UNKNOWN:
                raise EngineError(no_answer.message) from no_answer
    raise EngineError(
        f"{table} is committed to so often that {MAX_CONFLICTS} tries to {step} it lost."
    ) from lost
