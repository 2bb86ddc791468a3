"""Figures that describe a classifier on rows it has not seen: ranking, class accuracy, AUC, calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import DataError, ParameterError
from clairvoyant_lab.lengths import LONG_FROM_TOKENS, SHORT_BELOW_TOKENS, classify_lengths
from clairvoyant_lab.predictor.ranking import ranking_accuracy

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Calibration", "calibration", "class_metrics"]


def class_metrics(
    probabilities: ArrayLike,
    response_tokens: ArrayLike,
    short_below: int = SHORT_BELOW_TOKENS,
    long_from: int = LONG_FROM_TOKENS,
) -> dict[str, float]:
    """Figures of a three-class predictor on rows with known lengths.

    Parameters
    ----------
    probabilities : array_like of shape (n, 3)
        P(Short), P(Medium), P(Long).
    response_tokens : array_like of shape (n,)
        True lengths in tokens.
    short_below, long_from : int
        Class bounds in tokens.

    Returns
    -------
    dict
        ranking_accuracy (eq. 2), ranking_accuracy_ties_half, class_accuracy, auc_long (Long against all
        others), log_loss, expected_calibration_error of P(Long) in 10 equal bins, n and the rows per class.
        Shares lie between 0 and 1.
    """
    table = _probability_table(probabilities)
    classes = classify_lengths(response_tokens, short_below, long_from)
    p_long = table[:, 2]
    is_long = np.where(classes == 2, long_from, 0)
    truth = table[np.arange(len(table)), classes]
    return {
        "ranking_accuracy": ranking_accuracy(p_long, response_tokens, short_below, long_from),
        "ranking_accuracy_ties_half": ranking_accuracy(
            p_long, response_tokens, short_below, long_from, ties="half"
        ),
        "class_accuracy": float((table.argmax(axis=1) == classes).mean()),
        "auc_long": ranking_accuracy(p_long, is_long, 1, max(long_from, 1), ties="half"),
        "log_loss": float(-np.log(np.clip(truth, 1e-12, 1.0)).mean()),
        "expected_calibration_error": calibration(p_long, classes == 2).error,
        "n": len(table),
        "n_short": int((classes == 0).sum()),
        "n_medium": int((classes == 1).sum()),
        "n_long": int((classes == 2).sum()),
    }


@dataclass(frozen=True)
class Calibration:
    """Predicted against observed share of Long answers, by bin of the prediction.

    Attributes
    ----------
    predicted, observed : ndarray of float64, shape (bins,)
        Mean prediction and share of Long rows; not a number for an empty bin.
    count : ndarray of int64, shape (bins,)
        Rows in each bin.
    error : float
        Expected calibration error: mean |predicted - observed|, weighted by rows.
    """

    predicted: NDArray[np.float64]
    observed: NDArray[np.float64]
    count: NDArray[np.int64]
    error: float

    def summary(self) -> dict[str, float]:
        """Return the figures by name."""
        return {"expected_calibration_error": self.error, "n": int(self.count.sum())}

    def to_frame(self) -> pd.DataFrame:
        """One row a bin: bin, predicted_p_long, observed_long_share, rows."""
        import pandas as pd

        return pd.DataFrame(
            {
                "bin": np.arange(self.count.size),
                "predicted_p_long": self.predicted,
                "observed_long_share": self.observed,
                "rows": self.count,
            }
        )


def calibration(p_long: ArrayLike, is_long: ArrayLike, bins: int = 10) -> Calibration:
    """Compare P(Long) with how often the answer was Long, in bins of equal width.

    Parameters
    ----------
    p_long : array_like of shape (n,)
        Predictions in [0, 1].
    is_long : array_like of bool, shape (n,)
        Whether the answer was Long.
    bins : int
        Number of bins.
    """
    if bins < 1:
        raise ParameterError("bins", bins, "give at least 1")
    scores = np.asarray(p_long, dtype=np.float64)
    truth = np.asarray(is_long, dtype=bool)
    if scores.shape != truth.shape or scores.ndim != 1 or not scores.size:
        raise DataError(f"p_long has shape {scores.shape}, is_long {truth.shape}; give two 1-d arrays")
    place = np.minimum((scores * bins).astype(np.int64), bins - 1)
    count = np.bincount(place, minlength=bins)
    divisor = np.where(count > 0, count, np.nan)
    predicted = np.bincount(place, weights=scores, minlength=bins) / divisor
    observed = np.bincount(place, weights=truth, minlength=bins) / divisor
    gap = np.where(count > 0, np.abs(predicted - observed), 0.0)
    return Calibration(predicted, observed, count, float((gap * count).sum() / scores.size))


def _probability_table(probabilities: ArrayLike) -> NDArray[np.float64]:
    table = np.asarray(probabilities, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != 3:
        raise DataError(f"probabilities have shape {table.shape}; give (n, 3): Short, Medium, Long")
    bad = np.argwhere(~np.isfinite(table))
    if bad.size:
        raise DataError("a probability is not a number", row=int(bad[0, 0]), column=str(int(bad[0, 1])))
    return table
