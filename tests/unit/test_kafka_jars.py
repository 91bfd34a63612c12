from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mt_core.errors import ConfigError
from mt_core.spark.connectors.connector_jars import load_kafka
from mt_core.spark.driver.conf import DriverSettings
from mt_core.spark.driver.spark_driver import SparkDriver


def test_a_statement_without_the_jars_names_the_command_that_fetches_them(tmp_path: Path) -> None:
    settings = DriverSettings(
        catalog_url="jdbc:sqlite:file:/c", warehouse="/w", jars_dir=tmp_path, log_dir=tmp_path
    )
    no_session: Any = None

    with pytest.raises(ConfigError) as refusal:
        load_kafka(SparkDriver(settings), no_session)

    assert refusal.value.message == (
        f"Connector 'kafka' needs jars that are not in {tmp_path} on the gateway's machine: "
        "run `freshtable jars add kafka` there, or put org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1, "
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.1, "
        "org.apache.kafka:kafka-clients:3.9.1, org.apache.commons:commons-pool2:2.12.1 into that folder, "
        "then repeat the statement; no restart is needed."
    )
