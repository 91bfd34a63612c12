"""The sources of TPC-H and TPC-DS at scale 1: their sizes, and a change of a tenth of a percent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mt_core.incremental.stages.look_ups import SourceFacts

_BYTES_PER_VALUE = 4
# The numbers of rows and columns.
_SIZES = {
    "tpch": {
        "lineitem": (6_000_000, 16),
        "orders": (1_500_000, 9),
        "customer": (150_000, 8),
        "part": (200_000, 9),
        "supplier": (10_000, 7),
        "partsupp": (800_000, 5),
        "nation": (25, 4),
        "region": (5, 3),
    },
    "tpcds": {
        "store_sales": (2_880_404, 23),
        "store_returns": (287_514, 20),
        "catalog_sales": (1_441_548, 34),
        "catalog_returns": (144_067, 27),
        "web_sales": (719_384, 34),
        "web_returns": (71_763, 24),
        "inventory": (11_745_000, 4),
        "customer": (100_000, 18),
        "customer_address": (50_000, 13),
        "customer_demographics": (1_920_800, 9),
        "household_demographics": (7_200, 5),
        "date_dim": (73_049, 28),
        "time_dim": (86_400, 10),
        "item": (18_000, 22),
        "store": (12, 29),
        "promotion": (300, 19),
        "warehouse": (5, 14),
        "ship_mode": (20, 6),
        "web_site": (30, 26),
        "web_page": (60, 14),
        "call_center": (6, 31),
        "catalog_page": (11_718, 9),
        "reason": (35, 3),
        "income_band": (20, 3),
    },
}
# How many values columns have, by the ends of their names. The first one applies.
_VALUES = {
    "tpch": {
        "orderkey": 6_000_000,
        "custkey": 150_000,
        "partkey": 200_000,
        "suppkey": 10_000,
        "nationkey": 25,
        "regionkey": 5,
    },
    "tpcds": {
        "date_sk": 73_049,
        "time_sk": 86_400,
        "item_sk": 18_000,
        "store_sk": 12,
        "customer_sk": 100_000,
        "addr_sk": 50_000,
        "address_sk": 50_000,
        "cdemo_sk": 1_920_800,
        "hdemo_sk": 7_200,
        "demo_sk": 1_920_800,
        "promo_sk": 300,
        "warehouse_sk": 5,
        "ship_mode_sk": 20,
        "site_sk": 30,
        "catalog_page_sk": 11_718,
        "page_sk": 60,
        "call_center_sk": 6,
        "reason_sk": 35,
        "income_band_sk": 20,
        "ticket_number": 240_000,
        "order_number": 160_000,
    },
}
CHANGED_ROWS: Mapping[str, Mapping[str, int]] = {
    "tpch": {"lineitem": 18_000, "orders": 3_000, "customer": 300, "partsupp": 1_600},
    "tpcds": {
        "store_sales": 8_600,
        "store_returns": 860,
        "catalog_sales": 4_300,
        "catalog_returns": 430,
        "web_sales": 2_100,
        "web_returns": 210,
        "customer": 200,
        "inventory": 35_000,
    },
}
"""The changed rows of the sources that change. The others do not."""


def facts_of(suite: str, source: str, columns: Iterable[str]) -> SourceFacts:
    """Return the facts of a source of `tpch` or `tpcds`, with the numbers of values of *columns*."""
    rows, width = _SIZES[suite][source]
    values = {
        column: number
        for column in columns
        if (number := next((n for end, n in _VALUES[suite].items() if column.endswith(end)), None))
    }
    size = rows * width * _BYTES_PER_VALUE
    return SourceFacts(rows=rows, size=size, files=1 + size // 2**27, columns=width, values=values)
