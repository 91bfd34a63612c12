"""The text of a scrape is what Prometheus' own parsers read, in both formats, whatever a table is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mt_core.metrics import families
from mt_core.metrics.exposition import Format, exposition, gauge_text, label_text, sample_line
from mt_core.metrics.families import FAMILIES, TABLE_LABELS, TABLE_LATE_AT, Kind
from mt_core.metrics.instruments import Instruments
from tests.support.scrape import Scrape

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
    "text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Format.TEXT),
        ("*/*", Format.TEXT),
        ("text/plain", Format.TEXT),
        ("text/html,application/xhtml+xml,*/*;q=0.8", Format.TEXT),
        ("application/openmetrics-text", Format.OPENMETRICS),
        ("Application/OpenMetrics-Text; Version=1.0.0", Format.OPENMETRICS),
        ('application/openmetrics-text; version="1.0.0"; q="0.1"', Format.OPENMETRICS),
        ("application/openmetrics-text;version=0.0.1", Format.TEXT),
        ("application/openmetrics-text;version=2.0.0", Format.TEXT),
        ("application/openmetrics-text;q=0", Format.TEXT),
        ("application/openmetrics-text;q=0.4,text/plain;q=0.5", Format.TEXT),
        ("application/openmetrics-text;q=0.5,text/plain;q=0.5", Format.OPENMETRICS),
        ("application/openmetrics-text;q=0.5,*/*", Format.TEXT),
        ("application/openmetrics-text;q=much,text/*;q=0.1", Format.TEXT),
        (";;,=,q=1;", Format.TEXT),
        (PROMETHEUS_2, Format.OPENMETRICS),
        (PROMETHEUS_3, Format.OPENMETRICS),
    ],
)
def test_the_format_is_the_one_that_the_client_prefers(accept: str, form: Format) -> None:
    assert Format.of(accept) is form


@given(st.text(st.sampled_from('aq=;,.0159*/ "x'), max_size=60))
def test_any_accept_header_gets_a_format(accept: str) -> None:
    assert Format.of(accept) in Format


@given(st.lists(st.tuples(NAMES, NAMES, NAMES), unique=True, max_size=5))
def test_any_name_survives_in_both_formats(names: list[tuple[str, str, str]]) -> None:
    lines = (sample_line(TABLE_LATE_AT, 1.5, label_text(TABLE_LABELS, *name)) for name in names)
    gauges = gauge_text(TABLE_LATE_AT, lines)

    for form in Format:
        scrape = Scrape.of(exposition(form, Instruments().registry, gauges).decode())

        assert dict(scrape.by(TABLE_LATE_AT.name, *TABLE_LABELS)) == dict.fromkeys(names, 1.5)


def test_a_quote_a_backslash_and_a_line_end_are_escaped() -> None:
    labels = label_text(TABLE_LABELS, "lake", "a.b", 'it\'s "a\\b"\nc')

    assert labels == r'{table_catalog="lake",table_schema="a.b",table_name="it' "'" r's \"a\\b\"\nc"}'


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53))
def test_any_value_survives(value: float) -> None:
    gauges = gauge_text(families.TABLES_SILENT, [sample_line(families.TABLES_SILENT, value)])

    scrape = Scrape.of(exposition(Format.OPENMETRICS, Instruments().registry, gauges).decode())

    assert scrape.total(families.TABLES_SILENT.name) == value


def filled() -> Instruments:
    """Return an instrument with a sample for each family."""
    instruments = Instruments()
    for family in FAMILIES:
        labels = ["x"] * len(family.labels)
        match family.kind:
            case Kind.COUNTER:
                counter = instruments.counter(family)
                (counter.labels(*labels) if labels else counter).inc()
            case Kind.HISTOGRAM:
                histogram = instruments.histogram(family)
                (histogram.labels(*labels) if labels else histogram).observe(0.3)
            case Kind.GAUGE:
                gauge = instruments.gauge(family)
                (gauge.labels(*labels) if labels else gauge).set(2)
            case Kind.INFO:
                instruments.read(family, lambda labels=tuple(labels): {labels: 1})
    return instruments


@pytest.fixture(scope="module", params=list(Format), ids=lambda form: form.name)
def text(request: pytest.FixtureRequest) -> str:
    """The exposition of all families."""
    return exposition(request.param, filled().registry, "").decode()


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_family_has_its_declared_name_type_help_and_labels(family: families.Family, text: str) -> None:
    scrape = Scrape.of(text)
    suffix = {Kind.HISTOGRAM: "_count"}.get(family.kind, "")

    [sample] = scrape.samples(family.name + suffix)

    assert set(sample.labels) == set(family.labels)
    [found] = [each for each in scrape.families if sample in each.samples]
    # The text format has no infos, and its parser drops the suffix of a counter.
    assert found.type in ({Kind.INFO, Kind.GAUGE} if family.kind is Kind.INFO else {family.kind})
    assert found.documentation == family.help


def test_headers_of_counters_have_the_suffix_only_in_text(text: str) -> None:
    is_text = not text.endswith("# EOF\n")

    assert ("# TYPE freshtable_refreshes_total counter" in text) is is_text
    assert ("# TYPE freshtable_refreshes counter" in text) is not is_text
    assert ("# TYPE freshtable_build_info gauge" in text) is is_text
    assert ("# TYPE freshtable_build info" in text) is not is_text


def test_the_times_at_which_counters_were_made_are_left_out(text: str) -> None:
    assert "_created" not in text


def test_openmetrics_ends_with_its_mark_once_behind_the_gauges() -> None:
    gauges = gauge_text(families.TABLES_SILENT, [sample_line(families.TABLES_SILENT, 3)])

    openmetrics = exposition(Format.OPENMETRICS, filled().registry, gauges).decode()
    plain = exposition(Format.TEXT, filled().registry, gauges).decode()

    assert openmetrics.endswith("\nfreshtable_tables_silent 3\n# EOF\n")
    assert openmetrics.count("# EOF") == 1
    assert "# EOF" not in plain
