"""Local files as Spark writes them: their modes, their checksums, and no process that is started for one."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from mt_core.spark.driver.jvm_objects import static_member
from mt_core.spark.driver.local_files import CLASS, IMPLEMENTATION, use_local_files
from mt_core.spark.driver.spark_driver import SparkDriver

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
HADOOPS = "org.apache.hadoop.fs.LocalFileSystem"


class Hadoop:
    """File systems of the JVM, and what they do in a folder."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self.conf: Any = session.sparkContext._jsc.hadoopConfiguration()
        self.uri = static_member(session, "java.net.URI.create")("file:///")

    def shared(self) -> Any:
        """Return the file system that all of Spark uses for local files."""
        return static_member(self.session, "org.apache.hadoop.fs.FileSystem.get")(self.uri, self.conf)

    def own(self) -> Any:
        """Return Hadoop's own, which Spark would use."""
        file_system = static_member(self.session, HADOOPS)()
        file_system.initialize(self.uri, self.conf)
        return file_system

    def modes(self, file_system: Any, folder: Path) -> dict[str, str]:
        """Return the modes of what *file_system* creates in *folder*."""
        path = static_member(self.session, "org.apache.hadoop.fs.Path")
        permission = static_member(self.session, "org.apache.hadoop.fs.permission.FsPermission")
        file_system.mkdirs(path(f"{folder}/deep"))
        (folder / "deep").chmod(0o2755)
        file_system.create(path(f"{folder}/deep/file"), True).close()
        for name, mode in (("secret", "600"), ("odd", "1644"), ("deep", "1775")):
            if name != "deep":
                file_system.create(path(f"{folder}/{name}"), True).close()
            file_system.setPermission(path(f"{folder}/{name}"), permission(mode))
        return {str(each.relative_to(folder)): f"{each.stat().st_mode:o}" for each in folder.rglob("*")}


@pytest.fixture
def hadoop(spark_driver: SparkDriver) -> Hadoop:
    session = spark_driver.new_session()
    # The driver does so too, soon after it is ready.
    use_local_files(session)
    return Hadoop(session)


def test_what_spark_creates_has_the_modes_and_checksums_that_hadoop_gives(
    hadoop: Hadoop, tmp_path: Path
) -> None:
    modes = hadoop.modes(hadoop.shared(), tmp_path / "ours")

    assert hadoop.shared().getClass().getName() == CLASS
    assert modes == hadoop.modes(hadoop.own(), tmp_path / "hadoops")
    assert modes["deep/.file.crc"] == modes["deep/file"]


def test_a_new_table_and_a_commit_to_it_start_no_process(spark_driver: SparkDriver) -> None:
    use_local_files(spark_driver.session)

    # A process that Python functions of a test before have left, or that watches the memory of Spark,
    # can end meanwhile.
    assert any(_starts_no_process(spark_driver) for _ in range(5))


def _starts_no_process(driver: SparkDriver) -> bool:
    """Create a table and commit to it; return whether no process that the JVM has started ended meanwhile."""
    table = f"lake.default.quiet_{uuid4().hex[:8]}"
    before = _ended_children(driver)
    driver.session.sql(f"CREATE TABLE {table} (a INT)")
    driver.session.sql(f"INSERT INTO {table} VALUES (1)")
    after = _ended_children(driver)
    driver.session.sql(f"DROP TABLE {table} PURGE")
    return after == before


def test_a_file_system_that_the_configuration_names_is_kept(hadoop: Hadoop) -> None:
    before = hadoop.shared()
    hadoop.conf.set(IMPLEMENTATION, HADOOPS)

    try:
        use_local_files(hadoop.session)
    finally:
        hadoop.conf.unset(IMPLEMENTATION)

    assert hadoop.shared().equals(before)


def _ended_children(driver: SparkDriver) -> int:
    """Return a number that grows with each process that the JVM has started and that has ended:
    the page faults of them all.
    """
    fields = Path(f"/proc/{driver.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[8])
