"""Speed of the serial engine against simpy and ciw, of the slider path, and of compiling."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import clairvoyant_lab as cl
from clairvoyant_lab.simulation.replicates import Replicates
from clairvoyant_lab.simulation.workloads import paper_mix

N = 100_000
TAU_S = 10.5
_FIRST_CALL = """
import time
import clairvoyant_lab as cl
trace = cl.Trace.from_arrays([0, 1, 2], [1, 2, 3], [0.1, 0.2, 0.3])
policy = cl.serial_policy("sjf", 5.0)
wall, cpu = time.perf_counter(), time.process_time()
cl.simulate_serial(trace, policy)
print(time.perf_counter() - wall, time.process_time() - cpu)
"""


def run() -> list[dict[str, Any]]:
    """Time n = 100,000 under SJF + τ against the peers, 2,000 x 5 seeds x one τ, and the first call."""
    trace = cl.Trace.from_poisson(N, paper_mix(1.0), rho=0.74, seed=0, accuracy=0.95)
    sjf, fcfs = cl.serial_policy("sjf", TAU_S), cl.serial_policy("fcfs")
    ours = _cpu_s(lambda: cl.simulate_serial(trace, sjf), 7)
    plain = _cpu_s(lambda: cl.simulate_serial(trace, sjf, engine="plain"), 1)
    rows = [
        _row("simulate_serial sjf + τ, plain engine as peer", ours, plain, None, "s", ""),
        _against_simpy(trace, ours),
        _against_ciw(trace, ours, _cpu_s(lambda: cl.simulate_serial(trace, fcfs), 7)),
    ]
    traces = Replicates.poisson(2_000, paper_mix(1.0), rho=0.74, seeds=range(5), accuracy=0.95)
    ranks_made = traces.percentiles(sjf)
    assert ranks_made.values_s.shape[2] == 5
    one = _cpu_s(lambda: [cl.simulate_serial(t, sjf) for t in traces.traces], 30)
    slider = _cpu_s(lambda: traces.percentiles(cl.serial_policy("sjf", 12.0)), 30)
    rows.append(_row("2,000 x 5 seeds x one τ, simulate_serial", one * 1e3, None, 5.0, "ms", ""))
    rows.append(_row("2,000 x 5 seeds x one τ, to percentiles", slider * 1e3, None, 5.0, "ms", "slider path"))
    with tempfile.TemporaryDirectory() as cache:
        for name, target in (("first call, empty cache", 3.0), ("first call, next process", None)):
            done = subprocess.run(
                [sys.executable, "-c", _FIRST_CALL], env={**os.environ, "NUMBA_CACHE_DIR": cache},
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            wall, cpu = map(float, done.stdout.split())
            rows.append(_row(name, wall, None, target, "s", f"{cpu:.2f} s of CPU; numba's import included"))
    return rows


def _against_simpy(trace: cl.Trace, ours: float) -> dict[str, Any]:
    try:
        import simpy
    except ImportError:
        return _row("simpy PriorityResource", ours, None, 150.0, "s", "not run: pip install simpy")
    arrival, service = trace.arrival_s.tolist(), trace.service_s.tolist()
    score = np.asarray(trace.score).tolist()
    waits = np.empty(N)

    def request(env: Any, server: Any, row: int) -> Any:
        with server.request(priority=score[row]) as turn:
            yield turn
            waits[row] = env.now - arrival[row]
            yield env.timeout(service[row])

    def source(env: Any, server: Any) -> Any:
        for row in range(N):
            yield env.timeout(arrival[row] - env.now)
            env.process(request(env, server, row))

    def simulate() -> None:
        env = simpy.Environment()
        env.process(source(env, simpy.PriorityResource(env, capacity=1)))
        env.run()

    peer = _cpu_s(simulate, 1)
    # simpy has no starvation timeout, so it does less; on plain SJF both must agree
    expected = cl.simulate_serial(trace, "sjf").wait_s
    agree = float(np.abs(waits - expected).max())
    return _row("simulate_serial sjf + τ / simpy PriorityResource", ours, peer, 150.0, "s",
                f"n = 100,000; simpy without τ; waits agree on SJF to {agree:.1g} s")  # fmt: skip


def _against_ciw(trace: cl.Trace, ours: float, fcfs: float) -> dict[str, Any]:
    try:
        import ciw
    except ImportError:
        return _row("ciw FCFS", ours, None, 300.0, "s", "not run: pip install ciw")
    gaps = np.diff(trace.arrival_s, prepend=0.0).tolist()
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Sequential([*gaps, float("inf")])],
        service_distributions=[ciw.dists.Sequential(trace.service_s.tolist())],
        number_of_servers=[1],
    )

    def simulate() -> None:
        ciw.seed(0)
        simulation = ciw.Simulation(network)
        simulation.simulate_until_max_customers(N, method="Finish")

    peer = _cpu_s(simulate, 1)
    return _row("simulate_serial sjf + τ / ciw FCFS", ours, peer, 300.0, "s",
                f"n = 100,000; our FCFS takes {fcfs * 1e3:.1f} ms")  # fmt: skip


def _cpu_s(call: Callable[[], object], repeats: int) -> float:
    times = []
    if repeats > 1:
        call()
    for _ in range(repeats):
        # CPU time: all of these run on one thread, and a busy machine would spoil the ratios
        began = time.process_time()
        call()
        times.append(time.process_time() - began)
    return float(np.median(times))


def _row(
    bench: str, ours: float, peer: float | None, target: float | None, unit: str, note: str
) -> dict[str, Any]:
    return {
        "bench": bench, "ours": ours, "peer": peer, "ratio": None if peer is None else peer / ours,
        "unit": unit, "target": target, "note": note,
    }  # fmt: skip


if __name__ == "__main__":
    for row in run():
        print(row)
