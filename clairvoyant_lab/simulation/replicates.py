"""The same workload under several seeds: percentiles by class with intervals, fast enough for a slider.

A policy's keys are made once per trace and kept, so moving τ or the promotion rule runs only the kernel:
n = 2,000 and 5 seeds take a few milliseconds from value to percentiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.errors import ParameterError, unknown_name
from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.results import summary_html, summary_text
from clairvoyant_lab.scheduling.serial import KeyFunction, SerialPolicy, serial_policy
from clairvoyant_lab.simulation.serial import simulate_serial
from clairvoyant_lab.simulation.service_times import ServiceModel
from clairvoyant_lab.simulation.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Percentiles", "Replicates", "mean_interval", "paired_difference"]


@dataclass(frozen=True, repr=False, eq=False)
class Percentiles:
    """Percentiles of one policy by class and replicate.

    Attributes
    ----------
    groups : tuple of LengthClass or None
        Rows of `values_s`; None stands for all requests.
    q : tuple of float
        Percentiles, 0..100.
    values_s : ndarray of float64, shape (groups, q, replicates)
        Seconds; NaN where a class has no request.
    promoted_share, means_s : ndarray of float64, shape (groups, replicates)
        Share of promoted requests, and mean time in seconds.
    what : str
        `sojourn_s` or `wait_s`.
    """

    policy: SerialPolicy
    groups: tuple[LengthClass | None, ...]
    q: tuple[float, ...]
    values_s: NDArray[np.float64]
    promoted_share: NDArray[np.float64]
    means_s: NDArray[np.float64]
    what: str

    def of(self, length_class: LengthClass | None, q: float) -> NDArray[np.float64]:
        """One percentile of one class in each replicate, in seconds, shape (replicates,)."""
        if length_class not in self.groups:
            raise ParameterError("length_class", length_class, f"known here: {self.groups}")
        if q not in self.q:
            raise ParameterError("q", q, f"computed here: {self.q}")
        values: NDArray[np.float64] = self.values_s[self.groups.index(length_class), self.q.index(q)]
        return values

    def mean_of(self, length_class: LengthClass | None, q: float | None = None) -> float:
        """Mean over replicates of a percentile, or without one of the mean time, in seconds."""
        if q is None and length_class in self.groups:
            return float(self.means_s[self.groups.index(length_class)].mean())
        return float(self.of(length_class, float("nan") if q is None else q).mean())

    def to_frame(self) -> pd.DataFrame:
        """One row a class and percentile: mean over replicates and its 95 % interval in seconds."""
        import pandas as pd

        rows = []
        for group in self.groups:
            for q in self.q:
                mean, low, high = mean_interval(self.of(group, q))
                rows.append(
                    {
                        "policy": self.policy.label,
                        "class": "all" if group is None else group.label,
                        "percentile": q,
                        f"mean_{self.what}": mean,
                        f"low_{self.what}": low,
                        f"high_{self.what}": high,
                        "promoted_share": float(self.promoted_share[self.groups.index(group)].mean()),
                        "replicates": self.values_s.shape[2],
                    }
                )
        return pd.DataFrame(rows)

    def summary(self) -> dict[str, Any]:
        """Return the means over replicates by class and percentile."""
        rows: dict[str, Any] = {"policy": self.policy.label, "replicates": self.values_s.shape[2]}
        for group in self.groups:
            for q in self.q:
                label = "all" if group is None else group.name.lower()
                rows[f"{label} p{q:g}_{self.what}"] = self.mean_of(group, q)
        return rows

    def __repr__(self) -> str:
        return summary_text("Percentiles", self.summary())

    def _repr_html_(self) -> str:
        return summary_html("Percentiles, mean over replicates", self.summary())


@dataclass(frozen=True, eq=False)
class Replicates:
    """A set of traces to run every policy on (common random numbers).

    Attributes
    ----------
    traces : tuple of Trace
        Equal in kind, different in seed.
    """

    traces: tuple[Trace, ...]
    _keys: dict[Any, list[Any]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "traces", tuple(self.traces))
        if not self.traces or not all(isinstance(trace, Trace) and len(trace) for trace in self.traces):
            raise ParameterError("traces", self.traces, "give at least one trace, each with requests")

    @classmethod
    def poisson(
        cls,
        n: int,
        service: ServiceModel,
        *,
        rho: float,
        seeds: Iterable[int],
        accuracy: float | None = None,
    ) -> Replicates:
        """Poisson traces, one a seed (see `workloads.poisson_trace`)."""
        from clairvoyant_lab.simulation.workloads import poisson_trace

        return cls(tuple(poisson_trace(n, service, rho=rho, seed=seed, accuracy=accuracy) for seed in seeds))

    @classmethod
    def burst(
        cls, n: int, service: ServiceModel, *, seeds: Iterable[int], accuracy: float | None = None
    ) -> Replicates:
        """Bursts, one a seed (see `workloads.burst_trace`)."""
        from clairvoyant_lab.simulation.workloads import burst_trace

        return cls(tuple(burst_trace(n, service, seed=seed, accuracy=accuracy) for seed in seeds))

    @property
    def groups(self) -> tuple[LengthClass | None, ...]:
        """None for all requests, then the classes that occur."""
        present = {
            int(value)
            for trace in self.traces
            if trace.length_class is not None
            for value in np.unique(trace.length_class)
        }
        return (None, *(c for c in LengthClass if int(c) in present))

    def percentiles(
        self,
        policy: SerialPolicy | str | KeyFunction,
        q: Sequence[float] = (50, 95, 99),
        *,
        what: str = "sojourn_s",
        slots: int = 1,
    ) -> Percentiles:
        """Run a policy on every trace and take percentiles by class.

        Parameters
        ----------
        policy : SerialPolicy, str or callable
        q : sequence of float
            In 0..100.
        what : {"sojourn_s", "wait_s"}
        slots : int

        Returns
        -------
        Percentiles
            Every request counts: nothing is censored, no warm-up is left out.
        """
        if not isinstance(policy, SerialPolicy):
            policy = serial_policy(policy)
        if what not in ("sojourn_s", "wait_s"):
            raise unknown_name("what", what, ("sojourn_s", "wait_s"))
        if policy.dynamic or policy.preemptive:
            finished = [_run_plain(trace, policy, slots, what) for trace in self.traces]
        else:
            finished = self._run_compiled(policy, slots, what)
        groups, cuts = self.groups, tuple(float(p) for p in q)
        values = np.full((len(groups), len(cuts), len(self.traces)), np.nan)
        promoted = np.full((len(groups), len(self.traces)), np.nan)
        means = promoted.copy()
        for column, (trace, (times, lifted)) in enumerate(zip(self.traces, finished, strict=True)):
            for row, group in enumerate(groups):
                rows = slice(None) if group is None else np.flatnonzero(trace.length_class == int(group))
                own = times[rows]
                if own.size:
                    values[row, :, column] = _percentiles(own, cuts)
                    means[row, column] = own.mean()
                    promoted[row, column] = np.count_nonzero(lifted[rows]) / own.size
        return Percentiles(policy, groups, cuts, values, promoted, means, what)

    def _run_compiled(
        self, policy: SerialPolicy, slots: int, what: str
    ) -> list[tuple[NDArray[np.float64], NDArray[np.bool_]]]:
        from clairvoyant_lab.simulation.serial_compiled import run_keyed

        # what the key depends on; τ and promotion don't change it
        identity = (policy.name, policy.rate_per_s, policy.function)
        if identity not in self._keys:
            self._keys[identity] = [policy.key(trace) for trace in self.traces]
        results = []
        for trace, keys in zip(self.traces, self._keys[identity], strict=True):
            out = run_keyed(trace, policy, keys, slots)
            end = out.finish_s if what == "sojourn_s" else out.start_s
            results.append((end - trace.arrival_s, out.promoted))
        return results


def mean_interval(values: NDArray[np.float64], level: float = 0.95) -> tuple[float, float, float]:
    """Mean over replicates and its t interval; the interval is the mean itself for a single replicate."""
    mean = float(np.mean(values))
    if values.size < 2:
        return mean, mean, mean
    from scipy.special import stdtrit

    half = float(stdtrit(values.size - 1, 0.5 + level / 2.0) * np.std(values, ddof=1) / values.size**0.5)
    return mean, mean - half, mean + half


def paired_difference(
    ours: NDArray[np.float64], base: NDArray[np.float64], level: float = 0.95
) -> tuple[float, float, float]:
    """Mean of ours - base over replicates with common random numbers, and its t interval."""
    if ours.shape != base.shape:
        raise ParameterError("base", base.shape, f"give as many replicates as ours has: {ours.shape}")
    return mean_interval(ours - base, level)


def _run_plain(
    trace: Trace, policy: SerialPolicy, slots: int, what: str
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    run = simulate_serial(trace, policy, slots)
    times: NDArray[np.float64] = getattr(run, what)
    return times, run.promoted


def _percentiles(values: NDArray[np.float64], q: tuple[float, ...]) -> NDArray[np.float64]:
    """np.percentile (linear) by one sort; its own overhead is most of a slider's time otherwise."""
    ordered = np.sort(values)
    at = np.asarray(q) / 100.0 * (ordered.size - 1)
    low = at.astype(np.int64)
    high = np.minimum(low + 1, ordered.size - 1)
    part: NDArray[np.float64] = ordered[low] + (ordered[high] - ordered[low]) * (at - low)
    return part
