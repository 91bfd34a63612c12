"""The DAG ids of tables and of the anchors of shards."""

from __future__ import annotations

import re
from hashlib import sha256

from mt_core.workflow.definitions import WorkflowDefinition
from mt_core.workflow.handlers import RefreshHandler

LONGEST = 250
# Keys in the location of a handler.
DAG_ID = "dag_id"
TABLE = "identifier"
_HASH_LENGTH = 20
_OTHER = re.compile(r"[^A-Za-z0-9_.]")


def dag_id_of(prefix: str, identifier: str) -> str:
    """Return the DAG id of a table; different identifiers have different ids.

    A character that is invalid in ids becomes `-` and two hexadecimal digits for each of its bytes. An id
    that would be too long ends in `--` and a hash; no other id ends like this.
    """
    escaped = prefix + _OTHER.sub(
        lambda match: "".join(f"-{byte:02x}" for byte in match[0].encode()), identifier
    )
    if len(escaped) <= LONGEST:
        return escaped
    digest = sha256(identifier.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{escaped[: LONGEST - _HASH_LENGTH - 2]}--{digest}"


def dag_id_in(handler: RefreshHandler, stored: WorkflowDefinition | None, prefix: str) -> str:
    """Return the DAG id of a workflow.

    This is the id in the handler, or else the id in the definition, or else the id of the handler's table.
    The result is "" if none of these exists.
    """
    dag_id = handler.location.get(DAG_ID) or (stored.name if stored is not None else "")
    return dag_id_of(prefix, handler.location[TABLE]) if not dag_id and TABLE in handler.location else dag_id


def anchor_of(prefix: str, shard: int) -> str:
    """Return the id of a shard's anchor DAG, which exists whenever Airflow reads our bundle."""
    return f"{prefix}shard_{shard:02d}"
