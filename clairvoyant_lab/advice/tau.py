"""Which starvation timeout to set: the best for short requests within a stated price for long ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from clairvoyant_lab.errors import ParameterError, StarvedDatasetError
from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.results import summary_html, summary_text
from clairvoyant_lab.scheduling.serial import SerialPolicy, serial_policy
from clairvoyant_lab.simulation.profiles import HardwareProfile, hardware_profile
from clairvoyant_lab.simulation.replicates import Percentiles, Replicates, mean_interval
from clairvoyant_lab.simulation.resample import resample_trace
from clairvoyant_lab.simulation.trace import Trace
from clairvoyant_lab.simulation.workloads import poisson_trace

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TauAdvice", "calibrate_tau", "traffic"]

SHORT, LONG = LengthClass.SHORT, LengthClass.LONG


@dataclass(frozen=True, repr=False, eq=False)
class TauAdvice:
    """A calibrated τ, what it does on traffic it wasn't chosen on, and the whole frontier.

    Attributes
    ----------
    policy : SerialPolicy
        The advised one; its `starvation_timeout_s` is τ (None: no limit is within the budget).
    budget_pct : float
        Largest allowed rise of the long P99 against FCFS, in percent.
    frontier : tuple of dict
        One a τ: short P50, long P99, their changes against FCFS in percent, promoted share.
    check : dict
        The same for the advised τ on other seeds, changes with 95 % intervals.
    """

    policy: SerialPolicy
    budget_pct: float
    frontier: tuple[dict[str, Any], ...]
    check: dict[str, Any]
    workload: str

    @property
    def starvation_timeout_s(self) -> float | None:
        """The advised starvation timeout in seconds."""
        return self.policy.starvation_timeout_s

    @property
    def holds(self) -> bool:
        """Whether the long P99 stays within the budget on the seeds it was checked on (their mean)."""
        return bool(self.check["long_p99_change_pct"] <= self.budget_pct)

    def sentence(self) -> str:
        """The advice in words."""
        tau = "no limit" if self.starvation_timeout_s is None else f"τ = {self.starvation_timeout_s:.3g} s"
        verdict = "within" if self.holds else "over"
        clear = bool(self.check["short_p50_change_high_pct"] < 0)
        rest = "" if clear else "; no clear gain for short requests: allow a larger budget, or keep FCFS"
        return (
            f"{tau} ({self.policy.promotion}): short P50 {self.check['short_p50_change_pct']:+.1f} %, "
            f"long P99 {self.check['long_p99_change_pct']:+.1f} % against FCFS on other seeds, "
            f"{verdict} the budget of {self.budget_pct:+.1f} %{rest}"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the frontier as a table, one row a τ (NaN: no limit)."""
        import pandas as pd

        return pd.DataFrame(self.frontier)

    def summary(self) -> dict[str, Any]:
        """Return τ, the budget, and what the check gave."""
        return {
            "starvation_timeout_s": self.starvation_timeout_s,
            "policy": self.policy.label,
            "budget_pct": self.budget_pct,
            **{f"check {name}": value for name, value in self.check.items()},
            "holds": self.holds,
            "workload": self.workload,
        }

    def __repr__(self) -> str:
        return summary_text("TauAdvice", self.summary())

    def _repr_html_(self) -> str:
        return summary_html(f"Calibrated τ: {self.sentence()}", self.summary())


def calibrate_tau(
    workload: Trace | HardwareProfile | str,
    *,
    long_p99_budget_pct: float = 5.0,
    policy: str | SerialPolicy = "sjf",
    promotion: str = "oldest",
    rho: float = 0.74,
    accuracy: float | None = 0.95,
    n: int = 2000,
    seeds: int = 10,
    check_seeds: int = 10,
    taus_s: Sequence[float | None] | None = None,
    seed: int = 0,
) -> TauAdvice:
    """Find the τ with the smallest short P50 whose long P99 rises at most by a budget over FCFS.

    Parameters
    ----------
    workload : Trace, HardwareProfile or str
        A trace (its days are resampled in blocks, its own score is used), or a profile (Poisson traffic at
        `rho`, a score of ranking accuracy `accuracy`).
    long_p99_budget_pct : float
        0 or more.
    policy : str or SerialPolicy
        What orders the queue; its own τ is not used.
    promotion : str
        Promotion rule, if `policy` is a name.
    rho, accuracy, n : float, float, int
        For a profile. A trace keeps its load; `n` bounds the requests of a resample.
    seeds, check_seeds : int
        Traces to choose on, and other traces to check on.
    taus_s : sequence of float or None, optional
        Candidates; by default 0, 32 steps from half to 200 mean service times, and no limit.
    seed : int

    Raises
    ------
    StarvedDatasetError
        If the traffic has no Short or no Long requests.
    """
    if not (np.isfinite(long_p99_budget_pct) and long_p99_budget_pct >= 0):
        raise ParameterError("long_p99_budget_pct", long_p99_budget_pct, "give percent, 0 or more")
    if seeds < 1 or check_seeds < 1:
        raise ParameterError("seeds", (seeds, check_seeds), "give 1 or more, for both")
    base = policy if isinstance(policy, SerialPolicy) else serial_policy(policy, 0.0, promotion=promotion)
    learn, check, name = traffic(workload, rho, accuracy, n, seeds, check_seeds, seed)
    mean_service = float(np.mean([trace.mean_service_s for trace in learn.traces]))
    if taus_s is None:
        taus_s = [0.0, *(mean_service * np.geomspace(0.5, 200.0, 32)).tolist(), None]
    fcfs = learn.percentiles("fcfs", (50, 99))
    frontier = []
    for tau in taus_s:
        result = learn.percentiles(base.with_timeout(tau), (50, 99))
        frontier.append(_row(result, fcfs, tau))
    allowed = [row for row in frontier if row["long_p99_change_pct"] <= long_p99_budget_pct]
    if not allowed:
        least = min(frontier, key=lambda row: float(row["long_p99_change_pct"]))
        raise ParameterError(
            "long_p99_budget_pct",
            long_p99_budget_pct,
            f"no candidate τ keeps it under promotion {base.promotion!r}; the smallest rise is "
            f"{least['long_p99_change_pct']:.1f} % at τ = {least['tau_s']:.3g} s: raise it, or use 'oldest'",
        )
    best = min(allowed, key=lambda row: (row["short_p50_s"], row["long_p99_s"]))
    advised = base.with_timeout(None if np.isnan(best["tau_s"]) else best["tau_s"])
    confirmed = _row(
        check.percentiles(advised, (50, 99)),
        check.percentiles("fcfs", (50, 99)),
        advised.starvation_timeout_s,
    )
    return TauAdvice(advised, float(long_p99_budget_pct), tuple(frontier), confirmed, name)


def traffic(
    workload: Trace | HardwareProfile | str,
    rho: float,
    accuracy: float | None,
    n: int,
    seeds: int,
    check_seeds: int,
    seed: int,
) -> tuple[Replicates, Replicates, str]:
    """Two sets of traces of one kind, to choose on and to check on, and the workload's name.

    Raises
    ------
    StarvedDatasetError
        If no trace has Short, or none has Long requests.
    """
    makers = [
        np.random.default_rng([seed, part]).spawn(count) for part, count in enumerate((seeds, check_seeds))
    ]
    if isinstance(workload, Trace):
        name = workload.source
        size = min(n, len(workload))
        sets = [Replicates(tuple(resample_trace(workload, rng, size) for rng in rngs)) for rngs in makers]
    else:
        profile = hardware_profile(workload)
        name = f"{profile.name}, Poisson at ρ = {rho:g}, ranking accuracy {accuracy}"
        service = profile.service_model()
        sets = [
            Replicates(tuple(poisson_trace(n, service, rho=rho, seed=rng, accuracy=accuracy) for rng in rngs))
            for rngs in makers
        ]
    for traces in sets:
        for needed in (SHORT, LONG):
            if needed not in traces.groups:
                raise StarvedDatasetError(
                    f"has no {needed.label} requests: give a trace with both classes", source=name,
                    column="length_class",
                )  # fmt: skip
    return sets[0], sets[1], name


def _row(result: Percentiles, fcfs: Percentiles, tau_s: float | None) -> dict[str, Any]:
    row: dict[str, Any] = {"tau_s": np.nan if tau_s is None else float(tau_s)}
    for group, q in ((SHORT, 50.0), (LONG, 99.0)):
        ours, base = result.of(group, q), fcfs.of(group, q)
        both = ~(np.isnan(ours) | np.isnan(base))
        name = f"{group.name.lower()}_p{q:g}"
        row[f"{name}_s"] = float(ours[both].mean())
        # the change of the means, with the spread of paired ratios around it
        change = 100.0 * (float(ours[both].mean()) / float(base[both].mean()) - 1.0)
        mean, low, high = mean_interval(100.0 * (ours[both] / base[both] - 1.0))
        row[f"{name}_change_pct"] = change
        row[f"{name}_change_low_pct"], row[f"{name}_change_high_pct"] = (
            change + low - mean,
            change + high - mean,
        )
    row["promoted_share"] = float(result.promoted_share[0].mean())
    return row
