"""The deploy gate: does the predictor rank this traffic well enough to be better than FCFS?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.errors import DataError, ParameterError, StarvedDatasetError
from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.results import summary_html, summary_text
from clairvoyant_lab.scheduling.serial import serial_policy
from clairvoyant_lab.simulation.replicates import Replicates
from clairvoyant_lab.simulation.resample import resample_trace
from clairvoyant_lab.simulation.scores import class_ranking_accuracy, noisy_score
from clairvoyant_lab.simulation.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["GateResult", "deploy_gate", "ranking_interval"]

SHORT, LONG = LengthClass.SHORT, LengthClass.LONG


@dataclass(frozen=True, repr=False, eq=False)
class GateResult:
    """Whether to deploy, and the two figures that decide it.

    Attributes
    ----------
    accuracy, accuracy_low, accuracy_high : float
        Ranking accuracy (eq. 2) on the traffic and its 95 % interval.
    needed : float or None
        Smallest ranking accuracy with the wanted cut of the short mean; None: none reaches it.
    curve : tuple of dict
        Cut of the short mean time to completion for each accuracy tried.
    """

    accuracy: float
    accuracy_low: float
    accuracy_high: float
    needed: float | None
    min_cut_pct: float
    load: float | None
    service_cs2: float
    curve: tuple[dict[str, float], ...]
    n_short: int
    n_long: int

    @property
    def passed(self) -> bool:
        """Pass only if the whole interval is above what is needed."""
        return self.needed is not None and self.accuracy_low > self.needed

    def sentence(self) -> str:
        """The answer in words."""
        ranks = (
            f"On this traffic the predictor ranks {100 * self.accuracy:.1f} % "
            f"[{100 * self.accuracy_low:.1f}, {100 * self.accuracy_high:.1f}]"
        )
        where = f"at ρ = {self.load:.2f}" if self.load is not None else "in a burst"
        where += f" and C_s² = {self.service_cs2:.2f}"
        if self.needed is None:
            return f"{ranks}; {where} no accuracy cuts the short mean by {self.min_cut_pct:g} %: keep FCFS."
        if self.passed:
            verdict = "deploy"
        elif self.accuracy_high > self.needed:
            verdict = "too close to call: keep FCFS and collect more"
        else:
            verdict = "keep FCFS"
        return f"{ranks}; {where} it must beat {100 * self.needed:.1f} %: {verdict}."

    def to_frame(self) -> pd.DataFrame:
        """Return the cut of the short mean by ranking accuracy."""
        import pandas as pd

        return pd.DataFrame(self.curve)

    def summary(self) -> dict[str, Any]:
        """Return the figures behind the answer."""
        return {
            "passed": self.passed,
            "ranking_accuracy": self.accuracy,
            "low": self.accuracy_low,
            "high": self.accuracy_high,
            "needed": self.needed,
            "wanted cut of the short mean_pct": self.min_cut_pct,
            "load": self.load,
            "service_cs2": self.service_cs2,
            "short": self.n_short,
            "long": self.n_long,
        }

    def __repr__(self) -> str:
        return summary_text(f"GateResult: {self.sentence()}", self.summary())

    def _repr_html_(self) -> str:
        return summary_html(self.sentence(), self.summary())


def deploy_gate(
    trace: Trace,
    *,
    min_cut_pct: float = 5.0,
    starvation_timeout_s: float | None = None,
    promotion: str = "oldest",
    replicates: int = 12,
    n: int = 2000,
    seed: int = 0,
) -> GateResult:
    """Hold a predictor's ranking on a trace against what the trace's load and spread ask for.

    Parameters
    ----------
    trace : Trace
        With score and length_class: a journal's, or a corpus at a load. Requests that are known to yield no
        tokens (embedding calls: `predicted_tokens` is 0) are left out; no predictor has to rank them.
    min_cut_pct : float
        Cut of the short requests' mean time to completion against FCFS that makes it worth while, in percent.
        The mean, because a random order has FCFS's mean but a smaller median: a P50 rewards knowing nothing.
    starvation_timeout_s, promotion
        The policy that would run.
    replicates, n : int
        Resampled traces of n requests for each accuracy tried.
    seed : int

    Raises
    ------
    DataError
        Without scores, or without classes.
    StarvedDatasetError
        Without Short or without Long requests.
    """
    if trace.score is None or trace.length_class is None:
        missing = "score" if trace.score is None else "length_class"
        raise DataError("the gate needs it: replay a journal, or add the column", column=missing)
    if not np.isfinite(min_cut_pct):
        raise ParameterError("min_cut_pct", min_cut_pct, "give percent")
    score, classes = trace.score, trace.length_class
    if trace.predicted_tokens is not None and not trace.predicted_tokens.all():
        asked = trace.predicted_tokens > 0
        trace, score, classes = trace.take(asked), score[asked], classes[asked]
    rng = np.random.default_rng([seed, 0])
    accuracy, low, high = ranking_interval(score, classes, rng)
    policy = serial_policy("sjf", starvation_timeout_s, promotion=promotion)
    days = [
        resample_trace(trace, np.random.default_rng([seed, 1, i]), min(n, len(trace)))
        for i in range(replicates)
    ]
    days = [d for d in days if d.length_class is not None and {0, 2} <= set(d.length_class.tolist())]
    if not days:
        raise StarvedDatasetError("too few Short or Long requests to resample", source=trace.source)
    base = Replicates(tuple(days)).percentiles("fcfs", (50,)).mean_of(SHORT)
    curve = []
    for level in np.linspace(0.4, 1.0, 13):
        scored = Replicates(
            tuple(
                day.with_columns(
                    score=noisy_score(
                        np.asarray(day.length_class), float(level), np.random.default_rng([seed, 2, i])
                    )
                )
                for i, day in enumerate(days)
            )
        )
        cut = 100.0 * (1.0 - scored.percentiles(policy, (50,)).mean_of(SHORT) / base)
        curve.append({"ranking_accuracy": float(level), "short_mean_cut_pct": cut})
    return GateResult(
        accuracy, low, high, _crossing(curve, min_cut_pct), float(min_cut_pct), trace.load,
        float(trace.service_s.var() / trace.service_s.mean() ** 2), tuple(curve),
        int(np.sum(classes == SHORT)), int(np.sum(classes == LONG)),
    )  # fmt: skip


def ranking_interval(
    score: NDArray[np.float64],
    length_class: NDArray[np.int8],
    seed: int | np.random.Generator,
    draws: int = 1000,
) -> tuple[float, float, float]:
    """Ranking accuracy (eq. 2) with its 95 % bootstrap interval; requests are drawn within their class."""
    accuracy = class_ranking_accuracy(score, length_class)
    rng = np.random.default_rng(seed)
    short, long = np.sort(score[length_class == SHORT]), score[length_class == LONG]
    # right[j]: short requests ranked below long request j; drawing shorts anew is drawing counts of them
    position = np.searchsorted(short, long, side="left")
    samples = np.empty(draws)
    for i in range(draws):
        counts = np.bincount(rng.integers(0, short.size, short.size), minlength=short.size)
        below = np.concatenate([[0], np.cumsum(counts)]) / short.size
        samples[i] = below[position[rng.integers(0, long.size, long.size)]].mean()
    low, high = np.percentile(samples, (2.5, 97.5))
    return accuracy, float(min(low, accuracy)), float(max(high, accuracy))


def _crossing(curve: list[dict[str, float]], wanted: float) -> float | None:
    """The accuracy from which on the cut stays at or above the wanted one, between the tried ones linear."""
    for index in range(len(curve) - 1, -1, -1):
        if curve[index]["short_mean_cut_pct"] < wanted:
            if index == len(curve) - 1:
                return None
            (x0, y0), (x1, y1) = (tuple(curve[i].values()) for i in (index, index + 1))
            return float(x0 + (wanted - y0) / (y1 - y0) * (x1 - x0))
    return curve[0]["ranking_accuracy"]
