"""A real object store for tests: SeaweedFS, with S3, and a REST catalog of Iceberg that is written in Go.

Its program is in an environment of its own, which `make object-store` creates. Run as a module it fetches the
jars with which Spark reaches S3, and says where they are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyarrow.fs import FileSelector, FileType, S3FileSystem
from pyspark.sql import SparkSession

from mt_core.base.cache_folder import cache_dir
from mt_core.demo import object_store as demo_store
from mt_core.demo.free_ports import free_ports
from mt_core.demo.object_store import BUCKET, PORTS, PROGRAM, REGION
from mt_core.spark.driver.jars import (
    JAR_SETS,
    JARS_VARIABLE,
    add_jars,
    default_jars_dir,
    local_jars,
)
from tests.installed_tools import tool
from tests.integration.maven_jars import Environ, fetch
from tests.server_process import ServerProcess

KEY, SECRET = "store-access-key", "store-secret-key"


def store_jars(environ: Environ) -> Path:
    """Return a folder with all jars of a gateway and those of `freshtable jars add s3a`. Raises ConfigError.

    It is not the default folder, so that Spark in other tests does not load the jars.
    """
    folder = cache_dir(environ) / "store-jars"
    for jar in local_jars(default_jars_dir(environ)) or []:
        # Ivy has its jars in a folder of this name.
        link = folder / ("jars" if jar.parent.name == "jars" else "") / jar.name
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.symlink_to(jar)
    add_jars("s3a", {**environ, JARS_VARIABLE: str(folder)}, print)
    return folder


def aws_jars(environ: Environ) -> list[Path]:
    """Return the jars that Iceberg needs for S3. Raises ConfigError."""
    return local_jars(store_jars(environ), JAR_SETS["aws"].packages) or []


def load_aws(session: SparkSession) -> None:
    """Let Iceberg reach S3 in a JVM that runs already, in which Spark does not need to be on a cluster.

    Iceberg looks up its FileIO with the class loader of its own jar.
    """
    jvm: Any = session._jvm
    loader = jvm.java.lang.Class.forName(
        "org.apache.iceberg.CatalogUtil", True, session._jsparkSession.sharedState().jarClassLoader()
    ).getClassLoader()
    for jar in aws_jars(os.environ):
        loader.addURL(jvm.java.net.URL(jar.as_uri()))


class ObjectStore(demo_store.ObjectStore):
    """A store whose process a test can kill and start again."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, tool(PROGRAM), free_ports(PORTS), KEY, SECRET)
        self.bucket = BUCKET
        self.process = ServerProcess(self.command, folder, self._is_ready, self.environ)

    @property
    def rest_options(self) -> dict[str, str]:
        """The options of the REST catalog, without the prefix of the catalog."""
        return {
            "type": "rest",
            "uri": self.rest_uri,
            "warehouse": self.rest_warehouse,
            **self.login_options,
            **self.file_options,
        }

    @property
    def hadoop_options(self) -> dict[str, str]:
        """The settings of Spark for files on `s3a://`."""
        prefix = "spark.hadoop.fs.s3a"
        return {
            f"{prefix}.endpoint": self.endpoint,
            f"{prefix}.endpoint.region": REGION,
            f"{prefix}.path.style.access": "true",
            f"{prefix}.access.key": KEY,
            f"{prefix}.secret.key": SECRET,
        }

    def names(self, folder: str) -> list[str]:
        """Return the paths of all objects below *folder*, which begins with the name of its bucket."""
        listed = self._objects().get_file_info(FileSelector(folder, recursive=True, allow_not_found=True))
        return sorted(each.path for each in listed if each.type is FileType.File)

    def _is_ready(self) -> bool:
        """Return whether both buckets exist, which SeaweedFS creates after its servers have started."""
        try:
            [bucket] = self._objects().get_file_info([BUCKET])
        except OSError:
            return False
        return bucket.type is FileType.Directory and self.answers()

    def _objects(self) -> S3FileSystem:
        return S3FileSystem(endpoint_override=self.endpoint, access_key=KEY, secret_key=SECRET, region=REGION)


@contextmanager
def running_store(folder: Path) -> Iterator[ObjectStore]:
    """Run a store with its files in *folder* until the end of the block. Skip the test without SeaweedFS."""
    store = ObjectStore(folder)
    with store.process:
        yield store


if __name__ == "__main__":
    sys.exit(fetch("AWS", aws_jars))
