"""The samples of a scrape, by name and labels."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from mt_core.metrics.families import FAMILIES, PREFIX

Samples = dict[tuple[str, ...], float]


def samples_of(text: str, name: str) -> Samples:
    """Return the samples with *name*, by the values of their labels in the order of the family.

    *name* has no prefix. That of a histogram ends in `_sum`, `_count` or `_bucket`.
    """
    samples = (
        sample
        for metric in text_string_to_metric_families(text)
        for sample in metric.samples
        if sample.name == PREFIX + name
    )
    return {tuple(sample.labels[label] for label in _labels_of(name)): sample.value for sample in samples}


def _labels_of(name: str) -> tuple[str, ...]:
    family = max(
        (family for family in FAMILIES if (PREFIX + name).startswith(family.name)),
        key=lambda family: len(family.name),
    )
    return (*family.labels, "le") if name.endswith("_bucket") else family.labels
