"""Corpora: sources, first turns, token counts, labels, splits, and the starvation analysis."""

from __future__ import annotations

from clairvoyant_lab.lazy import lazy_names

__all__ = ["load_corpus", "starvation_report"]

__getattr__ = lazy_names(
    __name__,
    {
        "load_corpus": "load",
        "starvation_report": "starvation",
    },
)
