"""Which alpha to set: section 5.1's procedure on a log of lengths, under service targets.

Each alpha of a grid is replayed; of those that meet the throughput and latency targets, the cheapest by
c T + tau E is taken (or the smallest). A second log, kept back, says whether the choice carries over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import ParameterError, unknown_name
from clairvoyant_lab.results import counted, frame_html, summary_html
from clairvoyant_lab.scheduling.batch import check_alpha, check_steps

if TYPE_CHECKING:
    import pandas as pd

    from clairvoyant_lab.simulation.batch import BatchRun
    from clairvoyant_lab.simulation.batch_time import StepTime

__all__ = ["AlphaAdvice", "alpha_grid", "calibrate_alpha"]


def alpha_grid(
    lengths: ArrayLike, points: int = 12, scale: Literal["cost", "quantiles"] = "cost"
) -> NDArray[np.int64]:
    """Candidate alphas on the workload's own scale (section 5.1).

    Parameters
    ----------
    lengths : array_like of int, shape (n,)
    points : int
        How many besides 0.
    scale : {"cost", "quantiles"}
        `cost`: even steps up to 2 Q / O, so that alpha_cost(delta) for delta = 0..2 is covered.
        `quantiles`: even quantiles of the lengths.

    Returns
    -------
    ndarray of int64
        Ascending, without repeats, from 0.
    """
    from clairvoyant_lab.economics.costs import alpha_cost

    own = check_steps("lengths", lengths, at_least=1)
    if points < 1:
        raise ParameterError("points", points, "give at least 1")
    if scale == "cost":
        values = np.linspace(0, alpha_cost(own, 2.0), points + 1)
    elif scale == "quantiles":
        values = np.concatenate([[0.0], np.quantile(own, np.arange(1, points + 1) / points)])
    else:
        raise unknown_name("scale", scale, ("cost", "quantiles"))
    return np.unique(values.astype(np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class AlphaAdvice:
    """The alpha to set, and what each candidate gave.

    Parameters
    ----------
    alpha : int or None
        The choice; None if no candidate meets the targets.
    policy : str
    reason : str
        Why this one, or which target failed and by how much.
    table : DataFrame
        One row a candidate: alpha, throughput, latency_quantile (steps or seconds), time_cost,
        externality_cost, schedule_cost, profit, mean_extent, meets_targets, and the held-back log's
        holdout_* columns if one was given.
    holdout_agrees : bool or None
        Whether the choice also meets the targets on the held-back log; None without one.
    """

    alpha: int | None
    policy: str
    reason: str
    table: pd.DataFrame = field(repr=False)
    holdout_agrees: bool | None

    def summary(self) -> dict[str, object]:
        """The choice and its row."""
        rows: dict[str, object] = {
            "alpha": self.alpha,
            "policy": self.policy,
            "reason": self.reason,
            "holdout_agrees": self.holdout_agrees,
        }
        if self.alpha is not None:
            chosen = self.table[self.table["alpha"] == self.alpha].iloc[0]
            rows.update({str(k): v for k, v in chosen.items() if k != "alpha"})
        return rows

    def to_frame(self) -> pd.DataFrame:
        """Return the table of candidates."""
        return self.table

    def _repr_html_(self) -> str:
        return summary_html("Calibrated alpha", self.summary()) + frame_html(self.table)


def calibrate_alpha(
    lengths: ArrayLike,
    batch_size: int,
    *,
    step_cost: float,
    footprint_cost: float,
    token_price: float = 0.0,
    policy: str = "isjl",
    grid: Iterable[int] | None = None,
    min_throughput: float | None = None,
    max_latency: float | None = None,
    latency_quantile: float = 0.95,
    choose: Literal["cheapest", "smallest"] = "cheapest",
    release_steps: ArrayLike | None = None,
    holdout: ArrayLike | None = None,
    step_time: StepTime | None = None,
) -> AlphaAdvice:
    """Calibrate alpha by replaying a log (section 5.1).

    Parameters
    ----------
    lengths : array_like of int, shape (n,)
        Prompt + response tokens of past requests.
    batch_size : int
    step_cost, footprint_cost, token_price : float
        c, tau and p_0.
    policy : str
        `isjl` (the paper's), `slack`, `cohort`, `online`.
    grid : iterable of int, optional
        Candidates; `alpha_grid(lengths)` by default.
    min_throughput : float, optional
        Least tokens a step (a second, with `step_time`); None: no target.
    max_latency : float, optional
        Most steps (seconds) at the quantile; None: no target.
    latency_quantile : float
        Quantile of finish minus release.
    choose : {"cheapest", "smallest"}
        Among those that meet the targets: least c T + tau E (then the smaller alpha), or the smallest alpha,
        which aligns cost best.
    release_steps : array_like of int, optional
        Arrivals, for `online`; `isjl` and `slack` take them too.
    holdout : array_like of int, optional
        Lengths kept back, replayed at each candidate but never looked at in choosing.
    step_time : StepTime, optional
        Reads throughput and latency in seconds; costs stay those of eq. (3).

    Returns
    -------
    AlphaAdvice
    """
    import pandas as pd

    if choose not in ("cheapest", "smallest"):
        raise unknown_name("choose", choose, ("cheapest", "smallest"))
    if not 0 <= latency_quantile <= 1:
        raise ParameterError("latency_quantile", latency_quantile, "give a quantile from 0 to 1")
    for name, target in (("min_throughput", min_throughput), ("max_latency", max_latency)):
        if target is not None and not (target > 0 and np.isfinite(target)):
            raise ParameterError(name, target, "give a positive number, or None for no target")
    own = check_steps("lengths", lengths, at_least=1)
    candidates = alpha_grid(own).tolist() if grid is None else sorted({check_alpha(a) for a in grid})
    if not candidates:
        raise ParameterError("grid", [], "give at least one alpha")
    prices = (step_cost, footprint_cost, token_price)
    rows = []
    for alpha in candidates:
        row = {"alpha": alpha}
        row.update(
            _replay(own, policy, alpha, batch_size, release_steps, prices, latency_quantile, step_time)
        )
        row["meets_targets"] = _meets(row, "", min_throughput, max_latency)
        if holdout is not None:
            kept = _replay(holdout, policy, alpha, batch_size, None, prices, latency_quantile, step_time)
            row.update({f"holdout_{name}": value for name, value in kept.items()})
            row["holdout_meets_targets"] = _meets(row, "holdout_", min_throughput, max_latency)
        rows.append(row)
    table = pd.DataFrame(rows)
    good = table[table["meets_targets"]]
    if good.empty:
        best_rate, best_latency = table["throughput"].max(), table["latency_quantile"].min()
        reason = (
            f"no alpha of {len(table)} meets the targets: best throughput {best_rate:.4g}"
            f" (asked {min_throughput}), best latency {best_latency:.4g} (asked {max_latency})"
        )
        return AlphaAdvice(None, policy, reason, table, None)
    if choose == "cheapest":
        chosen = good.sort_values(["schedule_cost", "alpha"]).iloc[0]
        reason = f"least cT + τE of the {counted(len(good), 'candidate')} within the targets"
    else:
        chosen = good.sort_values("alpha").iloc[0]
        reason = f"smallest of the {counted(len(good), 'candidate')} within the targets"
    agrees = None if holdout is None else bool(chosen["holdout_meets_targets"])
    return AlphaAdvice(int(chosen["alpha"]), policy, reason, table, agrees)


def _replay(
    lengths: ArrayLike,
    policy: str,
    alpha: int,
    batch_size: int,
    release_steps: ArrayLike | None,
    prices: tuple[float, float, float],
    quantile: float,
    step_time: StepTime | None,
) -> dict[str, object]:
    from clairvoyant_lab.economics.costs import cost_breakdown
    from clairvoyant_lab.scheduling.batch import batch_policy
    from clairvoyant_lab.simulation.batch import simulate_batch

    run: BatchRun = simulate_batch(
        lengths, batch_policy(policy, alpha=alpha), batch_size, release_steps=release_steps
    )
    parts = cost_breakdown(run, *prices)
    throughput, latency = run.throughput, run.latency_quantile_steps(quantile)
    if step_time is not None:
        from clairvoyant_lab.simulation.batch_time import time_run

        timed = time_run(run, step_time)
        throughput = timed.throughput_tokens_s
        latency = float(np.quantile(timed.latency_s, quantile))
    return {
        "throughput": throughput,
        "latency_quantile": latency,
        "time_cost": parts.time,
        "externality_cost": parts.externality,
        "schedule_cost": parts.time + parts.externality,
        "profit": parts.profit,
        "mean_extent": parts.mean_extent,
    }


def _meets(
    row: dict[str, object], prefix: str, min_throughput: float | None, max_latency: float | None
) -> bool:
    throughput, latency = row[f"{prefix}throughput"], row[f"{prefix}latency_quantile"]
    assert isinstance(throughput, float)
    assert isinstance(latency, float)
    return (min_throughput is None or throughput >= min_throughput) and (
        max_latency is None or latency <= max_latency
    )
