"""The fence of a table: decides which of its writers may publish.

Two processes may both believe that they are the writer of a table. A writer that was replaced may notice this
late, and a commit that it sent may take effect even later. A catalog compares a commit with the table at the
time of the commit only in part: every catalog refuses to move a branch that is no longer where the writer
read it, and not every catalog refuses more. So each commit that decides anything moves a branch.

Two kinds of writers follow this rule. A *refresh* of a materialized table moves main. One commit *publishes*
its snapshot, as the next snapshot of the main that the writer has read, and records claim and run in the
*mark*, which consists of table properties. Before the commit, the writer looks at what it has read: whether
its run is published already, and whether a writer with a higher number has moved main since (it is then
*fenced* and commits nothing). Nothing else has to be committed, because whatever an earlier writer has sent
can only land before the next publish, which then finds it, or fail. A writer that ends without a publish
although something may still be on its way *closes* the table: it moves main to an empty snapshot.

A *stream* shares main with other writers, so main moves without its doing. It moves a branch of its own too:
it *opens* the table by setting the branch, and each publish sets main and that branch. Opening and closing
remove the branches of earlier attempts, whose opens and publishes then fail. Since an open relies on a
branch, the first attempt creates one before. The mark of a job contains the number of the attempt and of the
last batch.

If a commit fails because a branch has moved, or if its response is lost, the writer reads the metadata and
computes the change again (`carried_out`). docs/design/refresh-protocol.md describes the protocol of
refreshes.
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
    CLOSED,
    EPOCH,
    LAST_RUN,
    STATES,
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
    """Raised if another writer of the same kind has taken the table over in the meantime."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark(Generic[Published]):
    """What the table records about one kind of writer: who may publish, and what was published last.

    `number` is that of the last writer, or None if no stream has the table open.
    """

    number: int | None = None
    published: Published | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer(ABC, Generic[Published]):
    """A writer of a table. Later writers have higher numbers."""

    number: int

    @abstractmethod
    def mark_of(self, properties: Mapping[str, str]) -> Mark[Published]:
        """Read the mark of this kind of writer from the properties of a table."""

    @abstractmethod
    def properties_of(self, mark: Mark[Published]) -> dict[str, str]:
        """Return the table properties that record *mark*."""

    @abstractmethod
    def is_of_kind(self, branch: str) -> bool:
        """Return whether *branch* belongs to writers of this kind."""

    def refuse_earlier(self, metadata: StorageMetadata) -> None:
        """Raise Fenced if a later writer has committed to the table."""
        number = self.mark_of(metadata.properties).number
        if number is not None and number > self.number:
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

    def publish(
        self,
        metadata: StorageMetadata,
        published: str,
        snapshot_id: str,
        *,
        pending: Any | None = None,
        states: str | None = None,
    ) -> MetadataChange:
        """Return the change that makes *snapshot_id* main and records what was *published*.

        *pending* is the engine's form of a snapshot that the table does not contain yet. *states* is the
        property of tiny states (`storage.states_property`); without it, the property is removed. Branches
        that runs of release 0.1.0 have left are dropped. Raises Fenced if a later writer has moved main.
        """
        self.refuse_earlier(metadata)
        mark = self.properties_of(Mark(number=self.number, published=published))
        return MetadataChange(
            properties=mark if states is None else {**mark, STATES: states},
            removed=(STATES,) if states is None and STATES in metadata.properties else (),
            publish=snapshot_id,
            pending=pending,
            drop=self._branches(metadata),
        )

    def close(self, metadata: StorageMetadata) -> MetadataChange:
        """Return the change after which nothing that this or an earlier writer has sent can be published.

        Raises Fenced if a later writer has moved main.
        """
        self.refuse_earlier(metadata)
        mark = self.mark_of(metadata.properties)
        return MetadataChange(
            properties=self.properties_of(Mark(number=self.number, published=mark.published)),
            closes={CLOSED: str(self.number)},
            drop=self._branches(metadata),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWriter(Writer[int]):
    """An attempt of a streaming job, which publishes batches by number.

    Several jobs may write to the same table. Each publish moves `branch`.
    """

    job_id: str

    @property
    def branch(self) -> str:
        return f"{_STREAM_BRANCH}{self.job_id}_{self.number}"

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

    def is_begun(self, metadata: StorageMetadata) -> bool:
        """Return whether the job has a branch. Raises Fenced if a later attempt has opened the table."""
        self.refuse_earlier(metadata)
        return bool(self._branches(metadata))

    def begin(self, snapshot_id: str, *, pending: Any | None = None) -> MetadataChange:
        """Return the change that creates the branch at *snapshot_id*, which is main.

        An open sets or drops a branch that each later open drops, so one must exist before. The change
        itself decides nothing. If the table has no main, *pending* is the engine's form of its first
        snapshot.
        """
        publish = None if pending is None else snapshot_id
        return MetadataChange(publish=publish, pending=pending, branches={self.branch: snapshot_id})

    def open(self, metadata: StorageMetadata) -> MetadataChange:
        """Return the change that takes the table over from earlier attempts and drops their branches.

        Raises Fenced if a later attempt has opened the table, or if the job has been closed since `begin`.
        """
        self.refuse_earlier(metadata)
        mark, branches = self.mark_of(metadata.properties), self._branches(metadata)
        if not branches or metadata.main is None:
            raise Fenced
        return MetadataChange(
            properties=self.properties_of(Mark(number=self.number, published=mark.published)),
            branches={self.branch: metadata.main},
            drop=tuple(name for name in branches if name != self.branch),
        )

    def check_open(self, metadata: StorageMetadata) -> None:
        """Raise Fenced unless this attempt was the last to open the table."""
        if self.mark_of(metadata.properties).number != self.number:
            raise Fenced

    def publish(
        self,
        metadata: StorageMetadata,
        published: int,
        snapshot_id: str,
        *,
        pending: Any | None = None,
    ) -> MetadataChange:
        """Return the change that makes *snapshot_id* main and records the batch *published*.

        *pending* is the engine's form of a snapshot that the table does not contain yet. Raises Fenced if
        another attempt has opened the table.
        """
        self.check_open(metadata)
        return MetadataChange(
            properties=self.properties_of(Mark(number=self.number, published=published)),
            publish=snapshot_id,
            pending=pending,
            branches={self.branch: snapshot_id},
        )

    def close(self, metadata: StorageMetadata) -> MetadataChange | None:
        """Return the change after which no attempt can publish until the next one opens the table.

        Return None if the table is closed.
        """
        mark, branches = self.mark_of(metadata.properties), self._branches(metadata)
        if mark.number is None and not branches:
            return None
        closed = self.properties_of(Mark(published=mark.published)) if self.is_known(metadata) else {}
        return MetadataChange(properties=closed, drop=branches)

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
