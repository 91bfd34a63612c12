"""The versions of the API: the endpoints and the form of the answers of each."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersion:
    """One version: `prefix` is what its paths begin with, empty for the default version's
    second set of paths.

    `draft` means that it also has the endpoints of FLIP-91's draft; `configures` that it has
    configure-session and complete-statement; `refreshes` that it has the endpoints of workflow schedulers;
    `scripts` that scripts can be deployed.

    `row_formats` means that results can be requested as text; `extras` that answers may have members beside
    Flink's, which clients older than Flink 1.19 refuse, and that there are endpoints of plans; `null_uri`
    that the last page has `nextResultUri: null`.
    """

    number: int
    prefix: str
    draft: bool = False
    configures: bool = True
    refreshes: bool = False
    scripts: bool = False
    row_formats: bool = True
    extras: bool = True
    null_uri: bool = False


V1 = ApiVersion(
    number=1, prefix="/v1", draft=True, configures=False, row_formats=False, extras=False, null_uri=True
)
V2 = ApiVersion(number=2, prefix="/v2", extras=False)
V3 = ApiVersion(number=3, prefix="/v3", refreshes=True)
V4 = ApiVersion(number=4, prefix="/v4", scripts=True)
DEFAULT = replace(V4, prefix="")
VERSIONS = (V1, V2, V3, V4)
