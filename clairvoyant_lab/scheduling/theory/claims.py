"""The ISJL paper's claims, each as a check on one instance.

`check_claim("theorem_3_19", lengths, batch_size, alpha)` computes both sides and says whether they stand in
the claimed order. The optimum comes from an exact search, so instances are small; where the policy meets a
lower bound no search is needed. `search` looks for the smallest instance on which a check fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from clairvoyant_lab.errors import MissingExtraError, ParameterError, unknown_name
from clairvoyant_lab.scheduling.batch import check_alpha, check_batch_size, check_steps
from clairvoyant_lab.scheduling.measure import ScheduleMeasure, measure_schedule
from clairvoyant_lab.scheduling.rules import rule_starts
from clairvoyant_lab.scheduling.theory.bounds import makespan_bound, matching_bound
from clairvoyant_lab.scheduling.theory.ratios import cr_envelope, isjl_b2_ratio
from clairvoyant_lab.scheduling.theory.residual import packed_residual

__all__ = ["CLAIMS", "Claim", "ClaimCheck", "check_claim", "optimal_makespan"]

Jobs = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClaimCheck:
    """One claim on one instance.

    Parameters
    ----------
    claim : str
        Name in `CLAIMS`.
    holds : bool
    left, right : float
        The two sides; the claim says left <= right.
    detail : str
        What they are, with their numbers.
    lengths, upper_bounds : tuple of int
        The instance; upper bounds are empty where the claim has none.
    batch_size, alpha : int
    """

    claim: str
    holds: bool
    left: float
    right: float
    detail: str
    lengths: Jobs
    batch_size: int
    alpha: int
    upper_bounds: Jobs = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim and how to check it.

    Parameters
    ----------
    source : str
        Where the paper states it.
    says : str
        The claim in a line.
    check : callable
        (lengths, batch_size, alpha, upper_bounds) -> (left, right, detail).
    needs_bounds : bool
        Whether it is about upper bounds.
    batch_sizes : tuple of int or None
        Batch sizes it speaks of; None: all.
    least_alpha : int
        Smallest alpha it speaks of.
    """

    source: str
    says: str
    check: Callable[[Jobs, int, int, Jobs], tuple[Fraction | int, Fraction | int, str]]
    needs_bounds: bool = False
    batch_sizes: tuple[int, ...] | None = None
    least_alpha: int = 0


def check_claim(
    name: str,
    lengths: Sequence[int],
    batch_size: int,
    alpha: int,
    upper_bounds: Sequence[int] | None = None,
) -> ClaimCheck:
    """Check a claim on an instance.

    Parameters
    ----------
    name : str
        A key of `CLAIMS`.
    lengths : sequence of int
    batch_size, alpha : int
    upper_bounds : sequence of int, optional
        For claims about Robust-ISJL.

    Raises
    ------
    ParameterError
        For an unknown claim or an instance that it doesn't speak of.
    """
    if name not in CLAIMS:
        raise unknown_name("name", name, CLAIMS)
    claim = CLAIMS[name]
    own = check_steps("lengths", lengths, at_least=1)
    size, limit = check_batch_size(batch_size), check_alpha(alpha)
    if claim.batch_sizes is not None and size not in claim.batch_sizes:
        raise ParameterError("batch_size", size, f"{claim.source} speaks of {claim.batch_sizes}")
    if limit < claim.least_alpha:
        raise ParameterError("alpha", limit, f"{claim.source} speaks of alpha >= {claim.least_alpha}")
    bounds: Jobs = ()
    if claim.needs_bounds:
        if upper_bounds is None:
            raise ParameterError("upper_bounds", None, f"{claim.source} is about them; give one a job")
        given = check_steps("upper_bounds", upper_bounds, at_least=1, n=own.size, floor=own)
        bounds = tuple(given.tolist())
    jobs = tuple(own.tolist())
    left, right, detail = claim.check(jobs, size, limit, bounds)
    return ClaimCheck(name, left <= right, float(left), float(right), detail, jobs, size, limit, bounds)


@lru_cache(maxsize=200_000)
def _optimal(jobs: Jobs, batch_size: int, alpha: int) -> int:
    from clairvoyant_lab.scheduling.cohort import plan
    from clairvoyant_lab.scheduling.optimum import (
        MOST_EXHAUSTIVE_JOBS,
        batch_optimum,
        exhaustive_optimum,
    )

    bound = makespan_bound(jobs, batch_size, alpha)
    own = np.array(jobs, dtype=np.int64)
    for rule in ("ljf", "slack", "isjl"):
        if int((rule_starts(rule, own, batch_size, alpha) + own).max()) == bound:
            return bound
    if len(jobs) <= MOST_EXHAUSTIVE_JOBS - 2 and sum(jobs) <= 30:
        return exhaustive_optimum(jobs, batch_size, alpha).makespan_steps
    try:
        found = batch_optimum(jobs, batch_size, alpha, time_limit_s=30)
    except MissingExtraError:
        if len(jobs) > MOST_EXHAUSTIVE_JOBS:
            raise
        # without the solver: cohort may reach the bound, and the rest is few enough to look at every schedule
        steps = int((plan(own, batch_size, alpha, effort=0).start_steps + own).max())
        return steps if steps == bound else exhaustive_optimum(jobs, batch_size, alpha).makespan_steps
    if not found.proven:
        raise ParameterError("lengths", jobs, "too large to find the proven optimum in 30 s")
    return found.makespan_steps


def optimal_makespan(lengths: Sequence[int], batch_size: int, alpha: int) -> int:
    """Shortest alpha-fair makespan, proved; remembered between calls."""
    return _optimal(tuple(sorted((int(o) for o in lengths), reverse=True)), batch_size, alpha)


def _run(rule: str, jobs: Jobs, size: int, alpha: int, bounds: Jobs = ()) -> ScheduleMeasure:
    own = np.array(jobs, dtype=np.int64)
    upper = np.array(bounds, dtype=np.int64) if bounds else None
    return measure_schedule(rule_starts(rule, own, size, alpha, None, upper), own, size, alpha)


def _ljf_ratio(jobs: Jobs, size: int, alpha: int, _: Jobs) -> tuple[Fraction, Fraction, str]:
    ljf, best = _run("ljf", jobs, size, alpha).makespan_steps, optimal_makespan(jobs, size, alpha)
    right = Fraction(2 * size - 1, size) * best
    return Fraction(ljf), right, f"LJF {ljf}, optimum {best}, ratio {best / ljf:.4f}"


def _isjl_ratio(jobs: Jobs, size: int, alpha: int, _: Jobs) -> tuple[Fraction, Fraction, str]:
    isjl = _run("isjl", jobs, size, alpha).makespan_steps
    if 3 * isjl <= 4 * makespan_bound(jobs, size, alpha):  # spare the search: the bound settles it
        return Fraction(3, 4), Fraction(makespan_bound(jobs, size, alpha), isjl), f"ISJL {isjl}, by the bound"
    best = optimal_makespan(jobs, size, alpha)
    return Fraction(3, 4), Fraction(best, isjl), f"ISJL {isjl}, optimum {best}, ratio {best / isjl:.4f}"


def _isjl_b2(jobs: Jobs, size: int, alpha: int, _: Jobs) -> tuple[Fraction, Fraction, str]:
    isjl, best = _run("isjl_b2", jobs, size, alpha).makespan_steps, optimal_makespan(jobs, size, alpha)
    claimed = Fraction(float(isjl_b2_ratio()))
    return claimed, Fraction(best, isjl), f"ISJL {isjl}, optimum {best}, ratio {best / isjl:.4f}"


def _isjl_gamma(jobs: Jobs, size: int, alpha: int, _: Jobs) -> tuple[Fraction, Fraction, str]:
    longest = max(jobs)
    if not 0 < alpha < longest:
        return Fraction(0), Fraction(1), "gamma outside (0, 1): nothing is claimed"
    isjl = _run("isjl", jobs, size, alpha).makespan_steps
    claimed = Fraction(float(cr_envelope(alpha / longest))) - Fraction(1, 10**12)
    bound = makespan_bound(jobs, size, alpha)
    if Fraction(bound, isjl) >= claimed:
        return claimed, Fraction(bound, isjl), f"ISJL {isjl}, by the bound"
    best = optimal_makespan(jobs, size, alpha)
    detail = f"gamma {alpha / longest:.3f}: claimed {float(claimed):.4f}, ISJL {isjl}, optimum {best}"
    return claimed, Fraction(best, isjl), f"{detail}, ratio {best / isjl:.4f}"


def _not_slower(rule: str) -> Callable[[Jobs, int, int, Jobs], tuple[int, int, str]]:
    def check(jobs: Jobs, size: int, alpha: int, _: Jobs) -> tuple[int, int, str]:
        ours = _run(rule, jobs, size, alpha).makespan_steps
        ljf = _run("ljf", jobs, size, alpha).makespan_steps
        return ours, ljf, f"{rule} {ours}, LJF {ljf}"

    return check


def _monotone(jobs: Jobs, size: int, alpha: int, _: Jobs) -> tuple[int, int, str]:
    tight = _run("isjl", jobs, size, alpha).makespan_steps
    loose = _run("isjl", jobs, size, alpha + 1).makespan_steps
    return loose, tight, f"ISJL {tight} at alpha {alpha}, {loose} at {alpha + 1}"


def _nested(jobs: Jobs, size: int, alpha: int, _: Jobs) -> tuple[int, int, str]:
    tight, loose = (optimal_makespan(jobs, size, limit) for limit in (alpha, alpha + 1))
    return loose, tight, f"optimum {tight} at alpha {alpha}, {loose} at {alpha + 1}"


def _fair(rule: str) -> Callable[[Jobs, int, int, Jobs], tuple[int, int, str]]:
    def check(jobs: Jobs, size: int, alpha: int, bounds: Jobs) -> tuple[int, int, str]:
        measure = _run(rule, jobs, size, alpha, bounds)
        return measure.max_gap, alpha, f"largest gap {measure.max_gap}, limit {alpha}"

    return check


def _decomposition(jobs: Jobs, size: int, alpha: int, _: Jobs) -> tuple[int, int, str]:
    """E + Q counted over steps equals the sum of |S| max r, and E <= alpha O for each fair policy."""
    worst = 0
    for rule in ("ljf", "isjl", "slack"):
        own = np.array(jobs, dtype=np.int64)
        starts = rule_starts(rule, own, size, alpha)
        measure = measure_schedule(starts, own, size, alpha)
        direct = 0
        for t in range(measure.makespan_steps):
            active = (starts <= t) & (t < starts + own)
            if active.any():
                direct += int(active.sum()) * int((t - starts[active] + 1).max())
        if direct != measure.externality + measure.intrinsic:
            return 1, 0, f"{rule}: sum of |S| max r is {direct}, not E + Q"
        worst = max(worst, measure.externality)
    return worst, alpha * sum(jobs), f"largest E {worst}, alpha O = {alpha * sum(jobs)}; E + Q exact"


def _profit(jobs: Jobs, size: int, alpha: int, _: Jobs) -> tuple[Fraction, Fraction, str]:
    """Eq. (11) at c = 100, tau = 1: within c/3 T* + tau alpha O of the most profitable fair schedule."""
    from clairvoyant_lab.scheduling.optimum import exhaustive_optimum

    step_cost, footprint_cost = 100, 1
    isjl = _run("isjl", jobs, size, alpha)
    richest = exhaustive_optimum(jobs, size, alpha, step_cost=step_cost, footprint_cost=footprint_cost)
    best = measure_schedule(richest.start_steps, jobs, size, alpha)
    loss = step_cost * (isjl.makespan_steps - best.makespan_steps) + isjl.externality - best.externality
    allowed = Fraction(step_cost, 3) * best.makespan_steps + alpha * sum(jobs)
    return Fraction(loss), allowed, f"loss {loss}, allowed {float(allowed):.1f} (c = 100, tau = 1)"


def _graham(jobs: Jobs, size: int, alpha: int, _: Jobs) -> tuple[Fraction | int, Fraction | int, str]:
    """List scheduling by descending length: ISJL's Phase TWO when no limit binds (alpha is set aside)."""
    free = max(jobs)
    ours, best = _run("isjl", jobs, size, free).makespan_steps, optimal_makespan(jobs, size, free)
    return ours, Fraction(4 * size - 1, 3 * size) * best, f"without a limit {ours}, optimum {best}"


def _pairwise(jobs: Jobs, size: int, alpha: int, _: Jobs) -> tuple[int, int, str]:
    """Eqs. (13) and (14) at c = 10, tau = 1: what alpha alone promises against LJF and FCFS is kept."""
    isjl = _run("isjl", jobs, size, alpha)
    worst, text = -1, ""
    for rule in ("ljf", "fcfs"):
        other = _run(rule, jobs, size, alpha)
        saved = 10 * (other.makespan_steps - isjl.makespan_steps)
        promised = saved + other.externality - alpha * sum(jobs)
        kept = saved + other.externality - isjl.externality
        if promised - kept >= worst or not text:
            worst, text = promised - kept, f"over {rule}: promised {promised}, difference {kept}"
    return worst, 0, text


def _certificate(jobs: Jobs, size: int, alpha: int, _: Jobs) -> tuple[int, int, str]:
    """At c = 10, tau = 1, p = 0: the certificate of each fair policy is at most its profit."""
    worst, text = -1, ""
    intrinsic = sum(o * (o + 1) // 2 for o in jobs)
    for rule in ("ljf", "isjl", "slack"):
        run = _run(rule, jobs, size, alpha)
        floor = -intrinsic - alpha * sum(jobs) - 10 * run.makespan_steps
        profit = -intrinsic - 10 * run.makespan_steps - run.externality
        if floor - profit >= worst or not text:
            worst, text = floor - profit, f"{rule}: certified {floor}, profit {profit}"
    return worst, 0, text


def _matching(jobs: Jobs, size: int, alpha: int, _: Jobs) -> tuple[int, int, str]:
    bound = matching_bound(jobs, size, alpha)
    return bound.promised, bound.matched, f"promised {bound.promised}, in full batches {bound.matched}"


def _ljf_externality(jobs: Jobs, size: int, alpha: int, _: Jobs) -> tuple[int, int, str]:
    value = _run("ljf", jobs, size, alpha).externality
    return value, 0, f"E of LJF is {value}"


def _bound(jobs: Jobs, size: int, alpha: int, _: Jobs) -> tuple[int, int, str]:
    bound, best = makespan_bound(jobs, size, alpha), optimal_makespan(jobs, size, alpha)
    return bound, best, f"bound {bound}, optimum {best}"


def _robust(jobs: Jobs, size: int, alpha: int, bounds: Jobs) -> tuple[Fraction, Fraction, str]:
    robust = _run("robust", jobs, size, alpha, bounds).makespan_steps
    residual = packed_residual(jobs, bounds, size, alpha).upper
    best = optimal_makespan(jobs, size, alpha)
    right = Fraction(4, 3) * (best + residual)
    return Fraction(robust), right, f"Robust-ISJL {robust}, optimum {best}, packed residual {residual}"


def _robust_step(jobs: Jobs, size: int, alpha: int, bounds: Jobs) -> tuple[int, int, str]:
    residual = packed_residual(jobs, bounds, size, alpha).upper
    best, planned = optimal_makespan(jobs, size, alpha), optimal_makespan(bounds, size, alpha)
    return planned, best + residual, f"OPT(I_u) {planned}, OPT(I) {best}, packed residual {residual}"


def _robust_slack(jobs: Jobs, size: int, alpha: int, bounds: Jobs) -> tuple[Fraction, Fraction, str]:
    robust = _run("robust", jobs, size, alpha, bounds).makespan_steps
    best = optimal_makespan(jobs, size, alpha)
    slack = Fraction(sum(bounds) - sum(jobs), sum(jobs))
    claimed = Fraction(3, 4) / (1 + size * slack)
    return claimed, Fraction(best, robust), f"Robust-ISJL {robust}, optimum {best}"


def _longer_residual(jobs: Jobs, size: int, alpha: int, bounds: Jobs) -> tuple[int, int, str]:
    robust = _run("robust", jobs, size, alpha, bounds).makespan_steps
    planned = _run("isjl", bounds, size, alpha).makespan_steps
    return robust, planned, f"realised {robust}, planned on upper bounds {planned}"


CLAIMS: dict[str, Claim] = {
    "theorem_3_3": Claim("Theorem 3.3", "LJF is within (2B-1)/B of the optimum", _ljf_ratio),
    "theorem_3_9": Claim(
        "Theorem 3.9", "Algorithm 2 reaches (25+√17)/38 of the optimum", _isjl_b2, batch_sizes=(2,)
    ),
    "proposition_3_16": Claim(
        "Proposition 3.16", "Phase TWO without a limit is within (4B-1)/(3B) of the optimum", _graham
    ),
    "theorem_3_19": Claim("Theorem 3.19", "ISJL reaches 3/4 of the optimum", _isjl_ratio),
    "theorem_3_19_b2": Claim(
        "Theorem 3.19, B = 2", "ISJL reaches 3/4 of the optimum", _isjl_ratio, batch_sizes=(2,)
    ),
    "theorem_4_3": Claim("Theorem 4.3", "ISJL reaches CR(γ) of the optimum", _isjl_gamma, least_alpha=1),
    "theorem_4_3_b2": Claim(
        "Theorem 4.3, B = 2",
        "ISJL reaches CR(γ) of the optimum",
        _isjl_gamma,
        batch_sizes=(2,),
        least_alpha=1,
    ),
    "section_3_3_fairness": Claim(
        "Section 3.3", "Algorithm 3 as printed keeps every gap within α", _fair("isjl_literal")
    ),
    "our_reading_is_fair": Claim("our reading", "ISJL with the guard is fair", _fair("isjl")),
    "theorem_3_21": Claim("Theorem 3.21", "Robust-ISJL is fair", _fair("robust"), needs_bounds=True),
    "theorem_3_22": Claim(
        "Theorem 3.22", "Robust-ISJL is within 4/3 (OPT + Δpack)", _robust, needs_bounds=True
    ),
    "theorem_3_22_step_1": Claim(
        "Theorem 3.22, proof",
        "shorter realised jobs never lengthen the schedule planned on upper bounds",
        _longer_residual,
        needs_bounds=True,
    ),
    "theorem_3_22_step_3": Claim(
        "Theorem 3.22, proof", "OPT(I_u) <= OPT(I) + Δpack", _robust_step, needs_bounds=True
    ),
    "corollary_3_24": Claim(
        "Corollary 3.24", "Robust-ISJL reaches (3/4)/(1 + B ε̄)", _robust_slack, needs_bounds=True
    ),
    "theorem_5_1": Claim("Theorem 5.1", "cost splits exactly, E <= αO", _decomposition),
    "theorem_5_2": Claim("Theorem 5.2, eq. 11", "ISJL loses at most cT*/3 + ταO of profit", _profit),
    "proposition_5_3": Claim("Proposition 5.3", "LJF has no externality", _ljf_externality),
    "equations_13_14": Claim(
        "Proposition 5.3, eqs. 13 and 14", "ISJL earns what α promises over LJF and FCFS", _pairwise
    ),
    "corollary_5_5": Claim("Corollary 5.5", "the certificate is never above the profit", _certificate),
    "section_7_matching": Claim(
        "Section 7", "N - K(B-1) jobs fill batches of like length", _matching, least_alpha=1
    ),
    "proposition_5_6": Claim("Proposition 5.6", "the fair optimum never grows with α", _nested),
    "isjl_monotone": Claim("expected of 5.6", "ISJL itself never grows with α", _monotone),
    "isjl_not_slower": Claim("expected of 5.2", "ISJL is never slower than LJF", _not_slower("isjl")),
    "slack_not_slower": Claim("slack", "slack is never slower than LJF", _not_slower("slack")),
    "lower_bound": Claim("lower bounds", "no fair schedule beats makespan_bound", _bound),
}
