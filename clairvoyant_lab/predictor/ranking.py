"""How well scores order short answers before long ones (Clairvoyant, equation 2), with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import DataError, ParameterError, StarvedDatasetError
from clairvoyant_lab.lengths import LONG_FROM_TOKENS, SHORT_BELOW_TOKENS, classify_lengths
from clairvoyant_lab.results import summary_html

__all__ = [
    "RankingDifference",
    "RankingEstimate",
    "bootstrap_difference",
    "bootstrap_ranking",
    "ranking_accuracy",
    "short_long_scores",
]


def ranking_accuracy(
    p_long: ArrayLike,
    response_tokens: ArrayLike,
    short_below: int = SHORT_BELOW_TOKENS,
    long_from: int = LONG_FROM_TOKENS,
    *,
    ties: str = "wrong",
) -> float:
    """Share of (Short, Long) pairs in which the Long row has the strictly higher score.

    Equation 2 of Clairvoyant; Medium rows take no part.

    Parameters
    ----------
    p_long : array_like of shape (n,)
        Any score that should be higher for longer answers.
    response_tokens : array_like of shape (n,)
        True response lengths in tokens.
    short_below, long_from : int
        Class bounds in tokens.
    ties : {"wrong", "half"}
        What a pair with equal scores counts: 0 (equation 2) or a half (the area under the ROC curve).

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    DataError
        If the two arrays differ in length, or a score is not a number.
    StarvedDatasetError
        If there is no Short or no Long row.
    """
    if ties not in ("wrong", "half"):
        raise ParameterError("ties", ties, "give 'wrong' (equation 2) or 'half'")
    short, long = short_long_scores(p_long, response_tokens, short_below, long_from)
    return _pair_share(short, long, half=ties == "half")


def short_long_scores(
    p_long: ArrayLike,
    response_tokens: ArrayLike,
    short_below: int = SHORT_BELOW_TOKENS,
    long_from: int = LONG_FROM_TOKENS,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scores of the Short rows and of the Long rows, checked.

    Raises
    ------
    DataError, StarvedDatasetError
        As `ranking_accuracy`.
    """
    scores = np.asarray(p_long, dtype=np.float64)
    tokens: NDArray[Any] = np.asarray(response_tokens)
    if scores.ndim != 1 or tokens.shape != scores.shape:
        raise DataError(
            f"p_long has shape {scores.shape}, response_tokens {tokens.shape}; give two 1-d arrays of one "
            "length"
        )
    bad = np.flatnonzero(np.isnan(scores))
    if bad.size:
        raise DataError("the score is not a number", row=int(bad[0]), column="p_long")
    classes = classify_lengths(tokens, short_below, long_from)
    short, long = scores[classes == 0], scores[classes == 2]
    for name, rows, bound in (
        ("Short", short, f"< {short_below}"),
        ("Long", long, f">= {long_from}"),
    ):
        if not rows.size:
            raise StarvedDatasetError(
                f"no {name} row ({bound} tokens) among {scores.size}; ranking needs both classes"
            )
    return short, long


def _pair_share(short: NDArray[np.float64], long: NDArray[np.float64], *, half: bool) -> float:
    # One sort and a binary search instead of |S| x |L| comparisons.
    ordered = np.sort(short)
    below = np.searchsorted(ordered, long, side="left").sum(dtype=np.int64)
    if half:
        upto = np.searchsorted(ordered, long, side="right").sum(dtype=np.int64)
        return float((below + upto) / 2 / (short.size * long.size))
    return float(below / (short.size * long.size))


@dataclass(frozen=True)
class _Bootstrapped:
    _NAME: ClassVar[str]
    _TITLE: ClassVar[str]

    value: float
    low: float
    high: float
    level: float
    n_short: int
    n_long: int
    n_boot: int
    seed: int

    def summary(self) -> dict[str, float]:
        """Return the figures by name."""
        return {
            self._NAME: self.value,
            "low": self.low,
            "high": self.high,
            "level": self.level,
            "n_short": self.n_short,
            "n_long": self.n_long,
        }

    def _repr_html_(self) -> str:
        return summary_html(self._TITLE, self.summary())


@dataclass(frozen=True)
class RankingEstimate(_Bootstrapped):
    """A ranking accuracy with its bootstrap interval.

    Attributes
    ----------
    value, low, high : float
        Point and percentile interval, between 0 and 1.
    level : float
        Coverage the interval aims at.
    n_short, n_long : int
        Rows behind it.
    n_boot, seed : int
        How the interval was made.
    """

    _NAME: ClassVar[str] = "ranking_accuracy"
    _TITLE: ClassVar[str] = "Ranking accuracy (equation 2)"


@dataclass(frozen=True)
class RankingDifference(_Bootstrapped):
    """How much better one score ranks than another on the same rows.

    Attributes
    ----------
    value, low, high : float
        Ranking accuracy of the one minus that of the other, and the paired percentile interval.
    level, n_short, n_long, n_boot, seed
        As in `RankingEstimate`.
    """

    _NAME: ClassVar[str] = "ranking_difference"
    _TITLE: ClassVar[str] = "Difference of two ranking accuracies (equation 2)"


def bootstrap_ranking(
    p_long: ArrayLike,
    response_tokens: ArrayLike,
    *,
    short_below: int = SHORT_BELOW_TOKENS,
    long_from: int = LONG_FROM_TOKENS,
    n_boot: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> RankingEstimate:
    """Ranking accuracy with an interval that resamples both axes, Short rows and Long rows.

    Pairs share rows, so resampling pairs would give intervals that are far too narrow.

    Parameters
    ----------
    p_long, response_tokens, short_below, long_from
        As `ranking_accuracy`.
    n_boot : int
        Resamples.
    level : float
        Coverage aimed at, in (0, 1).
    seed : int
        Seed of the resamples.

    Returns
    -------
    RankingEstimate
    """
    short, long = short_long_scores(p_long, response_tokens, short_below, long_from)
    values = _resampled([(short, long)], n_boot, level, seed)[0]
    tail = (1 - level) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return RankingEstimate(
        value=_pair_share(short, long, half=False),
        low=float(low),
        high=float(high),
        level=level,
        n_short=int(short.size),
        n_long=int(long.size),
        n_boot=n_boot,
        seed=seed,
    )


def bootstrap_difference(
    p_long: ArrayLike,
    p_long_other: ArrayLike,
    response_tokens: ArrayLike,
    *,
    short_below: int = SHORT_BELOW_TOKENS,
    long_from: int = LONG_FROM_TOKENS,
    n_boot: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> RankingDifference:
    """Difference of two ranking accuracies, with an interval that draws the same rows for both.

    Two scores of the same prompts err on the same prompts. Each resample therefore takes one set of Short
    and Long rows for both; intervals of either alone say far less about their difference.

    Parameters
    ----------
    p_long, p_long_other : array_like of shape (n,)
        The two scores; the difference is the first minus the second.
    response_tokens, short_below, long_from, n_boot, level, seed
        As `bootstrap_ranking`.

    Returns
    -------
    RankingDifference
    """
    pairs = [
        short_long_scores(score, response_tokens, short_below, long_from) for score in (p_long, p_long_other)
    ]
    values = _resampled(pairs, n_boot, level, seed)
    tail = (1 - level) / 2
    low, high = np.quantile(values[0] - values[1], [tail, 1 - tail])
    one, other = (_pair_share(short, long, half=False) for short, long in pairs)
    return RankingDifference(
        value=one - other,
        low=float(low),
        high=float(high),
        level=level,
        n_short=int(pairs[0][0].size),
        n_long=int(pairs[0][1].size),
        n_boot=n_boot,
        seed=seed,
    )


def _resampled(
    pairs: list[tuple[NDArray[np.float64], NDArray[np.float64]]], n_boot: int, level: float, seed: int
) -> NDArray[np.float64]:
    """Ranking accuracies of scores (short, long) of the same rows, shape (scores, n_boot)."""
    if not 0 < level < 1:
        raise ParameterError("level", level, "give a share in (0, 1), such as 0.95")
    if n_boot < 1:
        raise ParameterError("n_boot", n_boot, "give at least 1 resample")
    rng = np.random.default_rng(seed)
    n_short, n_long = pairs[0][0].size, pairs[0][1].size
    # Ranks once, then each resample is two weight vectors: sum over l of w_l * (weight of shorts below l).
    ranked = []
    for short, long in pairs:
        order = np.argsort(short, kind="stable")
        ranked.append((order, np.searchsorted(short[order], long, side="left")))
    values = np.empty((len(pairs), n_boot))
    for draw in range(n_boot):
        short_weight = np.bincount(rng.integers(0, n_short, n_short), minlength=n_short)
        long_weight = np.bincount(rng.integers(0, n_long, n_long), minlength=n_long)
        for place, (order, below) in enumerate(ranked):
            cumulative = np.concatenate(([0], np.cumsum(short_weight[order])))
            values[place, draw] = (cumulative[below] * long_weight).sum() / (n_short * n_long)
    return values
