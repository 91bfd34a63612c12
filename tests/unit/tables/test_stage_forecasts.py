"""Which tables are maintained by stages, and what EXPLAIN says of them."""

from __future__ import annotations

from dataclasses import replace

from mt_core.incremental.changes import ChangeKind, SourceChange
from mt_core.incremental.shape import Occurrence, QueryShape, Reach
from mt_core.incremental.stages.stage_plan import Stage, StagePlan
from mt_core.incremental.strategy import Strategy, Way
from mt_core.model.table import Column, TableDefinition
from mt_core.tables.engine import ShapedQuery
from mt_core.tables.refresh.forecast import kept_stages, strategy_for
from tests.support.blocks import block_over
from tests.support.manager_world import ManagerWorld
from tests.support.registry_facts import a_table
from tests.support.shape_strategies import definition_of, strategy_of
from tests.support.shape_strategies import shaped as recorded_shape

APPENDS, ROWS = SourceChange(kind=ChangeKind.APPENDS), SourceChange(kind=ChangeKind.ROWS)
COLUMNS = (Column(name="k", type="bigint"), Column(name="s", type="bigint"))
STAGE = Stage(
    name="0" * 16,
    places=("[0,[]]",),
    readings=frozenset({0}),
    keys=1,
    words="sum by k",
    blocks=block_over(0),
)
PLAN = StagePlan(stages=(STAGE,), row_keys=(0,))
GROUPED = Occurrence(reach=Reach.GROUPED, reason="an aggregate is above it")
NO_WAY = Occurrence(reach=Reach.NONE, reason="a condition on aggregated values is above it")
BY_KEY = dict.fromkeys(range(2), "k")


def query(
    *occurrences: Occurrence, stages: StagePlan | str = PLAN, by_key: bool = False, **facts: object
) -> ShapedQuery:
    """Return a query that reads `o` and perhaps `c`. With *by_key* its first column divides the result."""
    shape = QueryShape(
        occurrences=dict(enumerate(occurrences)),
        lineage=(BY_KEY if by_key else {}, {}),
        keys=(),
        merge="the aggregate is not on top",
        stages=stages,
    )
    shape = replace(shape, **facts)  # type: ignore[arg-type]
    return ShapedQuery(shape=shape, columns=COLUMNS, readings=("o", "c")[: len(occurrences)])


def definition(*types: str) -> TableDefinition:
    columns = tuple(Column(name=each.name, type=type_) for each, type_ in zip(COLUMNS, types, strict=True))
    return replace(a_table().definition, columns=columns, options={}, partition_keys=())


STORED = definition("bigint", "bigint")


def strategy(shaped: ShapedQuery, stored: TableDefinition = STORED, **changes: SourceChange) -> Strategy:
    by_reading = {number: changes[name] for number, name in enumerate(shaped.readings) if name in changes}
    return strategy_for(shaped, by_reading, stored)


def test_stages_take_any_change_of_a_query_that_was_recomputed_or_maintained_by_keys() -> None:
    for shaped in (query(NO_WAY), query(GROUPED, by_key=True), query(GROUPED, NO_WAY)):
        assert kept_stages(shaped, STORED) == PLAN
        assert strategy(shaped, o=APPENDS).way is Way.STAGES
        assert strategy(shaped, o=ROWS) == Strategy(
            way=Way.STAGES, reason="a state of sum by k", keys=(0,), stages=PLAN
        )


def test_linear_queries_and_sums_of_one_source_are_maintained_without_states() -> None:
    linear = query(Occurrence(), Occurrence(), stages="it has no aggregate", rows=block_over(0, 1))
    summed = query(GROUPED, merge=(None, "Sum"))

    assert kept_stages(linear, STORED) is None
    assert strategy(linear, o=APPENDS) == Strategy(
        way=Way.APPEND, reason="only rows are added", rows=block_over(0, 1)
    )
    assert strategy(linear, o=ROWS).stages is None
    assert (kept_stages(summed, STORED), strategy(summed, o=ROWS).way) == (None, Way.MERGE)
    assert strategy(summed, o=APPENDS).way is Way.MERGE


def test_sums_of_two_sources_have_states_whichever_of_them_changes() -> None:
    joined = query(GROUPED, GROUPED, merge=(None, "Sum"), by_key=True)

    assert strategy(joined, o=ROWS).way is Way.STAGES
    assert strategy(joined, o=APPENDS, c=ROWS).way is Way.STAGES


def test_extremes_that_appends_merge_have_no_stages() -> None:
    extreme = query(GROUPED, merge=(None, "Max"), stages="max needs more than sums and counts", by_key=True)

    assert strategy(extreme, o=APPENDS).way is Way.MERGE
    assert strategy(extreme, o=ROWS).way is Way.KEYS


def test_a_rest_that_reads_sources_is_computed_only_where_no_column_divides_the_result() -> None:
    plan = replace(PLAN, rest=frozenset({1}))

    assert kept_stages(query(GROUPED, GROUPED, stages=plan, by_key=True), STORED) is None
    assert kept_stages(query(NO_WAY, GROUPED, stages=plan), STORED) == plan


def test_keys_that_hold_only_for_the_same_values_of_subqueries_do_not_count() -> None:
    plan = replace(PLAN, rest=frozenset({1}))
    shaped = query(GROUPED, GROUPED, stages=plan, by_key=True, values=frozenset({0}))

    assert kept_stages(shaped, STORED) == plan


def test_rows_are_replaced_by_the_keys_of_a_stage_if_the_table_has_its_values() -> None:
    shaped = query(GROUPED, by_key=True)

    assert strategy(shaped, definition("bigint", "int"), o=ROWS).keys == (0,)
    assert strategy(shaped, definition("int", "bigint"), o=ROWS).keys == ()


def test_a_change_that_is_not_known_or_does_not_matter_leaves_stages_alone() -> None:
    shaped = query(NO_WAY)
    unknown = SourceChange(kind=ChangeKind.UNKNOWN, base_live=False, reason="snapshot 1 has expired")

    assert strategy(shaped, o=unknown).reason == "the changes of o are not known: snapshot 1 has expired"
    assert strategy(shaped, o=replace(APPENDS, from_nothing=True)).reason == "o had no rows before"
    assert strategy(shaped, o=SourceChange(kind=ChangeKind.UNREAD)).way is Way.NOTHING
    assert strategy(shaped, o=SourceChange(kind=ChangeKind.COMPACTION)).way is Way.NOTHING


def test_two_changed_sources_need_the_old_versions() -> None:
    expired = replace(ROWS, base_live=False)

    assert strategy(query(NO_WAY, NO_WAY), o=expired, c=ROWS).way is Way.RECOMPUTE
    assert strategy(query(NO_WAY, NO_WAY), o=expired).way is Way.STAGES


def test_a_change_that_no_other_way_applies_replaces_rows_of_a_query_without_states() -> None:
    shaped = recorded_shape("left join by range")
    stored = definition_of(shaped.columns)

    assert kept_stages(shaped, stored) is None
    assert strategy(shaped, stored, o=APPENDS).way is Way.APPEND
    for changes in ({"o": ROWS}, {"c": APPENDS}, {"o": APPENDS, "c": ROWS}):
        choice = strategy(shaped, stored, **changes)
        assert (choice.way, choice.keys, choice.rows) == (Way.STAGES, (0, 1), shaped.shape.rows)
        assert choice.reason == "rows over a left join without equal columns are added and deleted"
        assert not choice.by_key


def test_rows_that_change_by_value_are_replaced_by_key_if_they_are_too_many() -> None:
    shaped = recorded_shape("left join")
    stored = definition_of(shaped.columns)

    for changes in ({"c": ROWS}, {"o": APPENDS, "c": ROWS}):
        choice = strategy(shaped, stored, **changes)
        assert (choice.way, choice.by_key) == (Way.STAGES, False)
        assert choice.division is not None


def test_rows_are_replaced_by_key_if_a_value_is_not_reproducible() -> None:
    shaped = recorded_shape("first of each")
    stored = definition_of(shaped.columns)

    choice = strategy(shaped, stored, o=ROWS)

    assert (choice.way, choice.by_key, choice.keys) == (Way.STAGES, True, (0,))
    assert choice.reason == "rows over a window by cid are replaced by column 0"


def test_rows_beside_a_value_that_is_not_reproducible_are_deleted_by_key() -> None:
    appended, changed = (strategy_of("join with first of each", c=change) for change in (APPENDS, ROWS))

    assert (appended.way, appended.by_key) == (Way.APPEND, False)
    assert (changed.way, changed.by_key) == (Way.STAGES, True)


def test_rows_are_replaced_by_key_in_a_table_with_equality_deletes_unless_they_change_one_by_one() -> None:
    shaped = recorded_shape("left join")
    stored = replace(definition_of(shaped.columns), options={"write.upsert": "equality-delete"})

    assert strategy(shaped, stored, c=ROWS).by_key
    assert not strategy(shaped, stored, o=ROWS).by_key


def test_rows_are_deleted_by_the_values_that_are_stored() -> None:
    shaped = query(NO_WAY, stages="it has no aggregate", rows=block_over(0))
    unknown = SourceChange(kind=ChangeKind.UNKNOWN, base_live=False)
    with_maps = definition("bigint", "map<int,int>")

    assert strategy(shaped, definition("bigint", "int"), o=ROWS).way is Way.STAGES
    assert strategy(shaped, with_maps, o=ROWS).reason == "values of column s cannot be compared"
    assert strategy(shaped, with_maps, o=APPENDS).way is Way.APPEND
    assert strategy(shaped, o=unknown).way is Way.RECOMPUTE


def test_tables_whose_schedule_times_refresh_partitions_have_no_states() -> None:
    formatted = replace(STORED, options={"partition.fields.k.date-formatter": "yyyy"})

    assert kept_stages(query(NO_WAY), formatted) is None


SHAPE = QueryShape(
    occurrences={0: NO_WAY}, lineage=({}, {}), keys=(), merge="the aggregate is not on top", stages=PLAN
)
CREATE = (
    "CREATE MATERIALIZED TABLE totals WITH ('refresh.strategy' = 'incremental') "
    "FRESHNESS = INTERVAL '1' DAY AS SELECT * FROM orders"
)


def explained(world: ManagerWorld, strategy_: str) -> str:
    ((text,),) = (
        tuple(row.values()) for row in world.show(f"EXPLAIN {CREATE.replace('incremental', strategy_)}")
    )
    return str(text).splitlines()[-1].strip()


def test_explain_names_the_states() -> None:
    world = ManagerWorld()
    world.engine.shape = replace(SHAPE, stages=replace(PLAN, row_keys=None))

    assert explained(world, "auto") == "any change:    stages: a state of sum by k"
    assert explained(world, "full") == "any change:    recompute ('auto' has stages: a state of sum by k)"


def test_explain_says_why_a_query_has_no_stages() -> None:
    world = ManagerWorld()
    world.engine.shape = replace(SHAPE, stages="min needs more than sums and counts")

    assert explained(world, "auto").endswith(
        "a condition on aggregated values is above it; no stages: min needs more than sums and counts"
    )


def test_a_table_with_stages_may_be_incremental() -> None:
    world = ManagerWorld()
    world.engine.shape = replace(SHAPE, stages=replace(PLAN, row_keys=None))

    world.sql(CREATE)

    assert world.table("totals").definition.options["refresh.strategy"] == "incremental"
