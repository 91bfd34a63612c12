"""Temporary tables of files in streams: what their statements say of folders, watermarks and partitions."""

from __future__ import annotations

import pytest

from mt_core.model.connector_table import Watermark
from mt_core.model.temporary_files import TemporaryFiles
from mt_core.spark.connectors.files.folders import FileFolder, temporary_folders

CITIES = (
    "CREATE TEMPORARY TABLE Cities (name STRING, land STRING) PARTITIONED BY (land) WITH ('connector' = "
    "'filesystem', 'format' = 'csv', 'path' = '/data/cities/', 'csv.field-delimiter' = ';')"
)


@pytest.mark.parametrize(
    "files",
    [
        TemporaryFiles(),
        TemporaryFiles(watermark=Watermark(column="at", delay="5 SECOND")),
        TemporaryFiles(
            watermark=Watermark(column="a t", delay="0 SECOND"), partition_keys=("a,b", 'c"', "d")
        ),
    ],
)
def test_the_options_of_a_view_keep_what_streams_need(files: TemporaryFiles) -> None:
    options = {"path": "/x", "sep": ";"} | files.to_options()

    found = TemporaryFiles.from_options(options)

    assert found == files


def test_a_stream_writes_into_the_folder_that_the_statement_names() -> None:
    others = (
        "CREATE TEMPORARY VIEW v AS SELECT 1",
        "CREATE TEMPORARY TABLE p (n INT) WITH ('connector' = 'print')",
        "CREATE TEMPORARY TABLE nowhere (n INT) WITH ('connector' = 'json')",
        "CREATE TEMPORARY TABLE rows (n INT) WITH ('connector' = 'parquet', 'path' = 's3a://b/rows')",
    )

    folders = temporary_folders((CITIES, *others))

    assert folders == {
        "cities": FileFolder(
            folder="/data/cities",
            format="csv",
            options={"sep": ";"},
            partition_keys=("land",),
            has_catalog_partitions=False,
        ),
        "rows": FileFolder(
            folder="s3a://b/rows",
            format="parquet",
            options={},
            partition_keys=(),
            has_catalog_partitions=False,
        ),
    }


def test_the_last_statement_of_a_name_says_where_its_folder_is() -> None:
    again = CITIES.replace("CREATE", "CREATE OR REPLACE").replace("/data/cities/", "/data/new")

    folders = temporary_folders((CITIES, again))

    assert folders["cities"].folder == "/data/new"
