"""Histories of tables by day, whose sources get late rows and other columns:
what a refresh leaves behind is known, or in doubt.
"""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest

from mt_core.model.partition import PartitionSpec
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.tables.refresh.late_data import late_warnings
from tests.depth import DEPTH, dice, rounds
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900 * DEPTH)]

BY_DAY = "PARTITIONED BY ({}) WITH ('partition.fields.ds.date-formatter' = 'yyyy-MM-dd')"
LAYOUTS = ("ds", "ds, bucket(2, v)")
QUERIES = {
    "counted": "SELECT ds, count(*) AS n, sum(v) AS v FROM o GROUP BY ds",
    "joined": "SELECT o.ds, c.seg, sum(o.v) AS v FROM o JOIN c ON o.cid = c.cid GROUP BY o.ds, c.seg",
    "fixed": (
        "SELECT o.ds, d.seg, sum(o.v) AS v FROM o JOIN d VERSION AS OF {first} AS d ON o.cid = d.cid "
        "GROUP BY o.ds, d.seg"
    ),
    "tagged": (
        "SELECT o.ds, d.seg, sum(o.v) AS v FROM o JOIN d VERSION AS OF 'old' AS d ON o.cid = d.cid "
        "GROUP BY o.ds, d.seg"
    ),
    "ranked": (
        "SELECT ds, CAST(v AS BIGINT) AS v, row_number() OVER (PARTITION BY ds "
        "ORDER BY v, id) AS place FROM o"
    ),
}
SOURCES = {"o": "id INT, ds STRING, cid INT, v INT, spare INT", "c": "cid INT, seg STRING, spare INT"}
# CREATE warns that its late rows are never known: what a tag was before it was moved cannot be told.
NEVER_KNOWN = "tagged"
# Of columns that no query reads, but for the last ones: values stay what they are, in a wider type,
# at another place.
DDL = {
    "add": "ADD COLUMN more{n} STRING",
    "rename": "RENAME COLUMN spare TO spare{n}",
    "widen": "ALTER COLUMN {spare} TYPE BIGINT",
    "reorder": "ALTER COLUMN {spare} FIRST",
    "drop": "DROP COLUMN {spare}",
    "widen what is read": "ALTER COLUMN {read} TYPE BIGINT",
    "reorder what is read": "ALTER COLUMN {read} FIRST",
}
ROUNDS = 6 * DEPTH


class LateHistory:
    """Tables by day over sources that were created without a commit, and what is asked of them
    after each refresh.
    """

    def __init__(self, world: RefreshWorld, random: Random) -> None:
        self.world, self.random = world, random
        self.number, self.is_doubtful = 0, False
        self.spare = dict.fromkeys(SOURCES, "spare")
        self.ended: set[str] = set()
        self.columns = SOURCES | {
            "o": SOURCES["o"].replace("ds STRING", f"ds {random.choice(('STRING', 'DATE'))}")
        }
        for name, columns in self.columns.items():
            world.spark(
                f"CREATE TABLE {name} ({columns}) USING iceberg TBLPROPERTIES ('format-version' = '2')"
            )
        world.spark(
            "CREATE TABLE d USING iceberg AS SELECT * FROM "
            "VALUES (0, 'a'), (1, 'b'), (2, 'b') AS d(cid, seg)",
            "ALTER TABLE d CREATE TAG old",
        )
        [[first]] = world.plain(f"SELECT snapshot_id FROM lake.{world.namespace}.d.snapshots")
        self.queries = {name: QUERIES[name].format(first=first) for name in random.sample(sorted(QUERIES), 3)}
        for name, query in self.queries.items():
            run = world.create(name, query, clauses=BY_DAY.format(random.choice(LAYOUTS)))
            assert run.status is RunStatus.SUCCEEDED, run.error
            table = world.table(name)
            warnings = late_warnings(world.engine.changes, table.identifier, table.definition)
            assert bool(warnings) == (name == NEVER_KNOWN), warnings

    def day(self) -> str:
        """Return a day before now."""
        now = self.world.clock.now()
        return f"{now - timedelta(days=self.random.randrange(0, 6)):%Y-%m-%d}"

    def literal(self, day: str) -> str:
        """Return a day in the type that the source has for it."""
        return f"DATE '{day}'" if "ds DATE" in self.columns["o"] else f"'{day}'"

    def change(self) -> str:
        """Change rows of a source; return what was done."""
        kinds = ("append", "append", "append", "update", "delete", "segment", "customer", "compaction", "tag")
        kind = self.random.choice(kinds)
        self.number += 1
        match kind:
            case "append":
                rows = ", ".join(
                    (
                        f"({self.number}, {self.literal(self.day())}, {self.random.randrange(4)}, "
                        f"{self.random.randrange(50)})"
                    )
                    for _ in range(2)
                )
                self.world.spark(f"INSERT INTO o (id, ds, cid, v) VALUES {rows}")
            case "update":
                self.world.spark(f"UPDATE o SET v = v + 100 WHERE ds = '{self.day()}'")
            case "compaction":
                table = f"table => '{self.world.namespace}.{self.random.choice(tuple(SOURCES))}'"
                self.world.spark(
                    f"CALL lake.system.rewrite_data_files({table}, options => map('rewrite-all', 'true'))"
                )
            case "tag":
                self.world.spark(
                    f"UPDATE d SET seg = seg || '{self.number}' WHERE cid = {self.random.randrange(3)}",
                    "ALTER TABLE d CREATE OR REPLACE TAG old",
                )
            case "delete":
                self.world.spark(f"DELETE FROM o WHERE ds = '{self.day()}' AND v % 2 = 0")
            case "segment":
                self.world.spark(f"UPDATE c SET seg = seg || 'x' WHERE cid = {self.random.randrange(4)}")
            case _:
                self.world.spark(
                    f"INSERT INTO c (cid, seg) VALUES ({self.random.randrange(4)}, 's{self.number}')"
                )
        return kind

    def reshape(self) -> str:
        """Change the columns of a source."""
        source, kind = self.random.choice(tuple(SOURCES)), self.random.choice(tuple(DDL))
        self.number += 1
        self.is_doubtful |= kind == "widen what is read"
        spare = self.spare[source]
        if kind == "rename":
            self.spare[source] = f"spare{self.number}"
        elif kind == "drop":
            self.world.spark(f"ALTER TABLE {source} ADD COLUMN other{self.number} INT")
            self.spare[source] = f"other{self.number}"
        text = DDL[kind].format(n=self.number, spare=spare, read="v" if source == "o" else "cid")
        self.world.spark(f"ALTER TABLE {source} {text.replace('COLUMN spare TO', f'COLUMN {spare} TO')}")
        return f"{source}: {kind}"

    def lose(self) -> str:
        """Let the old versions of a source expire, or create it again with its rows."""
        source, self.is_doubtful = self.random.choice(tuple(SOURCES)), True
        if self.random.random() < 0.5:
            table = (
                f"table => '{self.world.namespace}.{source}', older_than => TIMESTAMP "
                "'2999-01-01', retain_last => 1"
            )
            self.world.spark(f"CALL lake.system.expire_snapshots({table})")
            return f"{source}: expired"
        names = "id, ds, cid, v" if source == "o" else "cid, seg"
        kept = f"{source}_kept{self.number}"
        self.number += 1
        self.world.spark(
            f"CREATE TABLE {kept} USING iceberg AS SELECT {names} FROM {source}",
            f"DROP TABLE {source}",
            f"CREATE TABLE {source} ({self.columns[source]}) USING iceberg "
            "TBLPROPERTIES ('format-version' = '2')",
            f"INSERT INTO {source} ({names}) SELECT {names} FROM {kept}",
        )
        self.spare[source] = "spare"
        return f"{source}: created again"

    def check(self, name: str, run: RefreshRun, told: object) -> None:
        """Assert that each day has the rows of the query, but for those that are named as left behind
        or in doubt.
        """
        assert run.status in (RunStatus.SUCCEEDED, RunStatus.SKIPPED), (told, run.error)
        if run.run_id in self.ended:
            # The run that took the schedule time before answered, and did nothing.
            return
        self.ended.add(run.run_id)
        table = self.world.table(name)
        # Columns that no query reads make nothing unknown.
        assert self.is_doubtful or table.doubted is None, (name, table.doubted, told)
        newest = next(
            iter(self.world.engine.metadata.ancestors(self.world.engine.metadata.load(table.identifier)))
        )
        today = f"{max(run.points):%Y-%m-%d}"
        rows, expected = (self.world.plain(text) for text in (f"SELECT * FROM {name}", self.queries[name]))
        for day in sorted({str(row[0]) for row in (*rows, *expected) if str(row[0]) < today}):
            spec = PartitionSpec.of({"ds": day})
            taken, _, follow = str(run.reason).partition("in doubt: ")[0].partition("follow")
            excused = (
                name == NEVER_KNOWN
                or f"ds={day}" in follow
                or (newest.late is not None and newest.late.covers(spec))
                or (table.doubted is not None and table.doubted.covers(spec))
            )
            written = run.status is RunStatus.SUCCEEDED and run.scope.covers(spec)
            assert written or f"ds={day}" not in taken, (name, day, run.reason, told)
            if written or not excused:
                assert [row for row in rows if str(row[0]) == day] == [
                    row for row in expected if str(row[0]) == day
                ], (*(name, day, run.reason, told),)


@pytest.mark.parametrize("seed", range(rounds(1, 2)))
def test_each_day_has_the_rows_of_its_query_unless_it_is_named_as_left_behind_or_in_doubt(
    world: RefreshWorld, seed: int
) -> None:
    history = LateHistory(world, dice(seed))
    told: list[str] = []
    for _ in range(ROUNDS):
        for _ in range(history.random.randrange(1, 4)):
            told.append(history.change())
        if history.random.random() < 0.5:
            told.append(history.reshape())
        if history.random.random() < 0.2:
            told.append(history.lose())
        again = history.random.random() < 0.3
        point = world.clock.now().replace(hour=0, minute=0, second=0) if again else world.next_point()
        told.append(f"tick {point:%m-%d}")
        for name in history.queries:
            history.check(name, world.tick(name, point), told)
        if history.random.random() < 0.3:
            name, day = history.random.choice(tuple(history.queries)), history.day()
            if day < f"{world.clock.now():%Y-%m-%d}":
                told.append(f"refresh {name} {day}")
                world.refresh(name, ds=day)
