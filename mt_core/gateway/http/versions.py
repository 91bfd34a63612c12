"""The versions of the API: what each has, and what its answers look like."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersion:
    """One version: `prefix` is what its paths begin with, empty for the default version's second set of paths.

    `row_formats` means that results can be requested as text; `extras` that answers may have members beside Flink's, which
    clients older than Flink 1.19 refuse; `null_uri` that the last page has `nextResultUri: null`.
    """

    number: int
    prefix: str
    row_formats: bool = True
    extras: bool = True
    null_uri: bool = False

    @property
    def draft(self) -> bool:
        """Whether the draft of FLIP-91 is answered too."""
        return self.number == 1

    @property
    def configures(self) -> bool:
        """Whether there are configure-session and complete-statement."""
        return self.number >= 2

    @property
    def refreshes(self) -> bool:
        """Whether there are the endpoints of workflow schedulers; this is the only version that has them."""
        return self.number == 3

    @property
    def scripts(self) -> bool:
        """Whether scripts can be deployed."""
        return self.number == 4


V1 = ApiVersion(number=1, prefix="/v1", row_formats=False, extras=False, null_uri=True)
V2 = ApiVersion(number=2, prefix="/v2", extras=False)
V3 = ApiVersion(number=3, prefix="/v3")
V4 = ApiVersion(number=4, prefix="/v4")
DEFAULT = ApiVersion(number=4, prefix="")
VERSIONS = (V1, V2, V3, V4)
