"""An archive of the classes that Spark loads, with which the many JVMs of the tests start in less time.

Run as a module it makes the archive of this Spark and this Java, unless there is one.
Without it, or with another Spark or Java than it was made with, a JVM loads its classes as ever.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from mt_core.spark.driver.jars import cache_dir

# Without its slow compiler a JVM keeps 48 MB of code, which Spark fills in minutes; a fifth of the
# time then goes to sweeping it. With little room for classes it collects all garbage again and again
# while they are loaded.
ROOM = "-XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m"
SMALL_JVM = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {ROOM}"
DUMP_S = 300
STATEMENTS = (
    "CREATE TABLE orders (id INT, city STRING, day DATE) USING iceberg PARTITIONED BY (day)",
    "INSERT INTO orders VALUES (1, 'Rome', DATE '2026-01-01'), (2, 'Oslo', DATE '2026-01-02')",
    "CREATE MATERIALIZED TABLE totals FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS "
    "SELECT city, count(*) AS n FROM orders GROUP BY city",
    "UPDATE orders SET city = 'Bern' WHERE id = 1",
    "MERGE INTO orders o USING (SELECT 2 AS id) n ON o.id = n.id WHEN MATCHED THEN DELETE",
    "ALTER MATERIALIZED TABLE totals REFRESH",
    "SELECT t.city, t.n, o.day FROM totals t LEFT JOIN orders o ON t.city = o.city ORDER BY t.city",
)


def archive() -> Path:
    """Return where the archive of this Spark and this Java is, or would be."""
    spark, release = find_spec("pyspark"), _java().parents[1] / "release"
    assert spark is not None
    made_of = (
        f"{version('pyspark')} {spark.origin} {release} "
        f"{release.stat().st_mtime_ns if release.exists() else 0}"
    )
    return cache_dir(os.environ) / "classes" / f"{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.jsa"


def jvm_options() -> str:
    """Return the options of a JVM that is small, starts fast, and says nothing of an archive
    that it cannot use.
    """
    return f"{SMALL_JVM} -XX:SharedArchiveFile={archive()} -Xlog:cds=off -Xlog:class+path=off"


def main() -> int:
    file, said = archive(), "Classes of Spark"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            try:
                _make(file, Path(folder))
            except (OSError, subprocess.SubprocessError) as error:
                said = f"No archive of the classes of Spark, the tests take longer: {error}"
    sys.stdout.write(f"{said}: {file}\n")
    return 0


def _make(file: Path, folder: Path) -> None:
    """Write the archive of what a gateway loads for the statements, then put it in place whole."""
    from tests.support.gateway.own_process import GatewayUnderTest

    recording = f"spark.driver.extraJavaOptions={SMALL_JVM} -XX:+RecordDynamicDumpInfo"
    fresh = file.with_name(f"{file.name}.{os.getpid()}")
    with GatewayUnderTest(folder / "home", [recording]) as gateway:
        gateway.start()
        for statement in STATEMENTS:
            gateway.sql(statement)
        command = [str(_java().with_name("jcmd")), str(gateway.jvm_pid), "VM.cds", "dynamic_dump", str(fresh)]
        subprocess.run(command, check=True, capture_output=True, timeout=DUMP_S)
    fresh.replace(file)


def _java() -> Path:
    """Return the program with which Spark starts its JVM."""
    home = os.environ.get("JAVA_HOME")
    return Path(home, "bin", "java").resolve() if home else Path(shutil.which("java") or "java").resolve()


if __name__ == "__main__":
    sys.exit(main())
