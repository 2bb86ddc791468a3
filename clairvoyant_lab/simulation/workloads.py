"""Workloads: arrivals (Poisson, burst, on/off) with service times from a model, and the papers' own.

Every generator splits its seed into four streams (arrivals, classes, service times, score), so two traces of
one seed share what they can: another load stretches the same arrivals, another C_s² the same service times.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.errors import ParameterError, is_finite_number
from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.simulation.scores import noisy_score
from clairvoyant_lab.simulation.service_times import ServiceModel, ServiceTime, mixture
from clairvoyant_lab.simulation.trace import Trace

__all__ = ["burst_trace", "on_off_trace", "paper_mix", "poisson_trace"]

PAPER_SHORT_S = 3.5
PAPER_LONG_S = 8.9


def paper_mix(cs2: float = 0.2, kind: str = "gamma", share_long: float = 0.5) -> ServiceModel:
    """The mix that section 5.6's artefacts were made with: short 3.5 s, long 8.9 s, E[S] = 6.2 s.

    The paper doesn't state it; it was found by re-simulation (it gives both Figure 3 and Table 10).

    Parameters
    ----------
    cs2 : float
        Squared coefficient of variation within each class: about 0.2 in Figure 3; 0.5, 1, 2 in Table 10.
    kind : {"gamma", "lognormal", "deterministic"}
    share_long : float
        Share of long requests.
    """
    if not 0.0 <= share_long <= 1.0:
        raise ParameterError("share_long", share_long, "give a share from 0 to 1")
    return mixture(
        {
            LengthClass.SHORT: (1.0 - share_long, ServiceTime(kind, PAPER_SHORT_S, cs2)),
            LengthClass.LONG: (share_long, ServiceTime(kind, PAPER_LONG_S, cs2)),
        },
        name="mix of section 5.6",
    )


def poisson_trace(
    n: int,
    service: ServiceModel,
    *,
    rho: float | None = None,
    rate_per_s: float | None = None,
    seed: int | np.random.Generator,
    accuracy: float | None = None,
) -> Trace:
    """Poisson arrivals.

    Parameters
    ----------
    n : int
        Requests.
    service : ServiceModel
    rho : float
        Load λ·E[S], more than 0; 1 or more is allowed, the queue then grows with n.
    rate_per_s : float
        λ, instead of `rho`.
    seed : int or Generator
    accuracy : float, optional
        Add a score with this ranking accuracy (see `scores.noisy_score`); needs a model with classes.

    Returns
    -------
    Trace
    """
    rate = _rate(service, rho, rate_per_s)
    streams = _streams(seed)
    arrival = np.cumsum(-np.log1p(-streams[0].random(_count(n)))) / rate
    return _compose(
        arrival, service, streams, accuracy, f"Poisson, {rate:.5g} /s, n = {n}, {_seed_text(seed)}"
    )


def burst_trace(
    n: int, service: ServiceModel, *, seed: int | np.random.Generator, accuracy: float | None = None
) -> Trace:
    """All requests at time 0, in random order, each class in its exact share of n (sections 5.3, 5.4).

    Parameters
    ----------
    n : int
    service : ServiceModel
    seed : int or Generator
    accuracy : float, optional
        Add a score with this ranking accuracy.
    """
    streams = _streams(seed)
    arrival = np.zeros(_count(n))
    return _compose(arrival, service, streams, accuracy, f"burst, n = {n}, {_seed_text(seed)}", exact=True)


def on_off_trace(
    n: int,
    service: ServiceModel,
    *,
    rho: float,
    on_s: float,
    off_s: float,
    seed: int | np.random.Generator,
    accuracy: float | None = None,
) -> Trace:
    """Arrivals that come and go: Poisson while on, nothing while off, exponential on and off times.

    Parameters
    ----------
    n : int
    service : ServiceModel
    rho : float
        Mean load over on and off times.
    on_s, off_s : float
        Mean length of a busy and a quiet period in seconds; off_s = 0 is plain Poisson.
    seed : int or Generator
    accuracy : float, optional
        Add a score with this ranking accuracy.
    """
    if not (np.isfinite(on_s) and on_s > 0):
        raise ParameterError("on_s", on_s, "give seconds, more than 0")
    if not (np.isfinite(off_s) and off_s >= 0):
        raise ParameterError("off_s", off_s, "give seconds, 0 or more")
    rate = _rate(service, rho, None)
    streams = _streams(seed)
    clock, pauses = streams[0].spawn(2)
    busy_rate = rate * (on_s + off_s) / on_s
    busy_time = np.cumsum(clock.exponential(1.0 / busy_rate, _count(n)))
    ends: list[float] = []
    while not ends or ends[-1] <= busy_time[-1]:
        ends.append((ends[-1] if ends else 0.0) + pauses.exponential(on_s))
    quiet = np.concatenate(
        [[0.0], np.cumsum(pauses.exponential(off_s, len(ends)) if off_s else np.zeros(len(ends)))]
    )
    arrival = busy_time + quiet[np.searchsorted(np.asarray(ends), busy_time, side="left")]
    name = f"on/off {on_s:g}/{off_s:g} s, {rate:.5g} /s, n = {n}, {_seed_text(seed)}"
    return _compose(arrival, service, streams, accuracy, name)


def _compose(
    arrival: NDArray[np.float64],
    service: ServiceModel,
    streams: list[np.random.Generator],
    accuracy: float | None,
    source: str,
    exact: bool = False,
) -> Trace:
    _, choose, draw, noise = streams
    service_s, length_class = service.sample(arrival.size, choose, draw, exact_shares=exact)
    score = None
    if accuracy is not None:
        if length_class is None:
            raise ParameterError(
                "accuracy", accuracy, "a ranking accuracy needs a service model with classes"
            )
        score = noisy_score(length_class, accuracy, noise)
        source += f", ranking accuracy {accuracy:g}"
    return Trace(
        arrival, service_s, score, length_class=length_class, source=source, service_model=service.describe()
    )


def _count(n: int) -> int:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ParameterError("n", n, "give a whole number, 1 or more")
    return int(n)


def _rate(service: ServiceModel, rho: float | None, rate_per_s: float | None) -> float:
    if not isinstance(service, ServiceModel):
        raise ParameterError("service", service, "give a ServiceModel, e.g. gamma(6.2, cs2=1.0)")
    if (rho is None) == (rate_per_s is None):
        raise ParameterError("rho", rho, "give either rho or rate_per_s")
    if rho is not None:
        if not (is_finite_number(rho) and rho > 0):
            raise ParameterError("rho", rho, "give a load, more than 0")
        return float(rho) / service.mean_s
    assert rate_per_s is not None
    if not (is_finite_number(rate_per_s) and rate_per_s > 0):
        raise ParameterError("rate_per_s", rate_per_s, "give requests per second, more than 0")
    return float(rate_per_s)


def _streams(seed: int | np.random.Generator) -> list[np.random.Generator]:
    try:
        return np.random.default_rng(seed).spawn(4)
    except (TypeError, ValueError):
        raise ParameterError("seed", seed, "give a whole number, 0 or more, or a Generator") from None


def _seed_text(seed: int | np.random.Generator) -> str:
    return "a generator" if isinstance(seed, np.random.Generator) else f"seed {seed}"
