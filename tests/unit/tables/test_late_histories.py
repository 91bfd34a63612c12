"""Histories of a table by day: after each refresh a day has the rows of the query,
or it is named as left behind or in doubt.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mt_core.errors import Incomparable
from mt_core.model.partition import PartitionSpec
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.model.table import Column
from tests.depth import rounds
from tests.support.manager_world import DAILY, ManagerWorld
from tests.unit.tables.daily_table import manual

ORDERS = "lake.default.orders"
DS, AMOUNT, SPARE, MORE = (
    Column(name=name, type=type_)
    for name, type_ in (("ds", "string"), ("amount", "int"), ("spare", "int"), ("more", "date"))
)
# No query reads any column but the first two.
SHAPES = {
    "as it was": (DS, AMOUNT, SPARE),
    "dropped": (DS, AMOUNT),
    "added and moved": (MORE, AMOUNT, DS, SPARE),
}
FIRST = datetime(2026, 3, 1, tzinfo=UTC)

DAYS = st.integers(-1, 2)
# Rows change, then perhaps the columns, or what would tell the change is lost, and a refresh follows.
ROUND = st.tuples(
    st.lists(st.tuples(st.sampled_from(("append", "append", "update", "delete")), DAYS), max_size=3),
    st.one_of(
        st.just(("nothing", None)),
        st.tuples(st.just("columns"), st.sampled_from(sorted(SHAPES))),
        st.tuples(st.sampled_from(("expire", "recreate", "compact", "verify")), st.none()),
        st.tuples(st.just("refresh"), DAYS),
    ),
    st.sampled_from((("tick", None), ("tick", None), ("tick again", None), ("nothing", None))),
)
HANDLINGS = st.sampled_from(("refresh", "recompute"))


Change = tuple[str, object]


class LateHistory:
    """A table by day over a source that is created empty, and what has to hold after each refresh."""

    def __init__(self, handling: str, max_partitions: int) -> None:
        self.handling, self.world = handling, ManagerWorld(max_partitions=max_partitions)
        self.source: list[dict[str, object]] = []
        self.shape, self.number = "as it was", 0
        self.world.engine.create_source(ORDERS, [], columns=SHAPES["as it was"])
        option = f"'yyyy-MM-dd', 'refresh.late-data' = '{handling}')"
        self.world.sql(DAILY.replace("'yyyy-MM-dd')", option).replace("SELECT *", "SELECT ds, amount"))
        self.world.work()

    def do(self, kind: str, of: object) -> None:
        match kind:
            case "append":
                self.number += 1
                self.commit([*self.source, {"ds": name(of), "amount": self.number}])
            case "update":
                self.number += 100
                self.commit(
                    [{**row, "amount": self.number} if row["ds"] == name(of) else row for row in self.source]
                )
            case "delete":
                self.commit([row for row in self.source if row["ds"] != name(of)])
            case "columns":
                self.shape = str(of)
                self.world.engine.alter_source(ORDERS, SHAPES[self.shape])
            case "expire":
                source = self.world.engine.sources[ORDERS]
                source.expired |= source.versions.keys() - {0, source.current}
            case "recreate":
                self.world.engine.create_source(ORDERS, self.source, columns=SHAPES[self.shape])
            case "compact":
                if self.world.engine.sources[ORDERS].current:
                    self.world.engine.commit(ORDERS, self.source, compaction=True)
            case "refresh":
                manual(self.world, {"ds": name(of)})
                self.world.work()
            case _:
                self.ask(kind)

    def ask(self, kind: str) -> None:
        if kind == "verify":
            self.verify()
        elif kind != "nothing":
            self.tick(again=kind == "tick again")

    def commit(self, rows: list[dict[str, object]]) -> None:
        if rows != self.source:
            self.source = rows
            self.world.engine.commit(ORDERS, rows)

    def tick(self, *, again: bool) -> None:
        if not again:
            self.world.pass_days(1)
        run = self.world.tick(self.world.latest_point(), key=None)
        self.world.work()
        done = self.world.run(run.run_id)
        self.check(done)
        # A schedule time that was covered before takes its own partition alone.
        takes = not again and not done.solo
        if self.handling == "recompute" and takes and done.status is RunStatus.SUCCEEDED:
            assert self.world.table().doubted is None

    def verify(self) -> None:
        """Compare the table: what it says to be equal is no more in doubt, and is equal."""
        before = self.world.table().doubted
        try:
            self.world.sql("VERIFY MATERIALIZED TABLE daily")
        except Incomparable:
            assert self.world.table().doubted == before

    def check(self, run: RefreshRun) -> None:
        assert run.status in (RunStatus.SUCCEEDED, RunStatus.SKIPPED), run.error
        table = self.world.table()
        newest = next(iter(self.world.engine.ancestors(self.world.engine.load(table.identifier))))
        for number in range(-2, (self.world.latest_point() - FIRST).days):
            day = PartitionSpec.of({"ds": name(number)})
            follows = (
                str(day) in str(run.reason).partition("follow")[2].partition("late rows are not known")[0]
            )
            left = follows or (newest.late is not None and newest.late.covers(day))
            doubted = table.doubted is not None and table.doubted.covers(day)
            named = str(day) in str(run.reason).partition("follow")[0].partition("in doubt: ")[0]
            written = run.status is RunStatus.SUCCEEDED and run.scope.covers(day)
            assert written or not named, (str(day), run.reason)
            if written or not (left or doubted):
                assert self.rows(self.world.rows(), number) == self.rows(self.source, number), (
                    str(day),
                    run.reason,
                )

    @staticmethod
    def rows(rows: list[dict[str, object]], number: int) -> list[object]:
        return sorted(str(row["amount"]) for row in rows if row["ds"] == name(number))


def name(number: object) -> str:
    assert isinstance(number, int)
    return f"{FIRST + timedelta(days=number):%Y-%m-%d}"


@settings(
    max_examples=rounds(200, 2_000),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)
@given(
    handling=HANDLINGS, most=st.sampled_from((366, 2, 1)), histories=st.lists(ROUND, min_size=3, max_size=8)
)
def test_each_day_has_the_rows_of_its_query_unless_it_is_left_behind_or_in_doubt(
    handling: str, most: int, histories: list[tuple[list[Change], Change, Change]]
) -> None:
    history = LateHistory(handling, most)
    for changes, event, refresh in histories:
        for kind, of in (*changes, event, refresh):
            history.do(kind, of)
    history.tick(again=False)
