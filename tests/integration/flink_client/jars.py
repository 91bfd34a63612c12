"""The classes of Flink's SQL client and JDBC driver, fetched once from Maven Central by Spark's own resolver
and kept.

Run as a module it fetches them and says where they are.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.integration.maven_jars import Environ, fetch, maven_jars

FLINK = "2.3.0"
# The driver's bundle has all of Flink that the client needs too;
# the rest is what Flink's distribution has beside it.
PACKAGES = (
    f"org.apache.flink:flink-sql-client:{FLINK}",
    f"org.apache.flink:flink-sql-jdbc-driver-bundle:{FLINK}",
    "commons-cli:commons-cli:1.5.0",
    "org.apache.commons:commons-lang3:3.18.0",
    "org.snakeyaml:snakeyaml-engine:2.6",
    "com.ibm.icu:icu4j:67.1",
    "com.google.code.findbugs:jsr305:1.3.9",
    "org.slf4j:slf4j-api:1.7.36",
    "org.slf4j:slf4j-nop:1.7.36",
)
IN_THE_BUNDLE = (
    "flink-clients",
    "flink-shaded-jackson",
    "flink-sql-gateway-api",
    "flink-table-api-java-bridge",
)


def flink_jars(environ: Environ) -> list[Path]:
    """Return the jars, about 57 MB; raises ConfigError that says where to put them
    where nothing can be fetched.
    """
    return maven_jars(
        environ, "flink", PACKAGES, [f"org.apache.flink:{artifact}" for artifact in IN_THE_BUNDLE]
    )


if __name__ == "__main__":
    sys.exit(fetch("Flink", flink_jars))
