"""Writes the rows of an Iceberg table, by its metadata file, as JSON.

    python duckdb_reader.py FILE

It needs the Python of `duckdb_python.py`.
"""

import json
import sys

import duckdb
from duckdb_extensions import import_extension


def rows_of(file: str) -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        for extension in ("avro", "iceberg"):
            import_extension(extension)
            connection.load_extension(extension)
        return connection.execute("SELECT * FROM iceberg_scan(?)", [file]).fetchall()


if __name__ == "__main__":
    json.dump(rows_of(sys.argv[1]), sys.stdout)
