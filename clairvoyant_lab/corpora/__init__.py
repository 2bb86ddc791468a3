"""Corpora: sources, first turns, token counts, labels, splits, and the starvation analysis."""

from __future__ import annotations

from clairvoyant_lab.lazy import lazy_names

__all__ = [
    "SOURCES",
    "approximation_fidelity",
    "balanced_sample",
    "causal_test",
    "compare_corpora",
    "group_split",
    "load_corpus",
    "starvation_of",
    "starvation_report",
    "stratified_split",
]

__getattr__ = lazy_names(
    __name__,
    {
        "SOURCES": "sources",
        "approximation_fidelity": "fidelity",
        "balanced_sample": "splits",
        "causal_test": "causal",
        "compare_corpora": "compare",
        "group_split": "splits",
        "load_corpus": "load",
        "starvation_of": "starvation",
        "starvation_report": "starvation",
        "stratified_split": "splits",
    },
)
