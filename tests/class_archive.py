"""A class data sharing archive of Spark's classes, with which the JVMs of the tests start faster.

Run as a module, it creates the archive for the installed Spark and Java, unless it exists. Without an
archive, or with one for another Spark or Java, a JVM loads its classes as usual.
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

from mt_core.base.cache_folder import cache_dir

# Without the C2 compiler, the code cache defaults to 48 MB. Spark fills it within minutes, and sweeping it
# then takes a fifth of the time. A small metaspace causes full garbage collections while classes are loaded.
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
    """Return the path of the archive for the installed Spark and Java; it may not exist."""
    spark, release = find_spec("pyspark"), _java().parents[1] / "release"
    assert spark is not None
    made_of = (
        f"{version('pyspark')} {spark.origin} {release} "
        f"{release.stat().st_mtime_ns if release.exists() else 0}"
    )
    return cache_dir(os.environ) / "classes" / f"{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.jsa"


def jvm_options() -> str:
    """Return options for a small JVM that starts fast and ignores an unusable archive without a warning."""
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
    """Record the classes that a gateway loads for the statements, and replace the archive atomically."""
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
    """Return the `java` program that Spark runs."""
    home = os.environ.get("JAVA_HOME")
    return Path(home, "bin", "java").resolve() if home else Path(shutil.which("java") or "java").resolve()


if __name__ == "__main__":
    sys.exit(main())
