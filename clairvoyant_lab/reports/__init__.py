"""Notebooks without a front end: typed parameters, parallel runs, HTML reports with an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clairvoyant_lab.lazy import lazy_names

if TYPE_CHECKING:
    from clairvoyant_lab.reports.parameters import validate_parameters
    from clairvoyant_lab.reports.runner import NotebookOutcome, run_notebooks

__all__ = ["NotebookOutcome", "run_notebooks", "validate_parameters"]

__getattr__ = lazy_names(
    __name__,
    {"NotebookOutcome": "runner", "run_notebooks": "runner", "validate_parameters": "parameters"},
)
