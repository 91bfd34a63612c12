from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import pyspark
import pytest

from mt_core.errors import ConfigError, JavaMissing
from mt_core.spark.driver.conf import (
    CHECKED_FILES,
    S3_FILES,
    DriverSettings,
    check_authentication,
    default_files,
    launch_conf,
    prepare_files,
    spark_conf,
)
from mt_core.spark.driver.jars import JAR_SETS, PACKAGES, default_jars_dir, jar_conf, local_jars
from mt_core.spark.driver.java import check_java, java_version

TIMEOUTS = "connectTimeout=10&socketTimeout=60&tcpKeepAlive=true"


def settings(tmp_path: Path, **spark: str) -> DriverSettings:
    return DriverSettings(
        catalog_url=f"jdbc:sqlite:file:{tmp_path}/db/catalog.db",
        warehouse=str(tmp_path / "warehouse"),
        jars_dir=tmp_path / "jars",
        log_dir=tmp_path / "log",
        zone="Europe/Berlin",
        spark_conf=spark,
    )


def jar(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", "")
    return path


def test_an_error_of_memory_of_one_statement_does_not_end_the_jvm_of_all(tmp_path: Path) -> None:
    assert "ExitOnOutOfMemoryError" not in spark_conf(settings(tmp_path))["spark.driver.extraJavaOptions"]


def test_the_users_settings_win_and_java_options_are_joined(tmp_path: Path) -> None:
    conf = spark_conf(
        settings(tmp_path, **{"spark.driver.memory": "8g", "spark.driver.extraJavaOptions": "-Xss4m"})
    )

    assert conf["spark.driver.memory"] == "8g"
    assert conf["spark.sql.session.timeZone"] == "Europe/Berlin"
    assert conf["spark.driver.extraJavaOptions"].startswith("-Dlog4j2.configurationFile=file:///")
    assert conf["spark.driver.extraJavaOptions"].endswith(" -Xss4m")


def test_temporary_files_of_spark_are_in_its_folder_unless_the_user_names_one(tmp_path: Path) -> None:
    users = {"spark.driver.extraJavaOptions": "-Djava.io.tmpdir=/scratch", "spark.local.dir": "/fast"}
    ours = replace(settings(tmp_path), temporary=tmp_path / 'a "b" c')

    ours_only, overridden = spark_conf(ours), spark_conf(replace(ours, spark_conf=users))

    assert ours_only["spark.driver.extraJavaOptions"].endswith(f' "-Djava.io.tmpdir={tmp_path}/a \\"b\\" c"')
    assert "spark.local.dir" not in ours_only
    assert overridden["spark.driver.extraJavaOptions"].endswith(" -Djava.io.tmpdir=/scratch")
    assert overridden["spark.local.dir"] == "/fast"


def test_what_a_killed_jvm_left_is_removed_and_nothing_outside_of_its_folder(tmp_path: Path) -> None:
    disk, others = tmp_path / "disk", tmp_path / "others"
    for folder in (disk / "blockmgr-1" / "0c", others):
        folder.mkdir(parents=True)
        (folder / "file").write_text("rows")
    (disk / "native.so").write_text("code")
    (disk / "link").symlink_to(others)
    (tmp_path / "tmp").symlink_to(disk)

    prepare_files(replace(settings(tmp_path), temporary=tmp_path / "tmp"))

    assert list(disk.iterdir()) == []
    assert (others / "file").read_text() == "rows"
    assert (tmp_path / "tmp").is_symlink()


def test_a_sqlite_catalog_waits_for_its_lock_and_appends_to_a_log(tmp_path: Path) -> None:
    conf = spark_conf(settings(tmp_path))

    options = "busy_timeout=30000&journal_mode=WAL&synchronous=FULL"
    assert conf["spark.sql.catalog.lake.uri"] == f"jdbc:sqlite:file:{tmp_path}/db/catalog.db?{options}"


def test_a_postgresql_url_becomes_jdbc_with_user_and_password_apart() -> None:
    conf = spark_conf(
        DriverSettings(
            catalog_url="postgresql+psycopg://me:p%40ss@db.example/lake?sslmode=require",
            warehouse="s3://bucket/warehouse",
            jars_dir=Path("/jars"),
            log_dir=Path("/log"),
        )
    )

    prefix = "spark.sql.catalog.lake."
    assert conf[f"{prefix}uri"] == f"jdbc:postgresql://db.example:5432/lake?sslmode=require&{TIMEOUTS}"
    assert (conf[f"{prefix}jdbc.user"], conf[f"{prefix}jdbc.password"]) == ("me", "p@ss")


def test_a_rest_catalog_has_its_server_and_leaves_the_warehouse_to_it(tmp_path: Path) -> None:
    conf = spark_conf(
        DriverSettings(
            catalog_url="https://server/iceberg",
            warehouse="",
            is_served=True,
            catalog_options={"credential": "id:secret", "header.x": "y"},
            spark_catalog="/home/warehouse/spark_catalog",
            jars_dir=tmp_path,
            log_dir=tmp_path,
        )
    )

    prefix = "spark.sql.catalog.lake."
    assert {key.removeprefix(prefix): value for key, value in conf.items() if key.startswith(prefix)} == {
        "type": "rest",
        "uri": "https://server/iceberg",
        "cache-enabled": "false",
        "default-namespace": "default",
        "credential": "id:secret",
        "header.x": "y",
    }
    assert conf["spark.sql.warehouse.dir"] == "/home/warehouse/spark_catalog"
    assert default_files(conf) == {}
    assert "id:secret" not in str(launch_conf(conf))


def test_options_of_a_jdbc_catalog_are_passed_to_iceberg_and_spark_settings_win(tmp_path: Path) -> None:
    own = replace(
        settings(tmp_path, **{"spark.sql.catalog.lake.s3.endpoint": "http://spark"}),
        catalog_options={"s3.endpoint": "http://option", "io-impl": "org.example.IO"},
    )

    conf = spark_conf(own)

    assert conf["spark.sql.catalog.lake.s3.endpoint"] == "http://spark"
    assert conf["spark.sql.catalog.lake.io-impl"] == "org.example.IO"
    assert default_files(conf) == {}


@pytest.mark.parametrize(
    ("url", "uri"),
    [
        ("jdbc:postgresql://h/d", f"jdbc:postgresql://h/d?{TIMEOUTS}"),
        (
            "jdbc:postgresql://h/d?socketTimeout=0&user=u",
            "jdbc:postgresql://h/d?socketTimeout=0&user=u&connectTimeout=10&tcpKeepAlive=true",
        ),
    ],
)
def test_a_silent_connection_of_the_catalog_is_given_up_unless_its_url_says_otherwise(
    tmp_path: Path, url: str, uri: str
) -> None:
    conf = spark_conf(replace(settings(tmp_path), catalog_url=url))

    assert conf["spark.sql.catalog.lake.uri"] == uri


@pytest.mark.parametrize("master", ["local[*]", "local", "local[4,2]", "yarn", "k8s://https://h:6443"])
def test_the_ports_of_spark_ask_for_a_secret_that_spark_makes_where_it_can(
    tmp_path: Path, master: str
) -> None:
    wanted = settings(tmp_path, **{"spark.master": master})

    check_authentication(wanted)

    conf = spark_conf(wanted)
    assert conf["spark.authenticate"] == "true"
    assert "spark.authenticate.secret" not in conf


@pytest.mark.parametrize("master", ["spark://h:7077", "local-cluster[2,1,1024]"])
def test_a_cluster_without_a_secret_is_refused_unless_a_setting_allows_it_by_name(
    tmp_path: Path, master: str
) -> None:
    bare = settings(tmp_path, **{"spark.master": master})
    with_secret = replace(bare, spark_conf={**bare.spark_conf, "spark.authenticate.secret": "hush"})
    allowed = replace(bare, allow_unauthenticated=True)

    with pytest.raises(ConfigError) as refused:
        check_authentication(bare)
    check_authentication(with_secret)
    check_authentication(allowed)

    assert refused.value.message == (
        f"The ports of Spark on {master} would not ask for a secret, and any client that reaches them can "
        "run code as the gateway's user: set spark.authenticate.secret to the secret of its master and "
        "workers, and spark.network.crypto.enabled to true on all of them, or set "
        "sql-gateway.engine.allow-unauthenticated to true if only trusted clients can reach them."
    )
    assert refused.value.facts == {"key": "spark.authenticate"}
    assert [spark_conf(each)["spark.authenticate"] for each in (with_secret, allowed)] == ["true", "false"]
    assert "hush" not in launch_conf(spark_conf(with_secret)).values()


@pytest.mark.parametrize("allowed", [False, True])
def test_authentication_without_a_secret_of_the_cluster_is_refused(tmp_path: Path, allowed: bool) -> None:
    conf = {"spark.master": "spark://h:7077", "spark.authenticate": "true"}

    with pytest.raises(
        ConfigError, match=r"spark\.authenticate is true, and spark\.authenticate\.secret is not set"
    ):
        check_authentication(replace(settings(tmp_path, **conf), allow_unauthenticated=allowed))


@pytest.mark.parametrize("master", ["local[*]", "spark://h:7077"])
def test_authentication_that_is_turned_off_is_refused_too_unless_a_setting_allows_it(
    tmp_path: Path, master: str
) -> None:
    conf = {"spark.master": master, "spark.authenticate": "false", "spark.authenticate.secret": "hush"}
    off = settings(tmp_path, **conf)

    with pytest.raises(
        ConfigError, match=r"leave spark\.authenticate at true, or set sql-gateway\.engine\.allow"
    ):
        check_authentication(off)
    check_authentication(replace(off, allow_unauthenticated=True))


def test_no_secret_is_on_the_command_line_of_the_jvm(tmp_path: Path) -> None:
    conf = spark_conf(
        settings(tmp_path, **{"spark.hadoop.fs.s3a.secret.key": "hush", "spark.jars.repositories": "r"})
    )

    launched = launch_conf(conf)

    assert launched["spark.jars.repositories"] == "r"
    assert "hush" not in launched.values()
    assert not [key for key in launched if key.startswith("spark.sql.")]


def test_the_files_the_configuration_names_are_written(tmp_path: Path) -> None:
    prepare_files(settings(tmp_path))

    assert sorted(path.name for path in (tmp_path / "log").iterdir()) == ["log4j2.properties", "pools.xml"]
    assert (tmp_path / "db").is_dir()


def test_jars_put_there_by_hand_or_by_ivy_need_no_network(tmp_path: Path) -> None:
    by_hand = jar(tmp_path / "iceberg-spark-runtime-4.1_2.13-1.12.0.jar")
    sqlite = jar(tmp_path / "jars" / "org.xerial_sqlite-jdbc-3.50.3.0.jar")
    postgresql = jar(tmp_path / "jars" / "org.postgresql_postgresql-42.7.7.jar")

    conf = jar_conf(tmp_path, {"spark.jars": "/mine.jar"})

    assert local_jars(tmp_path) == [by_hand, sqlite, postgresql]
    assert conf == {"spark.jars": f"{by_hand},{sqlite},{postgresql},/mine.jar"}


def test_a_jar_whose_download_was_cut_off_is_fetched_again(tmp_path: Path) -> None:
    jar(tmp_path / "iceberg-spark-runtime-4.1_2.13-1.12.0.jar")
    jar(tmp_path / "sqlite-jdbc-3.50.3.0.jar")
    (tmp_path / "postgresql-42.7.7.jar").write_bytes(b"PK half")

    conf = jar_conf(tmp_path, {"spark.jars.packages": "a:b:1"})

    assert local_jars(tmp_path) is None
    assert conf == {"spark.jars.packages": ",".join([*PACKAGES, "a:b:1"]), "spark.jars.ivy": str(tmp_path)}


def test_the_jars_folder_can_be_chosen(tmp_path: Path) -> None:
    assert default_jars_dir({"FRESHTABLE_SPARK_JARS": str(tmp_path)}) == tmp_path
    assert default_jars_dir({"XDG_CACHE_HOME": "/cache"}) == Path("/cache/freshtable/jars")
    assert default_jars_dir({}) == Path.home() / ".cache/freshtable/jars"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_292"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("gibberish", None),
    ],
)
def test_the_version_of_java_is_read_in_both_spellings(text: str, version: int | None) -> None:
    assert java_version(text) == version


def test_a_missing_java_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(JavaMissing, match=r"no Java on this machine.*openjdk-17.*brew install.*JAVA_HOME"):
        check_java({"PATH": str(tmp_path)})
    with pytest.raises(JavaMissing, match=f"JAVA_HOME is {tmp_path}, and there is no bin/java"):
        check_java({"JAVA_HOME": str(tmp_path)})


def test_an_old_java_is_refused_by_its_version(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)

    with pytest.raises(JavaMissing, match=r"is Java 11; Spark needs 17 or newer"):
        check_java({"JAVA_HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("options", "is_checked"),
    [
        ({"type": "jdbc"}, True),
        ({"type": "hive"}, True),
        ({"catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog"}, True),
        ({"type": "jdbc", "io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}, False),
        ({"type": "rest"}, False),
        ({"type": "hadoop"}, False),
    ],
)
def test_iceberg_catalogs_whose_files_are_those_of_hadoop_report_damaged_metadata_at_once(
    options: dict[str, str], is_checked: bool
) -> None:
    conf = {"spark.sql.catalog.c": "org.apache.iceberg.spark.SparkCatalog"}
    conf |= {f"spark.sql.catalog.c.{key}": value for key, value in options.items()}

    assert default_files(conf) == ({"spark.sql.catalog.c.io-impl": CHECKED_FILES} if is_checked else {})


@pytest.mark.parametrize(
    ("warehouse", "hadoop", "is_icebergs"),
    [
        ("s3://lake/w", {}, True),
        ("s3://lake/w", {"spark.hadoop.fs.s3.impl": "org.example.S3"}, False),
        ("s3a://lake/w", {}, False),
        ("/data/s3", {}, False),
    ],
)
def test_icebergs_own_files_of_s3_are_used_where_hadoop_has_none(
    warehouse: str, hadoop: dict[str, str], is_icebergs: bool
) -> None:
    conf = {
        "spark.sql.catalog.c": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.c.type": "jdbc",
        "spark.sql.catalog.c.warehouse": warehouse,
    }

    files = default_files(conf | hadoop)

    assert files == {"spark.sql.catalog.c.io-impl": S3_FILES if is_icebergs else CHECKED_FILES}


def test_spark_loads_the_jars_that_were_added_but_those_of_kafka(tmp_path: Path) -> None:
    for package in [*PACKAGES, *JAR_SETS["s3a"].packages, *JAR_SETS["kafka"].packages]:
        _, artifact, version = package.split(":")
        jar(tmp_path / f"{artifact}-{version}.jar")

    conf = jar_conf(tmp_path, {"spark.jars": "/mine.jar"})

    assert [Path(path).name for path in conf["spark.jars"].split(",")] == [
        "iceberg-spark-runtime-4.1_2.13-1.12.0.jar",
        "sqlite-jdbc-3.50.3.0.jar",
        "postgresql-42.7.7.jar",
        "iceberg-aws-bundle-1.12.0.jar",
        "hadoop-aws-3.4.2.jar",
        "s3-transfer-manager-2.54.17.jar",
        "apache-client-2.54.17.jar",
        "mine.jar",
    ]


def test_the_file_system_of_s3_is_that_of_sparks_hadoop() -> None:
    [hadoop] = (Path(pyspark.__path__[0]) / "jars").glob("hadoop-client-api-*.jar")

    assert f"org.apache.hadoop:hadoop-aws:{hadoop.stem.rpartition('-')[2]}" in JAR_SETS["s3a"].packages


def test_catalogs_of_others_keep_their_settings() -> None:
    conf = {"spark.sql.catalog.c": "org.example.Catalog", "spark.sql.catalog.c.type": "jdbc"}

    assert default_files(conf) == {}
