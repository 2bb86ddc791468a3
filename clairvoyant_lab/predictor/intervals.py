"""Length intervals: quantile trees, made honest by split conformal prediction, in one ONNX graph.

Each side is a model of its own, so that an upper bound can be used alone: a planner of batches wants to
know what a response will hardly exceed. Conversations set apart beforehand tell by how much each side
must be moved so that it is right as often as it claims (conformalised quantile regression, one side at a
time).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import DataError, ParameterError
from clairvoyant_lab.lengths import LONG_FROM_TOKENS, SHORT_BELOW_TOKENS, LengthClass, classify_lengths
from clairvoyant_lab.predictor.linear import LinearScores
from clairvoyant_lab.predictor.ngrams import RICH_NAMES, scan_many
from clairvoyant_lab.predictor.rich import RICH_HYPER
from clairvoyant_lab.predictor.rich_rows import fit_stage_one, scan_rows
from clairvoyant_lab.predictor.splits import group_split
from clairvoyant_lab.results import summary_html

if TYPE_CHECKING:
    import pandas as pd

    from clairvoyant_lab.predictor.export import ExportReport

__all__ = ["Coverage", "Intervals", "TrainedIntervals", "interval_coverage", "train_intervals"]

INTERVAL_HYPER: Mapping[str, Any] = {
    "n_estimators": 150,
    "max_depth": 3,
    "learning_rate": 0.05,
    "subsample": 0.5,
    "colsample_bytree": 0.5,
}
_LOG_SHIFT = 5.0


@dataclass(frozen=True)
class Intervals:
    """Bounds of response lengths.

    Attributes
    ----------
    lower_tokens, upper_tokens : ndarray of int64, shape (n,)
        The response has at least `lower` and at most `upper` tokens, each side with probability (1 +
        level) / 2.
    level : float
        Coverage of both sides together.
    """

    lower_tokens: NDArray[np.int64]
    upper_tokens: NDArray[np.int64]
    level: float

    def capped(self, token_caps: ArrayLike) -> Intervals:
        """Bounds of responses that stop at `token_caps` tokens (one number, or one a row)."""
        caps = np.asarray(token_caps, dtype=np.int64)
        if (caps < 0).any():
            raise ParameterError("token_caps", int(caps.min()), "give token counts of 0 or more")
        return Intervals(np.minimum(self.lower_tokens, caps), np.minimum(self.upper_tokens, caps), self.level)

    def shifted(self, prompt_tokens: ArrayLike) -> Intervals:
        """Bounds of a batch job's length o = prompt + response tokens."""
        prompt = np.asarray(prompt_tokens, dtype=np.int64)
        return Intervals(self.lower_tokens + prompt, self.upper_tokens + prompt, self.level)

    def summary(self) -> dict[str, float]:
        """Return the figures by name."""
        return {
            "n": self.lower_tokens.size,
            "level": self.level,
            "mean_lower_tokens": float(self.lower_tokens.mean()),
            "mean_upper_tokens": float(self.upper_tokens.mean()),
        }

    def to_frame(self) -> pd.DataFrame:
        """One row a prompt: lower_tokens, upper_tokens."""
        import pandas as pd

        return pd.DataFrame({"lower_tokens": self.lower_tokens, "upper_tokens": self.upper_tokens})

    def _repr_html_(self) -> str:
        return summary_html("Length intervals", self.summary())


@dataclass(frozen=True)
class Coverage:
    """How often intervals held, in all and by class.

    Attributes
    ----------
    groups : tuple of str
        `all`, then the classes.
    n : ndarray of int64
        Rows of each.
    both, below_upper, above_lower : ndarray of float64
        Share of rows inside, not above the upper bound, not below the lower one.
    mean_width_tokens : ndarray of float64
        Mean width.
    level : float
        Nominal coverage of both sides.
    """

    groups: tuple[str, ...]
    n: NDArray[np.int64]
    both: NDArray[np.float64]
    below_upper: NDArray[np.float64]
    above_lower: NDArray[np.float64]
    mean_width_tokens: NDArray[np.float64]
    level: float

    def summary(self) -> dict[str, float]:
        """Return the figures over all rows."""
        return {
            "coverage": float(self.both[0]),
            "nominal": self.level,
            "below_upper": float(self.below_upper[0]),
            "above_lower": float(self.above_lower[0]),
            "mean_width_tokens": float(self.mean_width_tokens[0]),
            "n": int(self.n[0]),
        }

    def to_frame(self) -> pd.DataFrame:
        """One row a class and `all`: rows, coverage, nominal, below_upper, above_lower, mean_width_tokens."""
        import pandas as pd

        return pd.DataFrame(
            {
                "length_class": list(self.groups),
                "rows": self.n,
                "coverage": self.both,
                "nominal": self.level,
                "below_upper": self.below_upper,
                "above_lower": self.above_lower,
                "mean_width_tokens": self.mean_width_tokens,
            }
        )

    def _repr_html_(self) -> str:
        return summary_html("Coverage on held-out rows", self.summary())


def interval_coverage(
    intervals: Intervals,
    response_tokens: ArrayLike,
    short_below: int = SHORT_BELOW_TOKENS,
    long_from: int = LONG_FROM_TOKENS,
) -> Coverage:
    """Compare intervals with true lengths, in all and by true class."""
    tokens: NDArray[Any] = np.asarray(response_tokens)
    if tokens.shape != intervals.lower_tokens.shape:
        raise DataError(
            f"response_tokens has shape {tokens.shape}; there are {intervals.lower_tokens.size} intervals"
        )
    classes = classify_lengths(tokens, short_below, long_from)
    above, below = tokens >= intervals.lower_tokens, tokens <= intervals.upper_tokens
    width = intervals.upper_tokens - intervals.lower_tokens
    names, masks = ["all"], [np.ones(tokens.size, bool)]
    for length_class in LengthClass:
        if (classes == length_class).any():
            names.append(length_class.label)
            masks.append(classes == length_class)

    def share(values: NDArray[Any]) -> NDArray[np.float64]:
        return np.array([values[mask].mean() for mask in masks])

    counts = np.array([int(mask.sum()) for mask in masks])
    return Coverage(
        tuple(names), counts, share(above & below), share(below), share(above), share(width), intervals.level
    )


@dataclass(frozen=True)
class TrainedIntervals:
    """Quantile trees with their conformal shifts.

    Attributes
    ----------
    linear : LinearScores
        Scores that the trees read.
    lower, upper : xgboost.XGBRegressor
        Quantiles of log(tokens + 5), less `centre`.
    centre : float
        Median of the training rows' log(tokens + 5).
    lower_shift, upper_shift : float
        Conformal shifts on the log scale: subtracted from the lower side, added to the upper.
    level : float
        Nominal coverage of both sides together.
    n_calibration : int
        First turns that set the shifts.
    fingerprint, seed
        As in `TrainedRich`.
    """

    linear: LinearScores = field(repr=False)
    lower: Any = field(repr=False)
    upper: Any = field(repr=False)
    centre: float
    lower_shift: float
    upper_shift: float
    level: float
    n_calibration: int
    fingerprint: str
    seed: int
    training_rows: NDArray[np.float32] = field(repr=False)
    training_ids: list[NDArray[np.int32]] = field(repr=False)

    def predict(self, prompts: Sequence[str]) -> Intervals:
        """Intervals of prompts."""
        return self.from_scan(*scan_many(prompts))

    def from_scan(self, features: NDArray[np.float32], ids: Sequence[NDArray[np.int32]]) -> Intervals:
        """Intervals of scanned prompts."""
        lower, upper = self.raw(features, ids)
        return round_outwards(lower, upper, self.level)

    def raw(
        self, features: NDArray[np.float32], ids: Sequence[NDArray[np.int32]]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Bounds before rounding, float32, as the exported graph gives them."""
        rows = np.column_stack([features, self.linear.scores(ids)])
        low = self.lower.predict(rows) + np.float32(self.centre - self.lower_shift)
        high = self.upper.predict(rows) + np.float32(self.centre + self.upper_shift)
        # Quantiles of two models may cross; the lower side gives way.
        return np.exp(np.minimum(low, high)) - np.float32(_LOG_SHIFT), np.exp(high) - np.float32(_LOG_SHIFT)

    def export_onnx(
        self, path: str | Path, *, name: str | None = None, metrics: Mapping[str, float] | None = None
    ) -> ExportReport:
        """Write one graph, features and ids in, `lower` and `upper` out, after proving it equal."""
        from clairvoyant_lab.predictor.interval_export import export_intervals

        return export_intervals(self, Path(path), name=name, metrics=metrics or {})


def round_outwards(lower: NDArray[np.float32], upper: NDArray[np.float32], level: float) -> Intervals:
    """Whole tokens: the lower bound down, the upper bound up, never below 0."""
    low = np.floor(np.maximum(lower, 0)).astype(np.int64)
    return Intervals(low, np.maximum(np.ceil(upper).astype(np.int64), low), level)


def train_intervals(
    prompts: Sequence[str],
    response_tokens: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    first_turn: ArrayLike | None = None,
    level: float = 0.9,
    calibration_fraction: float = 0.25,
    seed: int = 42,
    short_below: int = SHORT_BELOW_TOKENS,
    long_from: int = LONG_FROM_TOKENS,
) -> TrainedIntervals:
    """Train interval bounds and calibrate them on conversations set apart.

    Parameters
    ----------
    prompts, response_tokens, groups, first_turn, seed, short_below, long_from
        As `rich.train_rich`.
    level : float
        Coverage of both sides together; each side misses (1 - level) / 2.
    calibration_fraction : float
        Share of conversations that set the conformal shifts.

    Returns
    -------
    TrainedIntervals
    """
    if not 0 < level < 1:
        raise ParameterError("level", level, "give a share in (0, 1), such as 0.9")
    if not 0 < calibration_fraction < 1:
        raise ParameterError("calibration_fraction", calibration_fraction, "give a share in (0, 1)")
    table = scan_rows(prompts, response_tokens, groups, first_turn, (short_below, long_from))
    fit, rest = group_split(table.groups, table.classes, calibration_fraction, seed)
    proper, apart = table.take(fit), table.take(rest[table.opens[rest]])
    tail = (1 - level) / 2
    if apart.tokens.size < 1 / tail:
        raise DataError(
            f"{apart.tokens.size} rows to calibrate on; a level of {level} needs at least "
            f"{int(np.ceil(1 / tail))}"
        )
    one = fit_stage_one(proper, seed, RICH_HYPER)
    target = np.log(one.tokens + _LOG_SHIFT)
    centre = float(np.float32(np.median(target)))
    lower = _fit_quantile(one.rows, target - centre, tail, seed)
    upper = _fit_quantile(one.rows, target - centre, 1 - tail, seed)

    rows = np.column_stack([apart.features, one.linear.scores(apart.ids)])
    truth = np.log(apart.tokens + _LOG_SHIFT) - centre
    return TrainedIntervals(
        linear=one.linear,
        lower=lower,
        upper=upper,
        centre=centre,
        lower_shift=_conformal(lower.predict(rows) - truth, tail),
        upper_shift=_conformal(truth - upper.predict(rows), tail),
        level=level,
        n_calibration=int(apart.tokens.size),
        fingerprint=table.fingerprint(),
        seed=seed,
        training_rows=one.rows[:, : len(RICH_NAMES)],
        training_ids=[proper.ids[row] for row in np.flatnonzero(proper.opens)],
    )


def _fit_quantile(rows: NDArray[np.float32], target: NDArray[np.float64], quantile: float, seed: int) -> Any:
    from xgboost import XGBRegressor

    n_scores = rows.shape[1] - len(RICH_NAMES)
    return XGBRegressor(
        **INTERVAL_HYPER,
        objective="reg:quantileerror",
        quantile_alpha=quantile,
        base_score=0.0,
        monotone_constraints=(0,) * len(RICH_NAMES) + (1,) * n_scores,
        random_state=seed,
        n_jobs=1,
    ).fit(rows, target)


def _conformal(misses: NDArray[np.float64], tail: float) -> float:
    """The ceil((n + 1)(1 - tail))-th smallest miss: a new row exceeds it with probability at most `tail`."""
    rank = min(int(np.ceil((misses.size + 1) * (1 - tail))), misses.size)
    return float(np.sort(misses)[rank - 1])
