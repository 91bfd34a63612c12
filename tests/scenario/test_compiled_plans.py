"""Compiled plans (FLIP-292): the operators of a job keep state for the TTLs of its plan."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mt_core.errors import QueryFailed
from mt_core.model.stream import StreamDefinition
from mt_core.plans.states import planned_policy
from tests.support.fake_rows import FakeRows
from tests.support.fake_statements import NO_ROWS
from tests.support.gateway.whole import WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway
from tests.support.plans import DAY, HOUR, aggregate, deduplicate, join, scan

STREAMING = "SET 'execution.runtime-mode' = 'streaming'"
INSERT = "INSERT INTO arrivals SELECT * FROM flights"
OTHER = "INSERT INTO departures SELECT * FROM flights"
URI = "file:///plans/orders.json"
HOME = "USE `lake`.`default`"
COMPILE, EXECUTE = f"COMPILE PLAN '{URI}' FOR {INSERT}", f"EXECUTE PLAN '{URI}'"


@pytest.fixture
def plans(whole: WholeGateway) -> WholeGateway:
    """A gateway with a statement whose deduplication feeds an aggregate, and another one with a join."""
    whole.statements.streams[INSERT] = whole.statements.streams[OTHER] = FakeRows()
    whole.streams.operators = {INSERT: aggregate(deduplicate(scan())), OTHER: join(scan("a"), scan("b"))}
    whole.sql(STREAMING)
    return whole


def execute(whole: WholeGateway, statement: str = EXECUTE) -> str:
    """Start the job of a plan, and return its id."""
    [answer] = whole.sql(statement)
    whole.watch_streams()
    return str(answer["job id"])


def definition(whole: WholeGateway, job_id: str) -> StreamDefinition:
    job = whole.process.jobs.get(job_id)
    assert job is not None
    assert job.definition is not None
    return job.definition


def file(whole: WholeGateway) -> Any:
    return json.loads(whole.plans.files[URI])


def edit(whole: WholeGateway, **states: str) -> None:
    """Set TTLs in the file, by state name."""
    body = file(whole)
    for node in body["nodes"]:
        for state in node.get("state", ()):
            state["ttl"] = states.get(state["name"], state["ttl"])
    whole.plans.files[URI] = json.dumps(body)


def ttls(whole: WholeGateway, job_id: str) -> list[Any]:
    return [
        None
        if each.state_ttls is None
        else [planned_policy(ttl).ttl for ttls in each.state_ttls for ttl in ttls]
        for each in definition(whole, job_id).members
    ]


def test_a_plan_has_the_statement_and_its_operators_with_their_ttls(plans: WholeGateway) -> None:
    answer = plans.sql(COMPILE)

    body = file(plans)
    assert answer == [{"result": "OK"}]
    assert (body["statements"], body["mode"], body["catalog"], body["database"]) == (
        [INSERT],
        "streaming",
        "lake",
        ["default"],
    )
    assert [(node["type"], node.get("state")) for node in body["nodes"]] == [
        ("stream-exec-table-source-scan_1", None),
        ("stream-exec-deduplicate_1", [{"index": 0, "ttl": "1 h", "name": "deduplicateState"}]),
        ("stream-exec-group-aggregate_1", [{"index": 0, "ttl": "1 d", "name": "groupAggregateState"}]),
    ]
    assert plans.sql("SHOW JOBS") == []


def test_a_plan_is_executed_with_the_ttls_that_a_user_wrote_into_it(plans: WholeGateway) -> None:
    plans.sql(COMPILE)
    edit(plans, deduplicateState="3600000 ms", groupAggregateState="P2D")

    job_id = execute(plans)
    plans.run_batch("x", "y")

    assert ttls(plans, job_id) == [[HOUR, 2 * DAY]]
    assert (plans.streams.sink, plans.job(job_id)["status"]) == (["x", "y"], "RUNNING")
    assert (plans.job(job_id)["kind"], plans.job(job_id)["statement"]) == ("INSERT", INSERT)


def test_a_plan_that_is_changed_and_executed_from_a_savepoint_has_the_new_ttls(plans: WholeGateway) -> None:
    plans.sql(COMPILE)
    [answer] = plans.perform(f"STOP JOB '{execute(plans)}' WITH SAVEPOINT")
    edit(plans, deduplicateState="1 min")
    plans.sql(f"SET 'execution.savepoint.path' = '{answer['savepoint path']}'")

    job_id = execute(plans)

    assert definition(plans, job_id).restored_from == answer["savepoint path"]
    assert ttls(plans, job_id) == [[timedelta(minutes=1), DAY]]


def test_a_plan_whose_policies_were_edited_is_executed_with_them(plans: WholeGateway) -> None:
    plans.sql(COMPILE)
    body = file(plans)
    body["nodes"][1]["state"][0] |= {"update": "OnReadWrite", "time": "EventTime"}
    body["nodes"][2]["state"][0] |= {"update": "OnCreate"}
    plans.plans.files[URI] = json.dumps(body)

    job_id = execute(plans)

    assert [each.state_ttls for each in definition(plans, job_id).members] == [
        (("1 h ON READ WRITE EVENT TIME",), ("1 d ON CREATE",))
    ]


def test_the_plan_counts_more_than_the_session_and_a_node_without_state_takes_the_sessions(
    plans: WholeGateway,
) -> None:
    plans.sql(COMPILE)
    body = file(plans)
    del body["nodes"][1]["state"]
    plans.plans.files[URI] = json.dumps(body)
    plans.sql("SET 'table.exec.state.ttl' = '5 min'")

    job_id = execute(plans)

    assert ttls(plans, job_id) == [[timedelta(minutes=5), DAY]]


def test_a_statement_set_is_one_plan_and_one_job(plans: WholeGateway) -> None:
    plans.sql(f"COMPILE PLAN '{URI}' FOR STATEMENT SET BEGIN {INSERT}; {OTHER}; END")

    job_id = execute(plans)

    assert (plans.job(job_id)["kind"], ttls(plans, job_id)) == (
        "STATEMENT SET",
        [[HOUR, DAY], [7 * DAY, DAY]],
    )


def test_compile_and_execute_runs_the_plan_that_is_there(plans: WholeGateway) -> None:
    both = f"COMPILE AND EXECUTE PLAN '{URI}' FOR {INSERT}"
    first = execute(plans, both)
    edit(plans, deduplicateState="7 d")

    second = execute(plans, both)

    assert (ttls(plans, first), ttls(plans, second)) == ([[HOUR, DAY]], [[7 * DAY, DAY]])


def test_a_plan_that_is_there_is_not_replaced_unless_that_is_asked_for(plans: WholeGateway) -> None:
    plans.sql(COMPILE)
    edit(plans, deduplicateState="7 d")
    edited = plans.plans.files[URI]

    refused = plans.refused(COMPILE)
    kept = plans.sql(COMPILE.replace(" FOR ", " IF NOT EXISTS FOR ", 1))
    after_if_not_exists = plans.plans.files[URI]
    plans.sql("SET 'table.plan.force-recompile' = 'true'")
    plans.sql(COMPILE.replace(" FOR ", " IF NOT EXISTS FOR ", 1))
    after_both = plans.plans.files[URI]
    plans.sql(COMPILE)

    assert (
        f"Cannot overwrite the plan file {URI}: delete it, write COMPILE PLAN '{URI}' IF NOT EXISTS to keep "
        "it, or SET 'table.plan.force-recompile' = 'true' to replace it."
    ) in refused
    assert (kept, after_if_not_exists, after_both) == ([{"result": "OK"}], edited, edited)
    assert '"7 d"' not in plans.plans.files[URI]


@pytest.mark.parametrize(
    ("key", "text", "reason"),
    [
        (
            "temporary",
            "DROP TABLE daily",
            "temporary[1] is not a CREATE TEMPORARY TABLE, VIEW or FUNCTION: DROP TABLE daily",
        ),
        (
            "temporary",
            "ALTER VIEW daily AS SELECT 1",
            "temporary[1] is not a CREATE TEMPORARY TABLE, VIEW or FUNCTION: ALTER",
        ),
        ("statements", "DELETE FROM daily", "statements[1] is not an INSERT INTO: DELETE FROM daily"),
    ],
)
def test_a_plan_runs_no_other_statements_than_those_that_are_compiled(
    plans: WholeGateway, key: str, text: str, reason: str
) -> None:
    plans.sql(COMPILE)
    body = file(plans)
    allowed = {"temporary": "CREATE TEMPORARY VIEW v AS SELECT 1", "statements": INSERT}
    plans.plans.files[URI] = json.dumps(body | {key: [allowed[key], text]})
    before = list(plans.statements.executed)

    refusals = [plans.refused(f"{verb} PLAN '{URI}'") for verb in ("EXECUTE", "EXPLAIN")]

    assert [f"Plan {URI}: {reason}" in each for each in refusals] == [True, True]
    assert (plans.statements.executed, plans.sql("SHOW JOBS")) == (before, [])


def test_a_plan_that_another_session_writes_meanwhile_is_kept_if_not_exists_says_so(
    plans: WholeGateway,
) -> None:
    plans.sql(COMPILE)
    written = plans.plans.files.pop(URI)
    plans.plans.before_write = lambda: plans.plans.files.update({URI: written})

    kept = plans.sql(f"COMPILE PLAN '{URI}' IF NOT EXISTS FOR {INSERT}")
    plans.plans.files.clear()
    refused = plans.refused(COMPILE)
    plans.plans.files.clear()
    job_id = execute(plans, f"COMPILE AND EXECUTE PLAN '{URI}' FOR {INSERT}")

    assert (kept, plans.plans.files) == ([{"result": "OK"}], {URI: written})
    assert "Cannot overwrite the plan file" in refused
    assert plans.job(job_id)["job id"] == job_id


def test_a_statement_that_gives_other_operators_now_is_refused_before_anything_starts(
    plans: WholeGateway,
) -> None:
    plans.sql(COMPILE)
    plans.streams.operators[INSERT] = aggregate(scan())

    refused = plans.refused(EXECUTE)

    assert f"Plan {URI}: the statement has other operators than when it was compiled" in refused
    assert "node 2 (stream-exec-deduplicate_1) is gone" in refused
    assert (plans.sql("SHOW JOBS"), plans.streams.running()) == ([], set())


def test_a_statement_that_cannot_be_planned_any_more_is_refused_with_its_plan(plans: WholeGateway) -> None:
    plans.sql(COMPILE)
    plans.streams.refusals[INSERT] = QueryFailed("There is no table flights.", line=1, position=36)

    refused = plans.refused(EXECUTE)

    assert refused == f"Plan {URI} cannot be executed: There is no table flights. (line 1, position 36)"


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ('{"version" : 9}', "version 9 is not supported"),
        ("nonsense", "the file is not JSON"),
        (
            '{"flinkVersion" : "2.3", "nodes" : [ ]}',
            "flinkVersion shows that Flink compiled the plan, which only Flink can run",
        ),
    ],
)
def test_a_plan_that_cannot_be_read_is_named(plans: WholeGateway, broken: str, reason: str) -> None:
    plans.plans.files[URI] = broken

    assert f"Plan {URI}: {reason}" in plans.refused(EXECUTE)


def test_a_plan_that_is_not_there_is_named(plans: WholeGateway) -> None:
    assert f"There is no plan {URI}" in plans.refused(EXECUTE)


def test_explain_shows_the_operators_their_ttls_and_what_will_not_match(plans: WholeGateway) -> None:
    plans.sql(COMPILE)

    [good] = plans.sql(f"EXPLAIN PLAN '{URI}'")
    plans.streams.operators[INSERT] = aggregate(
        replace(scan(), description="TableSourceScan(table=[lake.sales.moved])")
    )
    [bad] = plans.sql(f"EXPLAIN PLAN '{URI}'")

    assert (
        "[3] GroupAggregate(GroupAggregate(groupBy=[a `b`], select=[a `b`, COUNT(id) AS n]), "
        "changelogMode=[I,UB,UA,D], state=[groupAggregateState: 1 d])\n"
        "+- [2] Deduplicate(Deduplicate(keep=[FirstRow], key=[id], order=[PROCTIME]), changelogMode=[I], "
        "state=[deduplicateState: 1 h])\n"
        "   +- [1] TableSourceScan(TableSourceScan(table=[lake.sales.orders]), changelogMode=[I])\n"
    ) in good["result"]
    assert (
        "The statements still have these operators: the plan can be executed.\nWarning: node 2"
        in good["result"]
    )
    assert (
        "The plan cannot be executed: Plan file:///plans/orders.json: the statement has other operators"
        in bad["result"]
    )
    assert plans.sql("SHOW JOBS") == []


def test_the_temporary_objects_of_a_plan_are_those_of_the_session_that_compiled_it(
    plans: WholeGateway,
) -> None:
    view = "CREATE TEMPORARY VIEW late AS SELECT 1"
    plans.statements.answers[view], plans.statements.temporary_relations = NO_ROWS, frozenset({"late"})
    plans.sql(view)
    plans.sql(COMPILE)
    plans.expire_sessions()
    plans.statements.temporary_relations = frozenset()

    own = execute(plans)
    plans.sql("SET 'table.plan.restore.catalog-objects' = 'IDENTIFIER'")
    others = execute(plans)

    assert (definition(plans, own).temporary, definition(plans, others).temporary) == ((view,), ())


def test_a_plan_with_identifiers_alone_has_no_temporary_objects(plans: WholeGateway) -> None:
    view = "CREATE TEMPORARY VIEW late AS SELECT 1"
    plans.statements.answers[view], plans.statements.temporary_relations = NO_ROWS, frozenset({"late"})
    plans.sql(view)
    plans.sql("SET 'table.plan.compile.catalog-objects' = 'IDENTIFIER'")

    plans.sql(COMPILE)

    assert file(plans)["temporary"] == []
    assert definition(plans, execute(plans)).temporary == (view,)


def test_a_batch_statement_compiles_and_runs_as_batch(whole: WholeGateway) -> None:
    whole.statements.answers[INSERT] = NO_ROWS
    whole.sql(COMPILE)

    [answer] = whole.sql(EXECUTE)

    assert file(whole)["mode"] == "batch"
    assert [sql for _, sql in whole.statements.executed] == [INSERT]
    assert whole.job(answer["job id"])["status"] == "FINISHED"


VIEW = "CREATE TEMPORARY VIEW late AS SELECT 1"


def compile_batch_with_a_view(whole: WholeGateway, compile_plan: str = COMPILE) -> None:
    """Compile a batch plan in a session with a temporary view, and continue in a new session in another
    database.
    """
    for each in (INSERT, OTHER, VIEW):
        whole.statements.answers[each] = NO_ROWS
    whole.statements.temporary_relations = frozenset({"late"})
    whole.sql(VIEW)
    whole.sql(compile_plan)
    whole.expire_sessions()
    whole.sql("USE lake.other")
    whole.statements.executed.clear()


def ran(whole: WholeGateway) -> list[str]:
    """Return the statements that ran in one engine session, which is closed since."""
    [session] = {context.session_id for context, _ in whole.statements.executed}
    assert session in whole.statements.closed_sessions
    return [sql for _, sql in whole.statements.executed]


@pytest.mark.parametrize(
    ("statements", "run"),
    [(INSERT, [INSERT]), (f"STATEMENT SET BEGIN {INSERT}; {OTHER}; END", [INSERT, OTHER])],
)
def test_a_batch_plan_runs_in_another_session_with_its_own_database_and_temporary_objects(
    whole: WholeGateway, statements: str, run: list[str]
) -> None:
    compile_batch_with_a_view(whole, f"COMPILE PLAN '{URI}' FOR {statements}")

    [answer] = whole.sql(EXECUTE)

    assert [each.strip() for each in ran(whole)] == [HOME, VIEW, HOME, *run]
    assert whole.job(answer["job id"])["status"] == "FINISHED"


def test_a_batch_plan_has_its_temporary_functions_and_tables_in_another_session(whole: WholeGateway) -> None:
    compile_batch_with_a_view(whole)
    function = "CREATE TEMPORARY FUNCTION twice(n INT) RETURNS INT RETURN n * 2"
    table = "CREATE TEMPORARY TABLE clicks (n INT) WITH ('connector' = 'datagen')"
    whole.plans.files[URI] = json.dumps(file(whole) | {"temporary": [function, table, VIEW]})

    whole.sql(EXECUTE)

    [(session, name)] = whole.statements.unbounded
    assert (name, whole.statements.temporary_functions) == ("clicks", {"twice"})
    assert ran(whole) == [HOME, VIEW, HOME, INSERT]
    assert {context.session_id for context, _ in whole.statements.executed} == {session}


def test_a_batch_plan_takes_the_temporary_objects_of_the_session_that_executes_if_that_is_asked_for(
    whole: WholeGateway,
) -> None:
    compile_batch_with_a_view(whole)
    whole.sql("USE lake.default")
    whole.sql("SET 'table.plan.restore.catalog-objects' = 'IDENTIFIER'")
    whole.statements.executed.clear()

    whole.sql(EXECUTE)

    assert [sql for _, sql in whole.statements.executed] == [INSERT]


def test_the_temporary_objects_of_a_session_keep_their_database_when_it_executes_a_batch_plan_of_another(
    whole: WholeGateway,
) -> None:
    compile_batch_with_a_view(whole)
    whole.sql(VIEW)
    whole.sql("SET 'table.plan.restore.catalog-objects' = 'IDENTIFIER'")
    whole.statements.executed.clear()

    whole.sql(EXECUTE)

    assert ran(whole) == [HOME, "USE `lake`.`other`", VIEW, HOME, HOME, INSERT]


def test_a_batch_plan_creates_its_own_temporary_objects_where_a_session_has_others_of_the_same_text(
    whole: WholeGateway,
) -> None:
    compile_batch_with_a_view(whole)
    whole.sql(VIEW)
    whole.statements.executed.clear()

    whole.sql(EXECUTE)

    assert ran(whole) == [HOME, VIEW, HOME, INSERT]


def test_a_batch_plan_whose_temporary_objects_cannot_be_created_any_more_is_refused_with_its_name(
    whole: WholeGateway,
) -> None:
    compile_batch_with_a_view(whole)
    whole.statements.answers[VIEW] = QueryFailed("There is no table flights.", line=1, position=36)

    refused = whole.refused(EXECUTE)
    [explained] = whole.sql(f"EXPLAIN PLAN '{URI}'")

    assert f"Plan {URI} cannot be executed: There is no table flights." in refused
    assert "The plan cannot be executed: There is no table flights." in explained["result"]
    assert [sql for _, sql in whole.statements.executed] == [HOME, VIEW] * 2
    assert {context.session_id for context, _ in whole.statements.executed} <= set(
        whole.statements.closed_sessions
    )
    assert whole.sql("SHOW JOBS") == []


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (f"COMPILE PLAN '{URI}' FOR SELECT 1", "SELECT cannot be compiled; COMPILE PLAN accepts INSERT INTO"),
        (f"COMPILE PLAN '{URI}' FOR CREATE TABLE t AS SELECT 1", "CREATE cannot be compiled"),
        (f"COMPILE PLAN '{URI}' FOR UPDATE t SET a = 1", "UPDATE cannot be compiled"),
        (f"COMPILE PLAN '{URI}' FOR DELETE FROM t", "DELETE cannot be compiled"),
        (f"COMPILE PLAN '{URI}' FOR WITH a AS (SELECT 1) SELECT * FROM a", "SELECT cannot be compiled"),
        (
            f"COMPILE PLAN '{URI}' FOR STATEMENT SET BEGIN CREATE TABLE t AS SELECT 1; END",
            "CREATE TABLE AS cannot be compiled",
        ),
        (f"COMPILE PLAN '{URI}' FOR STATEMENT SET BEGIN END", "The STATEMENT SET is empty"),
    ],
)
def test_what_cannot_be_compiled_is_refused_and_there_is_no_file(
    whole: WholeGateway, statement: str, reason: str
) -> None:
    refused = whole.refused(statement)

    assert reason in refused
    assert whole.plans.files == {}
