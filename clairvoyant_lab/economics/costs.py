"""What a batch schedule costs and earns under token-metered prices (ISJL, section 5).

Money is in whatever unit the prices are in. The paper's tau is `footprint_cost` here, its c `step_cost`,
its p_0 `token_price`. Revenue and the intrinsic term don't depend on the schedule, so policies are compared
by c T + tau E alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import ParameterError, is_finite_number
from clairvoyant_lab.results import summary_html
from clairvoyant_lab.scheduling.theory.bounds import alpha_cost

if TYPE_CHECKING:
    import pandas as pd

    from clairvoyant_lab.simulation.batch import BatchRun

__all__ = [
    "CostBreakdown",
    "ProfitComparison",
    "ProfitGuarantee",
    "alpha_cost",
    "break_even_step_cost",
    "certified_profit",
    "compare_profit",
    "cost_breakdown",
    "cost_frame",
    "profit_guarantee",
]


@dataclass(frozen=True)
class CostBreakdown:
    """Revenue and the three parts of the cost of one run (Theorem 5.1).

    Parameters
    ----------
    policy : str
        The run's policy.
    revenue : float
        p_0 O (eq. 2).
    intrinsic : float
        tau Q: what the accepted work costs under any schedule.
    time : float
        c T.
    externality : float
        tau E: what unequal progress in a batch costs.
    throughput : float
        Tokens a step.
    mean_extent : float
        Progress gap averaged over steps.
    """

    policy: str
    revenue: float
    intrinsic: float
    time: float
    externality: float
    throughput: float
    mean_extent: float

    @property
    def cost(self) -> float:
        """The whole cost (eq. 4)."""
        return self.intrinsic + self.time + self.externality

    @property
    def profit(self) -> float:
        """Revenue minus cost (eq. 7)."""
        return self.revenue - self.cost

    def summary(self) -> dict[str, object]:
        """Flat mapping of all parts."""
        return {**asdict(self), "cost": self.cost, "profit": self.profit}

    def to_frame(self) -> pd.DataFrame:
        """One row."""
        import pandas as pd

        return pd.DataFrame([self.summary()])

    def _repr_html_(self) -> str:
        return summary_html(f"Cost and profit, {self.policy}", self.summary())


def cost_breakdown(
    run: BatchRun, step_cost: float, footprint_cost: float, token_price: float
) -> CostBreakdown:
    """Split a run's cost by Theorem 5.1.

    Parameters
    ----------
    run : BatchRun
    step_cost : float
        c, the cost of one step whatever runs in it; at least 0.
    footprint_cost : float
        tau, cost of a step a running job and token of the largest progress; at least 0.
    token_price : float
        p_0, price of a token; at least 0. `PriceList.token_price` makes it from $ per million tokens.

    Returns
    -------
    CostBreakdown

    Raises
    ------
    ParameterError
        For a price or cost that is negative or not finite.
    """
    return CostBreakdown(
        policy=run.policy.label,
        revenue=_money("token_price", token_price) * run.tokens,
        intrinsic=_money("footprint_cost", footprint_cost) * run.intrinsic,
        time=_money("step_cost", step_cost) * run.makespan_steps,
        externality=footprint_cost * run.externality,
        throughput=run.throughput,
        mean_extent=run.mean_extent,
    )


def cost_frame(
    runs: Mapping[str, BatchRun], step_cost: float, footprint_cost: float, token_price: float
) -> pd.DataFrame:
    """Break down several runs on one accepted workload: Table 1's columns, one row a run.

    Parameters
    ----------
    runs : mapping of str to BatchRun
        Label -> run. With an `ljf` among them, `gain_over_ljf` is the throughput gain over it.

    Raises
    ------
    ParameterError
        If the runs serve different workloads: their profits would not compare.
    """
    import pandas as pd

    if not runs:
        raise ParameterError("runs", {}, "give at least one run")
    first = next(iter(runs.values()))
    rows = []
    for label, run in runs.items():
        _same_workload(run, first, label)
        parts = cost_breakdown(run, step_cost, footprint_cost, token_price).summary()
        rows.append({**parts, "policy": label, "makespan_steps": run.makespan_steps, "fair": run.fair})
    frame = pd.DataFrame(rows)
    if "ljf" in runs:
        frame["gain_over_ljf"] = frame["throughput"] / runs["ljf"].throughput - 1
    return frame


@dataclass(frozen=True, slots=True)
class ProfitComparison:
    """Profit of one run minus that of another on the same workload (eq. 12).

    Parameters
    ----------
    difference : float
        c (T_B - T_A) + tau (E_B - E_A).
    time_part, externality_part : float
        Its two terms.
    guaranteed : float or None
        What eqs. (13) and (14) promise without knowing E_A, from A's alpha alone:
        c (T_B - T_A) + tau (E_B - alpha O). None if A has no alpha or broke it.
    """

    difference: float
    time_part: float
    externality_part: float
    guaranteed: float | None


def compare_profit(
    run: BatchRun, other: BatchRun, step_cost: float, footprint_cost: float
) -> ProfitComparison:
    """Compare two runs on the same accepted workload (Proposition 5.3).

    Raises
    ------
    ParameterError
        If their workloads differ.
    """
    _same_workload(other, run, other.policy.label)
    c, tau = _money("step_cost", step_cost), _money("footprint_cost", footprint_cost)
    time_part = c * (other.makespan_steps - run.makespan_steps)
    externality_part = tau * (other.externality - run.externality)
    guaranteed = None
    if run.fair and run.policy.alpha is not None:
        guaranteed = time_part + tau * (other.externality - run.policy.alpha * run.tokens)
    return ProfitComparison(time_part + externality_part, time_part, externality_part, guaranteed)


def break_even_step_cost(run: BatchRun, baseline: BatchRun, footprint_cost: float) -> float | None:
    """Step cost c* above which `run` earns more than `baseline` (section 5.2, Table 2).

    c* = tau (E - E_baseline) / (T_baseline - T), for a run that is faster and has more externality. None if
    the run is not faster: then no step cost makes it the better one (unless it has less externality, when it
    is better below the c* that the other order gives). 0 if it is faster with no more externality.
    """
    _same_workload(baseline, run, baseline.policy.label)
    tau = _money("footprint_cost", footprint_cost)
    saved = baseline.makespan_steps - run.makespan_steps
    if saved <= 0:
        return None
    return tau * max(run.externality - baseline.externality, 0) / saved


def certified_profit(
    lengths: ArrayLike,
    alpha: int,
    makespan_steps: ArrayLike,
    step_cost: float,
    footprint_cost: float,
    token_price: float,
) -> NDArray[np.float64]:
    """Profit that any alpha-fair schedule of that makespan is sure to reach (Corollary 5.5).

    R - tau Q - tau alpha O - c T, decreasing in T: the shortest fair schedule has the best certificate.
    """
    from clairvoyant_lab.scheduling.batch import check_alpha, check_steps

    own = check_steps("lengths", lengths, at_least=1)
    tokens, intrinsic = int(own.sum()), int((own * (own + 1) // 2).sum())
    c, tau = _money("step_cost", step_cost), _money("footprint_cost", footprint_cost)
    fixed = _money("token_price", token_price) * tokens - tau * intrinsic - tau * check_alpha(alpha) * tokens
    return np.asarray(fixed - c * np.asarray(makespan_steps, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class ProfitGuarantee:
    """Eq. (10) on one instance: how far below the best fair profit a run may be, and is.

    Parameters
    ----------
    loss : float
        Best fair profit minus the run's.
    allowed : float
        c (1/rho - 1) T* + tau alpha O, T* the makespan of the most profitable fair schedule.
    ratio : float
        rho, as given.
    ratio_held : bool
        Whether the run's makespan is within 1/rho of the shortest fair one: the theorem's premise.
    """

    loss: float
    allowed: float
    ratio: float
    ratio_held: bool

    @property
    def holds(self) -> bool:
        """Whether the loss is within what is allowed."""
        return self.loss <= self.allowed + 1e-12 * max(1.0, abs(self.allowed))


def profit_guarantee(
    run: BatchRun, step_cost: int, footprint_cost: int, ratio: float = 0.75
) -> ProfitGuarantee:
    """Check Theorem 5.2 on a small instance, against the most profitable fair schedule.

    Parameters
    ----------
    run : BatchRun
        A fair run of at most 8 short jobs.
    step_cost, footprint_cost : int
        c and tau as whole numbers (scale them): the search is exact.
    ratio : float
        rho of eq. (9); 3/4 gives eq. (11).
    """
    from clairvoyant_lab.scheduling.measure import measure_schedule
    from clairvoyant_lab.scheduling.optimum import exhaustive_optimum

    if run.policy.alpha is None or not run.fair:
        raise ParameterError("run", run.policy.label, "give a run that keeps to an alpha")
    if not 0 < ratio <= 1:
        raise ParameterError("ratio", ratio, "give a competitive ratio in (0, 1]")
    alpha = run.policy.alpha
    richest = exhaustive_optimum(
        run.lengths, run.batch_size, alpha, step_cost=step_cost, footprint_cost=footprint_cost
    )
    shortest = exhaustive_optimum(run.lengths, run.batch_size, alpha)
    best = measure_schedule(richest.start_steps, run.lengths, run.batch_size, alpha)
    loss = step_cost * (run.makespan_steps - best.makespan_steps) + footprint_cost * (
        run.externality - best.externality
    )
    allowed = step_cost * (1 / ratio - 1) * best.makespan_steps + footprint_cost * alpha * run.tokens
    return ProfitGuarantee(
        loss=float(loss),
        allowed=float(allowed),
        ratio=ratio,
        ratio_held=run.makespan_steps * ratio <= shortest.makespan_steps,
    )


def _money(field: str, value: float) -> float:
    if not (is_finite_number(value) and value >= 0):
        raise ParameterError(field, value, "give a finite amount >= 0")
    return float(value)


def _same_workload(run: BatchRun, first: BatchRun, label: str) -> None:
    if not np.array_equal(run.lengths, first.lengths):
        raise ParameterError("runs", label, "serves other lengths than the first run; compare one workload")
