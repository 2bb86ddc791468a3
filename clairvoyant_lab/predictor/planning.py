"""What upper bounds are worth to a planner of batches: the error terms of Robust-ISJL (ISJL, section 3.4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import DataError, ParameterError
from clairvoyant_lab.predictor.intervals import Intervals
from clairvoyant_lab.results import summary_html

__all__ = ["UpperBoundReport", "packable_error", "upper_bound_report"]


@dataclass(frozen=True)
class UpperBoundReport:
    """How loose a set of upper bounds is, in the terms of the robust guarantee.

    Attributes
    ----------
    kappa : float
        Smallest ratio of lower to upper bound (κ); 0 where a lower bound is 0.
    mean_slack : float
        Overestimation per realised token: Σ max(u - o, 0) / Σ o (ε̄, Corollary 3.24).
    total_error_tokens : int
        Σ max(u - o, 0) (Δ).
    packable_error_low_tokens, packable_error_high_tokens : int
        Bounds of Δ^pack, the part of the error that fair groups of B cannot hide (Theorem 3.22). The lower
        one lets any B rows share a group, the upper one is a partition that was found.
    guarantee : float
        (3/4) / (1 + B·ε̄): Corollary 3.24's share of the optimal throughput, if Theorem 3.19 held.
    uncovered : float
        Share of rows above their upper bound, for which the theorem promises nothing.
    n, alpha, batch_size
        Rows and setting.
    """

    kappa: float
    mean_slack: float
    total_error_tokens: int
    packable_error_low_tokens: int
    packable_error_high_tokens: int
    guarantee: float
    uncovered: float
    n: int
    alpha: int
    batch_size: int

    def summary(self) -> dict[str, float]:
        """Return the figures by name."""
        return {
            "kappa": self.kappa,
            "mean_slack": self.mean_slack,
            "total_error_tokens": self.total_error_tokens,
            "packable_error_low_tokens": self.packable_error_low_tokens,
            "packable_error_high_tokens": self.packable_error_high_tokens,
            "guarantee": self.guarantee,
            "uncovered": self.uncovered,
            "n": self.n,
            "alpha": self.alpha,
            "batch_size": self.batch_size,
        }

    def _repr_html_(self) -> str:
        return summary_html("Upper bounds for a planner of batches", self.summary())


def upper_bound_report(
    intervals: Intervals, lengths: ArrayLike, *, alpha: int, batch_size: int
) -> UpperBoundReport:
    """Report κ, the slack ε̄, Δ and Δ^pack of bounds against true lengths.

    Parameters
    ----------
    intervals : Intervals
        Bounds; shift both these and `lengths` by the prompt's tokens for whole batch jobs.
    lengths : array_like of int, shape (n,)
        True lengths.
    alpha : int
        Fairness parameter, token steps.
    batch_size : int
        B.
    """
    true = np.asarray(lengths, dtype=np.int64)
    if true.shape != intervals.upper_tokens.shape or not true.size:
        raise DataError(f"lengths has shape {true.shape}; there are {intervals.upper_tokens.size} intervals")
    if alpha < 0:
        raise ParameterError("alpha", alpha, "give 0 or more token steps")
    if batch_size < 1:
        raise ParameterError("batch_size", batch_size, "give 1 or more")
    error = np.maximum(intervals.upper_tokens - true, 0)
    slack = float(error.sum() / max(int(true.sum()), 1))
    ratio = intervals.lower_tokens / np.maximum(intervals.upper_tokens, 1)
    return UpperBoundReport(
        kappa=float(ratio.min()),
        mean_slack=slack,
        total_error_tokens=int(error.sum()),
        packable_error_low_tokens=int(np.sort(error)[::-1][::batch_size].sum()),
        packable_error_high_tokens=packable_error(true, error, alpha, batch_size),
        guarantee=0.75 / (1 + batch_size * slack),
        uncovered=float((true > intervals.upper_tokens).mean()),
        n=int(true.size),
        alpha=alpha,
        batch_size=batch_size,
    )


def packable_error(lengths: NDArray[np.int64], error: NDArray[np.int64], alpha: int, batch_size: int) -> int:
    """Sum over groups of the largest error, for groups of at most B rows within α of each other.

    The row with the largest error left opens a group and takes in the rows with the next largest errors
    that fit; the result is an upper bound of Δ^pack.
    """
    order = np.argsort(-error, kind="stable")
    left = np.ones(lengths.size, bool)
    total = 0
    for leader in order:
        if not left[leader]:
            continue
        left[leader] = False
        total += int(error[leader])
        low = high = int(lengths[leader])
        size = 1
        while size < batch_size:
            fits = left & (lengths >= high - alpha) & (lengths <= low + alpha)
            candidates = np.flatnonzero(fits[order])
            if not candidates.size:
                break
            row = order[candidates[0]]
            left[row] = False
            low, high = min(low, int(lengths[row])), max(high, int(lengths[row]))
            size += 1
    return total
