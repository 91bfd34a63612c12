"""Errors that repeat: a log has each in full once, and then counts it until it changes."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict

CAPACITY = 1_000
# Those of stages and tasks are other ones each time; dates name partitions.
_NUMBERS = re.compile(r"(?<![\w-])\d+(?:\.\d+)*(?![\w-])")


class RepeatedErrors:
    """The last error of each subject, such as the refresh of a table. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By subject: the error without its numbers, and how often it came.
        self._last: OrderedDict[str, tuple[str, int]] = OrderedDict()

    def text(self, subject: str, error: object) -> str:
        """Return *error* as a log has it: in full, or counted if it is the same as the last
        one of its subject.
        """
        kind = _NUMBERS.sub("0", str(error))
        with self._lock:
            last, count = self._last.pop(subject, ("", 0))
            count = count + 1 if last == kind else 1
            self._last[subject] = kind, count
            if len(self._last) > CAPACITY:
                self._last.popitem(last=False)
        return str(error) if count == 1 else f"the same error as before, {count} times in a row"

    def forget(self, subject: str) -> None:
        """Note that the subject has succeeded, so that its next error is said in full."""
        with self._lock:
            self._last.pop(subject, None)
