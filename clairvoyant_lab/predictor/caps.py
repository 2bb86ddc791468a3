"""What a token cap does to a prediction (max_tokens, num_predict), and the expected length."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.lengths import LONG_FROM_TOKENS, SHORT_BELOW_TOKENS

__all__ = ["apply_token_cap", "checked_cap", "expected_tokens"]


def apply_token_cap(
    probabilities: ArrayLike,
    token_cap: int | None,
    short_below: int = SHORT_BELOW_TOKENS,
    long_from: int = LONG_FROM_TOKENS,
) -> NDArray[np.float32]:
    """Class probabilities of answers that stop after `token_cap` tokens at the latest.

    A class that starts above the cap gets probability 0, the rest is scaled to sum to 1.

    Parameters
    ----------
    probabilities : array_like of shape (..., 3)
        P(Short), P(Medium), P(Long) without a cap.
    token_cap : int or None
        Most tokens the answer may have; None for no cap.
    short_below, long_from : int
        First token counts of Medium and Long.

    Returns
    -------
    ndarray of float32, shape (..., 3)
    """
    table: NDArray[np.float32] = np.asarray(probabilities, dtype=np.float32)
    cap = checked_cap(token_cap)
    if cap is None or cap >= long_from:
        return table
    capped = table.copy()
    capped[..., 2] = 0
    if cap < short_below:
        capped[..., 1] = 0
    total = capped.sum(axis=-1, keepdims=True)
    # All the mass may have been on what the cap excludes; the longest class that is left takes it.
    empty = total[..., 0] <= 0
    if np.any(empty):
        capped[empty, 0 if cap < short_below else 1] = 1
        total = capped.sum(axis=-1, keepdims=True)
    return capped / total


def expected_tokens(
    probabilities: ArrayLike, class_mean_tokens: ArrayLike, token_cap: int | None = None
) -> NDArray[np.float64]:
    """Expected response tokens: the sum over classes of p_k · min(m_k, cap).

    Parameters
    ----------
    probabilities : array_like of shape (..., 3)
        Class probabilities, after `apply_token_cap` where there is a cap.
    class_mean_tokens : array_like of shape (3,)
        Mean response tokens of each class.
    token_cap : int or None
        Most tokens the answer may have.

    Returns
    -------
    ndarray of float64, shape (...,)
    """
    means: NDArray[Any] = np.asarray(class_mean_tokens, dtype=np.float64)
    cap = checked_cap(token_cap)
    if cap is not None:
        means = np.minimum(means, cap)
    return np.asarray(np.asarray(probabilities, dtype=np.float64) @ means)


def checked_cap(token_cap: int | None) -> int | None:
    """Refuse a cap that is no count of tokens."""
    if token_cap is None:
        return None
    if isinstance(token_cap, bool) or not isinstance(token_cap, int | np.integer) or token_cap < 0:
        raise ParameterError("token_cap", token_cap, "give a whole number of tokens, 0 or more, or None")
    return int(token_cap)
