"""How long will the answer be: train, evaluate, export and run length predictors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clairvoyant_lab.lazy import lazy_names

if TYPE_CHECKING:
    from clairvoyant_lab.predictor.ranking import bootstrap_ranking as bootstrap_ranking
    from clairvoyant_lab.predictor.ranking import ranking_accuracy as ranking_accuracy
    from clairvoyant_lab.predictor.runtime import LengthPredictor as LengthPredictor
    from clairvoyant_lab.predictor.runtime import Prediction as Prediction
    from clairvoyant_lab.predictor.training import TrainedPredictor as TrainedPredictor
    from clairvoyant_lab.predictor.training import train_predictor as train_predictor

__all__ = [
    "LengthPredictor",
    "Prediction",
    "TrainedPredictor",
    "bootstrap_ranking",
    "ranking_accuracy",
    "train_predictor",
]

__getattr__ = lazy_names(
    __name__,
    {
        "LengthPredictor": "runtime",
        "Prediction": "runtime",
        "TrainedPredictor": "training",
        "bootstrap_ranking": "ranking",
        "ranking_accuracy": "ranking",
        "train_predictor": "training",
    },
)
