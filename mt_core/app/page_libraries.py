"""Downloads the JavaScript libraries of the page for a gateway that started without them."""

from __future__ import annotations

import logging

from mt_core.errors import EngineUnavailable, MtError
from mt_core.spark.driver.conf import DriverSettings
from mt_core.spark.driver.jars import resolve
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.driver.web_jars import WebJarFiles

log = logging.getLogger(__name__)


def fetch_libraries(libraries: WebJarFiles, driver: SparkDriver, settings: DriverSettings) -> None:
    """Download the missing jars of *libraries* to the folder in *settings*, in the JVM of *driver*.

    Its resolver uses the proxy and the repositories of the user's settings. A failure is logged, because the
    page works without the libraries.
    """
    packages = [jar.package for jar in libraries.missing()]
    if not packages:
        return
    try:
        with driver.translating():
            resolve(driver.session, packages, settings.jars_dir, settings.spark_conf)
    except EngineUnavailable as error:
        # Usually the gateway is stopping. The next start tries again.
        log.info("no libraries of the page: %s", error, extra={"action": "libraries_not_fetched"})
    except MtError as error:
        log.warning(
            "The page does without %s until their jars are in %s; they could not be downloaded: %s",
            ", ".join(package.split(":")[1] for package in packages),
            settings.jars_dir,
            error,
            extra={"action": "libraries_not_fetched"},
        )
