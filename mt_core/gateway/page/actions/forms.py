"""The form of an action, which says what will happen, and its outcome, which says what has happened."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from mt_core.gateway.facts.query import Parameter
from mt_core.gateway.page.visitor import Visitor


class Done(StrEnum):
    """The outcome of an action, in the parameter `done` of the page to which it leads."""

    REQUESTED = "requested"
    SUSPENDED = "suspended"
    SUSPENDING = "suspending"
    RESUMED = "resumed"
    RESUMING = "resuming"
    VERIFIED = "verified"
    VERIFYING = "verifying"
    CANCELED = "canceled"
    CANCELING = "canceling"

    @property
    def words(self) -> str:
        """The outcome as a sentence."""
        return _WORDS[self]


_WORDS: Mapping[Done, str] = {
    Done.REQUESTED: "Refresh requested.",
    Done.SUSPENDED: "Table suspended.",
    Done.SUSPENDING: "SUSPEND has been accepted and is in progress.",
    Done.RESUMED: "Table resumed.",
    Done.RESUMING: "RESUME has been accepted and is in progress.",
    Done.VERIFIED: "Rows compared. The newest VERIFY among the refreshes has the result.",
    Done.VERIFYING: "The comparison has begun. Its result will be a VERIFY among the refreshes.",
    Done.CANCELED: "Cancelled.",
    Done.CANCELING: "Cancellation requested. It takes effect at the end of the current step.",
}
DONE = Parameter(
    name="done",
    description="The outcome of the action that led here.",
    schema={"type": "string", "enum": [each.value for each in Done]},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Where an action leads, and the parameters of that address."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, path: str, done: Done, **query: str) -> Outcome:
        return cls(path=path, query={**query, DONE.name: done.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class InputField:
    """A text field of a form; `hint` says what is valid."""

    name: str
    label: str
    hint: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckField:
    """A field that is checked or not; `hint` says what it changes."""

    name: str
    label: str
    hint: str = ""
    checked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionForm:
    """The form of an action on *subject*, such as the name of a table.

    `path` is its address below the page, and `back` where a visitor goes who leaves it. `button` is what the
    button does, in one or two words. `effects` are sentences about what will happen, `warnings` about what is
    unusual now. `refusal` says why the action is impossible, "" if it is possible. Forms with the same `key`
    are one form that is sent more than once.
    """

    title: str
    subject: str
    path: str
    back: str
    button: str
    effects: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    inputs: tuple[InputField, ...] = ()
    checks: tuple[CheckField, ...] = ()
    is_dangerous: bool = False
    refusal: str = ""
    key: str = field(default_factory=lambda: secrets.token_hex(16))


class Action(Protocol):
    """What a form shows and does for the table, refresh or job with an id.

    Methods raise TableNotFound or OperationNotFound if it does not exist.
    """

    def form(self, subject_id: str, sent: Mapping[str, str]) -> ActionForm | Outcome:
        """Return the form with the fields *sent* before, or where the visitor finds the right one."""

    def perform(self, subject_id: str, sent: Mapping[str, str], visitor: Visitor) -> Outcome:
        """Do what the form with the fields *sent* asks for. Raises MtError with the reason if it cannot."""
