"""Policies against the exact optimum on small random instances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from clairvoyant_lab.errors import ParameterError

if TYPE_CHECKING:
    import pandas as pd

    from clairvoyant_lab.scheduling.batch import BatchPolicy

__all__ = ["optimum_ratios", "ratio_summary"]


def optimum_ratios(
    policies: Sequence[BatchPolicy] | Sequence[str],
    *,
    instances: int = 200,
    most_jobs: int = 8,
    longest: int = 12,
    batch_sizes: Sequence[int] = (2, 3, 4),
    seed: int | np.random.Generator = 0,
) -> pd.DataFrame:
    """Makespan of each policy over the proved fair optimum, on random instances.

    Parameters
    ----------
    policies : sequence of str or BatchPolicy
        Names get each instance's alpha; a policy given as a value keeps its own options, and its alpha is
        replaced by the instance's.
    instances, most_jobs, longest : int
        How many, and how large: n uniform on 2..most_jobs, lengths on 1..longest, alpha on 0..longest.
    batch_sizes : sequence of int
    seed : int or Generator

    Returns
    -------
    DataFrame
        instance, policy, batch_size, alpha, jobs, makespan_steps, optimum_steps, ratio (at least 1 for a
        fair schedule), fair.
    """
    from dataclasses import replace

    import pandas as pd

    from clairvoyant_lab.scheduling.batch import batch_policy, plan_schedule
    from clairvoyant_lab.scheduling.measure import measure_schedule
    from clairvoyant_lab.scheduling.theory.claims import optimal_makespan

    if instances < 1 or most_jobs < 2 or longest < 1 or not batch_sizes:
        raise ParameterError(
            "instances, most_jobs, longest, batch_sizes",
            (instances, most_jobs, longest, list(batch_sizes)),
            "give at least 1, 2, 1 and one batch size",
        )
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(instances):
        size = int(rng.choice(np.asarray(batch_sizes)))
        lengths = rng.integers(1, longest + 1, int(rng.integers(2, most_jobs + 1)))
        alpha = int(rng.integers(0, longest + 1))
        optimum = optimal_makespan(lengths.tolist(), size, alpha)
        for given in policies:
            policy = (
                batch_policy(given, alpha=alpha) if isinstance(given, str) else replace(given, alpha=alpha)
            )
            if policy.name == "isjl_b2" and size != 2:
                continue
            bounds = lengths if policy.name == "robust" else None
            plan = plan_schedule(policy, lengths, size, None, bounds)
            measure = measure_schedule(plan.start_steps, lengths, size, alpha)
            rows.append(
                {
                    "instance": k,
                    "policy": policy.name,
                    "batch_size": size,
                    "alpha": alpha,
                    "jobs": lengths.size,
                    "makespan_steps": measure.makespan_steps,
                    "optimum_steps": optimum,
                    "ratio": measure.makespan_steps / optimum,
                    "fair": measure.unfair_steps == 0,
                }
            )
    return pd.DataFrame(rows)


def ratio_summary(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a policy: share of instances at the optimum, mean and largest ratio, unfair instances."""
    grouped = frame.groupby("policy", sort=False)
    summary = grouped.agg(
        instances=("ratio", "size"),
        optimal_share=("ratio", lambda ratio: float((ratio <= 1).mean())),
        mean_ratio=("ratio", "mean"),
        worst_ratio=("ratio", "max"),
        unfair=("fair", lambda fair: int((~fair).sum())),
    )
    return summary.reset_index()
