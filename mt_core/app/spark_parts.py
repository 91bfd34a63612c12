"""The Spark part of a gateway: the driver, the engines that use it, and the stores that they read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from mt_core.app.home import Home
from mt_core.app.page_libraries import fetch_libraries
from mt_core.app.settings import driver_settings, spools
from mt_core.config import Config
from mt_core.model.table import MaterializedTable
from mt_core.sessions.catalog.connector_tables import ConnectorTables
from mt_core.sessions.catalog.created_catalogs import CreatedCatalogs
from mt_core.sessions.catalog.created_functions import CreatedFunctions
from mt_core.spark.connectors.connector_tables import restore_tables
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.conf import DriverSettings, catalog_names
from mt_core.spark.driver.jars import places_of
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.driver.web_jars import WebJarFiles
from mt_core.spark.files.jar_copies import JarCopies
from mt_core.spark.files.plan_files import StoredPlans
from mt_core.spark.functions.function_files import FunctionFiles
from mt_core.spark.functions.function_sync import FunctionSync
from mt_core.spark.functions.python_code import ModuleReader
from mt_core.spark.refresh.engine import spark_engine
from mt_core.spark.statements.spark_statements import SparkStatements
from mt_core.spark.streams.engine import SparkStreams
from mt_core.tables.engine import SourceVector
from mt_core.tables.registry import Registry
from mt_core.tables.services import query_of
from mt_core.tables.upkeep.registered import RegisteredTables

FUNCTIONS_KEY = "sql-gateway.functions.enabled"


class SparkParts:
    """The driver, engines and stores. *on_launch* is called with the process id of each JVM."""

    def __init__(
        self,
        config: Config,
        home: Home,
        environ: Mapping[str, str],
        registry: Registry,
        *,
        on_launch: Callable[[int], object],
    ) -> None:
        self._on_launch = on_launch
        self.connector_tables, self._jars = ConnectorTables(registry), JarCopies(home.jars)
        self.functions = CreatedFunctions(registry, self._read_now)
        self._function_files = FunctionFiles(home.functions)
        self.has_code = config.boolean(FUNCTIONS_KEY)
        self.driver = self._spark(driver_settings(config, home, environ))
        self.catalogs = CreatedCatalogs(registry, reserved=catalog_names(self.driver.settings))
        contexts = SparkContexts(self.driver, self.catalogs.settings, self.catalogs)
        self.engine = spark_engine(contexts)
        self.statements = SparkStatements(
            contexts,
            spools(config, home.results),
            tables=RegisteredTables(registry),
            connectors=self.connector_tables.all,
            jars=self._jars,
        )
        self.streams = SparkStreams(contexts, connectors=self.connector_tables.all, jars=self._jars)
        self.plans = StoredPlans(self.driver, home.sessions)
        # The page's jars, which Spark's resolver downloads but Spark does not load.
        self.libraries = WebJarFiles(partial(places_of, self.driver.settings.jars_dir))

    def start(self, needed_jars: Mapping[str, Iterable[str]]) -> None:
        """Remove unused jars and function files, and start Spark in the background.

        *needed_jars* are the jars of open jobs, by job id.
        """
        self._jars.begin(needed_jars)
        self._function_files.remove_unused(self.functions.needed())
        self.plans.begin()
        self.driver.start()

    def fetch_libraries(self) -> None:
        """Download the missing libraries of the page in Spark's JVM, which must be ready."""
        fetch_libraries(self.libraries, self.driver, self.driver.settings)

    def _spark(self, settings: DriverSettings) -> SparkDriver:
        return SparkDriver(
            settings,
            functions=FunctionSync(
                self.functions.all,
                self._function_files,
                modules=ModuleReader(settings.environ),
                keep=self.functions.declare,
                has_code=self.has_code,
            ),
            on_launch=self._on_launch,
            on_session=lambda session: restore_tables(
                self.driver, session, self.connector_tables.all().values()
            ),
        )

    def _read_now(self, table: MaterializedTable) -> SourceVector:
        return self.engine.sources.read_vector(query_of(table.definition))
