"""The ids of our DAGs: one for each table, and an anchor for each shard."""

from __future__ import annotations

import re
from hashlib import sha256

LONGEST = 250
_HASH_LENGTH = 20
_OTHER = re.compile(r"[^A-Za-z0-9_.]")


def dag_id_of(prefix: str, identifier: str) -> str:
    """Return the DAG's id of a table; different identifiers have different ids.

    A character that may not stand in an id is `-` and two hexadecimal digits for each of its bytes. What gets too long ends in
    `--` and a hash, which no other id has.
    """
    escaped = prefix + _OTHER.sub(_escaped, identifier)
    if len(escaped) <= LONGEST:
        return escaped
    digest = sha256(identifier.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{escaped[: LONGEST - _HASH_LENGTH - 2]}--{digest}"


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"-{byte:02x}" for byte in found[0].encode())


def anchor_of(prefix: str, shard: int) -> str:
    """Return the id of the DAG that is there as soon as our bundle is, whatever workflows its shard has."""
    return f"{prefix}shard_{shard:02d}"
