from __future__ import annotations

import pytest

from mt_core.errors import DefinitionInvalid, QueryFailed, Unsupported
from mt_core.model.storage import METADATA_COLUMNS
from mt_core.model.table import Column, TableIdentifier
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.jvm_objects import java_class, static_member
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.refresh.engine import spark_engine
from mt_core.tables.engine import Query, RefreshEngine

pytestmark = pytest.mark.spark

UNSTABLE = {
    "SELECT now() FROM facts": "now()",
    "SELECT current_date() FROM facts": "current_date()",
    "SELECT * FROM facts WHERE id < unix_timestamp()": "current_timestamp()",
    "SELECT localtimestamp() FROM facts": "localtimestamp()",
    "SELECT current_user() FROM facts": "current_user()",
    "SELECT current_catalog() FROM facts": "current_catalog()",
    "SELECT current_database() FROM facts": "current_database()",
    "SELECT rand() FROM facts": "rand()",
    "SELECT uuid() FROM facts": "uuid()",
    "SELECT spark_partition_id() FROM facts": "spark_partition_id()",
    "SELECT monotonically_increasing_id() FROM facts": "monotonically_increasing_id()",
    "SELECT input_file_name() FROM facts": "input_file_name()",
    "SELECT id, _pos AS p FROM facts": "the metadata column _pos",
    "SELECT count(*) AS n FROM facts GROUP BY _file": "the metadata column _file",
    "SELECT id FROM facts WHERE _spec_id = 0": "the metadata column _spec_id",
    "SELECT id FROM facts WHERE id IN (SELECT _pos FROM facts)": "the metadata column _pos",
    "SELECT id FROM (SELECT id, _deleted AS d FROM facts) WHERE NOT d": "the metadata column _deleted",
    "SELECT f FROM files_of_facts": "the metadata column _file",
    "SELECT first(id) FROM facts": "first()",
    "SELECT any_value(id) FROM facts": "any_value()",
    "SELECT collect_list(id) FROM facts": "collect_list()",
    "SELECT * FROM facts LIMIT 1": "LIMIT without ORDER BY",
    "SELECT * FROM (SELECT * FROM facts LIMIT 1) ORDER BY id": "LIMIT without ORDER BY",
    "SELECT * FROM facts TABLESAMPLE (10 PERCENT)": "TABLESAMPLE",
    "SELECT * FROM facts WHERE id IN (SELECT id FROM facts WHERE ts < now())": "now()",
    "SELECT (SELECT max(id) FROM facts WHERE id < rand()) AS m": "rand()",
    "WITH f AS (SELECT id, current_timestamp() AS t FROM facts) SELECT id FROM f": "current_timestamp()",
    "SELECT * FROM recent_facts": "current_date()",
    "SELECT reflect('java.lang.Math', 'random') FROM facts": "reflect()",
    "SELECT * FROM facts TIMESTAMP AS OF now()": "TIMESTAMP AS OF",
    "SELECT * FROM IDENTIFIER('facts')": "IDENTIFIER()",
}
STABLE = [
    "SELECT * FROM facts",
    "SELECT id, count(*), max(ts) FROM facts GROUP BY id HAVING count(*) > 0",
    "SELECT * FROM facts ORDER BY id LIMIT 1",
    "SELECT id + 1 AS i FROM facts ORDER BY id LIMIT 1 OFFSET 1",
    "SELECT id, row_number() OVER (ORDER BY id) AS n FROM facts",
    "SELECT explode(array(id)) AS e, date_trunc('DAY', ts) AS d, lake.system.bucket(4, id) AS b FROM facts",
    "VALUES (1), (2)",
]


@pytest.fixture
def engine(spark_driver: SparkDriver) -> RefreshEngine:
    session, engine = spark_driver.session, spark_engine(SparkContexts(spark_driver))
    if not engine.catalogs.relation_exists(TableIdentifier("lake", ("facts",), "recent_facts")):
        session.sql("CREATE NAMESPACE IF NOT EXISTS lake.facts")
        session.sql("CREATE TABLE lake.facts.facts (id INT, ts TIMESTAMP) USING iceberg")
        session.sql("INSERT INTO lake.facts.facts VALUES (1, TIMESTAMP '2026-01-01'), (2, NULL)")
        session.sql(
            "CREATE VIEW lake.facts.recent_facts AS SELECT * FROM lake.facts.facts WHERE ts > current_date()"
        )
    session.sql("CREATE OR REPLACE VIEW lake.facts.files_of_facts AS SELECT _file AS f FROM lake.facts.facts")
    session.sql("CREATE TABLE IF NOT EXISTS spark_catalog.default.plain_files (id INT) USING parquet")
    return engine


def query(text: str, zone: str = "UTC") -> Query:
    return Query(text=text, catalog="lake", namespace=("facts",), zone=zone)


@pytest.mark.parametrize(("text", "reason"), list(UNSTABLE.items()))
def test_a_query_that_can_change_by_itself_says_why(engine: RefreshEngine, text: str, reason: str) -> None:
    assert engine.sources.read_vector(query(text)).unstable == reason


@pytest.mark.parametrize("text", STABLE)
def test_a_query_of_its_sources_alone_is_stable(engine: RefreshEngine, text: str) -> None:
    vector = engine.sources.read_vector(query(text))

    assert (vector.unstable, vector.unpinnable, vector.unversioned) == (None, None, ())


def test_sources_without_versions_are_named(
    engine: RefreshEngine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("files")
    (folder / "a.json").write_text('{"id": 1}')

    vector = engine.sources.read_vector(
        query(
            f"SELECT id FROM facts UNION ALL SELECT id FROM json.`{folder}` "
            "UNION ALL TABLE spark_catalog.default.plain_files"
        )
    )

    assert vector.unversioned == ("spark_catalog.default.plain_files", f"json.`{folder}`")
    assert [source.kind for source in vector.sources] == ["table", "unversioned", "unversioned"]
    assert vector.unpinnable is None


def test_analysis_gives_columns_and_a_text_that_means_the_same_anywhere(engine: RefreshEngine) -> None:
    text = (
        "WITH f AS (SELECT * FROM facts) -- facts\n"
        "SELECT f.id, r.ts AS `when`, struct(1 AS `a b`) AS s FROM f JOIN recent_facts r USING (id)"
    )

    found = engine.queries.analyse(query(text))

    assert found.columns == (
        Column(name="id", type="int"),
        Column(name="when", type="timestamp"),
        Column(name="s", type="struct<`a b`:int>"),
    )
    expanded_text = "SELECT `facts`.`id`, `facts`.`ts` FROM `lake`.`facts`.`facts`)"
    assert found.expanded_query == text.replace("SELECT * FROM facts)", expanded_text).replace(
        "recent_facts r", "`lake`.`facts`.`recent_facts` r"
    )
    assert (found.sources, found.relations) == (("lake.facts.facts",), frozenset({"facts", "recent_facts"}))
    assert engine.queries.analyse(Query(text=found.expanded_query)).columns == found.columns


def test_zone_and_settings_of_a_query_are_its_own(engine: RefreshEngine) -> None:
    engine.queries.analyse(query("SELECT 1 AS a", zone="Asia/Tokyo"))

    with pytest.raises(QueryFailed):
        engine.queries.analyse(
            Query(text="SELECT * FROM facts", settings={"spark.sql.ansi.enabled": "false"})
        )

    assert engine.queries.analyse(query("SELECT id FROM facts")).sources == ("lake.facts.facts",)


def test_an_analysis_error_has_line_and_position(engine: RefreshEngine) -> None:
    with pytest.raises(QueryFailed, match="nope") as caught:
        engine.queries.analyse(query("SELECT id,\n  nope FROM facts"))

    assert (caught.value.error_class, caught.value.line, caught.value.position) == (
        "UNRESOLVED_COLUMN.WITH_SUGGESTION",
        2,
        3,
    )


def test_a_temporary_view_is_not_seen_and_the_error_says_so(
    engine: RefreshEngine, spark_driver: SparkDriver
) -> None:
    spark_driver.session.sql("CREATE OR REPLACE TEMPORARY VIEW mine AS SELECT 1 AS id")
    spark_driver.session.sql("CREATE OR REPLACE GLOBAL TEMPORARY VIEW ours AS SELECT 1 AS id")

    with pytest.raises(QueryFailed, match="a session of their own"):
        engine.queries.analyse(query("SELECT * FROM mine"))
    with pytest.raises(DefinitionInvalid, match=r"global_temp\.ours is a temporary view"):
        engine.queries.analyse(query("SELECT * FROM global_temp.ours"))


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE facts",
        "INSERT INTO facts SELECT * FROM facts",
        "WITH f AS (SELECT 1) INSERT INTO facts SELECT * FROM f",
    ],
)
def test_a_command_is_refused_and_not_run(
    engine: RefreshEngine, spark_driver: SparkDriver, text: str
) -> None:
    with pytest.raises(DefinitionInvalid, match="not a query"):
        engine.queries.analyse(query(text))

    assert spark_driver.session.table("lake.facts.facts").count() == 2


def test_two_columns_of_one_name_are_refused(engine: RefreshEngine) -> None:
    with pytest.raises(DefinitionInvalid, match="two columns named ID"):
        engine.queries.analyse(query("SELECT id, 1 AS ID FROM facts"))


def test_a_stream_is_refused(engine: RefreshEngine) -> None:
    with pytest.raises(Unsupported, match="leave out STREAM"):
        engine.queries.analyse(query("SELECT * FROM STREAM facts"))


def test_types_that_storage_changes_are_told(engine: RefreshEngine) -> None:
    columns = [
        Column(name="a", type="tinyint"),
        Column(name="b", type="char(3)"),
        Column(name="c", type="array<struct<`x y`:smallint>>"),
        Column(name="d", type="decimal(10,2)"),
    ]

    found = engine.queries.check_columns(TableIdentifier("lake", ("facts",), "t"), columns)

    assert [column.type for column in found] == ["int", "string", "array<struct<`x y`:int>>", "decimal(10,2)"]


@pytest.mark.parametrize(
    "kind",
    [
        "interval day to second",
        "time(6)",
        "void",
        "array<void>",
        "struct<>",
        "map<string,struct<>>",
        "struct<``:int>",
    ],
)
def test_a_type_that_storage_does_not_have_is_named(engine: RefreshEngine, kind: str) -> None:
    with pytest.raises(DefinitionInvalid, match=r"Column bad has type .*CAST"):
        engine.queries.check_columns(
            TableIdentifier("lake", ("facts",), "t"), [Column(name="bad", type=kind)]
        )


def test_the_names_of_metadata_columns_are_those_of_iceberg(spark_driver: SparkDriver) -> None:
    constants = java_class(spark_driver.session, "org.apache.iceberg.MetadataColumns").getFields()
    names = {
        str(field.get(None).name())
        for field in constants
        if str(field.getType().getSimpleName()) == "NestedField"
    } | {"_partition"}
    is_reserved = static_member(spark_driver.session, "org.apache.iceberg.MetadataColumns.isMetadataColumn")

    assert {name for name in names if is_reserved(name)} == METADATA_COLUMNS
