"""The Spark configuration of the driver, and the files that it refers to.

Spark reads settings at two times. Settings of the JVM itself must be on its command line, which every user
of the machine can read. The others are passed over py4j. `spark_conf` therefore builds one complete
configuration, and `launch_conf` selects the part for the command line, which never contains a secret. User
settings override ours. The exceptions are settings that the gateway itself depends on (`LARGE_VALUES`) and
the JVM options, which are appended.

Any client that authenticates to Spark's ports can run code. `check_authentication` therefore refuses to start
a driver whose ports would not ask for a secret, or if Spark cannot generate a secret.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mt_core.base.secrets import SECRET_KEYS, masked
from mt_core.errors import ConfigError
from mt_core.spark.driver.cluster import is_cluster
from mt_core.sql.connectors.catalog_options import PREFIX, configured_catalogs

CATALOG = "lake"
SESSION_CATALOG = "spark_catalog"
NAMESPACE = "default"
INTERACTIVE_POOL = "interactive"
REFRESH_POOL = "refresh"
# WAL: a commit needs one fsync instead of the four of a rollback journal.
#
# FULL: no commit is lost in a power failure. The ledger may lag behind the storage, but not the reverse.
SQLITE_OPTIONS = "busy_timeout=30000&journal_mode=WAL&synchronous=FULL"
DEFAULT_DRIVER_MEMORY = "2g"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
SOCKETS = "spark.python.unix.domain.socket.dir"
AUTHENTICATE = "spark.authenticate"
AUTHENTICATION_SECRET = "spark.authenticate.secret"
ENCRYPTION = "spark.network.crypto.enabled"
ALLOW_UNAUTHENTICATED = "sql-gateway.engine.allow-unauthenticated"
# For other masters, the secret must be configured on all machines.
_SECRET_IS_GENERATED = re.compile(r"local(\[[^\]]*\])?|yarn|k8s://.*")
# This overrides the user's setting, because the gateway's Arrow reader expects 32-bit offsets.
LARGE_VALUES = "spark.sql.execution.arrow.useLargeVarTypes"
IO_IMPL = "io-impl"
CHECKED_FILES = "freshtable.catalogs.CheckedFileIO"
"""Our replacement for Iceberg's HadoopFileIO, which reports a damaged metadata file after a single read."""
S3_FILES = "org.apache.iceberg.aws.s3.S3FileIO"
S3_OF_HADOOP = "spark.hadoop.fs.s3.impl"
"""A user's file system for `s3://`, for which Hadoop has none."""

# Parameters of PostgreSQL's JDBC driver. Catalog statements read or write single rows, so a socket that is
# silent for a minute is dead.
CATALOG_TIMEOUTS = {"connectTimeout": "10", "socketTimeout": "60", "tcpKeepAlive": "true"}
_ICEBERG_PLUGIN = "org.apache.iceberg.spark.SparkCatalog"
_HADOOP_TYPES = frozenset({"jdbc", "hive"})
_HADOOP_CATALOGS = frozenset({"org.apache.iceberg.jdbc.JdbcCatalog", "org.apache.iceberg.hive.HiveCatalog"})
_SQLITE = re.compile(r"jdbc:sqlite:(?:file:)?(?P<path>/[^?]*)")

_POOLS = f"""<?xml version="1.0"?>
<allocations>
  <pool name="{INTERACTIVE_POOL}">
    <schedulingMode>FAIR</schedulingMode><weight>4</weight><minShare>1</minShare>
  </pool>
  <pool name="{REFRESH_POOL}">
    <schedulingMode>FAIR</schedulingMode><weight>1</weight><minShare>0</minShare>
  </pool>
</allocations>
"""

_LOG4J = """rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n%ex
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSettings:
    """The start-up settings of the driver.

    `catalog_url` is `jdbc:sqlite:file:/abs/path` or a PostgreSQL URL (JDBC, or
    postgresql://user:password@host/db), or the URL of a REST server if `is_served`. `catalog_options` are
    further options of the catalog `lake`. `spark_catalog` is the folder for tables of Spark's own catalog; by
    default, it is in the warehouse. `spark_conf` contains the user's `spark.*` settings, which override ours.
    `environ` is the process environment, which determines where Java is. If a cluster has not accepted
    work for `lost_after_s` seconds, the driver restarts Spark (0: never). `temporary` is this driver's own
    folder for temporary files of its JVM, such as shuffle files. By default, the JVM uses the machine's
    folder. `allow_unauthenticated` permits Spark to start although its ports do not ask for a secret.
    """

    catalog_url: str = field(repr=False)
    warehouse: str
    is_served: bool = False
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    spark_catalog: str = ""
    jars_dir: Path
    log_dir: Path
    temporary: Path | None = None
    zone: str = "UTC"
    spark_conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    lost_after_s: float = 60.0
    allow_unauthenticated: bool = False

    @property
    def master(self) -> str:
        return self.spark_conf.get("spark.master", "local[*]")

    @property
    def log_file(self) -> Path:
        return self.log_dir / "spark.log"


def spark_conf(settings: DriverSettings) -> dict[str, str]:
    """Return the complete configuration except for the jars: our settings, overridden by the user's."""
    conf = {
        "spark.app.name": "freshtable",
        "spark.master": settings.master,
        "spark.driver.memory": DEFAULT_DRIVER_MEMORY,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.redaction.regex": f"(?i){SECRET_KEYS}",
        # Without authentication, any client that connects to the driver can run code in it.
        AUTHENTICATE: str(_has_secret(settings)).lower(),
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": (settings.log_dir / "pools.xml").absolute().as_uri(),
        "spark.sql.session.timeZone": settings.zone,
        "spark.sql.catalogImplementation": "in-memory",
        # The default is the gateway's working directory.
        "spark.sql.warehouse.dir": (
            settings.spark_catalog or f"{settings.warehouse.rstrip('/')}/{SESSION_CATALOG}"
        ),
        # All queries and streams share this cache. With Spark's default of 100 entries, the code of a large
        # stream is compiled again for each batch.
        "spark.sql.codegen.cache.maxEntries": "1000",
        # With this cache, a session that has read a file table would not see files that other sessions add
        # later.
        "spark.sql.filesourceTableRelationCacheSize": "0",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.defaultCatalog": CATALOG,
        **_catalog_conf(settings),
    }
    if not is_cluster(settings.master):
        conf["spark.driver.host"] = conf["spark.driver.bindAddress"] = "127.0.0.1"
        conf["spark.sql.shuffle.partitions"] = str(max(2, os.cpu_count() or 2))
        # The path of a Unix socket is limited to about 100 characters, which `settings.temporary` may exceed.
        conf[SOCKETS] = tempfile.gettempdir()
    conf |= settings.spark_conf
    conf[LARGE_VALUES] = "false"
    conf[JAVA_OPTIONS] = " ".join(filter(None, [*_java_options(settings), conf.get(JAVA_OPTIONS)]))
    return conf


def authenticates(settings: DriverSettings) -> bool:
    """Return whether Spark's ports will ask for a secret."""
    return spark_conf(settings)[AUTHENTICATE].strip().lower() == "true"


def check_authentication(settings: DriverSettings) -> None:
    """Raise ConfigError if Spark's ports would not ask for a secret, or if the secret is not set.

    Ports that do not ask for a secret require `allow_unauthenticated`.
    """
    asks_secret, master = authenticates(settings), settings.master
    if "://" not in master and not master.startswith(("local", "yarn")):
        # This is not a valid master URL. Spark reports that and lists the valid forms.
        return
    if _has_secret(settings):
        way_out = f"leave {AUTHENTICATE} at true"
    else:
        way_out = (
            f"set {AUTHENTICATION_SECRET} to the secret of its master and workers, "
            f"and {ENCRYPTION} to true on all of them"
        )
    if asks_secret and not _has_secret(settings):
        raise ConfigError(
            f"{AUTHENTICATE} is true, and {AUTHENTICATION_SECRET} is not set: Spark generates a "
            f"secret only on local masters, YARN and Kubernetes. For {master}, {way_out}.",
            key=AUTHENTICATION_SECRET,
        )
    if not asks_secret and not settings.allow_unauthenticated:
        raise ConfigError(
            f"The ports of Spark on {master} would not ask for a secret, "
            f"and any client that reaches them can run code as the gateway's user: {way_out}, "
            f"or set {ALLOW_UNAUTHENTICATED} to true if only trusted clients can reach them.",
            key=AUTHENTICATE,
        )


def _has_secret(settings: DriverSettings) -> bool:
    """Return whether Spark has a secret, which is either generated at each start or configured."""
    return _SECRET_IS_GENERATED.fullmatch(settings.master) is not None or bool(
        settings.spark_conf.get(AUTHENTICATION_SECRET)
    )


def _java_options(settings: DriverSettings) -> Iterator[str]:
    """Yield our JVM options. The user's options are appended and override them."""
    yield f"-Dlog4j2.configurationFile={(settings.log_dir / 'log4j2.properties').absolute().as_uri()}"
    if settings.temporary is not None:
        # Spark's shuffle and spill files are in the same folder, unless spark.local.dir or SPARK_LOCAL_DIRS
        # is set.
        path = str(settings.temporary.absolute()).replace("\\", "\\\\").replace('"', '\\"')
        yield f'"-Djava.io.tmpdir={path}"'


def default_files(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the FileIO of those catalogs in *conf* that would use Iceberg's HadoopFileIO.

    It is Iceberg's own for a warehouse on `s3://`, and `CHECKED_FILES` for any other.
    """
    return {
        f"{PREFIX}{name}.{IO_IMPL}": (
            S3_FILES if needs_s3_files(options.get("warehouse", ""), conf) else CHECKED_FILES
        )
        for name, options in configured_catalogs(conf).items()
        if options["type"] == _ICEBERG_PLUGIN and _uses_hadoop_files(options)
    }


def needs_s3_files(warehouse: str, conf: Mapping[str, str]) -> bool:
    """Return whether only Iceberg's FileIO for S3 can access *warehouse*."""
    return urlsplit(warehouse).scheme == "s3" and S3_OF_HADOOP not in conf


def _uses_hadoop_files(options: Mapping[str, str]) -> bool:
    """Return whether an Iceberg catalog with *options* uses HadoopFileIO by default."""
    kind, implementation = options.get("catalog-type"), options.get("catalog-impl")
    return IO_IMPL not in options and (kind in _HADOOP_TYPES or implementation in _HADOOP_CATALOGS)


def catalog_names(settings: DriverSettings) -> frozenset[str]:
    """Return the names of the configured catalogs and of Spark's session catalog."""
    return frozenset({SESSION_CATALOG, *configured_catalogs(spark_conf(settings))})


def launch_conf(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of *conf* that are passed on the JVM's command line, which excludes secrets."""
    masked_conf = masked(conf)
    return {
        key: value
        for key, value in conf.items()
        if not key.startswith("spark.sql.") and masked_conf[key] == value
    }


def prepare_files(settings: DriverSettings) -> None:
    """Write the files that the configuration refers to, create its folders, and empty `temporary`.

    No JVM of the driver may be running. A JVM that was killed leaves its temporary files behind.
    """
    settings.log_dir.mkdir(parents=True, exist_ok=True)
    (settings.log_dir / "pools.xml").write_text(_POOLS, encoding="utf-8")
    (settings.log_dir / "log4j2.properties").write_text(_LOG4J, encoding="utf-8")
    database = _SQLITE.match(settings.catalog_url)
    if database:
        Path(database["path"]).parent.mkdir(parents=True, exist_ok=True)
    if settings.temporary is not None:
        _empty(settings.temporary)


def _empty(folder: Path) -> None:
    """Create *folder*, or remove its contents as far as possible. It may be a link to another disk."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()


def _catalog_conf(settings: DriverSettings) -> dict[str, str]:
    prefix = f"spark.sql.catalog.{CATALOG}"
    if settings.is_served:
        place = {"type": "rest", "uri": settings.catalog_url}
    else:
        place = {"type": "jdbc", "jdbc.schema-version": "V1", **_database(settings.catalog_url)}
    options = {
        "cache-enabled": "false",
        "default-namespace": NAMESPACE,
        **({"warehouse": settings.warehouse} if settings.warehouse else {}),
        **place,
        **settings.catalog_options,
    }
    return {prefix: _ICEBERG_PLUGIN, **{f"{prefix}.{key}": value for key, value in options.items()}}


def _database(url: str) -> dict[str, str]:
    if _SQLITE.match(url):
        return {"uri": url if "?" in url else f"{url}?{SQLITE_OPTIONS}"}
    parts = urlsplit(url)
    if url.startswith("jdbc:postgresql:"):
        address, _, query = url.partition("?")
        return {"uri": f"{address}?{_with_timeouts(query)}"}
    if not parts.scheme.startswith("postgresql"):
        return {"uri": url}
    host = f"{parts.hostname or 'localhost'}:{parts.port or 5432}"
    database = {"uri": f"jdbc:postgresql://{host}{parts.path}?{_with_timeouts(parts.query)}"}
    if parts.username:
        database["jdbc.user"] = unquote(parts.username)
    if parts.password:
        database["jdbc.password"] = unquote(parts.password)
    return database


def _with_timeouts(query: str) -> str:
    """Return the parameters of a PostgreSQL URL, with our timeouts unless *query* sets them."""
    set_keys = {part.partition("=")[0] for part in query.split("&")}
    ours = [f"{key}={value}" for key, value in CATALOG_TIMEOUTS.items() if key not in set_keys]
    return "&".join([query, *ours] if query else ours)
