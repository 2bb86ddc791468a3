"""What is known about the policies: formulas, bounds, and claims that are checked on instances."""

from __future__ import annotations

from clairvoyant_lab.lazy import lazy_names

_HOMES = {
    "CLAIMS": "claims",
    "ClaimCheck": "claims",
    "KvMemory": "instances",
    "MatchingBound": "bounds",
    "PackedResidual": "residual",
    "SearchResult": "search",
    "alpha_cost": "bounds",
    "check_claim": "claims",
    "cobham_waits_s": "queueing",
    "cr_envelope": "ratios",
    "cr_over": "ratios",
    "cr_under": "ratios",
    "fcfs_wait_s": "queueing",
    "find_violation": "search",
    "isjl_b2_ratio": "ratios",
    "ljf_makespan": "bounds",
    "ljf_ratio": "ratios",
    "makespan_bound": "bounds",
    "makespan_bounds": "bounds",
    "matching_bound": "bounds",
    "mm1_sojourn_quantile_s": "queueing",
    "mm1_wait_quantile_s": "queueing",
    "online_adversary": "instances",
    "optimal_makespan": "claims",
    "optimum_ratios": "compare",
    "packed_residual": "residual",
    "pollaczek_khinchine_s": "queueing",
    "ratio_summary": "compare",
    "robust_ratio": "ratios",
    "sjf_wait_of_s": "queueing",
    "sjf_wait_s": "queueing",
    "srpt_sojourn_of_s": "queueing",
    "srpt_sojourn_s": "queueing",
    "wait_bound_s": "queueing",
}

__getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(_HOMES)
