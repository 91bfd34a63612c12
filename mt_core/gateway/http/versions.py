"""The versions of the API, which differ in their endpoints and in the form of their responses."""

from __future__ import annotations

from dataclasses import dataclass, replace

TITLE = "Freshtable SQL gateway, V{number}"
DESCRIPTION = (
    "The REST API of Flink's SQL gateway (FLIP-91, FLIP-448), version {number}. "
    "Fields that are not known are ignored, no body is an empty object, and null is the same as absent."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersion:
    """An API version. `prefix` begins its paths; it is empty for the copy of the default version.

    Endpoints: `draft` adds the endpoints of FLIP-91's draft, `configures` configure-session and
    complete-statement, `refreshes` the endpoints for workflow schedulers, and `scripts` script deployment.

    Responses: `row_formats` allows results as text. `extras` adds members that Flink does not have, which
    clients older than Flink 1.19 reject, and the endpoints of plans. `null_uri` adds `nextResultUri: null` to
    the last page.
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
