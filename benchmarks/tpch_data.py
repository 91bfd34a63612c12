"""The tables of TPC-H as queries of Spark, at any scale, and the changes of a round.

Keys, dates, flags and prices follow the rules of the benchmark's own generator, so that its queries select
about the share of rows that they should. Each value is a hash of its row's key. The same key therefore always
has the same row, and new keys continue where the last ones ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

MILLION = 1_000_000
FILES = {"lineitem": 24, "orders": 24, "partsupp": 8, "customer": 4, "part": 4}
MERGE_ON_READ = ", ".join(f"'write.{each}.mode' = 'merge-on-read'" for each in ("update", "delete", "merge"))
FIRST_DAY, CURRENT_DAY = "DATE'1992-01-01'", "DATE'1995-06-17'"
ORDER_DAYS = 2406
LINES_PER_ORDER = 4
"""The mean of 1 to 7."""
REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS = {
    "ALGERIA": 0, "ARGENTINA": 1, "BRAZIL": 1, "CANADA": 1, "EGYPT": 4, "ETHIOPIA": 0, "FRANCE": 3,
    "GERMANY": 3, "INDIA": 2, "INDONESIA": 2, "IRAN": 4, "IRAQ": 4, "JAPAN": 2, "JORDAN": 4, "KENYA": 0,
    "MOROCCO": 0, "MOZAMBIQUE": 0, "PERU": 1, "CHINA": 2, "ROMANIA": 3, "SAUDI ARABIA": 4, "VIETNAM": 2,
    "RUSSIA": 3, "UNITED KINGDOM": 3, "UNITED STATES": 1,
}  # fmt: skip
"""The nations, and the number of the region of each."""
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
INSTRUCTIONS = ("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")
MODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")
TYPES = (
    ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"),
    ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"),
    ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER"),
)
CONTAINERS = (
    ("SM", "LG", "MED", "JUMBO", "WRAP"),
    ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"),
)
COLOURS = (
    "amber", "azure", "beige", "black", "blue", "bronze", "brown", "coral", "cream", "crimson", "cyan",
    "forest", "gold", "green", "grey", "honey", "indigo", "ivory", "khaki", "lavender", "lemon", "lime",
    "linen", "magenta", "maroon", "mint", "navy", "olive", "orange", "orchid", "peach", "pink", "plum",
    "purple", "red", "rose", "rust", "salmon", "sand", "silver", "sky", "snow", "tan", "teal", "tomato",
    "violet", "wheat", "white", "yellow",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TpchData:
    """The tables for about so many rows of `lineitem`, in a namespace of a catalog."""

    namespace: str
    lineitems: int

    @property
    def orders(self) -> int:
        return self.lineitems // LINES_PER_ORDER

    @property
    def customers(self) -> int:
        return max(self.orders // 10, 10)

    @property
    def parts(self) -> int:
        return max(self.lineitems // 30, 10)

    @property
    def suppliers(self) -> int:
        return max(self.lineitems // 600, 10)

    def creations(self) -> Iterator[str]:
        """Yield the statements that create the tables."""
        for table, query in self._queries().items():
            yield (
                f"CREATE TABLE {self.namespace}.{table} USING iceberg TBLPROPERTIES ('format-version' = '2', "
                f"'write.distribution-mode' = 'none', {MERGE_ON_READ}) AS {query}"
            )

    @property
    def changing(self) -> Mapping[str, str]:
        """The tables that change, each with a column whose values are positive."""
        return {
            "lineitem": "l_orderkey",
            "orders": "o_orderkey",
            "customer": "c_custkey",
            "partsupp": "ps_partkey",
        }

    def changes(self, share: float, number: int, first: int, new: int) -> Iterator[str]:
        """Yield the statements of round *number*, which change *share* of the rows in several ways each.

        The *new* orders have keys from *first* on.

        Orders come and go with their lineitems, lineitems and customers are updated, and parts get other
        suppliers. All changed rows but the new ones are spread over all files.
        """
        for table, query in (("orders", self._order_rows), ("lineitem", self._lineitem_rows)):
            rows = query(f"range({first}, {first + new}, 1, 1)")
            yield f"INSERT INTO {self.namespace}.{table} {rows}"
        for table, key in (("lineitem", "l_orderkey"), ("orders", "o_orderkey")):
            yield f"DELETE FROM {self.namespace}.{table} WHERE {_picked(share, 4 * number, key)}"
        yield (
            f"UPDATE {self.namespace}.lineitem SET l_quantity = 1 + pmod(l_quantity + {number}, 50), "
            f"l_discount = 0.06, l_extendedprice = l_extendedprice + 10 "
            f"WHERE {_picked(share, 4 * number + 1, 'l_orderkey', 'l_linenumber')}"
        )
        yield (
            f"UPDATE {self.namespace}.customer SET c_acctbal = c_acctbal + 1000, c_mktsegment = 'BUILDING' "
            f"WHERE {_picked(share, 4 * number + 2, 'c_custkey')}"
        )
        yield (
            f"UPDATE {self.namespace}.partsupp SET ps_suppkey = 1 + pmod(ps_suppkey, {self.suppliers}), "
            f"ps_availqty = ps_availqty + 100, ps_supplycost = ps_supplycost + 1 "
            f"WHERE {_picked(share, 4 * number + 3, 'ps_partkey', 'ps_suppkey')}"
        )

    def _queries(self) -> Mapping[str, str]:
        return {
            "region": _region_rows(),
            "nation": _nation_rows(),
            "supplier": self._supplier_rows(),
            "customer": self._customer_rows(),
            "part": self._part_rows(),
            "partsupp": self._partsupp_rows(),
            "orders": self._order_rows(f"range(0, {self.orders}, 1, {FILES['orders']})"),
            "lineitem": self._lineitem_rows(f"range(0, {self.orders}, 1, {FILES['lineitem']})"),
        }

    def _supplier_rows(self) -> str:
        nation = f"CAST({_hashed(31, 25)} AS INT)"
        return _select(
            f"range(1, {self.suppliers + 1}, 1, 1)",
            s_suppkey="id",
            s_name=_padded("Supplier"),
            s_address=_text("address", 32),
            s_nationkey=nation,
            s_phone=_phone(nation, 33),
            s_acctbal=_money(f"{_hashed(35, 1_099_999)} / 100 - 999"),
            s_comment=f"IF({_hashed(36, 2000)} = 0, 'Customer has Complaints', 'requests sleep')",
        )

    def _customer_rows(self) -> str:
        nation = f"CAST({_hashed(41, 25)} AS INT)"
        return _select(
            f"range(1, {self.customers + 1}, 1, {FILES['customer']})",
            c_custkey="id",
            c_name=_padded("Customer"),
            c_address=_text("address", 42),
            c_nationkey=nation,
            c_phone=_phone(nation, 43),
            c_acctbal=_money(f"{_hashed(45, 1_099_999)} / 100 - 999"),
            c_mktsegment=_among(SEGMENTS, 46),
            c_comment=_text("regular foxes", 47),
        )

    def _part_rows(self) -> str:
        maker = f"1 + {_hashed(51, 5)}"
        return _select(
            f"range(1, {self.parts + 1}, 1, {FILES['part']})",
            p_partkey="id",
            p_name=_words([COLOURS] * 5, 53),
            p_mfgr=f"concat('Manufacturer#', {maker})",
            p_brand=f"concat('Brand#', {maker}, 1 + {_hashed(52, 5)})",
            p_type=_words(TYPES, 58),
            p_size=f"CAST(1 + {_hashed(63, 50)} AS INT)",
            p_container=_words(CONTAINERS, 61),
            p_retailprice=_money(_retail_price("id")),
            p_comment=_text("ideas", 64),
        )

    def _partsupp_rows(self) -> str:
        row = "id", "n"
        return _select(
            "(SELECT id, explode(sequence(0, 3)) AS n "
            f"FROM range(1, {self.parts + 1}, 1, {FILES['partsupp']}))",
            ps_partkey="id",
            ps_suppkey=self._supplier("id", "n"),
            ps_availqty=f"1 + {_hashed(71, 9999, *row)}",
            ps_supplycost=_money(f"1 + {_hashed(72, 99_900, *row)} / 100"),
            ps_comment=_text("packages", 73, *row),
        )

    def _order_rows(self, ids: str) -> str:
        customer = f"(1 + {_hashed(11, self.customers)})"
        return _select(
            f"(SELECT id, {_order_day()} AS day FROM {ids})",
            o_orderkey="id",
            # A third of the customers have no order.
            o_custkey=f"IF({customer} % 3 = 0, pmod({customer}, {self.customers}) + 1, {customer})",
            o_orderstatus=f"CASE WHEN day > {CURRENT_DAY} THEN 'O' WHEN day < {CURRENT_DAY} - 121 THEN 'F' "
            "ELSE 'P' END",
            o_totalprice=_money(f"1000 + {_hashed(12, 45_000_000)} / 100"),
            o_orderdate="day",
            o_orderpriority=_among(PRIORITIES, 13),
            o_clerk=_padded("Clerk", f"1 + {_hashed(14, 1000)}"),
            o_shippriority="0",
            o_comment=f"IF({_hashed(15, 80)} = 0, 'special pending requests', 'final deposits')",
        )

    def _lineitem_rows(self, ids: str) -> str:
        row = "id", "n"
        lines = f"sequence(1, CAST(1 + {_hashed(17, 2 * LINES_PER_ORDER - 1)} AS INT))"
        return _select(
            f"(SELECT *, {_days_after('shipped', 1, 30, 19, *row)} AS received "
            f"FROM (SELECT *, {_days_after('day', 1, 121, 23, *row)} AS shipped, "
            f"1 + {_hashed(21, 50, *row)} AS quantity, 1 + {_hashed(22, self.parts, *row)} AS part "
            f"FROM (SELECT id, {_order_day()} AS day, explode({lines}) AS n FROM {ids})))",
            l_orderkey="id",
            l_partkey="part",
            l_suppkey=self._supplier("part", _hashed(24, 4, *row)),
            l_linenumber="CAST(n AS BIGINT)",
            l_quantity=_money("quantity"),
            l_extendedprice=_money(f"quantity * {_retail_price('part')}"),
            l_discount=_money(f"{_hashed(25, 11, *row)} / 100"),
            l_tax=_money(f"{_hashed(26, 9, *row)} / 100"),
            l_returnflag=f"IF(received <= {CURRENT_DAY}, {_among(('R', 'A'), 27, *row)}, 'N')",
            l_linestatus=f"IF(shipped > {CURRENT_DAY}, 'O', 'F')",
            l_shipdate="shipped",
            l_commitdate=_days_after("day", 30, 61, 28, *row),
            l_receiptdate="received",
            l_shipinstruct=_among(INSTRUCTIONS, 29, *row),
            l_shipmode=_among(MODES, 30, *row),
            l_comment=_text("even deposits", 20, *row),
        )

    def _supplier(self, part: str, number: str) -> str:
        """Return the key of one of the four suppliers of a part."""
        step = f"({self.suppliers} div 4 + ({part} - 1) div {self.suppliers})"
        return f"1 + pmod({part} + {number} * {step}, {self.suppliers})"


def _picked(share: float, salt: int, *key: str) -> str:
    """Return a condition that *share* of the rows meet."""
    return f"{_hashed(1000 + salt, MILLION, *key)} < {round(share * MILLION)}"


def _select(source: str, **columns: str) -> str:
    return f"SELECT {', '.join(f'{text} AS {name}' for name, text in columns.items())} FROM {source}"


def _hashed(salt: int, modulus: int, *key: str) -> str:
    """Return a number from 0 to *modulus* - 1 for a row with a *key*, by default `id`."""
    return f"pmod(xxhash64({', '.join(key or ('id',))}, {salt}), {modulus})"


def _among(values: Sequence[str], salt: int, *key: str) -> str:
    listed = ", ".join(f"'{value}'" for value in values)
    return f"element_at(array({listed}), 1 + CAST({_hashed(salt, len(values), *key)} AS INT))"


def _words(lists: Sequence[Sequence[str]], salt: int) -> str:
    """Return one word of each list."""
    chosen = (_among(values, salt + number) for number, values in enumerate(lists))
    return f"concat_ws(' ', {', '.join(chosen)})"


def _text(words: str, salt: int, *key: str) -> str:
    return f"concat('{words} ', {_hashed(salt, MILLION, *key)})"


def _money(text: str) -> str:
    return f"CAST({text} AS DECIMAL(15, 2))"


def _padded(name: str, key: str = "id") -> str:
    return f"concat('{name}#', lpad({key}, 9, '0'))"


def _phone(nation: str, salt: int) -> str:
    digits = f"100 + {_hashed(salt, 900)}, 100 + {_hashed(salt + 1, 900)}, 1000 + id % 9000"
    return f"concat_ws('-', 10 + {nation}, {digits})"


def _order_day() -> str:
    return _days_after(FIRST_DAY, 0, ORDER_DAYS, 18)


def _days_after(day: str, least: int, days: int, salt: int, *key: str) -> str:
    return f"date_add({day}, CAST({least} + {_hashed(salt, days, *key)} AS INT))"


def _retail_price(part: str) -> str:
    return f"(90000 + pmod({part} div 10, 20001) + 100 * pmod({part}, 1000)) / 100"


def _region_rows() -> str:
    listed = ", ".join(f"'{name}'" for name in REGIONS)
    return (
        f"SELECT CAST(id AS INT) AS r_regionkey, element_at(array({listed}), 1 + CAST(id AS INT)) AS r_name, "
        f"'even accounts' AS r_comment FROM range(0, {len(REGIONS)}, 1, 1)"
    )


def _nation_rows() -> str:
    rows = ", ".join(f"({key}, '{name}', {region})" for key, (name, region) in enumerate(NATIONS.items()))
    return (
        "SELECT n_nationkey, n_name, n_regionkey, 'final ideas' AS n_comment "
        f"FROM VALUES {rows} AS nations(n_nationkey, n_name, n_regionkey)"
    )
