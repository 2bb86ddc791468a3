"""Noisy scores with a chosen ranking accuracy (eq. 2): a predictor of known quality without a predictor."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import ParameterError, StarvedDatasetError
from clairvoyant_lab.lengths import LengthClass

__all__ = ["class_ranking_accuracy", "noisy_score"]


def class_ranking_accuracy(score: ArrayLike, length_class: ArrayLike) -> float:
    """Share of (Short, Long) pairs in which the Long request has the strictly higher score (eq. 2).

    Parameters
    ----------
    score : array_like of float, shape (n,)
    length_class : array_like of int, shape (n,)
        True `LengthClass` of each request.

    Raises
    ------
    StarvedDatasetError
        Without a Short or without a Long request there is no pair.
    """
    values, classes = np.asarray(score, dtype=np.float64), np.asarray(length_class)
    short = np.sort(values[classes == LengthClass.SHORT])
    long = values[classes == LengthClass.LONG]
    if short.size == 0 or long.size == 0:
        raise StarvedDatasetError(
            f"{short.size} Short and {long.size} Long requests make no pair to rank", column="length_class"
        )
    below = np.searchsorted(short, long, side="left")
    return float(below.sum() / (short.size * long.size))


def noisy_score(
    length_class: ArrayLike, accuracy: float, seed: int | np.random.Generator
) -> NDArray[np.float64]:
    """P(Long) of a predictor with a given ranking accuracy.

    A latent normal mark, shifted by d for Long and d / 2 for Medium requests, is mapped to (0, 1). The shift
    is fitted to the sample itself, so eq. 2 gives what was asked for, up to one (Short, Long) pair.

    Parameters
    ----------
    length_class : array_like of int, shape (n,)
        True classes.
    accuracy : float
        Wanted ranking accuracy in [0, 1]; 0.5 knows nothing.
    seed : int or Generator

    Returns
    -------
    ndarray of float64, shape (n,)
        Without a Short or a Long request no accuracy is defined; then the shift is the one that gives
        `accuracy` in expectation.

    Raises
    ------
    ParameterError
        For an accuracy outside [0, 1].
    """
    if not 0.0 <= accuracy <= 1.0:
        raise ParameterError("accuracy", accuracy, "give a share from 0 to 1, e.g. 0.95")
    classes = np.asarray(length_class)
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal(classes.size)
    shift = _fitted_shift(noise, classes, accuracy)
    mark = noise + shift * classes / float(LengthClass.LONG)
    n_long = np.count_nonzero(classes == LengthClass.LONG)
    n_short = np.count_nonzero(classes == LengthClass.SHORT)
    prior = np.log((n_long + 0.5) / (n_short + 0.5))
    # the posterior's slope is d; kept in a range that neither flips the order nor rounds marks together
    slope = float(np.clip(shift, 0.5, 3.0))
    score: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-(slope * (mark - shift / 2.0) + prior)))
    return score


def _fitted_shift(noise: NDArray[np.float64], classes: NDArray[np.int8], accuracy: float) -> float:
    """The shift d at which a share `accuracy` of pairs has long + d > short."""
    from scipy.special import ndtri

    short = np.sort(noise[classes == LengthClass.SHORT])
    long = noise[classes == LengthClass.LONG]
    if short.size == 0 or long.size == 0:
        return float(2**0.5 * np.clip(ndtri(accuracy), -6.0, 6.0))

    def right(shift: float) -> int:
        return int(np.searchsorted(short, long + shift, side="left").sum())

    def least(pairs: int) -> float:
        low = float(short[0] - long.max()) - 1.0  # no pair is right
        high = float(short[-1] - long.min()) + 1.0  # every pair is
        for _ in range(60):
            middle = (low + high) / 2.0
            low, high = (low, middle) if right(middle) >= pairs else (middle, high)
        return high

    # between two steps of the count, so that rounding can't tie the pair that made the last one
    reached = round(accuracy * short.size * long.size)
    start = least(reached) if reached > 0 else least(1) - 0.1
    end = least(reached + 1) if reached < short.size * long.size else start + 0.1
    return (start + end) / 2.0
