"""The SQLAlchemy dialect `freshtable://host:port/catalog/schema?token=…`."""

from mt_core.client.dialect.dialect import FreshtableDialect
from mt_core.client.dialect.types import (
    INTERVAL_DAY_TIME,
    INTERVAL_YEAR_MONTH,
    MAP,
    STRUCT,
    TINYINT,
    VARIANT,
)

__all__ = [
    "INTERVAL_DAY_TIME",
    "INTERVAL_YEAR_MONTH",
    "MAP",
    "STRUCT",
    "TINYINT",
    "VARIANT",
    "FreshtableDialect",
]
