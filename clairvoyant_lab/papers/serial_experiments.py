"""Section 5.6 of Clairvoyant run again: Figure 3, Table 10, Figure 4, and what τ costs long requests.

The paper doesn't print its service times. With short 3.5 s and long 8.9 s, half each, Gamma within a class,
a ranking accuracy of 95 % and τ in multiples of 3.5 s both artefacts come out, each under its own promotion
rule: Figure 3 under section 3.4's (`oldest`), Table 10 under `shortest`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.scheduling.serial import serial_policy
from clairvoyant_lab.simulation.replicates import Replicates, mean_interval
from clairvoyant_lab.simulation.workloads import PAPER_SHORT_S, paper_mix

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FIGURE3_CS2", "TABLE10", "TABLE10_TAUS", "figure3", "frontier", "table10"]

PAPER_SEEDS = 5
PAPER_REQUESTS = 2000
PAPER_ACCURACY = 0.95
PAPER_RHO = 0.74
FIGURE3_CS2 = 0.2
FIGURE3_RHOS = (0.30, 0.40, 0.50, 0.60, 0.65, 0.70, 0.74, 0.78, 0.82, 0.85)
TABLE10_CS2 = (0.5, 1.0, 2.0)
# name in the ledger's keys -> τ in multiples of the mean short service; FCFS is a policy of its own
TABLE10_TAUS: dict[str, float | None] = {"tau_1x": 1.0, "tau_2x": 2.0, "tau_3x": 3.0, "tau_none": None}
# printed short P50 sojourn times in seconds; the ledger holds them too, this copy serves the z values
TABLE10: dict[float, dict[str, float]] = {
    0.5: {"fcfs": 10.71, "tau_1x": 8.82, "tau_2x": 10.57, "tau_3x": 11.06, "tau_none": 7.00},
    1.0: {"fcfs": 13.94, "tau_1x": 8.92, "tau_2x": 10.33, "tau_3x": 11.47, "tau_none": 7.06},
    2.0: {"fcfs": 20.60, "tau_1x": 10.10, "tau_2x": 11.65, "tau_3x": 13.38, "tau_none": 8.21},
}


def figure3(
    seeds: Iterable[int] = range(PAPER_SEEDS),
    *,
    rhos: Sequence[float] = FIGURE3_RHOS,
    promotions: Sequence[str] = ("oldest",),
    tau_multiple: float | None = 3.0,
    cs2: float = FIGURE3_CS2,
    accuracy: float = PAPER_ACCURACY,
    n: int = PAPER_REQUESTS,
) -> pd.DataFrame:
    """Cut of the short P50 against load.

    Parameters
    ----------
    seeds : iterable of int
    rhos : sequence of float
    promotions : sequence of str
        Promotion rules, one curve each.
    tau_multiple : float, optional
        τ in multiples of the mean short service (3.5 s); None: no limit.
    cs2 : float
        Squared coefficient of variation within a class.
    accuracy : float
        Ranking accuracy of the score.
    n : int
        Requests a seed.

    Returns
    -------
    DataFrame
        Columns promotion, rho, fcfs_p50_s, sjf_p50_s, cut_pct, low_pct, high_pct, promoted_share, seeds: the
        mean cut over seeds and its 95 % interval, FCFS and SJF on the same traces.
    """
    import pandas as pd

    own = list(seeds)
    tau = None if tau_multiple is None else tau_multiple * PAPER_SHORT_S
    rows = []
    for rho in rhos:
        traces = Replicates.poisson(n, paper_mix(cs2), rho=rho, seeds=own, accuracy=accuracy)
        base = traces.percentiles("fcfs", (50,)).of(LengthClass.SHORT, 50)
        for promotion in promotions:
            result = traces.percentiles(serial_policy("sjf", tau, promotion=promotion), (50,))
            ours = result.of(LengthClass.SHORT, 50)
            mean, low, high = mean_interval(100.0 * (1.0 - ours / base))
            rows.append(
                {
                    "promotion": promotion, "rho": rho, "fcfs_p50_s": float(base.mean()),
                    "sjf_p50_s": float(ours.mean()), "cut_pct": mean, "low_pct": low, "high_pct": high,
                    "promoted_share": float(result.promoted_share[0].mean()), "seeds": len(own),
                }
            )  # fmt: skip
    return pd.DataFrame(rows).sort_values(["promotion", "rho"], ignore_index=True)


def table10(
    seeds: Iterable[int] = range(100),
    *,
    promotions: Sequence[str] = ("shortest", "oldest"),
    rho: float = PAPER_RHO,
    accuracy: float = PAPER_ACCURACY,
    n: int = PAPER_REQUESTS,
) -> pd.DataFrame:
    """Short P50 sojourn time for each C_s² and τ, beside the printed one.

    Many seeds give the mean that the printed one scatters around; a printed cell is a mean of 5 seeds, so its
    standard error is the standard deviation over seeds / √5.

    Returns
    -------
    DataFrame
        Columns promotion, cs2, setting, tau_s, p50_s, sd_s (over seeds), se5_s, published_s, z, change_pct
        (against FCFS), change_low_pct, change_high_pct (95 % of five-seed means), seeds.
    """
    import pandas as pd

    own = list(seeds)
    rows = []
    for cs2 in TABLE10_CS2:
        traces = Replicates.poisson(n, paper_mix(cs2), rho=rho, seeds=own, accuracy=accuracy)
        base = traces.percentiles("fcfs", (50,)).of(LengthClass.SHORT, 50)
        for promotion in promotions:
            for setting in ("fcfs", *TABLE10_TAUS):
                tau = None
                ours = base
                if setting != "fcfs":
                    multiple = TABLE10_TAUS[setting]
                    tau = None if multiple is None else multiple * PAPER_SHORT_S
                    policy = serial_policy("sjf", tau, promotion=promotion)
                    ours = traces.percentiles(policy, (50,)).of(LengthClass.SHORT, 50)
                rows.append({"promotion": promotion, "cs2": cs2, "setting": setting, "tau_s": tau}
                            | _cell(ours, base, TABLE10[cs2][setting]))  # fmt: skip
    return pd.DataFrame(rows)


def frontier(
    taus_s: Sequence[float | None],
    seeds: Iterable[int] = range(PAPER_SEEDS),
    *,
    promotions: Sequence[str] = ("oldest", "shortest", "long_only"),
    cs2: float = 1.0,
    rho: float = PAPER_RHO,
    accuracy: float = PAPER_ACCURACY,
    n: int = PAPER_REQUESTS,
) -> pd.DataFrame:
    """Short P50 and long P95, P99 for each promotion rule and τ, on the same traces.

    Returns
    -------
    DataFrame
        Columns promotion, tau_s (NaN: no limit), short_p50_s, long_p95_s, long_p99_s, their changes against
        FCFS in percent, promoted_share.
    """
    import pandas as pd

    traces = Replicates.poisson(n, paper_mix(cs2), rho=rho, seeds=list(seeds), accuracy=accuracy)
    fcfs = traces.percentiles("fcfs")
    cells = ((LengthClass.SHORT, 50.0), (LengthClass.LONG, 95.0), (LengthClass.LONG, 99.0))
    rows = []
    for promotion in promotions:
        for tau in taus_s:
            result = traces.percentiles(serial_policy("sjf", tau, promotion=promotion))
            row: dict[str, Any] = {"promotion": promotion, "tau_s": np.nan if tau is None else tau}
            for group, q in cells:
                name = f"{group.name.lower()}_p{q:g}"
                row[f"{name}_s"] = result.mean_of(group, q)
                row[f"{name}_change_pct"] = 100.0 * (result.mean_of(group, q) / fcfs.mean_of(group, q) - 1.0)
            row["promoted_share"] = float(result.promoted_share[0].mean())
            rows.append(row)
    return pd.DataFrame(rows)


def _cell(ours: Any, base: Any, published: float) -> dict[str, float]:
    mean, sd = float(ours.mean()), float(ours.std(ddof=1)) if ours.size > 1 else float("nan")
    se5 = sd / PAPER_SEEDS**0.5
    ratio = ours / base
    change = 100.0 * (mean / float(base.mean()) - 1.0)
    spread = 100.0 * 1.96 * float(ratio.std(ddof=1)) / PAPER_SEEDS**0.5 if ours.size > 1 else 0.0
    return {
        "p50_s": mean, "sd_s": sd, "se5_s": se5, "published_s": published, "z": (published - mean) / se5,
        "change_pct": change, "change_low_pct": change - spread, "change_high_pct": change + spread,
        "seeds": float(ours.size),
    }  # fmt: skip
