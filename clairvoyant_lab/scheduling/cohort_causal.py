"""Plans under incomplete knowledge: release times that come as a surprise, and lengths known only by bounds.

A plan made on upper bounds stays fair when jobs end early, because overlaps only shrink. What early ends and
arrivals allow beyond it is tested exactly, on bounds, so that no later planned start can break:

* *closing up*: all planned starts move earlier by the same distance. Distances among them stay; towards a
  running job i, a moved start must be within alpha of i's start, or not before i's bound.
* *filling in*: a job starts now in an idle slot if every running job started at most alpha ago, every
  planned start within its bound is at most alpha ahead, and a slot stays free for it.

When the machine is empty and jobs wait, all unstarted jobs are planned anew; of that plan, the part is kept
that leaves the least idle when it has run out, within three times the longest job, since more may come.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.scheduling.cohort_offline import plan_offline
from clairvoyant_lab.scheduling.theory.bounds import makespan_bound

__all__ = ["plan_causal"]

Steps = NDArray[np.int64]

UNRELEASED, WAITING, PLANNED, RUNNING, DONE = 0, 1, 2, 3, 4
HORIZON = 3  # longest jobs


def plan_causal(
    lengths: Steps,
    batch_size: int,
    alpha: int,
    *,
    budget: int,
    seed: int,
    externality_weight: float,
    release_steps: Steps | None,
    upper_bounds: Steps | None,
) -> tuple[Steps, str, dict[str, object]]:
    """Carry out rolling plans.

    Parameters
    ----------
    lengths : ndarray of int64, shape (n,)
        Read only to see which running job has ended (and to plan, without `upper_bounds`).
    batch_size, alpha : int
    budget, seed, externality_weight
        See `plan_offline`; a plan's share of the budget goes by its number of jobs.
    release_steps, upper_bounds : ndarray of int64, shape (n,), optional

    Returns
    -------
    starts : ndarray of int64, shape (n,)
    method : str
    details : dict
        How many plans were made; jobs started by filling in; steps gained by closing up.
    """
    n = lengths.size
    upper = lengths if upper_bounds is None else upper_bounds
    release = np.zeros(n, dtype=np.int64) if release_steps is None else release_steps
    alpha = min(alpha, int(upper.max()))
    longest_first = np.argsort(-upper, kind="stable")
    arrivals = np.argsort(release, kind="stable")
    status = np.zeros(n, dtype=np.int8)
    begins = np.full(n, -1, dtype=np.int64)
    running = np.full(min(batch_size, n) + 1, -1, dtype=np.int64)
    counts = np.zeros(4, dtype=np.int64)  # arrived, running, filled in, closed up
    planned = np.zeros(0, dtype=np.int64)
    plans = 0
    t = int(release.min())
    while True:
        t = int(
            _advance(
                t,
                lengths,
                upper,
                release,
                arrivals,
                longest_first,
                status,
                begins,
                planned,
                running,
                counts,
                batch_size,
                alpha,
            )
        )
        if t < 0:
            break
        pending = np.flatnonzero((status == WAITING) | (status == PLANNED))
        plans += 1
        status[pending] = WAITING
        starts = _plan(
            upper[pending],
            batch_size,
            alpha,
            budget * pending.size // n,
            seed + plans,
            externality_weight,
            cut=int(counts[0]) < n or release_steps is not None,
        )
        kept = pending[starts >= 0]
        begins[kept] = t + starts[starts >= 0]
        status[kept] = PLANNED
        planned = kept[np.argsort(begins[kept], kind="stable")]
    details: dict[str, object] = {
        "plans": plans,
        "filled_in_jobs": int(counts[2]),
        "closed_up_steps": int(counts[3]),
    }
    return begins, "rolling plans", details


def _plan(
    upper: Steps,
    batch_size: int,
    alpha: int,
    budget: int,
    seed: int,
    externality_weight: float,
    *,
    cut: bool,
) -> Steps:
    """Starts relative to now; -1 for jobs that stay with the next plan."""
    if upper.size <= batch_size:
        return np.zeros(upper.size, dtype=np.int64)
    starts = plan_offline(
        upper,
        batch_size,
        alpha,
        budget=budget,
        seed=seed,
        externality_weight=externality_weight,
        lower_bound=makespan_bound(upper, batch_size, alpha),
    )[0].starts
    if not cut:
        return starts
    order = np.argsort(starts, kind="stable")
    ends = np.maximum.accumulate(starts[order] + upper[order])
    use = np.cumsum(upper[order]) / (ends * batch_size)
    # cut only between different starts, and at the earliest of equally good cuts
    last = np.append(np.diff(starts[order]) > 0, True)
    allowed = last & (ends <= max(HORIZON * int(upper.max()), int(ends[np.flatnonzero(last)[0]])))
    place = int(np.argmax(np.where(allowed, use, -1.0)))
    kept = starts.copy()
    kept[order[place + 1 :]] = -1
    return kept


@numba.njit(cache=True, nogil=True)
def _close_up(
    t: int,
    alpha: int,
    upper: Steps,
    status: NDArray[np.int8],
    begins: Steps,
    planned: Steps,
    running: Steps,
    count: int,
    batch_size: int,
) -> int:
    """Largest distance, of a few natural ones, by which all planned starts can move; it is applied."""
    first = -1
    for p in range(planned.size):
        if status[planned[p]] == PLANNED:
            first = p
            break
    if first < 0:
        return 0
    lead = begins[planned[first]]
    best = 0
    for option in range(count + 1):
        until = t if option == count else begins[running[option]] + upper[running[option]]
        distance = lead - until
        if until < t or distance <= best:
            continue
        fits = True
        latest = np.int64(0)
        for w in range(count):
            latest = max(latest, begins[running[w]] + upper[running[w]])
        for p in range(first, planned.size):
            job = planned[p]
            if status[job] != PLANNED:
                continue
            moved = begins[job] - distance
            if moved >= latest:
                break
            busy = 0
            for w in range(count):
                other = running[w]
                if begins[other] + upper[other] > moved:
                    busy += 1
                    if moved - begins[other] > alpha:
                        fits = False
            for q in range(first, p):
                other = planned[q]
                if status[other] == PLANNED and begins[other] + upper[other] > begins[job]:
                    busy += 1
            if busy >= batch_size:
                fits = False
            if not fits:
                break
        if fits:
            best = int(distance)
    if best > 0:
        for p in range(first, planned.size):
            if status[planned[p]] == PLANNED:
                begins[planned[p]] -= best
    return best


@numba.njit(cache=True, nogil=True)
def _fits_now(
    job: int,
    t: int,
    alpha: int,
    upper: Steps,
    status: NDArray[np.int8],
    begins: Steps,
    planned: Steps,
    running: Steps,
    count: int,
    batch_size: int,
) -> bool:
    """Whether a job can start now without touching the plan; running jobs are within alpha already."""
    end = t + upper[job]
    for p in range(planned.size):
        other = planned[p]
        if status[other] != PLANNED or other == job:
            continue
        begin = begins[other]
        if begin >= end:
            break
        if begin - t > alpha:
            return False
        busy = 1
        for w in range(count):
            if begins[running[w]] + upper[running[w]] > begin:
                busy += 1
        for q in range(p):
            earlier = planned[q]
            if status[earlier] == PLANNED and earlier != job and begins[earlier] + upper[earlier] > begin:
                busy += 1
        if busy >= batch_size:
            return False
    return True


@numba.njit(cache=True, nogil=True)
def _advance(
    t: int,
    lengths: Steps,
    upper: Steps,
    release: Steps,
    arrivals: Steps,
    longest_first: Steps,
    status: NDArray[np.int8],
    begins: Steps,
    planned: Steps,
    running: Steps,
    counts: Steps,
    batch_size: int,
    alpha: int,
) -> int:
    """Run events from t on; return the time at which a plan is needed, or -1 when all is done."""
    n = lengths.size
    next_planned = 0
    fresh = planned.size > 0  # a plan made at t: carry it out first
    while True:
        count = counts[1]
        kept = 0
        for w in range(count):
            job = running[w]
            if begins[job] + lengths[job] <= t:
                status[job] = DONE
            else:
                running[kept] = job
                kept += 1
        count = kept
        while counts[0] < n and release[arrivals[counts[0]]] <= t:
            status[arrivals[counts[0]]] = WAITING
            counts[0] += 1
        while next_planned < planned.size and status[planned[next_planned]] != PLANNED:
            next_planned += 1
        waiting = False
        for p in range(n):
            if status[p] == WAITING:
                waiting = True
                break
        counts[1] = count
        if count == 0 and next_planned == planned.size and not waiting:
            if counts[0] == n:
                return -1
            t = int(release[arrivals[counts[0]]])
            continue
        if count == 0 and waiting and not fresh:
            return t
        fresh = False
        counts[3] += _close_up(t, alpha, upper, status, begins, planned, running, count, batch_size)
        for p in range(next_planned, planned.size):
            job = planned[p]
            if status[job] != PLANNED:
                continue
            if begins[job] > t:
                break
            status[job] = RUNNING
            running[count] = job
            count += 1
        oldest = t
        for w in range(count):
            oldest = min(oldest, begins[running[w]])
        if count < batch_size and t - oldest <= alpha:
            tries = 0
            for p in range(n):
                job = longest_first[p]
                if status[job] != WAITING and status[job] != PLANNED:
                    continue
                tries += 1
                if tries > 4096 or count == batch_size:
                    break
                if _fits_now(job, t, alpha, upper, status, begins, planned, running, count, batch_size):
                    status[job] = RUNNING
                    begins[job] = t
                    running[count] = job
                    count += 1
                    counts[2] += 1
        counts[1] = count
        after = np.int64(-1)
        for w in range(count):
            end = begins[running[w]] + lengths[running[w]]
            if after < 0 or end < after:
                after = end
        if counts[0] < n and release[arrivals[counts[0]]] < after:
            after = release[arrivals[counts[0]]]
        for p in range(next_planned, planned.size):
            if status[planned[p]] == PLANNED:
                after = min(after, begins[planned[p]])
                break
        t = int(after)
