"""TTL policies of operators on a real Spark: each keeps a key for as long as the rules of a policy say,
in both times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from random import Random

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from mt_core.errors import Unsupported
from mt_core.plans.policies import StateAccess, TtlPolicy, TtlTimeCharacteristic, TtlUpdateEvent, policy_text
from mt_core.spark.driver.jvm_objects import active_session, java_dataset
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.streams.inserts import query_of
from mt_core.spark.streams.operators.rewriting import with_operators
from mt_core.spark.streams.operators.state_ttls import StateTtls
from mt_core.sql.state_ttl_hints import with_state_ttls
from tests.depth import DEPTH
from tests.integration.operator_stream import Change, OperatorStream, changelog_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

EVENT, PROCESSING = TtlTimeCharacteristic.EVENT_TIME, TtlTimeCharacteristic.PROCESSING_TIME
READ, WRITE = StateAccess.READ, StateAccess.WRITE
COLUMNS = "k STRING, side INT, ts BIGINT"
KEYS = tuple("abcdefgh")
BATCHES = 6
START_MS = 1_000_000
SEED = 22
"""By which no other policy gives the same results."""
LATE = (-3, 0, 0, 4)
"""How many seconds after the watermark rows are: some of a key are equal."""
SECOND = timedelta(seconds=1)
# Each policy is in one of the pairs: that of the start, and that after the restart.
POLICIES = [
    (TtlPolicy(8 * SECOND, time, first), TtlPolicy(5 * SECOND, time, second))
    for time, first, second in (
        (PROCESSING, TtlUpdateEvent.ON_CREATE, TtlUpdateEvent.ON_READ_WRITE),
        (PROCESSING, TtlUpdateEvent.ON_READ, TtlUpdateEvent.ON_WRITE),
        (EVENT, TtlUpdateEvent.ON_CREATE, TtlUpdateEvent.ON_READ_WRITE),
        (EVENT, TtlUpdateEvent.ON_WRITE, TtlUpdateEvent.ON_READ),
    )
]
# Two of them have each update event and both times.
TAKEN = POLICIES if DEPTH > 1 else POLICIES[::3]
FIRST = (
    "SELECT k FROM (SELECT /*+ STATE_TTL('c' = '{0}') */ *, ROW_NUMBER() OVER (PARTITION BY k "
    "ORDER BY p) AS rn FROM (SELECT *, now() AS p FROM clicks) AS c) WHERE rn = 1"
)
GROUP = "SELECT /*+ STATE_TTL('c' = '{0}') */ k, CAST(count(*) AS INT) AS n FROM clicks AS c GROUP BY k"
LEFT, RIGHT = "(SELECT k, at FROM clicks WHERE side = 0)", "(SELECT k FROM clicks WHERE side = 1)"
# Rows of the right side are gone with the next batch: each one sees which rows of the left are there.
JOIN = (
    f"SELECT /*+ STATE_TTL('l' = '{{0}}', 'r' = '1 ms') */ l.k FROM {LEFT} AS l "
    f"JOIN {RIGHT} AS r ON l.k = r.k"
)
LAST = FIRST.replace("ORDER BY p)", "ORDER BY p DESC)")
TOP = (
    "SELECT k FROM (SELECT /*+ STATE_TTL('c' = '{0}') */ *, ROW_NUMBER() OVER (PARTITION BY k "
    "ORDER BY ts) AS rn FROM clicks AS c) WHERE rn <= 2"
)
LIMIT = "SELECT k, at FROM clicks LIMIT 1"
DISTINCT = "SELECT /*+ STATE_TTL('c' = '{0}') */ k, count(DISTINCT side) AS n FROM clicks AS c GROUP BY k"
JOINED = (
    "SELECT /*+ STATE_TTL('l' = '{0}', 'r' = '{0}') */ l.k FROM clicks AS l JOIN clicks AS r ON l.k = r.k"
)
# What the model knows, each with a number of its rows.
KEEPING = {
    "first": (FIRST, "0"),
    "last": (LAST, "0"),
    "group": (GROUP, "n"),
    "join": (JOIN, "0"),
    "top": (TOP, "0"),
}
KEPT = {"first": FIRST, "group": GROUP, "last": LAST, "top": TOP, "distinct": DISTINCT, "join": JOINED}


def querying(text: str, default: TtlPolicy | None = None) -> Callable[[DataFrame], DataFrame]:
    """Return what makes the stream of a query of `clicks`, whose event time is `at`;
    *default* is of what takes no hint.
    """

    def operator(rows: DataFrame) -> DataFrame:
        session = rows.sparkSession
        timed = rows.selectExpr("*", "timestamp_millis(ts) AS at").withWatermark("at", "0 seconds")
        timed.createOrReplaceTempView("clicks")
        with active_session(session):
            if default is None:
                return DataFrame(
                    java_dataset(session, changelog_of(session, with_state_ttls(text)).plan), session
                )
            analysed = java_dataset(session, query_of(session, text)).queryExecution().analyzed()
            plan = with_operators(session, analysed, StateTtls(default)).plan
            return DataFrame(java_dataset(session, plan), session)

    return operator


@pytest.fixture
def start(module_driver: SparkDriver, tmp_path: Path) -> Iterator[Callable[[str], OperatorStream]]:
    made: list[OperatorStream] = []

    def make(text: str, default: TtlPolicy | None = None) -> OperatorStream:
        session = module_driver.new_session()
        session.conf.set("spark.sql.shuffle.partitions", "1")
        made.append(OperatorStream(session, tmp_path, COLUMNS, querying(text, default)))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def row(key: str, side: int, at: int) -> dict[str, object]:
    return {"k": key, "side": side, "ts": 1000 * at}


@dataclass(frozen=True, kw_only=True)
class Moment:
    """When a batch runs, and its row came, in milliseconds."""

    processing: int
    watermark: int
    row: int


@dataclass
class Entries:
    """What a plain model keeps of one operator: of each entry when it was last modified, when it expires,
    and a count.
    """

    policy: TtlPolicy
    _entries: dict[object, tuple[int, int, int]] = field(default_factory=dict)

    def count(self, entry: object, moment: Moment) -> int:
        """Return the count of an entry that is there; 0 for another one."""
        now = moment.watermark if self.policy.time is EVENT else moment.processing
        found = self._entries.get(entry)
        return found[2] if found is not None and found[1] > now else 0

    def access(self, entry: object, moment: Moment, *accesses: StateAccess) -> None:
        """Read or write an entry, and create it by a write if it is not there."""
        at, now = (
            (moment.row, moment.watermark)
            if self.policy.time is EVENT
            else (moment.processing, moment.processing)
        )
        count = self.count(entry, moment)
        if count:
            last, expires, _ = self._entries[entry]
            if any(self.policy.is_modified_by(each) for each in accesses) and at >= last:
                last, expires = at, self.policy.expires(at)
        else:
            last, expires = at, self.policy.expires(at)
        self._entries.pop(entry, None)
        if expires > now:
            self._entries[entry] = (last, expires, count + (WRITE in accesses))

    def there(self, key: str, moment: Moment) -> list[tuple[str, int, int]]:
        """Return the entries of *key* that are there, each with its event time and a number."""
        return [
            each
            for each in self._entries
            if isinstance(each, tuple) and each[0] == key and self.count(each, moment)
        ]

    def remove(self, entry: object) -> None:
        self._entries.pop(entry, None)


Result = Counter[tuple[str, str, str, int]]


class Model:
    """The operators under each policy."""

    def __init__(self, policies: Sequence[TtlPolicy]) -> None:
        self.policies = policies
        self._kept = [{name: Entries(each) for name in KEEPING} for each in policies]
        self._arrivals = count()

    def change(self, policies: Sequence[TtlPolicy]) -> None:
        for kept, policy in zip(self._kept, policies, strict=True):
            for each in kept.values():
                each.policy = policy

    def run(self, key: str, side: int, moment: Moment) -> Result:
        found = Result()
        for number, kept in enumerate(self._kept):
            name = str(number)
            first, last, group, join = kept["first"], kept["last"], kept["group"], kept["join"]
            if first.count(key, moment):
                first.access(key, moment, READ)
            else:
                found["first", name, key, 0] += 1
                first.access(key, moment, WRITE)
                # Only the first row writes.
            # It takes the row back that it had.
            found["last", name, key, min(last.count(key, moment), 1)] += 1
            last.access(key, moment, READ, WRITE)
            found["group", name, key, group.count(key, moment) + 1] += 1
            group.access(key, moment, READ, WRITE)
            found["top", name, key, 0] += self._ranks(kept["top"], key, moment)
            if side == 0:
                join.access((key, moment.row, 0), moment, WRITE)
            else:
                for entry in join.there(key, moment):
                    found["join", name, key, 0] += join.count(entry, moment)
                    probed = Moment(
                        processing=moment.processing, watermark=moment.watermark, row=moment.watermark
                    )
                    join.access(entry, probed, READ)
        return found

    def _ranks(self, top: Entries, key: str, moment: Moment) -> bool:
        """Return whether a row is one of the first two of its key, of which it reads those that are there."""
        row, before = (key, moment.row, next(self._arrivals)), top.there(key, moment)
        for entry in before:
            top.access(entry, moment, READ)
        after = sorted([*before, row], key=lambda each: each[1:])[:2]
        if row not in after:
            return False
        top.access(row, moment, WRITE)
        for entry in set(before).difference(after):
            top.remove(entry)
        return True


def everything(policies: Sequence[TtlPolicy]) -> str:
    return " UNION ALL ".join(
        f"SELECT '{name}' AS op, '{number}' AS policy, k, {n} AS n FROM ({text.format(policy_text(policy))})"
        for number, policy in enumerate(policies)
        for name, (text, n) in KEEPING.items()
    )


def added(changes: Sequence[Change]) -> Result:
    """Return the rows that came, of `last` with whether they replace another one."""
    return Result(
        Counter(
            (
                str(columns["op"]),
                str(columns["policy"]),
                str(columns["k"]),
                int(kind == "+U") if columns["op"] == "last" else int(columns["n"]),
            )
            for kind, columns in changes
            if kind in {"+I", "+U"}
        )
    )


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The rows of a batch, each with its key, side and event time in seconds,
    and when it runs in both times.
    """

    rows: Sequence[tuple[str, int, int]]
    wait: timedelta
    processing: int
    watermark: int

    def result(self, model: Model) -> Result:
        found = Result()
        for key, side, at in self.rows:
            moment = Moment(processing=self.processing, watermark=self.watermark, row=1000 * at)
            found.update(model.run(key, side, moment))
        return found


def batches() -> Iterator[Batch]:
    chance, processing, watermark = Random(SEED), START_MS, 0
    for _ in range(BATCHES):
        later = chance.randint(1, 5)
        processing += 1000 * later
        rows = [
            (key, chance.randint(0, 1), max(0, watermark // 1000 + chance.choice(LATE)))
            for key in KEYS
            if chance.random() < 0.7
        ]
        yield Batch(rows=rows, wait=later * SECOND, processing=processing, watermark=watermark)
        # All that read a view have its one watermark, also those that read some of its rows.
        # It holds from the next batch on.
        watermark = max([watermark, *(1000 * at for _, _, at in rows)])


def results(policies: Sequence[tuple[TtlPolicy, TtlPolicy]]) -> list[Result]:
    """Return what a model gives for each batch; from the middle on it has the second policies."""
    model, found = Model([first for first, _ in policies]), list[Result]()
    for place, batch in enumerate(batches()):
        if place == BATCHES // 2:
            model.change([second for _, second in policies])
        found.append(batch.result(model))
    return found


def others(policy: TtlPolicy) -> Iterator[TtlPolicy]:
    """Yield the policies that differ from *policy* in one thing, and in what the batches see."""
    yield from (TtlPolicy(ttl, policy.time, policy.update) for ttl in {5 * SECOND, 8 * SECOND} - {policy.ttl})
    for update in TtlUpdateEvent:
        # A row that is written again has the same event time, so that no write is later than a read.
        alike = (
            {TtlUpdateEvent.ON_READ, TtlUpdateEvent.ON_READ_WRITE}
            if policy.time is EVENT
            else set[TtlUpdateEvent]()
        )
        if update is not policy.update and {update, policy.update} != alike:
            yield TtlPolicy(policy.ttl, policy.time, update)


@pytest.mark.parametrize(("first", "second"), POLICIES)
def test_the_batches_tell_each_policy_from_others(first: TtlPolicy, second: TtlPolicy) -> None:
    pairs = [*((other, second) for other in others(first)), *((first, other) for other in others(second))]

    given = results([(first, second)])

    assert [pair for pair in pairs if results([pair]) == given] == []


@pytest.mark.slow
def test_each_operator_keeps_a_key_by_its_policy_through_a_restart_with_other_policies(
    start: Callable[[str], OperatorStream],
) -> None:
    stream, given = start(everything([first for first, _ in TAKEN])), list[Result]()

    for place, batch in enumerate(batches()):
        stream.wait(batch.wait)
        if place == BATCHES // 2:
            stream.restart(querying(everything([second for _, second in TAKEN])))
        given.append(added(stream.feed(*(row(*each) for each in batch.rows))))

    assert given == results(TAKEN)


@pytest.mark.slow
@pytest.mark.parametrize("time", [EVENT, PROCESSING])
def test_what_has_expired_is_removed_by_a_timer_from_the_states_of_each_operator(
    start: Callable[[str], OperatorStream], time: TtlTimeCharacteristic
) -> None:
    policy = policy_text(TtlPolicy(10 * SECOND, time, TtlUpdateEvent.ON_WRITE))
    stream = start(
        " UNION ALL ".join(f"SELECT '{name}' AS op, k FROM ({KEPT[name].format(policy)})" for name in KEPT)
    )

    stream.feed(row("a", 0, 10), row("a", 1, 10))
    once = stream.rows_kept()
    stream.wait(5 * SECOND)
    stream.feed(row("b", 0, 15), row("b", 1, 15))
    both = stream.rows_kept()
    stream.wait(5 * SECOND)
    stream.feed(row("c", 0, 20), row("c", 1, 20))
    # A watermark holds from the next batch on.
    stream.feed(row("c", 0, 20), row("c", 1, 20))
    last = stream.rows_kept()
    stream.wait(30 * SECOND)
    stream.feed(row("d", 0, 60), row("d", 1, 60))
    stream.feed(row("d", 0, 60), row("d", 1, 60))

    assert (both, last) == (2 * once, 2 * once)
    # The two values of the distinct aggregate go with their group.
    assert (stream.rows_kept(), stream.rows_expired()) == (once, 3 * (once - 2))


@pytest.mark.parametrize(
    ("update", "passed"),
    [(TtlUpdateEvent.ON_READ, []), (TtlUpdateEvent.ON_WRITE, ["c"])],
    ids=["read", "write"],
)
@pytest.mark.parametrize("beyond", [(24,), (11, 24)], ids=["alone", "after another one of its batch"])
def test_a_row_beyond_a_limit_reads_its_number_at_its_own_event_time(
    start: Callable[[str, TtlPolicy], OperatorStream],
    update: TtlUpdateEvent,
    passed: list[str],
    beyond: Sequence[int],
) -> None:
    stream = start(LIMIT, TtlPolicy(10 * SECOND, EVENT, update))
    stream.feed(row("a", 0, 10))

    read = stream.feed(*(row("b", 0, at) for at in beyond))
    # The watermark is at 24 seconds from here on.
    given = stream.feed(row("c", 0, 24))

    assert (read, [columns["k"] for _, columns in given]) == ([], passed)


def test_a_limit_that_is_full_lets_the_operator_below_it_keep_its_keys(
    start: Callable[[str], OperatorStream],
) -> None:
    stream = start(f"SELECT k FROM ({FIRST.format('1 h')}) LIMIT 1")

    given = [stream.feed(*(row(key, 0, 10) for key in keys)) for keys in ("abc", "bcd")]
    stream.restart()
    given.append(stream.feed(row("e", 0, 10)))

    assert [len(each) for each in given] == [1, 0, 0]
    # The keys, and the number of the rows that passed.
    assert stream.rows_kept() == len("abcde") + 1


@pytest.mark.parametrize("name", KEPT)
def test_event_time_needs_a_watermark(module_driver: SparkDriver, name: str) -> None:
    session = module_driver.session
    session.readStream.format("rate").load().selectExpr(
        "'a' AS k", "1 AS side", "1L AS ts"
    ).createOrReplaceTempView("clicks")

    with pytest.raises(
        Unsupported, match=r"EVENT TIME for the TTL of .*State: .* reads rows without a watermark column"
    ):
        changelog_of(session, with_state_ttls(KEPT[name].format("1 h EVENT TIME")))


@pytest.mark.parametrize(("below", "ends"), [("1 h", True), ("0", True), ("0 EVENT TIME", False)])
def test_event_time_ends_at_an_operator_in_processing_time(
    module_driver: SparkDriver, below: str, *, ends: bool
) -> None:
    session = module_driver.session
    rows = session.readStream.format("rate").load().selectExpr("'a' AS k", "timestamp AS at")
    rows.withWatermark("at", "0 seconds").createOrReplaceTempView("clicks")
    first = FIRST.format(below).replace("SELECT k", "SELECT k, at")
    text = f"SELECT /*+ STATE_TTL('f' = '1 h EVENT TIME') */ k, count(*) AS n FROM ({first}) AS f GROUP BY k"

    refusal = pytest.raises(Unsupported, match=r"groupAggregateState: .* a TTL of PROCESSING TIME")
    with refusal if ends else nullcontext():
        changelog_of(session, with_state_ttls(text))


def test_a_state_goes_on_in_no_other_time(start: Callable[[str], OperatorStream]) -> None:
    stream = start(GROUP.format("1 h"))
    stream.feed(row("a", 0, 10))

    stream.restart(querying(GROUP.format("1 h EVENT TIME")))
    with pytest.raises(StreamingQueryException, match="timeMode"):
        stream.feed(row("a", 0, 10))
