"""Benchmarks in virtual time: the setups of sections 5.3 to 5.5 on any hardware profile, in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from clairvoyant_lab.bench.report import BenchReport, BenchSample
from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.scheduling.serial import SerialPolicy, serial_policy
from clairvoyant_lab.simulation.profiles import HardwareProfile, hardware_profile
from clairvoyant_lab.simulation.scores import noisy_score
from clairvoyant_lab.simulation.serial import SerialRun, simulate_serial
from clairvoyant_lab.simulation.trace import Trace
from clairvoyant_lab.simulation.workloads import burst_trace, poisson_trace

__all__ = ["bench_burst", "bench_poisson", "bench_replay", "trace_at_load"]

Policies = Sequence[SerialPolicy | str]


def bench_burst(
    profile: str | HardwareProfile,
    n_short: int = 50,
    n_long: int = 50,
    n_medium: int = 0,
    policies: Policies = ("fcfs", "sjf"),
    *,
    runs: int = 5,
    accuracy: float = 1.0,
    seed: int = 0,
    slots: int = 1,
) -> BenchReport:
    """All requests at once (sections 5.3 and 5.4: 50 short and 50 long, 5 runs).

    Parameters
    ----------
    profile : str or HardwareProfile
        See `simulation.profiles.profile_names`.
    n_short, n_long, n_medium : int
        Requests of each class, in random order.
    policies : sequence of SerialPolicy or str
        The first is the base of all cuts.
    runs : int
        Repetitions; each draws its own requests, the same for every policy.
    accuracy : float
        Ranking accuracy (eq. 2) of the score; 1: no short request is ranked behind a long one.
    seed : int
    slots : int

    Returns
    -------
    BenchReport
    """
    hardware = hardware_profile(profile)
    counts: dict[LengthClass | int, float] = {
        LengthClass.SHORT: n_short,
        LengthClass.MEDIUM: n_medium,
        LengthClass.LONG: n_long,
    }
    for length_class, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
            raise ParameterError(
                f"n_{LengthClass(length_class).name.lower()}", count, "give a whole number, 0 or more"
            )
    total = n_short + n_medium + n_long
    model = hardware.service_model(counts)  # refuses all zeros

    def make(run: int) -> Trace:
        return burst_trace(total, model, seed=_seed(seed, run), accuracy=accuracy)

    parameters = {"n_short": n_short, "n_medium": n_medium, "n_long": n_long, "accuracy": accuracy}
    return _run("burst", hardware.name, make, policies, runs, slots, parameters | {"seed": seed})


def bench_poisson(
    profile: str | HardwareProfile,
    rho: float = 0.74,
    n: int = 2000,
    policies: Policies = ("fcfs", "sjf"),
    *,
    runs: int = 5,
    accuracy: float = 0.95,
    seed: int = 0,
    slots: int = 1,
) -> BenchReport:
    """Poisson arrivals at a load, the profile's own class shares (sections 5.5 and 5.6).

    Parameters are those of `bench_burst`; `rho` is the load, `n` the requests of each run.
    """
    hardware = hardware_profile(profile)
    model = hardware.service_model()

    def make(run: int) -> Trace:
        return poisson_trace(n, model, rho=rho, seed=_seed(seed, run), accuracy=accuracy)

    parameters = {"rho": rho, "n": n, "accuracy": accuracy, "seed": seed}
    return _run("poisson", hardware.name, make, policies, runs, slots, parameters)


def bench_replay(
    trace: Trace,
    policies: Policies = ("fcfs", "sjf"),
    *,
    rho: float | None = None,
    accuracy: float | None = None,
    runs: int = 1,
    seed: int = 0,
    slots: int = 1,
) -> BenchReport:
    """Replay a trace under each policy.

    Parameters
    ----------
    trace : Trace
    policies : sequence of SerialPolicy or str
    rho : float, optional
        Stretch or squeeze the arrival times to this load; None keeps them.
    accuracy : float, optional
        Give the requests a score of this ranking accuracy, anew in each run; None keeps the trace's score.
    runs, seed, slots : int
        Runs differ only in the drawn score.
    """
    base = trace if rho is None else trace_at_load(trace, rho)
    if accuracy is None and runs != 1:
        raise ParameterError("runs", runs, "without a drawn score every run is the same: give 1")

    def make(run: int) -> Trace:
        if accuracy is None:
            return base
        if base.length_class is None:
            raise ParameterError("accuracy", accuracy, "the trace has no classes to rank")
        return base.with_columns(score=noisy_score(base.length_class, accuracy, _seed(seed, run)))

    parameters = {"trace": trace.source, "rho": rho, "accuracy": accuracy, "seed": seed}
    return _run("replay", trace.service_model, make, policies, runs, slots, parameters)


def trace_at_load(trace: Trace, rho: float) -> Trace:
    """Scale a trace's arrival times so that its load is `rho`; service times stay.

    Raises
    ------
    ParameterError
        For a load that isn't positive, or a trace without a time span.
    """
    if not (np.isfinite(rho) and rho > 0):
        raise ParameterError("rho", rho, "give a load, more than 0")
    load = trace.load
    if load is None or load == 0:
        raise ParameterError("trace", trace.source, "all requests arrive at once: it has no load to scale")
    scaled = (trace.arrival_s - trace.arrival_s[0]) * (load / rho)
    return trace.with_columns(arrival_s=scaled, source=f"{trace.source}, scaled to load {rho:g}")


def _run(
    kind: str,
    profile: str,
    make: Callable[[int], Trace],
    policies: Policies,
    runs: int,
    slots: int,
    parameters: Mapping[str, object],
) -> BenchReport:
    if isinstance(runs, bool) or not isinstance(runs, int | np.integer) or runs < 1:
        raise ParameterError("runs", runs, "give a whole number, 1 or more")
    chosen = [p if isinstance(p, SerialPolicy) else serial_policy(p) for p in policies]
    if not chosen or len({p.label for p in chosen}) != len(chosen):
        raise ParameterError("policies", list(policies), "give at least one policy, each once")
    samples = []
    for run in range(runs):
        trace = make(run)
        samples += [_sample(simulate_serial(trace, policy, slots), run) for policy in chosen]
    return BenchReport(
        kind, "simulate", profile, tuple(samples), {**parameters, "runs": runs, "slots": slots}
    )


def _sample(run: SerialRun, number: int) -> BenchSample:
    rows = run.measured
    classes = run.trace.length_class
    return BenchSample(
        policy=run.policy.label,
        run=number,
        length_class=None if classes is None else classes[rows],
        wait_s=run.wait_s[rows],
        sojourn_s=run.sojourn_s[rows],
        promoted=run.promoted[rows],
        makespan_s=run.makespan_s,
        unfinished=run.censored,
    )


def _seed(seed: int, run: int) -> np.random.Generator:
    return np.random.default_rng([seed, run])
