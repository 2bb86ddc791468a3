"""Simulation against theory: each formula within the simulation's own confidence interval."""

from __future__ import annotations

import numpy as np
import pytest

import clairvoyant_lab as cl
from clairvoyant_lab.scheduling import theory
from clairvoyant_lab.simulation.replicates import mean_interval
from clairvoyant_lab.simulation.service_times import (
    ServiceModel,
    ServiceTime,
    deterministic,
    empirical,
    exponential,
    gamma,
    lognormal,
    mixture,
)
from clairvoyant_lab.simulation.workloads import paper_mix, poisson_trace

RUNS, N = 16, 20_000


def simulated_means(
    service: ServiceModel, rho: float, policy: str, what: str, seed: int, runs: int = RUNS
) -> np.ndarray:
    means = []
    for run in range(runs):
        trace = poisson_trace(N, service, rho=rho, seed=np.random.default_rng([seed, run]))
        sim = cl.simulate_serial(trace, policy)
        # the first tenth starts from an empty queue: leave it out
        means.append(float(getattr(sim, what)[N // 10 :].mean()))
    return np.asarray(means)


def assert_within(expected: float, samples: np.ndarray) -> None:
    """Inside the 99.9 % interval: a right formula fails once in a thousand seeds, and seeds are fixed."""
    mean, low, high = mean_interval(samples, 0.999)
    assert low <= expected <= high, (expected, mean, low, high)
    assert (high - low) / mean < 0.5  # and the interval says something


@pytest.mark.parametrize("rho", [0.3, 0.6, 0.8])
@pytest.mark.parametrize("cs2", [0.0, 0.5, 1.0, 2.0])
def test_fcfs_waits_as_pollaczek_and_khinchine_say(rho: float, cs2: float) -> None:
    service = gamma(2.0, cs2) if cs2 else deterministic(2.0)
    expected = theory.pollaczek_khinchine_s(rho, 2.0, cs2)
    assert expected == pytest.approx(theory.fcfs_wait_s(service, rho))
    assert_within(expected, simulated_means(service, rho, "fcfs", "wait_s", seed=int(10 * rho + cs2)))


@pytest.mark.parametrize("rho", [0.5, 0.8])
@pytest.mark.parametrize(
    "service", [gamma(2.0, 0.5), exponential(2.0), lognormal(2.0, 2.0), paper_mix(0.2)], ids=str
)
def test_sjf_with_known_lengths_waits_as_phipps_says(rho: float, service: ServiceModel) -> None:
    assert_within(theory.sjf_wait_s(service, rho), simulated_means(service, rho, "oracle", "wait_s", seed=2))


@pytest.mark.parametrize("rho", [0.5, 0.8])
def test_srpt_takes_as_long_as_schrage_and_miller_say(rho: float) -> None:
    for service in (exponential(2.0), gamma(2.0, 2.0)):
        samples = simulated_means(service, rho, "srpt", "sojourn_s", seed=3, runs=8)
        mean, low, high = mean_interval(samples, 0.999)
        assert low <= theory.srpt_sojourn_s(service, rho) <= high, (mean, low, high)


@pytest.mark.parametrize("rho", [0.5, 0.74, 0.85])
def test_two_classes_with_a_perfect_score_wait_as_cobham_says(rho: float) -> None:
    short, long = ServiceTime("gamma", 3.5, 0.5), ServiceTime("gamma", 8.9, 0.5)
    service = mixture({cl.LengthClass.SHORT: (0.6, short), cl.LengthClass.LONG: (0.4, long)})
    classes = [(0.6, short.moment(1), short.moment(2)), (0.4, long.moment(1), long.moment(2))]
    expected = theory.cobham_waits_s(rho, classes)
    means: list[list[float]] = [[], []]
    for run in range(RUNS):
        trace = poisson_trace(N, service, rho=rho, seed=np.random.default_rng([5, run]))
        assert trace.length_class is not None
        sim = cl.simulate_serial(trace.with_columns(score=trace.length_class / 2.0), "sjf")
        for row, c in enumerate((cl.LengthClass.SHORT, cl.LengthClass.LONG)):
            own = np.flatnonzero(trace.length_class == c)
            means[row].append(float(sim.wait_s[own[own >= N // 10]].mean()))
    for row in range(2):
        assert_within(float(expected[row]), np.asarray(means[row]))


def test_mm1_quantiles() -> None:
    p95_sojourn, p95_wait = [], []
    for run in range(RUNS):
        trace = poisson_trace(N, exponential(2.0), rho=0.7, seed=np.random.default_rng([6, run]))
        sim = cl.simulate_serial(trace, "fcfs")
        p95_sojourn.append(float(np.percentile(sim.sojourn_s[N // 10 :], 95)))
        p95_wait.append(float(np.percentile(sim.wait_s[N // 10 :], 95)))
    assert_within(theory.mm1_sojourn_quantile_s(0.95, 0.7, 2.0), np.asarray(p95_sojourn))
    assert_within(theory.mm1_wait_quantile_s(0.95, 0.7, 2.0), np.asarray(p95_wait))
    assert theory.mm1_wait_quantile_s(0.2, 0.7, 2.0) == 0.0


def test_formulas_agree_where_they_must() -> None:
    rng = np.random.default_rng(8)
    measured = empirical(rng.gamma(2.0, 1.5, 400))
    for service in (deterministic(2.0), gamma(2.0, 0.7), lognormal(3.0, 1.5), measured, paper_mix(0.5)):
        fcfs = theory.fcfs_wait_s(service, 0.7)
        assert theory.pollaczek_khinchine_s(0.7, service.mean_s, service.cs2) == pytest.approx(fcfs)
        assert theory.sjf_wait_s(service, 0.7) <= fcfs * (1 + 1e-9)
    # one class, or one length: priorities make no difference
    one = theory.cobham_waits_s(0.7, [(1.0, 2.0, 4.0 * 1.7)])
    assert float(one[0]) == pytest.approx(theory.fcfs_wait_s(gamma(2.0, 0.7), 0.7))
    assert theory.sjf_wait_s(deterministic(2.0), 0.7) == pytest.approx(
        theory.fcfs_wait_s(deterministic(2.0), 0.7)
    )
    # conservation (Kleinrock): Σ ρ_k W_k is that of FCFS
    classes = [(0.3, 1.0, 2.0), (0.5, 4.0, 20.0), (0.2, 9.0, 100.0)]
    waits = theory.cobham_waits_s(0.8, classes)
    mean = sum(s * m for s, m, _ in classes)
    second = sum(s * m2 for s, _, m2 in classes)
    loads = np.asarray([0.8 * s * m / mean for s, m, _ in classes])
    fcfs = 0.8 / mean * second / 2 / 0.2
    assert float(loads @ waits) == pytest.approx(0.8 * fcfs)


@pytest.mark.parametrize(("kind", "cs2"), [("gamma", 0.5), ("gamma", 2.0), ("lognormal", 1.5)])
def test_moments_are_those_of_the_samples(kind: str, cs2: float) -> None:
    part = ServiceTime(kind, 3.0, cs2)
    values = part.quantile((np.arange(400_000) + 0.5) / 400_000)
    assert part.moment(1) == pytest.approx(3.0)
    assert part.moment(2) == pytest.approx(9.0 * (1 + cs2))
    assert values.mean() == pytest.approx(3.0, rel=1e-3)
    for k in (0, 1, 2):
        assert float(part.partial_moment(k, [4.0])[0]) == pytest.approx(
            float(np.mean(values**k * (values <= 4.0))), rel=1e-3
        )


def test_a_load_of_one_or_more_is_refused() -> None:
    for call in (
        lambda: theory.pollaczek_khinchine_s(1.0, 2.0, 1.0),
        lambda: theory.sjf_wait_s(gamma(2.0, 1.0), 1.2),
        lambda: theory.mm1_wait_quantile_s(0.5, float("nan"), 1.0),
        lambda: theory.pollaczek_khinchine_s("0.5", 2.0, 1.0),  # type: ignore[arg-type]
    ):
        with pytest.raises(cl.ParameterError, match=r"rho = .*below 1"):
            call()
    with pytest.raises(cl.ParameterError, match="at least one"):
        theory.cobham_waits_s(0.5, [])
