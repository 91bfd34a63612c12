"""Repeated errors: the log contains an error in full once, then only a count until the error changes."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict

CAPACITY = 1_000
# Numbers of stages and tasks differ each time; dates identify partitions, so they are compared.
_NUMBERS = re.compile(r"(?<![\w-])\d+(?:\.\d+)*(?![\w-])")


class RepeatedErrors:
    """The last error of each subject, such as the refresh of a table. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # For each subject, the error without its numbers, and its count.
        self._last: OrderedDict[str, tuple[str, int]] = OrderedDict()

    def text(self, subject: str, error: object) -> str:
        """Return the log text of *error*: in full, or a count if it repeats the subject's last error."""
        kind = _NUMBERS.sub("0", str(error))
        with self._lock:
            last, count = self._last.pop(subject, ("", 0))
            count = count + 1 if last == kind else 1
            self._last[subject] = kind, count
            if len(self._last) > CAPACITY:
                self._last.popitem(last=False)
        return str(error) if count == 1 else f"the same error as before, {count} times in a row"

    def forget(self, subject: str) -> None:
        """Record that the subject has succeeded, so that its next error is logged in full."""
        with self._lock:
            self._last.pop(subject, None)
