"""What a table says of a stream that writes it stays readable: version 1."""

from __future__ import annotations

import json

from mt_core.spark.streams.sinks.iceberg import Record

JOB = "0d9f8a4e111142228333444455556666"
STORED = '{"version": 1, "attempt": 3, "batch": 17, "nonce": "5f0c"}'


def test_the_record_of_a_job_is_found_under_its_id() -> None:
    properties = {f"freshtable.stream.{JOB}": STORED, "freshtable.stream.other": "{}"}

    assert Record.of(properties, JOB) == Record(attempt=3, batch=17)
    assert Record.of({}, JOB) is None


def test_each_text_of_a_record_is_another_one() -> None:
    record = Record(attempt=3, batch=-1)
    texts = [record.text(), record.text()]

    assert texts[0] != texts[1]
    assert {Record.of({f"freshtable.stream.{JOB}": text}, JOB) for text in texts} == {record}
    assert json.loads(texts[0])["version"] == 1
