"""Stories of a source: commits of every kind by several writers, and changes of its columns, partitions and
format, in random order.

Each step draws from a seed of its own, so that a story which fails can be shortened: the steps that stay
do much the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from mt_core.spark.driver.jvm_objects import static_member
from mt_core.spark.iceberg.written_files import FileWriter, collected
from tests.integration.refresh_world import RefreshWorld

NAME = "t"
MERGE_ON_READ = ", ".join(f"'write.{each}.mode' = 'merge-on-read'" for each in ("update", "delete", "merge"))
# Several row groups and pages in files of few rows.
SMALL_PAGES = "'write.parquet.page-row-limit' = '5', 'write.parquet.row-group-size-bytes' = '1000'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a source is stored; `fields` are the partition fields that it may get and lose."""

    properties: str
    partitions: str = ""
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """A kind of step, and the seed of its choices."""

    kind: str
    seed: int


Type = tuple[str, Callable[[Random], str]]
"""A type and a random value of it, in SQL."""


def _among(*values: str) -> Callable[[Random], str]:
    return lambda chance: chance.choice(("NULL", *values))


def _number(chance: Random) -> str:
    return chance.choice(("NULL", *map(str, range(6))))


def _double(chance: Random) -> str:
    text = chance.choice(("0.0", "-0.0", "NaN", "1.5", "-Infinity"))
    return chance.choice(("NULL", f"CAST('{text}' AS DOUBLE)"))


def _struct(chance: Random) -> str:
    values = ", ".join(_double(chance) for _ in range(chance.randrange(3)))
    made = f"named_struct('x', CAST({_number(chance)} AS INT), 'y', CAST(array({values}) AS ARRAY<DOUBLE>))"
    return chance.choice(("NULL", made, made))


def _list(chance: Random) -> str:
    values = ", ".join(chance.choice(("NULL", "'a'", "'b'")) for _ in range(chance.randrange(3)))
    return chance.choice(("NULL", f"CAST(array({values}) AS ARRAY<STRING>)"))


def _map(chance: Random) -> str:
    keys = chance.sample(("'a'", "'b'", "'c'"), chance.randrange(3))
    entries = ", ".join(f"{key}, CAST({_number(chance)} AS INT)" for key in keys)
    return chance.choice(("NULL", f"CAST(map({entries}) AS MAP<STRING, INT>)"))


DAYS = tuple(f"DATE'{day}'" for day in ("1969-12-31", "2026-01-01", "2026-02-28"))
TIMES = tuple(f"TIMESTAMP'{time}'" for time in ("1969-12-31 23:59:59.999999", "2026-03-29 02:30:00"))
TYPES: dict[str, Type] = {
    "INT": ("INT", _among("-1", *map(str, range(6)))),
    # The last one has the bytes of INT -1.
    "BIGINT": ("BIGINT", _among("5000000000", "1", "-1", "4294967295")),
    "STRING": ("STRING", _among("''", "'a'", "'b'", "'ab'", "'ß'")),
    "DECIMAL": ("DECIMAL(9, 2)", _among("1.10", "1.1", "-3", "0")),
    "LARGE": ("DECIMAL(30, 4)", _among("12345678901234567890.5", "-1", "0")),
    "DOUBLE": ("DOUBLE", _double),
    "FLOAT": ("FLOAT", lambda chance: f"CAST({_double(chance)} AS FLOAT)"),
    "DATE": ("DATE", _among(*DAYS)),
    "TIMESTAMP": ("TIMESTAMP", _among(*TIMES)),
    "NTZ": ("TIMESTAMP_NTZ", _among("TIMESTAMP_NTZ'2026-01-01 00:00:00.000001'")),
    "BINARY": ("BINARY", _among("X''", "X'00'", "X'FF00'")),
    "BOOLEAN": ("BOOLEAN", _among("true", "false")),
    "STRUCT": ("STRUCT<x: INT, y: ARRAY<DOUBLE>>", _struct),
    "LIST": ("ARRAY<STRING>", _list),
    "MAP": ("MAP<STRING, INT>", _map),
}
WIDER = {"INT": "BIGINT", "FLOAT": "DOUBLE"}
"""The types to which columns of a type may be changed."""
FIRST_COLUMNS = {
    "id": "INT",
    "k": "INT",
    "s": "STRING",
    "day": "DATE",
    "n": "DECIMAL",
    "d": "DOUBLE",
    "st": "STRUCT",
    "m": "MAP",
}
FIXED = ("id", "k", "day")
"""Columns that keep their names and types, since steps select rows by them or partition by them."""
KINDS = {
    "insert": 3,
    "insert again": 1,
    "update": 4,
    "update nothing": 1,
    "delete": 3,
    "merge": 2,
    "overwrite": 1,
    "overwrite parts": 1,
    "copy": 1,
    "truncate": 1,
    "delete by equality": 2,
    "compact": 2,
    "sort": 1,
    "compact deletes": 1,
    "rewrite manifests": 1,
    "roll back": 1,
    "go anywhere": 1,
    "publish a stale branch": 1,
    "pick a stale append": 1,
    "reshape": 3,
    "partition": 1,
    "other format": 1,
    "upgrade": 1,
}
"""The kinds of steps, and how often they are drawn."""


def story(chance: Random, steps: int, without: Iterable[str] = ()) -> list[Step]:
    """Return a random story that begins with rows."""
    kinds = {kind: often for kind, often in KINDS.items() if kind not in without}
    drawn = chance.choices(list(kinds), list(kinds.values()), k=steps)
    return [Step(kind, chance.randrange(1000)) for kind in ("insert", "insert", *drawn)]


@dataclass(slots=True)
class StoredSource:
    """The table `t` of a world, with its versions so far and its columns with their types (`TYPES`)."""

    world: RefreshWorld
    layout: Layout
    columns: dict[str, str] = field(default_factory=lambda: dict(FIRST_COLUMNS))
    versions: list[str] = field(default_factory=list)
    _added: int = 0
    _rows: dict[tuple[str, int], list[Any]] = field(default_factory=dict)

    def create(self) -> None:
        columns = ", ".join(f"{name} {TYPES[type_][0]}" for name, type_ in self.columns.items())
        keys = f"PARTITIONED BY ({self.layout.partitions})" if self.layout.partitions else ""
        self.world.spark(
            f"CREATE TABLE {NAME} ({columns}) USING iceberg {keys} TBLPROPERTIES "
            f"({self.layout.properties}, {SMALL_PAGES}, 'write.distribution-mode' = 'none')"
        )

    @property
    def full_name(self) -> str:
        return f"lake.{self.world.namespace}.{NAME}"

    @property
    def table(self) -> Any:
        """Iceberg's table as it is now."""
        load = static_member(self.world.session, "org.apache.iceberg.spark.Spark3Util.loadIcebergTable")
        return load(self.world.session._jsparkSession, self.full_name)

    def rows(self, version: str) -> list[Any]:
        """Return the rows of a version, read by Spark with the columns of now."""
        table = self.table
        schema = int(table.schema().schemaId())
        if (version, schema) not in self._rows:
            at = version
            if int(table.snapshot(int(version)).schemaId()) != schema:
                # Of a snapshot, Spark reads the columns of its time; of a branch, those of now.
                self.world.spark(f"ALTER TABLE {NAME} CREATE OR REPLACE BRANCH then AS OF VERSION {version}")
                at = "'then'"
            rows = self.world.session.sql(f"SELECT * FROM {NAME} VERSION AS OF {at}").collect()
            self._rows[version, schema] = rows
        return self._rows[version, schema]

    def tell(self, step: Step) -> None:
        """Make a step. A step for which the source is not in a state does nothing."""
        chance = Random(step.seed)
        match step.kind:
            case "reshape":
                self._reshape(chance)
            case "partition":
                self._partition(chance)
            case "other format":
                format_ = chance.choice(("parquet", "orc", "avro"))
                self.world.spark(
                    f"ALTER TABLE {NAME} SET TBLPROPERTIES ('write.format.default' = '{format_}')"
                )
            case "upgrade":
                self.world.spark(f"ALTER TABLE {NAME} SET TBLPROPERTIES ('format-version' = '3')")
            case "delete by equality":
                self._delete_by_equality(chance)
            case "roll back" | "go anywhere" | "publish a stale branch" | "pick a stale append":
                self._publish(step.kind, chance)
            case "compact" | "sort" | "compact deletes" | "rewrite manifests":
                self._maintain(step.kind, chance)
            case _:
                mode = "dynamic" if step.kind == "overwrite parts" else "static"
                self.world.spark(
                    f"SET spark.sql.sources.partitionOverwriteMode = {mode}",
                    self._change(step.kind, chance, NAME),
                )
        snapshot = self.table.currentSnapshot()
        if snapshot is not None:
            self.versions.append(str(snapshot.snapshotId()))

    # ------------------------------------------------------------------------------------------------- rows

    def _change(self, kind: str, chance: Random, table: str) -> str:
        """Return a statement that changes rows of *table*, which may be a branch."""
        columns, picked = ", ".join(self.columns), self._picked(chance)
        match kind:
            case "insert":
                return f"INSERT INTO {table} ({columns}) VALUES {self._values(chance, 8)}"
            case "insert again":
                return f"INSERT INTO {table} SELECT * FROM {table} WHERE {picked}"
            case "update":
                name = chance.choice(list(self.columns))
                return f"UPDATE {table} SET {name} = {self._value(name, chance)} WHERE {picked}"
            case "update nothing":
                return f"UPDATE {table} SET k = k WHERE {picked}"
            case "delete":
                return f"DELETE FROM {table} WHERE {picked}"
            case "merge":
                name = chance.choice([name for name in self.columns if name != "id"])
                ids = ", ".join(f"({number})" for number in chance.sample(range(30), 6))
                values = ", ".join(
                    "n.key" if name == "id" else self._value(name, chance) for name in self.columns
                )
                return (
                    f"MERGE INTO {table} t USING (VALUES {ids} AS v(key)) n ON t.id = n.key "
                    f"WHEN MATCHED AND n.key % 3 = {chance.randrange(3)} THEN DELETE "
                    f"WHEN MATCHED THEN UPDATE SET {name} = {self._value(name, chance)} "
                    f"WHEN NOT MATCHED THEN INSERT ({columns}) VALUES ({values})"
                )
            case "overwrite":
                return f"INSERT OVERWRITE {table} ({columns}) VALUES {self._values(chance, 4)}"
            case "copy" | "overwrite parts":
                return (
                    f"INSERT OVERWRITE {table} SELECT * FROM {table} WHERE NOT {picked} ORDER BY hash(id, k)"
                )
            case "truncate":
                return f"TRUNCATE TABLE {table}"
        raise AssertionError(kind)

    def _picked(self, chance: Random) -> str:
        """Return a condition that some rows meet."""
        number = chance.randrange(3)
        return chance.choice(
            (
                f"coalesce(id, 0) % 3 = {number}",
                f"coalesce(k, 0) % 3 = {number}",
                f"id >= {5 * number} AND id < {5 * number + 7}",
                f"pmod(hash(id, k), 5) = {number}",
                f"coalesce(day = {DAYS[number]}, true)",
            )
        )

    def _values(self, chance: Random, most: int) -> str:
        rows = [
            f"({', '.join(self._value(name, chance) for name in self.columns)})"
            for _ in range(chance.randint(1, most))
        ]
        # Some rows come twice.
        return ", ".join((*rows, *chance.choices(rows, k=chance.randrange(3))))

    def _value(self, name: str, chance: Random) -> str:
        sql, value = TYPES[self.columns[name]]
        text = str(chance.randrange(30)) if name == "id" else value(chance)
        return f"CAST({text} AS {sql})"

    def _delete_by_equality(self, chance: Random) -> None:
        """Commit as Flink does in upsert mode: a delete of keys, and perhaps rows with them."""
        table = self.table
        if not table.spec().isUnpartitioned():
            return
        writer, delta = FileWriter.of(self.world.session, table), table.newRowDelta()
        if chance.random() < 0.5:
            rows = self.world.session.sql(f"SELECT * FROM VALUES {self._values(chance, 4)}")
            delta.addRows(writer.data_file(collected(rows)))
        keys = chance.choice((["id"], ["k"], ["id", "k"]))
        values = self.world.session.sql(
            f"SELECT CAST(id AS INT) AS id, CAST(k AS INT) AS k FROM VALUES "
            f"{', '.join(f'({chance.randrange(30)}, {_number(chance)})' for _ in range(6))} AS v(id, k)"
        )
        delta.addDeletes(writer.equality_deletes(collected(values.select(*keys)), keys))
        delta.commit()

    # ---------------------------------------------------------------------------------------------- versions

    def _publish(self, kind: str, chance: Random) -> None:
        """Make another version the current one: an older one, or one that was written beside it."""
        ancestors = self._ancestors()
        if not ancestors:
            return
        at = chance.choice(ancestors)
        table = f"table => '{self.world.namespace}.{NAME}'"
        match kind:
            case "roll back":
                self.world.spark(f"CALL lake.system.rollback_to_snapshot({table}, snapshot_id => {at})")
                return
            case "go anywhere":
                at = chance.choice(self.versions)
                self.world.spark(f"CALL lake.system.set_current_snapshot({table}, snapshot_id => {at})")
                return
        kinds = ("insert",) if kind == "pick a stale append" else ("insert", "update", "delete")
        self.world.spark(f"ALTER TABLE {NAME} CREATE OR REPLACE BRANCH stale AS OF VERSION {at}")
        self.world.spark(self._change(chance.choice(kinds), chance, f"{self.full_name}.branch_stale"))
        if kind == "pick a stale append":
            written = self.table.snapshot("stale").snapshotId()
            self.world.spark(f"CALL lake.system.cherrypick_snapshot({table}, snapshot_id => {written})")
        else:
            self.world.spark(f"CALL lake.system.set_current_snapshot({table}, ref => 'stale')")

    def _ancestors(self) -> list[str]:
        table = self.table
        found, snapshot = list[str](), table.currentSnapshot()
        while snapshot is not None:
            found.append(str(snapshot.snapshotId()))
            parent = snapshot.parentId()
            snapshot = None if parent is None else table.snapshot(int(parent))
        return found

    def _maintain(self, kind: str, chance: Random) -> None:
        table, every = f"table => '{self.world.namespace}.{NAME}'", "options => map('rewrite-all', 'true')"
        calls = {
            "compact": f"rewrite_data_files({table}, {every})",
            "sort": (
                f"rewrite_data_files({table}, strategy => 'sort', {every}, "
                f"sort_order => '{chance.choice(('id DESC', 'k, id', 'day'))}')"
            ),
            "compact deletes": f"rewrite_position_delete_files({table}, {every})",
            "rewrite manifests": f"rewrite_manifests({table})",
        }
        self.world.spark(f"CALL lake.system.{calls[kind]}")

    # ---------------------------------------------------------------------------------------- columns, layout

    def _reshape(self, chance: Random) -> None:
        """Change the columns: this is no commit, and rows written before have the columns of their time."""
        free = [name for name in self.columns if name not in FIXED]
        number, self._added = self._added, self._added + 1
        kind = chance.choice(("add", "add", "rename", "drop", "move", "widen"))
        place = chance.choice(("FIRST", "AFTER id", f"AFTER {chance.choice(list(self.columns))}"))
        if kind == "add" or not free:
            type_ = chance.choice([name for name in TYPES if name not in ("STRUCT", "MAP")])
            self.columns[f"c{number}"] = type_
            self._alter(f"ADD COLUMN c{number} {TYPES[type_][0]} {place}")
            return
        name = chance.choice(free)
        match kind:
            case "rename":
                # Perhaps to the name of a column that was dropped.
                other = chance.choice([each for each in FIRST_COLUMNS if each not in self.columns] or ["r"])
                other = other if other not in self.columns else f"r{number}"
                self.columns[other] = self.columns[name]
                self._alter(f"RENAME COLUMN {name} TO {other}")
            case "drop" if len(self.columns) > 4:
                self._alter(f"DROP COLUMN {name}")
            case "widen" if self.columns[name] in WIDER:
                self.columns[name] = WIDER[self.columns[name]]
                self._alter(f"ALTER COLUMN {name} TYPE {TYPES[self.columns[name]][0]}")
            case _ if place != f"AFTER {name}":
                self._alter(f"ALTER COLUMN {name} {place}")

    def _alter(self, change: str) -> None:
        self.world.spark(f"ALTER TABLE {NAME} {change}")
        names = self.world.session.table(NAME).columns
        self.columns = {name: self.columns[name] for name in names if name in self.columns}

    def _partition(self, chance: Random) -> None:
        """Give the table another partition field, or take one from it."""
        fields = {str(each.name()) for each in self.table.spec().fields()}
        if fields and chance.random() < 0.4:
            self.world.spark(f"ALTER TABLE {NAME} DROP PARTITION FIELD {chance.choice(sorted(fields))}")
            return
        name = f"p{chance.choice(('k', 'id', 'day'))}"
        transform = {"pk": "k", "pid": "bucket(3, id)", "pday": "months(day)"}[name]
        if name not in fields:
            self.world.spark(f"ALTER TABLE {NAME} ADD PARTITION FIELD {transform} AS {name}")


def counted(rows: Iterable[Sequence[Any]]) -> Counter[str]:
    """Return rows with how often they occur. Values are equal if no query can distinguish them."""
    return Counter(repr(tuple(row)) for row in rows)
