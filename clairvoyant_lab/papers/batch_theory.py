"""The ISJL paper's theorems as ledger rows: the claimed number beside the smallest ratio that was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from clairvoyant_lab.papers.ledger import Measured
from clairvoyant_lab.scheduling.theory import ratios

if TYPE_CHECKING:
    import pandas as pd

    from clairvoyant_lab.scheduling.theory.search import SearchResult

__all__ = ["claims_frame", "measure_theory", "worst_ratio_points"]


# checks that need the optimum of every instance, or count every step
_SLOW = {"proposition_3_16", "theorem_3_3", "theorem_3_9", "theorem_5_1", "theorem_5_2"}


def claims_frame(*, most_tokens: int = 14, slow_tokens: int = 11, bounds_tokens: int = 6) -> pd.DataFrame:
    """Search a violation of every claim among all small instances; one row a claim.

    Parameters
    ----------
    most_tokens : int
        Every instance up to this many tokens is tried.
    slow_tokens : int
        The same for claims whose check needs more work.
    bounds_tokens : int
        The same for claims on upper bounds, where each instance has many.

    Returns
    -------
    DataFrame
        claim, says, verdict, instance (the smallest violation, else the tightest instance), detail, tried,
        complete_tokens, name. The same for the same arguments.
    """
    import pandas as pd

    from clairvoyant_lab.scheduling.theory.claims import CLAIMS
    from clairvoyant_lab.scheduling.theory.search import find_violation

    rows = []
    for name, claim in CLAIMS.items():
        tokens = slow_tokens if name in _SLOW else most_tokens
        found = find_violation(name, most_tokens=bounds_tokens if claim.needs_bounds else tokens)
        summary = found.summary()
        summary["verdict"] = "fails" if summary.pop("found") else "no violation found"
        rows.append({"name": name, **summary})
    frame = pd.DataFrame(rows)
    order = ["claim", "says", "verdict", "instance", "detail", "tried", "complete_tokens", "name"]
    return frame[order]


def worst_ratio_points(*, most_tokens: int = 15, most_jobs: int = 6) -> pd.DataFrame:
    """Smallest ratio of optimum to ISJL for each gamma among all small instances, B = 2 and 3.

    Returns
    -------
    DataFrame
        gamma, ratio, batch_size, instance (text); one row for each gamma and batch size with ratio < 1.
    """
    import pandas as pd

    from clairvoyant_lab.scheduling.rules import rule_starts
    from clairvoyant_lab.scheduling.theory.bounds import makespan_bound
    from clairvoyant_lab.scheduling.theory.claims import optimal_makespan
    from clairvoyant_lab.scheduling.theory.search import multisets

    best: dict[tuple[int, float], tuple[float, str]] = {}
    for jobs in multisets(most_tokens, most_jobs):
        own = np.array(jobs, dtype=np.int64)
        for size in (2, 3):
            for alpha in range(1, jobs[0]):
                key = (size, round(alpha / jobs[0], 6))
                known = best.get(key, (1.0, ""))[0]
                isjl = int((rule_starts("isjl", own, size, alpha) + own).max())
                if makespan_bound(own, size, alpha) / isjl >= known:
                    continue
                ratio = optimal_makespan(jobs, size, alpha) / isjl
                if ratio < known:
                    best[key] = (ratio, f"{list(jobs)}, B = {size}, α = {alpha}")
    rows = [
        {"gamma": gamma, "ratio": ratio, "batch_size": size, "instance": text}
        for (size, gamma), (ratio, text) in sorted(best.items())
    ]
    return pd.DataFrame(rows, columns=["gamma", "ratio", "batch_size", "instance"])


def measure_theory(*, fast: bool, seed: int) -> list[Measured]:
    """Ledger rows of sections 1, 3, 4 and 7.

    A bound that a theorem claims is set beside the smallest ratio over all instances tried; a formula's
    value beside its own evaluation.
    """
    tokens = 10 if fast else 14
    rows = _searched(tokens, seed)
    curve = np.linspace(0.0005, 0.9995, 1999)
    envelope, under = ratios.cr_envelope(curve), ratios.cr_under(curve)
    shares = np.linspace(0, 2, 20_001)
    bounds = np.minimum(ratios.isjl_b2_over(shares), ratios.isjl_b2_under(shares))
    best = int(bounds.argmax())
    formula = {
        "section1_1.cr_at_half": (float(ratios.cr_envelope(0.5)), "ratios.cr_envelope(0.5)"),
        "theorem3_3.ljf_cr_max": (
            max(ratios.ljf_ratio(size) for size in range(2, 200)),
            "max(ratios.ljf_ratio(B)) over B = 2..199",
        ),
        "section3_2.beta_over_alpha": (float(shares[best]), "argmax of min(isjl_b2_over, isjl_b2_under)"),
        "section3_2.isjl_cr_b2": (float(bounds[best]), "max of min(isjl_b2_over, isjl_b2_under)"),
        "section3_2.naive_under": (float(ratios.isjl_b2_under(1)), "ratios.isjl_b2_under(1)"),
        "section3_2.naive_over": (float(ratios.isjl_b2_over(1)), "ratios.isjl_b2_over(1)"),
        "section4.cr_min": (float(envelope.min()), "min of ratios.cr_envelope on a grid"),
        "section4.cr_min_gamma": (float(curve[envelope.argmin()]), "argmin of ratios.cr_envelope"),
        "section4.cr_at_third": (float(ratios.cr_envelope(1 / 3)), "ratios.cr_envelope(1/3)"),
        "section4.cr_under_min": (float(ratios.cr_under(1 / 3)), "ratios.cr_under(1/3)"),
        "section4.cr_under_min_gamma": (_argmin_under(under, curve), "argmin of ratios.cr_under"),
        "section4.cr_limit": (float(ratios.cr_envelope(1e-9)), "ratios.cr_envelope(1e-9)"),
    }
    rows += [Measured(f"isjl.{key}", value, how=how) for key, (value, how) in formula.items()]
    return rows + _played(fast)


def _argmin_under(under: np.ndarray, curve: np.ndarray) -> float:
    near = curve[under.argmin()]
    fine = np.linspace(near - 0.001, near + 0.001, 20_001)
    return float(fine[ratios.cr_under(fine).argmin()])


def _searched(tokens: int, seed: int) -> list[Measured]:
    from clairvoyant_lab.scheduling.theory.search import find_violation

    def look(claim: str, sizes: tuple[int, ...] = (2, 3)) -> tuple[SearchResult, str]:
        how = f"find_violation({claim!r}, batch_sizes={sizes}, most_tokens={tokens})"
        return find_violation(claim, batch_sizes=sizes, most_tokens=tokens, seed=seed), how

    rows: list[Measured] = []
    isjl, how = look("theorem_3_19")
    shown = isjl.violation or isjl.worst
    assert shown is not None
    for section in ("abstract", "section1_1", "section3_3", "section7"):
        rows.append(
            Measured(
                f"isjl.{section}.isjl_cr",
                shown.right,
                n=isjl.tried,
                how=how,
                because=f"{list(shown.lengths)}, B = {shown.batch_size}, α = {shown.alpha}: {shown.detail}",
                note="smallest ratio found",
            )
        )
    rows.append(
        Measured(
            "isjl.section3_4.robust_cr_exact",
            shown.right,
            n=isjl.tried,
            how=how,
            because=f"with u = o it is ISJL, and {list(shown.lengths)}, B = {shown.batch_size}, "
            f"α = {shown.alpha} gives {shown.detail}",
        )
    )
    ljf, how = look("theorem_3_3", (2,))
    assert ljf.worst is not None
    ratio = float(ratios.ljf_ratio(2)) * ljf.worst.right / ljf.worst.left
    for key in ("section1_1.ljf_cr_b2", "theorem3_3.ljf_cr_b2"):
        rows.append(
            Measured(
                f"isjl.{key}",
                ratio,
                n=ljf.tried,
                how=how,
                note=f"smallest ratio found, on {list(ljf.worst.lengths)}, α = {ljf.worst.alpha}",
            )
        )
    two, how = look("theorem_3_9", (2,))
    assert two.worst is not None
    rows.append(
        Measured(
            "isjl.section1_1.isjl_cr_b2",
            two.worst.right,
            n=two.tried,
            how=how,
            note=f"smallest ratio found, on {list(two.worst.lengths)}, α = {two.worst.alpha}",
        )
    )
    points = worst_ratio_points(most_tokens=14)
    at = points[np.isclose(points["gamma"], 0.8)].sort_values("ratio").iloc[0]
    rows.append(
        Measured(
            "isjl.section4.isjl_cr_at_0_8",
            float(at["ratio"]),
            how="worst_ratio_points(most_tokens=14)",
            because=f"{at['instance']}: optimum over ISJL is {at['ratio']:.3f}",
            note="smallest ratio found at γ = 0.8",
        )
    )
    return rows


def _played(fast: bool) -> list[Measured]:
    from clairvoyant_lab.scheduling.batch import batch_policy
    from clairvoyant_lab.scheduling.theory.instances import best_waiting_ratio
    from clairvoyant_lab.simulation.batch import simulate_batch

    grid = np.linspace(0, 1.2, 121)
    _, near = best_waiting_ratio(1, 1_000_000, grid)
    fine = np.linspace(near - 0.01, near + 0.01, 41 if fast else 401)
    value, share = best_waiting_ratio(1, 1_000_000, fine)
    run = simulate_batch([5, 5], batch_policy("isjl", alpha=3), 2)
    progress = int(run.start_steps[1] - run.start_steps[0])
    return [
        Measured(
            "isjl.section3_5.online_cr_limit",
            value,
            n=grid.size + fine.size,
            how="best_waiting_ratio(1, 1_000_000, shares)",
            note=f"best of all waits, at x = {share:.3f}",
        ),
        Measured(
            "isjl.section3_3.a_max_at_start_algorithm",
            progress,
            how='simulate_batch([5, 5], batch_policy("isjl", alpha=3), 2)',
            note="progress made: both jobs start at once",
        ),
        Measured(
            "isjl.section3_3.a_max_at_start_prose",
            int(run.lengths[0]) - progress,
            how="length minus progress at the start",
            note="remaining time: at α = 3 the second job would have to wait, [5, 5] would run one by one",
        ),
    ]
