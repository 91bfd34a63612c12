"""The declarations of the metric families follow Prometheus' conventions, and their series are bounded."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from mt_core.metrics import families
from mt_core.metrics.families import FAMILIES, PREFIX, Family, Kind

ids = {"ids": lambda family: family.name}


def test_every_declared_family_is_in_one_group() -> None:
    declared = [value for value in vars(families).values() if isinstance(value, Family)]

    assert Counter(family.name for family in declared) == Counter(family.name for family in FAMILIES)


@pytest.mark.parametrize("family", FAMILIES, **ids)
def test_a_name_says_its_type_and_unit(family: Family) -> None:
    assert re.fullmatch(PREFIX + "[a-z]+(_[a-z]+)*", family.name)
    assert family.name.endswith("_total") == (family.kind is Kind.COUNTER)
    assert family.name.endswith("_info") == (family.kind is Kind.INFO)
    assert family.name.endswith("_seconds") or family.kind is not Kind.HISTOGRAM
    assert not re.search("_(ms|millis|minutes|kb|mb|percent|age)(_|$)", family.name)


@pytest.mark.parametrize("family", FAMILIES, **ids)
def test_the_help_needs_no_escapes_and_is_a_sentence(family: Family) -> None:
    assert not set(family.help) & set('\\"\n|')
    assert family.help.endswith(".")


@pytest.mark.parametrize("family", FAMILIES, **ids)
def test_a_label_is_one_word_that_prometheus_does_not_use_itself(family: Family) -> None:
    for label in family.labels:
        assert re.fullmatch("[a-z]+(_[a-z]+)*", label)
        assert label not in {"le", "quantile", "job", "instance"}


@pytest.mark.parametrize("family", FAMILIES, **ids)
def test_only_histograms_have_buckets_which_are_fourteen_that_ascend(family: Family) -> None:
    if family.kind is Kind.HISTOGRAM:
        assert len(family.buckets) == 14
        assert list(family.buckets) == sorted(set(family.buckets))
    else:
        assert family.buckets == ()


@pytest.mark.parametrize("family", FAMILIES, **ids)
def test_a_family_with_labels_says_how_many_series_it_has(family: Family) -> None:
    assert (family.series == "1") == (not family.labels or family.kind is Kind.INFO)
