"""Speed of the batch engine against its plain-Python twin, measures included, and of the exact optimum."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import clairvoyant_lab as cl
from clairvoyant_lab.scheduling.optimum import batch_optimum, exhaustive_optimum
from clairvoyant_lab.simulation.batch_reference import reference_measure, reference_starts
from clairvoyant_lab.simulation.batch_workloads import lmsys_like_lengths

BATCH_SIZE = 32
ALPHA = 100
TARGET_MS = {2_000: 1.0, 100_000: 50.0}


def run() -> list[dict[str, Any]]:
    """Time `simulate_batch` at n = 2,000 and 100,000, the Python engine at 2,000, and CP-SAT."""
    rows: list[dict[str, Any]] = []
    small = lmsys_like_lengths(2_000, 0)
    large = np.random.default_rng(0).integers(1, 1001, 100_000)
    release = np.sort(np.random.default_rng(1).integers(0, int(large.sum()) // BATCH_SIZE, large.size))
    for name in ("fcfs", "sjf", "ljf", "isjl", "slack", "robust", "online"):
        policy = cl.batch_policy(name, alpha=ALPHA)
        keywords = {"upper_bounds": small + 20} if name == "robust" else {}
        ours = _best_ms(lambda p=policy, k=keywords: cl.simulate_batch(small, p, BATCH_SIZE, **k), 30)
        peer = _best_ms(lambda n=name, k=keywords: _plain(n, small, k.get("upper_bounds")), 1)
        rows.append(_row(f"simulate_batch {name}, n = 2,000", ours, peer, 1.0, "peer: plain Python engine"))
        keywords = {"upper_bounds": large + 20} if name == "robust" else {}
        if name == "online":
            keywords = {"release_steps": release}
        ours = _best_ms(lambda p=policy, k=keywords: cl.simulate_batch(large, p, BATCH_SIZE, **k), 20)
        note = "with arrivals over time" if name == "online" else ""
        rows.append(_row(f"simulate_batch {name}, n = 100,000", ours, None, 50.0, note))
    return [*rows, _optimum()]


def _optimum() -> dict[str, Any]:
    rng = np.random.default_rng(2)
    instances = [(rng.integers(1, 9, 6), int(rng.integers(2, 4)), int(rng.integers(0, 9))) for _ in range(20)]
    for lengths, size, alpha in instances:
        assert (
            batch_optimum(lengths, size, alpha).makespan_steps
            == exhaustive_optimum(lengths, size, alpha).makespan_steps
        )
    ours = _best_ms(lambda: [batch_optimum(*instance) for instance in instances], 1) / len(instances)
    peer = _best_ms(lambda: [exhaustive_optimum(*instance) for instance in instances], 1) / len(instances)
    return _row("exact optimum, 6 jobs", ours, peer, None, "peer: exhaustive search; they agree")


def _plain(name: str, lengths: np.ndarray, upper: np.ndarray | None) -> None:
    starts = reference_starts(
        name, lengths.tolist(), BATCH_SIZE, ALPHA, None, None if upper is None else upper.tolist()
    )
    reference_measure(starts, lengths.tolist(), BATCH_SIZE, ALPHA)


def _row(bench: str, ours: float, peer: float | None, target: float | None, note: str) -> dict[str, Any]:
    return {
        "bench": bench,
        "ours": ours,
        "peer": peer,
        "ratio": None if peer is None else peer / ours,
        "unit": "ms",
        "target": target,
        "note": note,
    }


def _best_ms(call: Callable[[], Any], times: int) -> float:
    call()
    best = float("inf")
    for _ in range(times):
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return 1_000 * best


if __name__ == "__main__":
    for row in run():
        ours, peer, ratio, target = (
            "" if row[key] is None else f"{row[key]:,.2f}" for key in ("ours", "peer", "ratio", "target")
        )
        print(
            f"{row['bench']:<44} {ours:>9} {row['unit']:<3} target {target:>6}   peer {peer:>10}"
            f"   ratio {ratio:>9}   {row['note']}"
        )
