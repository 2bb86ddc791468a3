"""Simulate a batch policy on given lengths: exact integers, the ISJL paper's measures, fairness checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import ParameterError, unknown_name
from clairvoyant_lab.results import summary_html
from clairvoyant_lab.scheduling.batch import (
    PLANNERS,
    BatchPlan,
    BatchPolicy,
    check_batch_size,
    check_steps,
    plan_schedule,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BatchRun", "simulate_batch"]

Steps = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BatchRun:
    """A finished batch schedule and its measures; steps are 0-based, sums are exact.

    Parameters
    ----------
    policy : BatchPolicy
    batch_size : int
    lengths, start_steps, release_steps : ndarray of int64, shape (n,)
        Job i runs in [start, start + length).
    makespan_steps, externality, intrinsic, tokens : int
        T, E (eq. 6), Q (eq. 5) and O.
    max_gap, sum_extent, sum_max_progress, sum_completion_steps : int
        Largest progress gap; sums over steps of the gap and of the largest token index; sum of finishes.
    unfair_steps : int
        Steps with a gap above the policy's alpha.
    first_unfair_step : int or None
        The first of them, and which jobs were furthest behind and ahead then.
    first_unfair_jobs : tuple of int or None
    lower_bound_steps : int or None
        Planned policies: a proven bound on every fair makespan.
    method : str or None
        Planned policies: which way of planning won.
    details : mapping
        Further figures of a planned policy.
    """

    policy: BatchPolicy
    batch_size: int
    lengths: Steps = field(repr=False)
    start_steps: Steps = field(repr=False)
    release_steps: Steps = field(repr=False)
    makespan_steps: int
    externality: int
    intrinsic: int
    tokens: int
    max_gap: int
    sum_extent: int
    sum_max_progress: int
    sum_completion_steps: int
    unfair_steps: int
    first_unfair_step: int | None
    first_unfair_jobs: tuple[int, int] | None
    lower_bound_steps: int | None = None
    method: str | None = None
    details: Mapping[str, object] = field(default_factory=dict)

    @property
    def finish_steps(self) -> Steps:
        """First step after each job's last, int64[n]."""
        return self.start_steps + self.lengths

    @property
    def latency_steps(self) -> Steps:
        """Finish minus release of each job, int64[n]."""
        return self.finish_steps - self.release_steps

    @property
    def fair(self) -> bool | None:
        """Whether constraint (1) held at every step for the policy's alpha; None without one."""
        return None if self.policy.alpha is None else self.unfair_steps == 0

    @property
    def idle_slot_steps(self) -> int:
        """Slots times steps that processed no token, up to the makespan."""
        return self.batch_size * self.makespan_steps - self.tokens

    @property
    def throughput(self) -> float:
        """Tokens a step."""
        return self.tokens / self.makespan_steps

    @property
    def mean_extent(self) -> float:
        """Progress gap averaged over the steps of the makespan."""
        return self.sum_extent / self.makespan_steps

    @property
    def mean_completion_steps(self) -> float:
        """The paper's average end-to-end latency (eq. 19), counted from step 0."""
        return self.sum_completion_steps / self.lengths.size

    @property
    def mean_latency_steps(self) -> float:
        """Mean of finish minus release."""
        return (self.sum_completion_steps - int(self.release_steps.sum())) / self.lengths.size

    def latency_quantile_steps(self, q: float) -> float:
        """Quantile of finish minus release, linearly interpolated."""
        if not 0 <= q <= 1:
            raise ParameterError("q", q, "give a quantile from 0 to 1")
        return float(np.quantile(self.latency_steps, q))

    def summary(self) -> dict[str, object]:
        """The measures as one flat mapping."""
        rows: dict[str, object] = {
            "policy": self.policy.label,
            "batch_size": self.batch_size,
            "jobs": int(self.lengths.size),
            "makespan_steps": self.makespan_steps,
            "throughput": self.throughput,
            "externality": self.externality,
            "intrinsic": self.intrinsic,
            "tokens": self.tokens,
            "max_gap": self.max_gap,
            "sum_extent": self.sum_extent,
            "mean_extent": self.mean_extent,
            "sum_max_progress": self.sum_max_progress,
            "sum_completion_steps": self.sum_completion_steps,
            "idle_slot_steps": self.idle_slot_steps,
            "mean_completion_steps": self.mean_completion_steps,
            "mean_latency_steps": self.mean_latency_steps,
            "fair": self.fair,
            "unfair_steps": self.unfair_steps,
            "first_unfair_step": self.first_unfair_step,
        }
        if self.lower_bound_steps is not None:
            rows["lower_bound_steps"] = self.lower_bound_steps
            rows["gap_to_bound"] = self.makespan_steps / self.lower_bound_steps - 1
        if self.method is not None:
            rows["method"] = self.method
        rows.update(self.details)
        return rows

    def to_frame(self) -> pd.DataFrame:
        """One row a job: length_tokens, release_steps, start_steps, finish_steps, latency_steps."""
        import pandas as pd

        return pd.DataFrame(
            {
                "job": np.arange(self.lengths.size),
                "length_tokens": self.lengths,
                "release_steps": self.release_steps,
                "start_steps": self.start_steps,
                "finish_steps": self.finish_steps,
                "latency_steps": self.latency_steps,
            }
        )

    def _repr_html_(self) -> str:
        return summary_html(f"Batch run, {self.policy.label}", self.summary())


def simulate_batch(
    lengths: ArrayLike,
    policy: BatchPolicy,
    batch_size: int,
    release_steps: ArrayLike | None = None,
    upper_bounds: ArrayLike | None = None,
    *,
    engine: Literal["compiled", "python"] = "compiled",
) -> BatchRun:
    """Run a batch policy to the end.

    Parameters
    ----------
    lengths : array_like of int, shape (n,)
        Prompt + response tokens of each job, at least 1; the order is the order of arrival.
    policy : BatchPolicy
        From `batch_policy`.
    batch_size : int
        B, the most jobs that run at once.
    release_steps : array_like of int, shape (n,), optional
        First step at which each job may start; None: all at 0.
    upper_bounds : array_like of int, shape (n,), optional
        What `robust` and `online` plan with instead of the lengths; at least the length.
    engine : {"compiled", "python"}
        The plain-Python engine does the same, slowly, for checking.

    Returns
    -------
    BatchRun

    Raises
    ------
    ParameterError
        For input that cannot be simulated; names the argument and the index. Also if a planner returns a
        schedule that is over capacity or starts a job before its release.
    """
    from clairvoyant_lab.scheduling.measure import as_measure, check_range, sweep

    if not isinstance(policy, BatchPolicy):
        raise ParameterError("policy", policy, "give a BatchPolicy: batch_policy('isjl', alpha=100)")
    if engine not in ("compiled", "python"):
        raise unknown_name("engine", engine, ("compiled", "python"))
    own_lengths = check_steps("lengths", lengths, at_least=1)
    n = own_lengths.size
    size = check_batch_size(batch_size)
    release = None if release_steps is None else check_steps("release_steps", release_steps, at_least=0, n=n)
    bounds = _check_bounds(policy, upper_bounds, own_lengths)
    check_range(own_lengths if bounds is None else bounds, release)
    if policy.name == "isjl_b2" and policy.function is None and size != 2:
        raise ParameterError("batch_size", size, "isjl_b2 is Algorithm 2, for 2 slots; isjl takes any number")

    planned = policy.function is not None or policy.name in PLANNERS
    if engine == "python" and not planned:
        from clairvoyant_lab.simulation.batch_reference import reference_measure, reference_starts

        plan = BatchPlan(
            np.asarray(
                reference_starts(
                    policy.name,
                    own_lengths.tolist(),
                    size,
                    policy.alpha,
                    None if release is None else release.tolist(),
                    None if bounds is None else bounds.tolist(),
                ),
                dtype=np.int64,
            )
        )
        starts = plan.start_steps
        measure = reference_measure(starts.tolist(), own_lengths.tolist(), size, policy.alpha)
    else:
        plan = plan_schedule(policy, own_lengths, size, release, bounds)
        starts = plan.start_steps
        if planned:
            starts = check_steps("start_steps", starts, at_least=0, n=n)
            check_range(own_lengths, starts)
        measure = as_measure(
            sweep(
                np.argsort(starts, kind="stable") if planned or plan.sequence is None else plan.sequence,
                starts,
                own_lengths,
                size,
                -1 if policy.alpha is None else policy.alpha,
            )
        )
    _check_feasible(policy, starts, release, measure.over_capacity_step, size)
    return BatchRun(
        policy=policy,
        batch_size=size,
        lengths=own_lengths,
        start_steps=starts,
        release_steps=np.zeros(n, dtype=np.int64) if release is None else release,
        makespan_steps=measure.makespan_steps,
        externality=measure.externality,
        intrinsic=measure.intrinsic,
        tokens=measure.tokens,
        max_gap=measure.max_gap,
        sum_extent=measure.sum_extent,
        sum_max_progress=measure.sum_max_progress,
        sum_completion_steps=measure.sum_completion_steps,
        unfair_steps=measure.unfair_steps,
        first_unfair_step=measure.first_unfair_step,
        first_unfair_jobs=measure.first_unfair_jobs,
        lower_bound_steps=plan.lower_bound_steps,
        method=plan.method,
        details=plan.details,
    )


def _check_bounds(policy: BatchPolicy, upper_bounds: ArrayLike | None, lengths: Steps) -> Steps | None:
    plans_on_bounds = policy.function is not None or policy.name in {"robust", "online", *PLANNERS}
    if upper_bounds is None:
        if policy.name == "robust" and policy.function is None:
            raise ParameterError(
                "upper_bounds",
                None,
                "robust plans on them; give one a job (the lengths: perfect predictions)",
            )
        return None
    if not plans_on_bounds:
        raise ParameterError(
            "upper_bounds", "given", f"{policy.name} plans on the lengths; leave them out or take robust"
        )
    return check_steps("upper_bounds", upper_bounds, at_least=1, n=lengths.size, floor=lengths)


def _check_feasible(
    policy: BatchPolicy, starts: Steps, release: Steps | None, over_capacity_step: int | None, size: int
) -> None:
    if over_capacity_step is not None:
        raise ParameterError(
            "policy", policy.label, f"its schedule runs more than {size} jobs at step {over_capacity_step}"
        )
    if release is not None and (starts < release).any():
        job = int(np.flatnonzero(starts < release)[0])
        raise ParameterError(
            "policy", policy.label, f"its schedule starts job {job} at step {starts[job]}, before its release"
        )
