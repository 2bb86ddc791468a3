"""Competitive ratios that the ISJL paper states, as functions; whether they hold is `claims`' business.

A ratio is optimal makespan over the policy's, at most 1. gamma is alpha over the longest length.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import ParameterError

__all__ = [
    "BEST_BETA_SHARE",
    "ISJL_RATIO",
    "ONLINE_RATIO_LIMIT",
    "cr_envelope",
    "cr_over",
    "cr_under",
    "graham_ratio",
    "isjl_b2_over",
    "isjl_b2_ratio",
    "isjl_b2_under",
    "ljf_ratio",
    "robust_ratio",
    "robust_ratio_packed",
]

Ratios = NDArray[np.float64]

ISJL_RATIO = 0.75  # Theorem 3.19, any B
BEST_BETA_SHARE = (sqrt(17) - 1) / 4  # remark 3.17: beta / alpha where the two bounds of Theorem 3.9 meet
ONLINE_RATIO_LIMIT = (sqrt(5) - 1) / 2  # Proposition 3.27


def ljf_ratio(batch_size: int) -> float:
    """B / (2B - 1), Theorem 3.3: LJF's makespan is at most its inverse times the optimum; tight."""
    if batch_size < 1:
        raise ParameterError("batch_size", batch_size, "give at least 1")
    return batch_size / (2 * batch_size - 1)


def graham_ratio(batch_size: int) -> float:
    """3B / (4B - 1), Proposition 3.16: list scheduling by descending length without a limit."""
    if batch_size < 1:
        raise ParameterError("batch_size", batch_size, "give at least 1")
    return 3 * batch_size / (4 * batch_size - 1)


def isjl_b2_over(beta_share: ArrayLike) -> Ratios:
    """Bound by over-inserting for B = 2, Lemma 3.12, at beta = beta_share * alpha in [0, 2 alpha]."""
    b = _within("beta_share", beta_share, 0, 2)
    return np.asarray(np.where(b <= 1, (1 + 2 * b) / (1 + 3 * b), (2 + b) / (2 + 2 * b)))


def isjl_b2_under(beta_share: ArrayLike) -> Ratios:
    """Bound by under-inserting for B = 2, Lemma 3.14: 4 alpha / (6 alpha - beta)."""
    b = _within("beta_share", beta_share, 0, 2)
    return np.asarray(4 / (6 - b))


def isjl_b2_ratio(beta_share: ArrayLike = BEST_BETA_SHARE) -> Ratios:
    """Theorem 3.9: the smaller of the two; (25 + sqrt 17) / 38 at the best beta."""
    return np.minimum(isjl_b2_over(beta_share), isjl_b2_under(beta_share))


def cr_over(gamma: ArrayLike) -> Ratios:
    """CR by over-inserting as a function of gamma in (0, 1), Lemma 4.1."""
    g = _within("gamma", gamma, 0, 1)
    return np.asarray(np.where(g <= 0.5, (1 + g) / (1 + 2 * g), (2 - g) / (3 - 2 * g)))


def cr_under(gamma: ArrayLike) -> Ratios:
    """CR by under-inserting as a function of gamma in (0, 1), Lemma 4.2."""
    g = _within("gamma", gamma, 0, 1)
    return np.asarray(np.where(g <= 1 / 3, (1 + g) / (1 + 2 * g), 2 * (1 + g) / (3 + g)))


def cr_envelope(gamma: ArrayLike) -> Ratios:
    """CR(gamma), Theorem 4.3: the lower envelope of the two; 3/4 at gamma = 1/2, 1 at the ends."""
    return np.minimum(cr_over(gamma), cr_under(gamma))


def robust_ratio(mean_slack: ArrayLike, batch_size: int) -> Ratios:
    """Corollary 3.24: (3/4) / (1 + B e), e the upper bounds' total excess over the total tokens."""
    e = _within("mean_slack", mean_slack, 0, np.inf)
    return np.asarray(ISJL_RATIO / (1 + batch_size * e))


def robust_ratio_packed(packed_residual: float, optimal_makespan_steps: float) -> float:
    """Theorem 3.22: (3/4) / (1 + packed residual / T_OPT)."""
    if not (packed_residual >= 0 and optimal_makespan_steps > 0):
        raise ParameterError(
            "packed_residual, optimal_makespan_steps",
            (packed_residual, optimal_makespan_steps),
            "give a residual >= 0 and a makespan > 0",
        )
    return ISJL_RATIO / (1 + packed_residual / optimal_makespan_steps)


def _within(name: str, given: ArrayLike, low: float, high: float) -> Ratios:
    values = np.asarray(given, dtype=np.float64)
    if not ((values >= low) & (values <= high)).all():
        raise ParameterError(name, given, f"give values from {low:g} to {high:g}")
    return values
