"""clairvoyant-lab: an interactive workbench for scheduling LLM inference.

The names below are the public face. Each is imported from its room when first used, so that
`import clairvoyant_lab` costs little more than numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clairvoyant_lab.errors import (
    BackendError,
    ClairvoyantError,
    DataError,
    ExportParityError,
    MissingExtraError,
    NotebookError,
    ParameterError,
    QueueFullError,
    SchemaMismatchError,
    StarvedDatasetError,
    UpstreamStatusError,
    UpstreamTimeoutError,
)
from clairvoyant_lab.lazy import lazy_names
from clairvoyant_lab.lengths import LengthClass, classify_lengths

__version__ = "0.1.0"

# name -> the room that defines it
_ROOMS = {
    "FEATURE_NAMES": "prompts",
    "extract_features": "prompts",
    "extract_features_batch": "prompts",
    "load_corpus": "corpora",
    "starvation_report": "corpora",
    "LengthPredictor": "predictor",
    "TrainedPredictor": "predictor",
    "ranking_accuracy": "predictor",
    "train_predictor": "predictor",
    "BatchPolicy": "scheduling",
    "SerialPolicy": "scheduling",
    "batch_policy": "scheduling",
    "serial_policy": "scheduling",
    "BatchRun": "simulation",
    "SerialRun": "simulation",
    "Trace": "simulation",
    "simulate_batch": "simulation",
    "simulate_serial": "simulation",
    "CostBreakdown": "economics",
    "cost_breakdown": "economics",
    "AsyncProxyClient": "serving",
    "ProxyClient": "serving",
}

if TYPE_CHECKING:
    from clairvoyant_lab.corpora import load_corpus, starvation_report
    from clairvoyant_lab.economics import CostBreakdown, cost_breakdown
    from clairvoyant_lab.predictor import (
        LengthPredictor,
        TrainedPredictor,
        ranking_accuracy,
        train_predictor,
    )
    from clairvoyant_lab.prompts import FEATURE_NAMES, extract_features, extract_features_batch
    from clairvoyant_lab.scheduling import BatchPolicy, SerialPolicy, batch_policy, serial_policy
    from clairvoyant_lab.serving import AsyncProxyClient, ProxyClient
    from clairvoyant_lab.simulation import (
        BatchRun,
        SerialRun,
        Trace,
        simulate_batch,
        simulate_serial,
    )

__all__ = [
    "FEATURE_NAMES",
    "AsyncProxyClient",
    "BackendError",
    "BatchPolicy",
    "BatchRun",
    "ClairvoyantError",
    "CostBreakdown",
    "DataError",
    "ExportParityError",
    "LengthClass",
    "LengthPredictor",
    "MissingExtraError",
    "NotebookError",
    "ParameterError",
    "ProxyClient",
    "QueueFullError",
    "SchemaMismatchError",
    "SerialPolicy",
    "SerialRun",
    "StarvedDatasetError",
    "Trace",
    "TrainedPredictor",
    "UpstreamStatusError",
    "UpstreamTimeoutError",
    "__version__",
    "batch_policy",
    "classify_lengths",
    "cost_breakdown",
    "extract_features",
    "extract_features_batch",
    "load_corpus",
    "ranking_accuracy",
    "serial_policy",
    "simulate_batch",
    "simulate_serial",
    "starvation_report",
    "train_predictor",
]


__getattr__ = lazy_names(__name__, _ROOMS)


def __dir__() -> list[str]:
    return sorted(__all__)
