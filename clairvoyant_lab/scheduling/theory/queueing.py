"""Queueing theory of one serial server: the lines that simulated points must fall on.

Arrivals are Poisson with rate λ, service times are independent with distribution F, ρ = λ E[S] < 1. A
service model is anything with `moment(k)` = E[S^k] and `partial_moment(k, x)` = E[S^k; S <= x], as
`clairvoyant_lab.simulation.service_times.ServiceModel` has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import ParameterError, is_finite_number

__all__ = [
    "cobham_waits_s",
    "fcfs_wait_s",
    "mm1_sojourn_quantile_s",
    "mm1_wait_quantile_s",
    "pollaczek_khinchine_s",
    "sjf_wait_of_s",
    "sjf_wait_s",
    "srpt_sojourn_of_s",
    "srpt_sojourn_s",
    "wait_bound_s",
]


class Moments(Protocol):
    """What a formula asks of a service-time distribution."""

    def moment(self, k: int) -> float:
        """E[S^k]."""
        ...

    def partial_moment(self, k: int, x: ArrayLike) -> NDArray[np.float64]:
        """E[S^k; S <= x]."""
        ...


def pollaczek_khinchine_s(rho: float, mean_s: float, cs2: float) -> float:
    """Mean wait under FCFS (eq. 1 of Clairvoyant): ρ E[S] (1 + C_s²) / (2 (1 - ρ)).

    Parameters
    ----------
    rho : float
        Load in [0, 1).
    mean_s : float
        Mean service time in seconds.
    cs2 : float
        Squared coefficient of variation of the service time.
    """
    load = _stable(rho)
    if not mean_s > 0:
        raise ParameterError("mean_s", mean_s, "give seconds, more than 0")
    if not cs2 >= 0:
        raise ParameterError("cs2", cs2, "give 0 or more")
    return load * mean_s * (1.0 + cs2) / (2.0 * (1.0 - load))


def fcfs_wait_s(service: Moments, rho: float) -> float:
    """Mean wait under FCFS in seconds (Pollaczek-Khinchine) for a service model."""
    return _residual_s(service, rho) / (1.0 - rho)


def cobham_waits_s(rho: float, classes: Sequence[tuple[float, float, float]]) -> NDArray[np.float64]:
    """Mean wait of each class under non-preemptive priorities (Cobham, 1954).

    Parameters
    ----------
    rho : float
        Total load in [0, 1).
    classes : sequence of (share, E[S], E[S²])
        Highest priority first; shares of the requests, adding to 1; seconds and seconds².

    Returns
    -------
    ndarray of float64, shape (classes,)
        Seconds.
    """
    load = _stable(rho)
    if len(classes) == 0:
        raise ParameterError("classes", classes, "give at least one (share, E[S], E[S²])")
    share, mean, second = (np.asarray(column, dtype=np.float64) for column in zip(*classes, strict=True))
    if np.any(share < 0) or abs(share.sum() - 1.0) > 1e-9:
        raise ParameterError("classes", share.tolist(), "give shares, 0 or more, that add to 1")
    rate = load / float(share @ mean)
    residual = rate * float(share @ second) / 2.0
    upto = np.concatenate([[0.0], np.cumsum(rate * share * mean)])
    return np.asarray(residual / ((1.0 - upto[:-1]) * (1.0 - upto[1:])))


def sjf_wait_of_s(service: Moments, rho: float, x_s: ArrayLike) -> NDArray[np.float64]:
    """Mean wait of a request of length x under non-preemptive SJF with known lengths (Phipps, 1956).

    λ E[S²] / 2 over (1 - ρ(x-)) (1 - ρ(x)), ρ(x) = λ E[S; S <= x].
    """
    x = np.asarray(x_s, dtype=np.float64)
    rate = _stable(rho) / service.moment(1)
    below = rate * service.partial_moment(1, np.nextafter(x, -np.inf))
    upto = rate * service.partial_moment(1, x)
    return np.asarray(_residual_s(service, rho) / ((1.0 - below) * (1.0 - upto)))


def sjf_wait_s(service: Moments, rho: float, points: int = 20_000) -> float:
    """Mean wait under non-preemptive SJF in seconds: `sjf_wait_of_s` averaged over F."""
    x, weight = _lengths(service, points)
    return float(weight @ sjf_wait_of_s(service, rho, x))


def srpt_sojourn_of_s(
    service: Moments, rho: float, x_s: ArrayLike, points: int = 20_000
) -> NDArray[np.float64]:
    """Mean sojourn time of a request of length x under preemptive SRPT (Schrage and Miller, 1966).

    λ (E[S²; S <= x] + x² (1 - F(x))) / (2 (1 - ρ(x))²) + ∫_0^x dt / (1 - ρ(t)); F without atoms.
    """
    x = np.asarray(x_s, dtype=np.float64)
    rate = _stable(rho) / service.moment(1)
    waiting = rate * (service.partial_moment(2, x) + x**2 * (1.0 - service.partial_moment(0, x)))
    grid = np.linspace(0.0, float(x.max()), points)
    inverse = 1.0 / (1.0 - rate * service.partial_moment(1, grid))
    step = grid[1] - grid[0]
    residence = np.concatenate([[0.0], np.cumsum((inverse[1:] + inverse[:-1]) / 2.0) * step])
    upto = 1.0 - rate * service.partial_moment(1, x)
    return np.asarray(waiting / (2.0 * upto**2) + np.interp(x, grid, residence))


def srpt_sojourn_s(service: Moments, rho: float, points: int = 20_000) -> float:
    """Mean sojourn time under preemptive SRPT in seconds: no policy has a smaller one."""
    x, weight = _lengths(service, points)
    return float(weight @ srpt_sojourn_of_s(service, rho, x, points))


def mm1_sojourn_quantile_s(q: float, rho: float, mean_s: float) -> float:
    """Quantile of the sojourn time of M/M/1 under FCFS: exponential with mean E[S] / (1 - ρ)."""
    _share(q)
    return -float(np.log1p(-q)) * mean_s / (1.0 - _stable(rho))


def mm1_wait_quantile_s(q: float, rho: float, mean_s: float) -> float:
    """Quantile of the wait of M/M/1 under FCFS: 0 with probability 1 - ρ, else exponential."""
    _share(q)
    load = _stable(rho)
    if q <= 1.0 - load:
        return 0.0
    return float(np.log(load / (1.0 - q))) * mean_s / (1.0 - load)


def wait_bound_s(
    fcfs_wait_s: ArrayLike, starvation_timeout_s: float, longest_service_s: float
) -> NDArray[np.float64]:
    """Bound on each wait on one slot under promotion `oldest`: W_i <= W_i(FCFS) + τ + S_max.

    Why: once request i has waited τ, nothing that came later is dispatched before it, except what began
    before that moment. Up to arrival + τ later requests may have taken at most τ plus one running service
    out of the work that FCFS would have done for i; after it, only earlier requests are served.

    Parameters
    ----------
    fcfs_wait_s : array_like of float
        Waits of the same requests under FCFS, in seconds.
    starvation_timeout_s : float
        τ.
    longest_service_s : float
        S_max.
    """
    if not starvation_timeout_s >= 0:
        raise ParameterError("starvation_timeout_s", starvation_timeout_s, "give seconds, 0 or more")
    return np.asarray(fcfs_wait_s, dtype=np.float64) + starvation_timeout_s + longest_service_s


def _stable(rho: float) -> float:
    if not (is_finite_number(rho) and 0.0 <= rho < 1.0):
        raise ParameterError(
            "rho", rho, "the formula needs a load from 0 to below 1; above it queues grow on"
        )
    return float(rho)


def _share(q: float) -> None:
    if not (is_finite_number(q) and 0.0 <= q < 1.0):
        raise ParameterError("q", q, "give a share from 0 to below 1, e.g. 0.95")


def _residual_s(service: Moments, rho: float) -> float:
    """λ E[S²] / 2: mean time until the running request ends, as an arrival sees it."""
    return _stable(rho) * service.moment(2) / service.moment(1) / 2.0


def _lengths(service: Any, points: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lengths with weights that stand for F: atoms where a part has them, quantiles of equal weight else."""
    parts = getattr(service, "parts", None) or ((1.0, service, None),)
    xs, weights = [], []
    middle = (np.arange(points) + 0.5) / points
    for share, part, _ in parts:
        if part.kind == "deterministic":
            x, weight = np.asarray([part.mean_s]), np.ones(1)
        elif part.kind == "empirical":
            x, counts = np.unique(np.asarray(part.values_s), return_counts=True)
            weight = counts / counts.sum()
        else:
            # a finer grid at the end, where long requests carry much of the mean
            tail = np.concatenate([middle, 1.0 - np.geomspace(0.5 / points, 1e-12, points // 4)])
            edges = np.concatenate([[0.0], (tail[1:] + tail[:-1]) / 2.0, [1.0]])
            x, weight = part.quantile(tail), np.diff(edges)
        xs.append(x)
        weights.append(share * weight)
    return np.concatenate(xs), np.concatenate(weights)
