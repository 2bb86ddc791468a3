"""Linear scores over hashed n-grams: fitted by logistic regression, kept as whole numbers.

A prompt's score is (sum of its ids' weights) / sqrt(number of ids), scaled and shifted. The weights are
rounded to 16-bit integers, so that their sum is exact in any order and every runtime gives the same score
to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.predictor.ngrams import N_BUCKETS

__all__ = ["LinearScores", "bag_of_ids", "fit_linear", "out_of_fold_scores"]

Heads = Callable[[Any, NDArray[np.int8], NDArray[np.float64], NDArray[np.float64]], tuple[Any, Any]]


@dataclass(frozen=True)
class LinearScores:
    """Weights of one or more linear scores.

    Attributes
    ----------
    weights : ndarray of int16, shape (2^18 + 1, heads)
        One row an id; the last row is 0 and pads.
    scale, intercept : ndarray of float32, shape (heads,)
        score = sum / sqrt(n) * scale + intercept, in float32.
    """

    weights: NDArray[np.int16]
    scale: NDArray[np.float32]
    intercept: NDArray[np.float32]

    def scores(self, ids: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        """Scores of many prompts, shape (n, heads), to the bit what the exported graph gives."""
        total = np.stack([self.weights[row].sum(axis=0, dtype=np.int32) for row in ids]).astype(np.float32)
        root = np.sqrt(np.array([max(row.size, 1) for row in ids], np.float32))
        return (total / root[:, None]) * self.scale + self.intercept

    def contributions(self, ids: NDArray[np.int32]) -> NDArray[np.float64]:
        """What each id adds to each score, shape (n, heads); they sum to score - intercept."""
        return self.weights[ids].astype(np.float64) * self.scale / np.sqrt(max(ids.size, 1))


def bag_of_ids(ids: Sequence[NDArray[np.int32]]) -> Any:
    """Rows of unit length with one column an id, as a scipy CSR matrix of float64."""
    from scipy.sparse import csr_matrix  # the solver wants its 32-bit indices

    counts = np.array([row.size for row in ids], np.int64)
    pointers = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    columns = np.concatenate([np.sort(row) for row in ids]) if len(ids) else np.empty(0, np.int32)
    values = np.repeat(1 / np.sqrt(np.maximum(counts, 1)), counts)
    return csr_matrix((values, columns, pointers), shape=(len(ids), N_BUCKETS))


def fit_linear(
    bag: Any,
    classes: NDArray[np.int8],
    tokens: NDArray[np.float64],
    weights: NDArray[np.float64],
    *,
    regularisation: float,
    seed: int,
) -> LinearScores:
    """Fit two scores: the log-odds of Long against Short, and the expected log length.

    Medium rows take no part in the first: a score that must also find them separates Short from Long less
    well.

    Parameters
    ----------
    bag : CSR matrix of shape (n, 2^18)
        From `bag_of_ids`.
    classes : ndarray of int8, shape (n,)
        Length classes.
    tokens : ndarray of float64, shape (n,)
        Response tokens.
    weights : ndarray of float64, shape (n,)
        Weight of each row before the classes are balanced.
    regularisation : float
        Inverse strength C of the logistic regression.
    seed : int
        Order in which the solver visits rows.
    """
    from sklearn.linear_model import LogisticRegression, Ridge

    used = np.unique(bag.indices)
    # Few rows use few of the ids; leaving the others out saves most of the time.
    sparse_use = used.size < N_BUCKETS // 2
    if sparse_use:
        bag = bag[:, used]
    ends = np.flatnonzero(classes != 1)
    is_long = classes[ends] == 2
    logistic = LogisticRegression(C=regularisation, solver="liblinear", random_state=seed)
    logistic.fit(bag[ends], is_long, sample_weight=_balanced(is_long.astype(np.int8), weights[ends]))
    ridge = Ridge(alpha=1.0, solver="sparse_cg")
    ridge.fit(bag, np.log(tokens + 5.0), sample_weight=_balanced(classes, weights))
    coefficients = np.column_stack([logistic.coef_[0], ridge.coef_])
    intercept = np.array([logistic.intercept_[0], ridge.intercept_])
    top = np.maximum(np.abs(coefficients).max(axis=0), 1e-9)
    table = np.zeros((N_BUCKETS + 1, coefficients.shape[1]), np.int16)
    table[used if sparse_use else slice(N_BUCKETS)] = np.rint(coefficients / top * 32767)
    return LinearScores(table, (top / 32767).astype(np.float32), intercept.astype(np.float32))


def out_of_fold_scores(
    ids: Sequence[NDArray[np.int32]],
    classes: NDArray[np.int8],
    tokens: NDArray[np.float64],
    weights: NDArray[np.float64],
    fold: NDArray[np.int64],
    *,
    regularisation: float,
    seed: int,
) -> NDArray[np.float32]:
    """Scores of each row from a fit that saw nothing of its fold.

    What stands behind the score (the trees) must learn from scores as they will be on new prompts; scores
    of rows the linear part was fitted on are far too good.
    """
    bag = bag_of_ids(ids)
    scores: NDArray[np.float32] | None = None
    for k in range(int(fold.max()) + 1):
        fit, rest = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        linear = fit_linear(
            bag[fit], classes[fit], tokens[fit], weights[fit], regularisation=regularisation, seed=seed
        )
        part = linear.scores([ids[row] for row in rest])
        if scores is None:
            scores = np.empty((len(ids), part.shape[1]), np.float32)
        scores[rest] = part
    assert scores is not None
    return scores


def _balanced(labels: NDArray[np.int8], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    total = np.bincount(labels, weights=weights)
    share = np.where(total > 0, total.sum() / np.maximum(total, 1e-12), 0.0)
    balanced = weights * share[labels]
    return np.asarray(balanced / balanced.mean())
