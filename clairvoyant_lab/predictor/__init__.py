"""How long will the answer be: train, evaluate, export and run length predictors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clairvoyant_lab.lazy import lazy_names

if TYPE_CHECKING:
    from clairvoyant_lab.predictor.interval_export import LengthIntervals as LengthIntervals
    from clairvoyant_lab.predictor.intervals import interval_coverage as interval_coverage
    from clairvoyant_lab.predictor.intervals import train_intervals as train_intervals
    from clairvoyant_lab.predictor.ranking import bootstrap_ranking as bootstrap_ranking
    from clairvoyant_lab.predictor.ranking import ranking_accuracy as ranking_accuracy
    from clairvoyant_lab.predictor.rich import TrainedRich as TrainedRich
    from clairvoyant_lab.predictor.rich import train_rich as train_rich
    from clairvoyant_lab.predictor.runtime import LengthPredictor as LengthPredictor
    from clairvoyant_lab.predictor.runtime import Prediction as Prediction
    from clairvoyant_lab.predictor.runtime import model_names as model_names
    from clairvoyant_lab.predictor.training import TrainedPredictor as TrainedPredictor
    from clairvoyant_lab.predictor.training import train_predictor as train_predictor

_HOMES = {
    "LengthIntervals": "interval_export",
    "LengthPredictor": "runtime",
    "Prediction": "runtime",
    "TrainedPredictor": "training",
    "TrainedRich": "rich",
    "bootstrap_ranking": "ranking",
    "interval_coverage": "intervals",
    "model_names": "runtime",
    "ranking_accuracy": "ranking",
    "train_intervals": "intervals",
    "train_predictor": "training",
    "train_rich": "rich",
}

__all__ = [
    "LengthIntervals",
    "LengthPredictor",
    "Prediction",
    "TrainedPredictor",
    "TrainedRich",
    "bootstrap_ranking",
    "interval_coverage",
    "model_names",
    "ranking_accuracy",
    "train_intervals",
    "train_predictor",
    "train_rich",
]

__getattr__ = lazy_names(__name__, _HOMES)
