"""Measures of a batch schedule in exact integers: makespan, externality, progress gaps, fairness.

One sweep over the starts in time order. Between two events (a start or a finish) the set of running jobs
is fixed, all advance in lockstep, so the gap between the most and the least advanced job is constant and
every sum over steps has a closed form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.scheduling.batch import check_alpha, check_batch_size, check_steps

__all__ = ["ScheduleMeasure", "measure_schedule", "sweep"]

Steps = NDArray[np.int64]

# positions in the array that `sweep` returns
MAKESPAN, FOOTPRINT, MAX_GAP, SUM_EXTENT, SUM_MAX_PROGRESS, SUM_COMPLETION = 0, 1, 2, 3, 4, 5
PEAK_RUNNING, UNFAIR_STEPS, FIRST_UNFAIR, UNFAIR_BEHIND, UNFAIR_AHEAD, OVER_CAPACITY = 6, 7, 8, 9, 10, 11
TOKENS, INTRINSIC = 12, 13
FAR = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class ScheduleMeasure:
    """What a schedule costs and whether it is fair; all values are exact.

    Parameters
    ----------
    makespan_steps : int
        Last finish.
    externality : int
        E of eq. 6: the sum over steps and running jobs of the largest progress minus the job's own.
    intrinsic : int
        Q of eq. 5.
    tokens : int
        O, the sum of the lengths.
    max_gap : int
        Largest progress gap at any step.
    sum_extent, sum_max_progress : int
        Sums over steps of the gap and of the largest token index r.
    sum_completion_steps : int
        Sum of the finishes.
    peak_running : int
        Most jobs that ran at once.
    unfair_steps : int
        Number of steps whose gap exceeds alpha (0 without an alpha).
    first_unfair_step : int or None
        The first of them, and the jobs (indices) that were furthest behind and ahead.
    first_unfair_jobs : tuple of int or None
    over_capacity_step : int or None
        The first step with more than batch_size running jobs.
    """

    makespan_steps: int
    externality: int
    intrinsic: int
    tokens: int
    max_gap: int
    sum_extent: int
    sum_max_progress: int
    sum_completion_steps: int
    peak_running: int
    unfair_steps: int
    first_unfair_step: int | None
    first_unfair_jobs: tuple[int, int] | None
    over_capacity_step: int | None


def measure_schedule(
    start_steps: ArrayLike,
    lengths: ArrayLike,
    batch_size: int,
    alpha: int | None = None,
) -> ScheduleMeasure:
    """Measure any schedule, fair or not, within capacity or not.

    Parameters
    ----------
    start_steps : array_like of int, shape (n,)
        First step of each job, 0-based; job i runs in [start, start + length).
    lengths : array_like of int, shape (n,)
        Tokens of each job, at least 1.
    batch_size : int
        Slots, for the capacity check.
    alpha : int, optional
        Progress limit to check (eq. 1); None checks nothing.

    Returns
    -------
    ScheduleMeasure

    Raises
    ------
    ParameterError
        For values that are not whole, negative starts, or sums beyond 63 bits.
    """
    own_lengths = check_steps("lengths", lengths, at_least=1)
    starts = check_steps("start_steps", start_steps, at_least=0, n=own_lengths.size)
    size = check_batch_size(batch_size)
    limit = -1 if alpha is None else check_alpha(alpha)
    check_range(own_lengths, starts)
    return as_measure(sweep(np.argsort(starts, kind="stable"), starts, own_lengths, size, limit))


def check_range(lengths: Steps, starts: Steps | None = None) -> None:
    """Refuse instances whose exact sums would not fit 63 bits."""
    n = lengths.size
    total = int(lengths.sum())
    horizon = total + (0 if starts is None else int(starts.max()))
    longest = int(lengths.max())
    if max(total * longest, n * horizon, longest * horizon) >= 2**62:
        raise ParameterError(
            "lengths", f"{n} jobs of {total} tokens", "sums leave 63 bits; split or rescale the instance"
        )


def as_measure(out: Steps) -> ScheduleMeasure:
    """Give names to what `sweep` returned."""
    first = int(out[FIRST_UNFAIR])
    return ScheduleMeasure(
        makespan_steps=int(out[MAKESPAN]),
        externality=int(out[FOOTPRINT] - out[INTRINSIC]),
        intrinsic=int(out[INTRINSIC]),
        tokens=int(out[TOKENS]),
        max_gap=int(out[MAX_GAP]),
        sum_extent=int(out[SUM_EXTENT]),
        sum_max_progress=int(out[SUM_MAX_PROGRESS]),
        sum_completion_steps=int(out[SUM_COMPLETION]),
        peak_running=int(out[PEAK_RUNNING]),
        unfair_steps=int(out[UNFAIR_STEPS]),
        first_unfair_step=None if first < 0 else first,
        first_unfair_jobs=None if first < 0 else (int(out[UNFAIR_BEHIND]), int(out[UNFAIR_AHEAD])),
        over_capacity_step=None if out[OVER_CAPACITY] < 0 else int(out[OVER_CAPACITY]),
    )


@numba.njit(cache=True, nogil=True)
def sweep(order: Steps, starts: Steps, lengths: Steps, batch_size: int, alpha: int) -> Steps:
    """Sweep a schedule (compiled).

    Parameters
    ----------
    order : ndarray of int64, shape (n,)
        Indices of the jobs by ascending start.
    starts, lengths : ndarray of int64, shape (n,)
    batch_size : int
    alpha : int
        Negative: no limit.

    Returns
    -------
    ndarray of int64, shape (14,)
        Positions named by the constants of this module; FOOTPRINT is E + Q.
    """
    n = order.size
    out = np.zeros(14, dtype=np.int64)
    out[FIRST_UNFAIR] = -1
    out[OVER_CAPACITY] = -1
    room = min(n, max(batch_size, 1))
    running = np.empty(room, dtype=np.int64)  # in order of start: the first is furthest ahead
    ends = np.empty(room, dtype=np.int64)
    begins = np.empty(room, dtype=np.int64)
    count = 0
    position = 0
    soonest = int(FAR)  # first finish among the running
    t = 0
    while position < n or count > 0:
        if count == 0:
            t = int(starts[order[position]])
        while position < n and starts[order[position]] == t:
            job = order[position]
            if count == running.size:  # over capacity: keep measuring
                running = np.append(running, np.empty(count, dtype=np.int64))
                ends = np.append(ends, np.empty(count, dtype=np.int64))
                begins = np.append(begins, np.empty(count, dtype=np.int64))
            running[count] = job
            begins[count] = t
            ends[count] = t + lengths[job]
            soonest = min(soonest, int(ends[count]))
            count += 1
            position += 1
        if count > out[PEAK_RUNNING]:
            out[PEAK_RUNNING] = count
        if count > batch_size and out[OVER_CAPACITY] < 0:
            out[OVER_CAPACITY] = t
        until = soonest
        if position < n and starts[order[position]] < until:
            until = int(starts[order[position]])
        span = until - t
        gap = begins[count - 1] - begins[0]
        out[SUM_EXTENT] += gap * span
        largest = t - begins[0] + 1
        progress = largest * span + span * (span - 1) // 2
        out[SUM_MAX_PROGRESS] += progress
        out[FOOTPRINT] += progress * count
        if gap > out[MAX_GAP]:
            out[MAX_GAP] = gap
        if alpha >= 0 and gap > alpha:
            out[UNFAIR_STEPS] += span
            if out[FIRST_UNFAIR] < 0:
                out[FIRST_UNFAIR] = t
                behind = n
                ahead = n
                for k in range(count):
                    if begins[k] == begins[count - 1]:
                        behind = min(behind, running[k])
                    if begins[k] == begins[0]:
                        ahead = min(ahead, running[k])
                out[UNFAIR_BEHIND] = behind
                out[UNFAIR_AHEAD] = ahead
        t = until
        if soonest == t:
            kept = 0
            soonest = int(FAR)
            for k in range(count):
                if ends[k] > t:
                    running[kept] = running[k]
                    begins[kept] = begins[k]
                    ends[kept] = ends[k]
                    soonest = min(soonest, int(ends[k]))
                    kept += 1
            count = kept
    for i in range(n):
        length = lengths[i]
        end = starts[i] + length
        if end > out[MAKESPAN]:
            out[MAKESPAN] = end
        out[SUM_COMPLETION] += end
        out[TOKENS] += length
        out[INTRINSIC] += length * (length + 1) // 2
    return out
