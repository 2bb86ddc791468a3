"""The frontier between makespan and externality that `cohort` can reach on one backlog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.results import summary_html
from clairvoyant_lab.scheduling.batch import check_alpha, check_batch_size, check_steps
from clairvoyant_lab.scheduling.cohort_offline import effort_budget, plan_offline
from clairvoyant_lab.scheduling.measure import measure_schedule
from clairvoyant_lab.scheduling.rules import rule_starts
from clairvoyant_lab.scheduling.theory.bounds import makespan_bound

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CohortFrontier", "cohort_frontier"]

Steps = NDArray[np.int64]

# shares of the scale at which LJF's whole makespan is worth alpha tokens of extent on every token
DEFAULT_SHARES = (0.0, 0.003, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.5)


@dataclass(frozen=True, slots=True, eq=False)
class CohortFrontier:
    """Plans that no other plan found beats in both makespan and externality.

    Parameters
    ----------
    makespan_steps, externality : ndarray of int64, shape (k,)
        Makespan ascending, externality (E of eq. 6, token-steps) descending.
    method : tuple of str, length k
        Which way of planning gave each point.
    simple : dict of str to (int, int)
        Makespan and externality of ljf, slack and isjl.
    lower_bound_steps : int
        A proven bound on every fair makespan.
    batch_size, alpha : int
    tokens : int
        O, the sum of the lengths.
    """

    makespan_steps: Steps
    externality: Steps
    method: tuple[str, ...]
    simple: dict[str, tuple[int, int]]
    lower_bound_steps: int
    batch_size: int
    alpha: int
    tokens: int

    def summary(self) -> dict[str, object]:
        """Ends of the frontier and the bound."""
        return {
            "points": int(self.makespan_steps.size),
            "fastest_makespan_steps": int(self.makespan_steps[0]),
            "fastest_externality": int(self.externality[0]),
            "calmest_makespan_steps": int(self.makespan_steps[-1]),
            "calmest_externality": int(self.externality[-1]),
            "lower_bound_steps": self.lower_bound_steps,
            "alpha": self.alpha,
        }

    def to_frame(self) -> pd.DataFrame:
        """One row a plan: the frontier's, then the simple rules'."""
        import pandas as pd

        simple = list(self.simple.items())
        return pd.DataFrame(
            {
                "policy": ["cohort"] * self.makespan_steps.size + [name for name, _ in simple],
                "method": [*self.method, *(name for name, _ in simple)],
                "makespan_steps": [*self.makespan_steps.tolist(), *(point[0] for _, point in simple)],
                "externality_token_steps": [*self.externality.tolist(), *(point[1] for _, point in simple)],
            }
        )

    def _repr_html_(self) -> str:
        return summary_html("Frontier of makespan and externality", self.summary())


def cohort_frontier(
    lengths: ArrayLike,
    batch_size: int,
    alpha: int,
    *,
    externality_weights: Sequence[float] | None = None,
    effort: float = 0.3,
    seed: int = 0,
) -> CohortFrontier:
    """Plan a backlog under several weights of externality and keep what no other plan beats.

    Parameters
    ----------
    lengths : array_like of int, shape (n,)
    batch_size, alpha : int
    externality_weights : sequence of float, optional
        Steps per token-step; by default ten weights from 0 to where nothing but LJF pays.
    effort : float
        Per weight.
    seed : int

    Returns
    -------
    CohortFrontier

    Raises
    ------
    ParameterError
        For bad lengths, batch size, alpha, weights or effort.
    """
    own = check_steps("lengths", lengths, at_least=1)
    size, limit = check_batch_size(batch_size), check_alpha(alpha)
    if not 0 <= effort <= 1000:
        raise ParameterError("effort", effort, "give a number from 0 to 1000")
    ljf = measure_schedule(rule_starts("ljf", own, size), own, size)
    if externality_weights is None:
        scale = ljf.makespan_steps / max(limit * int(own.sum()), 1)
        externality_weights = [share * scale for share in DEFAULT_SHARES]
    for index, weight in enumerate(externality_weights):
        if not (np.isfinite(weight) and weight >= 0):
            raise ParameterError(f"externality_weights[{index}]", weight, "give a finite number >= 0")
    bound = makespan_bound(own, size, limit)
    points: dict[tuple[int, int], str] = {}
    simple: dict[str, tuple[int, int]] = {}
    for weight in externality_weights:
        for plan in plan_offline(
            own,
            size,
            limit,
            budget=effort_budget(effort),
            seed=seed,
            externality_weight=float(weight),
            lower_bound=bound,
        ):
            point = (plan.makespan_steps, plan.externality)
            points.setdefault(point, plan.method)
            if plan.method in ("ljf", "slack", "isjl"):
                simple[plan.method] = point
    kept: list[tuple[int, int]] = []
    for point in sorted(points):
        if not kept or point[1] < kept[-1][1]:
            kept.append(point)
    return CohortFrontier(
        makespan_steps=np.array([point[0] for point in kept], dtype=np.int64),
        externality=np.array([point[1] for point in kept], dtype=np.int64),
        method=tuple(points[point] for point in kept),
        simple=simple,
        lower_bound_steps=bound,
        batch_size=size,
        alpha=limit,
        tokens=int(own.sum()),
    )
