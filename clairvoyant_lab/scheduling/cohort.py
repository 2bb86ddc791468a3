"""`cohort`: an alpha-fair batch policy that searches for start windows, and falls back to simple rules.

Why it is fair whatever it finds: see `cohort_pack`. Why it is never slower than LJF or slack on a backlog:
both are among its candidates. With a weight on externality only LJF is a limit: LJF has none, so a better
score means a makespan no longer than LJF's. How far it may be from the best: the result carries a lower
bound that holds for every non-preemptive alpha-fair schedule.

Three forms, by what is known:

* a backlog with known lengths: `cohort_offline`;
* release times: rolling plans over what has been released, `cohort_causal`;
* upper bounds on lengths: plans on the bounds, carried out with true progress, `cohort_causal`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.scheduling.batch import BatchPlan
from clairvoyant_lab.scheduling.cohort_causal import plan_causal
from clairvoyant_lab.scheduling.cohort_offline import effort_budget, plan_offline
from clairvoyant_lab.scheduling.theory.bounds import makespan_bound

__all__ = ["plan"]

Steps = NDArray[np.int64]


def plan(
    lengths: Steps,
    batch_size: int,
    alpha: int,
    *,
    effort: float = 1,
    seed: int = 0,
    externality_weight: float = 0.0,
    release_steps: Steps | None = None,
    upper_bounds: Steps | None = None,
) -> BatchPlan:
    """Plan every start.

    Parameters
    ----------
    lengths : ndarray of int64, shape (n,)
        True lengths in tokens. With `upper_bounds` they are used only to see when a job has ended.
    batch_size : int
        Slots.
    alpha : int
        Largest allowed progress gap, in tokens.
    effort : float
        Search effort, counted in operations, so that results don't depend on the machine. 0 gives the best
        simple template in some tens of milliseconds, for sliders; 1 takes about a second for the workload
        of Table 1; other values scale.
    seed : int
        Of the search; the same seed gives the same plan.
    externality_weight : float
        Steps that one token-step of externality is worth: the plan minimises makespan + weight x E. The
        ratio footprint_cost / step_cost makes it minimise inference cost (Theorem 5.1). 0 minimises the
        makespan alone, and the externality among plans that are equally fast.
    release_steps : ndarray of int64, shape (n,), optional
        Earliest starts, not known before. Plans cover what has been released.
    upper_bounds : ndarray of int64, shape (n,), optional
        Known bounds on lengths that are not known themselves.

    Returns
    -------
    BatchPlan
        `method` names the way that won: ljf, slack, isjl (fall-backs), pairs, template, head of k batches,
        or rolling plans, which promise nothing against LJF: what is to come isn't known. `details` hold
        what each way would have taken and the gap to the bound.

    Raises
    ------
    ParameterError
        For effort, seed or externality_weight out of range.
    """
    effort = _number("effort", effort, 1000.0)
    externality_weight = _number("externality_weight", externality_weight, math.inf)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ParameterError("seed", seed, "give a whole number >= 0")
    lower_bound = makespan_bound(lengths, batch_size, alpha)
    if release_steps is not None:
        lower_bound = max(lower_bound, _release_bound(lengths, release_steps, batch_size))
    if release_steps is None and upper_bounds is None:
        found = plan_offline(
            lengths,
            batch_size,
            alpha,
            budget=effort_budget(effort),
            seed=int(seed),
            externality_weight=externality_weight,
            lower_bound=lower_bound,
        )
        best = found[0]
        starts, method = best.starts, best.method
        details: dict[str, object] = {f"{c.method}_makespan_steps": c.makespan_steps for c in found}
    else:
        starts, method, details = plan_causal(
            lengths,
            batch_size,
            alpha,
            budget=effort_budget(effort),
            seed=int(seed),
            externality_weight=externality_weight,
            release_steps=release_steps,
            upper_bounds=upper_bounds,
        )
    makespan = int((starts + lengths).max())
    details["gap"] = makespan / lower_bound - 1
    return BatchPlan(start_steps=starts, lower_bound_steps=lower_bound, method=method, details=details)


def _release_bound(lengths: Steps, release_steps: Steps, batch_size: int) -> int:
    """Every r: what is released from r on takes its work over B, or its longest job, after r."""
    order = np.argsort(-release_steps, kind="stable")
    work = np.cumsum(lengths[order])
    bounds = release_steps[order] + -(-work // batch_size)
    return max(int(bounds.max()), int((release_steps + lengths).max()))


def _number(field: str, value: float, largest: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ParameterError(field, value, "give a number >= 0")
    number = float(value)
    if not math.isfinite(number) or number < 0 or number > largest:
        bound = "" if math.isinf(largest) else f" and at most {largest:g}"
        raise ParameterError(field, value, f"give a finite number >= 0{bound}")
    return number
