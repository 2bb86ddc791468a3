"""Short requests behind long ones, over real HTTP: what the proxy's order is worth on a real backend.

One short request runs; then short and long ones come at once, in random order. Each policy gets the same
requests in the same order, through a proxy of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clairvoyant_lab.bench.report import BenchReport, BenchSample
from clairvoyant_lab.bench.traffic import (
    PROMPTS_SHORT,
    Timed,
    ask,
    http_client,
    request_bodies,
    run_apart,
    sample_of,
)
from clairvoyant_lab.errors import ParameterError, unknown_name
from clairvoyant_lab.scheduling.serial import serial_policy
from clairvoyant_lab.simulation.serial import simulate_serial
from clairvoyant_lab.simulation.trace import Trace

if TYPE_CHECKING:
    from clairvoyant_lab.serving.forecast import Predicting

__all__ = [
    "bench_emulated_burst",
    "bench_overtaking",
    "measured_burst",
    "with_oracle",
]


def bench_overtaking(
    backend_url: str,
    policies: Sequence[str] = ("fcfs", "sjf_tokens"),
    *,
    n_short: int = 6,
    n_long: int = 6,
    short_cap: int | None = 12,
    long_cap: int | None = 300,
    runs: int = 3,
    predictor: Predicting | None = None,
    speedup: float = 1.0,
    emulated_tokens: tuple[int, int] | None = None,
    seed: int = 0,
    timeout_s: float = 900.0,
) -> BenchReport:
    """Measure a burst of short and long requests behind one that runs, under each policy.

    Parameters
    ----------
    backend_url : str
        An OpenAI-compatible serial backend, such as `LocalServer().url`.
    policies : sequence of str
        The first is the base of all cuts.
    n_short, n_long : int
        Requests of each kind in the burst.
    short_cap, long_cap : int or None
        `max_tokens`; with None the model decides, and the prompts alone tell the proxy.
    runs : int
        Repetitions, each in a random order of its own that all policies share.
    predictor : Predicting, optional
        Instead of the default model.
    speedup : float
        Of an emulated backend: times are multiplied by it.
    emulated_tokens : (int, int), optional
        Lengths of short and long answers that an emulated backend is asked for.
    seed : int
        Orders of arrival.
    timeout_s : float
        For one answer, waiting included.

    Returns
    -------
    BenchReport
        Times in seconds from the burst's arrival; the request that ran before it is not in it.

    Raises
    ------
    BackendError
        If an answer fails.
    """
    if min(n_short, n_long) < 0 or n_short + n_long < 1 or runs < 1:
        raise ParameterError("n_short", (n_short, n_long, runs), "give counts, and 1 run or more")
    from clairvoyant_lab.serving import ThreadedStack
    from clairvoyant_lab.serving.proxy import load_model

    model = load_model("sharegpt-rich") if predictor is None else predictor
    samples = []
    for run in range(runs):
        order = np.random.default_rng([seed, run]).permutation([False] * n_short + [True] * n_long)
        bodies = request_bodies(order, short_cap, long_cap, emulated_tokens)
        for policy in policies:
            with ThreadedStack(backend_url, predictor=model, policy=serial_policy(policy)) as stack:
                began = time.monotonic()
                timed = run_apart(_burst(stack.url, bodies, order, speedup, timeout_s))
                makespan = (time.monotonic() - began) * speedup
            samples.append(sample_of(policy, run, timed, makespan))
    parameters = {
        "n_short": n_short,
        "n_long": n_long,
        "short_cap": short_cap,
        "long_cap": long_cap,
        "seed": seed,
    }
    mode = "live" if emulated_tokens is None else "emulate"
    return BenchReport("burst", mode, backend_url, tuple(samples), parameters)


def bench_emulated_burst(
    profile: str = "m1",
    policies: Sequence[str] = ("fcfs", "sjf_tokens"),
    *,
    n_short: int = 6,
    n_long: int = 6,
    short_tokens: int = 60,
    long_tokens: int = 900,
    capped: bool = False,
    runs: int = 3,
    speedup: float = 50.0,
    seed: int = 0,
) -> BenchReport:
    """`bench_overtaking` on an emulated backend at a profile's pace: real HTTP, in a fraction of the time.

    Parameters
    ----------
    profile : str
        Machine whose pace is kept.
    short_tokens, long_tokens : int
        Lengths of the answers.
    capped : bool
        Tell the proxy by `max_tokens`; else the prompts alone tell it.
    speedup : float
        Times faster than the machine; the report's times are the machine's.
    policies, n_short, n_long, runs, seed
        As for `bench_overtaking`.
    """
    from clairvoyant_lab.serving.threaded import ThreadedEmulator

    caps = (short_tokens, long_tokens) if capped else (None, None)
    with ThreadedEmulator(profile=profile, speedup=speedup) as backend:
        report = bench_overtaking(
            backend.url,
            policies,
            n_short=n_short,
            n_long=n_long,
            short_cap=caps[0],
            long_cap=caps[1],
            runs=runs,
            speedup=speedup,
            emulated_tokens=(short_tokens, long_tokens),
            seed=seed,
        )
    return BenchReport(report.kind, "emulate", profile, report.samples, report.parameters)


def measured_burst(
    mode: str,
    backend_url: str | None = None,
    *,
    profile: str = "m1",
    policies: Sequence[str] = ("fcfs", "sjf_tokens"),
    runs: int = 2,
    speedup: float = 50.0,
    seed: int = 0,
) -> BenchReport | None:
    """A burst over HTTP by mode, for notebooks: None for `simulate`.

    Parameters
    ----------
    mode : {"simulate", "emulate", "live"}
        `emulate`: an emulated backend at the profile's pace; `live`: what answers at `backend_url`.
    backend_url : str, optional
        Needed by `live`.
    profile, policies, runs, speedup, seed
        As for `bench_emulated_burst`.

    Raises
    ------
    ParameterError
        For an unknown mode, or `live` without a URL.
    """
    if mode not in ("simulate", "emulate", "live"):
        raise unknown_name("mode", mode, ("simulate", "emulate", "live"))
    if mode == "simulate":
        return None
    if mode == "emulate":
        return bench_emulated_burst(profile, policies, runs=runs, speedup=speedup, seed=seed)
    if backend_url is None:
        raise ParameterError("backend_url", None, "mode 'live' needs it, such as http://127.0.0.1:11434")
    return bench_overtaking(backend_url, policies, runs=runs, seed=seed)


def with_oracle(report: BenchReport, base: str) -> BenchReport:
    """Add what the oracle's order would have given with the service times measured under one policy.

    Parameters
    ----------
    report : BenchReport
        Of `bench_overtaking`.
    base : str
        The policy whose measured service times are used.
    """
    added = []
    for sample in report.samples:
        if sample.policy != base:
            continue
        # the burst waits for what runs; the soonest start is when that ended, and from then on a serial
        # backend is busy, so an answer took from the end of the one before to its own
        head = float(sample.wait_s.min())
        order = np.argsort(sample.sojourn_s, kind="stable")
        service = np.empty(order.size)
        service[order] = np.diff(sample.sojourn_s[order], prepend=head)
        trace = Trace.from_arrays(np.zeros(service.size), service, length_class=sample.length_class)
        run = simulate_serial(trace, serial_policy("oracle"))
        added.append(
            BenchSample(
                policy="oracle",
                run=sample.run,
                length_class=sample.length_class,
                wait_s=run.wait_s + head,
                sojourn_s=run.sojourn_s + head,
                promoted=np.zeros(service.size, dtype=np.bool_),
                makespan_s=float(run.sojourn_s.max()) + head,
            )
        )
    return BenchReport(report.kind, report.mode, report.profile, (*report.samples, *added), report.parameters)


async def _burst(
    url: str, bodies: list[dict[str, Any]], order: Any, speedup: float, timeout_s: float
) -> list[Timed]:
    async with http_client(url, len(bodies), timeout_s) as client:
        first = dict(bodies[0]) | {"messages": [{"role": "user", "content": PROMPTS_SHORT[0]}]}
        if "emulate" in first:
            # long enough, whatever the speed-up, that the burst has come before it ends
            first |= {"emulate": {"tokens": max(12, round(3.0 * speedup))}}
        else:
            first |= {"max_tokens": 12}
        running = asyncio.create_task(ask(client, first, False, speedup))
        while (await client.get("/clairvoyant/state")).json()["running"] == 0 and not running.done():
            await asyncio.sleep(0.005)
        tasks = []
        for body, long in zip(bodies, order, strict=True):
            tasks.append(asyncio.create_task(ask(client, body, bool(long), speedup)))
            await asyncio.sleep(0.001)  # so that they arrive in the order that was drawn
        await running
        return list(await asyncio.gather(*tasks))
