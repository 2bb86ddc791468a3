"""100,000 random instances of every form of `cohort`: fair, within capacity, not behind LJF or slack."""

from __future__ import annotations

import numpy as np
import pytest

from clairvoyant_lab.scheduling.cohort_causal import plan_causal
from clairvoyant_lab.scheduling.cohort_offline import plan_offline
from clairvoyant_lab.scheduling.measure import measure_schedule
from clairvoyant_lab.scheduling.theory.bounds import makespan_bound

SMALL_BUDGET = 2_000


def check_instances(first_seed: int, count: int) -> None:
    """Plan and measure; raises at the first broken promise."""
    for seed in range(first_seed, first_seed + count):
        rng = np.random.default_rng(seed)
        n, size, alpha = int(rng.integers(1, 25)), int(rng.integers(1, 7)), int(rng.integers(0, 40))
        lengths = rng.integers(1, int(rng.choice([3, 10, 60])) + 1, n)
        release = rng.integers(0, 80, n) if seed % 3 == 1 else None
        upper = lengths + rng.integers(0, 20, n) if seed % 3 == 2 or seed % 12 == 1 else None
        if release is None and upper is None:
            bound = makespan_bound(lengths, size, alpha)
            plans = plan_offline(lengths, size, alpha, budget=SMALL_BUDGET, seed=seed, lower_bound=bound)
            by_name = {plan.method: plan for plan in plans}
            best = plans[0].makespan_steps
            assert bound <= best <= min(by_name["ljf"].makespan_steps, by_name["slack"].makespan_steps), seed
            schedules = [plan.starts for plan in plans]
        else:
            starts, _, _ = plan_causal(
                lengths,
                size,
                alpha,
                budget=SMALL_BUDGET,
                seed=seed,
                externality_weight=0.0,
                release_steps=release,
                upper_bounds=upper,
            )
            assert release is None or (starts >= release).all(), seed
            schedules = [starts]
        for starts in schedules:
            measured = measure_schedule(starts, lengths, size, alpha)
            assert measured.unfair_steps == 0, seed
            assert measured.over_capacity_step is None, seed


def test_a_thousand_instances_keep_every_promise():
    check_instances(0, 1_000)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_a_hundred_thousand_instances_keep_every_promise():
    check_instances(1_000, 100_000)
