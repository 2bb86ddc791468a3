"""Packing jobs into B identical slots under a template of start windows (compiled).

A template is a set W of instants at which jobs may start, kept as windows [open, close] (both ends allowed)
and a horizon at which everything has ended. A job of length L may start at s iff s is in W and no point of
W lies in (s + alpha, s + L). Every schedule that passes is alpha-fair: if two jobs overlap, the later start
is in W and not in that interval of the earlier one, so it is at most alpha later. So, once the windows are
fixed, fairness is a test on each job alone and the slots no longer see one another: what is left is packing.

Jobs are placed longest first. For a job longer than alpha, each pair (window k of its start, last window m
that it may share, i.e. close_m <= s + alpha) gives one interval of allowed starts, and the job must end by
the opening of window m + 1. Among all free stretches and both ends of each interval, the place with the
lowest cost wins: weight 0 for time that becomes useless, 1 for the distance between the start and the latest
useful one, 2 for what is left of the stretch, 3 for cutting a stretch in two.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["TOO_DEAR", "next_start", "pack", "tail_steps", "work_space"]

Steps = NDArray[np.int64]
Weights = NDArray[np.float64]

TOO_DEAR = 1e300


def work_space(n: int, batch_size: int, max_windows: int) -> tuple[Steps, Steps]:
    """Scratch arrays of `pack`: free stretches (3 rows) and candidate start intervals (5 rows)."""
    return (
        np.zeros((3, batch_size + 2 * n + 8), dtype=np.int64),
        np.zeros((5, max_windows * max_windows + 8), dtype=np.int64),
    )


@numba.njit(cache=True, nogil=True)
def next_start(opens: Steps, closes: Steps, windows: int, t: int) -> int:
    """First allowed instant at or after t; the horizon, opens[windows], if there is none."""
    low = 0
    high = windows
    while low < high:
        middle = (low + high) // 2
        if closes[middle] >= t:
            high = middle
        else:
            low = middle + 1
    if low == windows:
        return opens[windows]
    return max(opens[low], t)


@numba.njit(cache=True, nogil=True)
def _candidates(length: int, alpha: int, opens: Steps, closes: Steps, windows: int, places: Steps) -> int:
    """Fill `places` with the allowed start intervals of a length: first, last, latest useful start or -1,
    and the next allowed instant after a job that starts at first and at last."""
    count = 0
    if length > alpha + 1:
        for k in range(windows):
            for m in range(k, windows):
                first = closes[m] - alpha
                if first > closes[k]:
                    break
                first = max(first, opens[k])
                last = min(opens[m + 1] - length, closes[k])
                if first <= last:
                    places[0, count] = first
                    places[1, count] = last
                    places[2, count] = closes[m]
                    places[3, count] = next_start(opens, closes, windows, first + length)
                    places[4, count] = next_start(opens, closes, windows, last + length)
                    count += 1
    else:
        for k in range(windows):
            last = min(opens[windows] - length, closes[k])
            if opens[k] <= last:
                places[0, count] = opens[k]
                places[1, count] = last
                places[2, count] = -1
                places[3, count] = next_start(opens, closes, windows, opens[k] + length)
                places[4, count] = next_start(opens, closes, windows, last + length)
                count += 1
    return count


@numba.njit(cache=True, nogil=True)
def _release(free: Steps, count: int, begin: int, end: int) -> int:
    """Add a free stretch; equal ones share a row with a multiplicity, used-up rows are taken again."""
    vacant = -1
    for j in range(count):
        if free[2, j] == 0:
            vacant = j
        elif free[0, j] == begin and free[1, j] == end:
            free[2, j] += 1
            return count
    if vacant < 0:
        vacant = count
        count += 1
    free[0, vacant] = begin
    free[1, vacant] = end
    free[2, vacant] = 1
    return count


@numba.njit(cache=True, nogil=True)
def pack(
    lengths: Steps,
    penalties: Weights,
    batch_size: int,
    alpha: int,
    opens: Steps,
    closes: Steps,
    windows: int,
    weights: Weights,
    limit: float,
    starts: Steps,
    free: Steps,
    places: Steps,
) -> tuple[float, int]:
    """Place jobs, longest first; what finds no place keeps start -1.

    Parameters
    ----------
    lengths : ndarray of int64, shape (n,)
        Descending.
    penalties : ndarray of float64, shape (n,)
        What an unplaced job costs.
    batch_size, alpha : int
    opens, closes : ndarray of int64
        Window bounds; opens[windows] is the horizon.
    windows : int
        How many windows are in use.
    weights : ndarray of float64, shape (4,)
        See the module's docstring.
    limit : float
        Give up once the penalties exceed it.
    starts : ndarray of int64, shape (n,)
        Output.
    free, places : ndarray of int64
        Scratch, from `work_space`.

    Returns
    -------
    penalty : float
        Sum of the unplaced jobs' penalties; `TOO_DEAR` when it gave up.
    operations : int
        Places looked at: the measure of effort, the same on every machine.
    """
    n = lengths.size
    shortest = lengths[n - 1]
    free[0, 0] = opens[0]
    free[1, 0] = opens[windows]
    free[2, 0] = batch_size
    stretches = 1
    candidates = 0
    previous = -1
    penalty = 0.0
    operations = n
    for i in range(n):
        length = lengths[i]
        if length != previous:
            previous = length
            candidates = _candidates(length, alpha, opens, closes, windows, places)
        best = TOO_DEAR
        best_row = -1
        best_start = 0
        for j in range(stretches):
            begin = free[0, j]
            end = free[1, j]
            spare = end - begin - length
            if free[2, j] == 0 or spare < 0:
                continue
            operations += 1
            fit = end - length
            for c in range(candidates):
                low = places[0, c]
                high = places[1, c]
                if high < begin or low > fit:
                    continue
                operations += 1
                useful = places[2, c]
                for side in range(2):
                    if side == 0:
                        if high <= fit:
                            start = high
                            again = min(places[4, c], end)
                        else:
                            start = fit
                            again = end
                    else:
                        if low >= begin:
                            if low >= high or low >= fit:
                                break
                            start = low
                            again = min(places[3, c], end)
                        else:
                            if begin >= high or begin >= fit:
                                break
                            start = begin
                            again = min(next_start(opens, closes, windows, start + length), end)
                    dead = again - start - length
                    after = end - again
                    if after < shortest:
                        dead += after
                        after = 0
                    before = start - begin
                    if before < shortest:
                        dead += before
                        before = 0
                    cost = weights[0] * dead
                    if useful >= 0:
                        if useful > start:
                            cost += weights[1] * (useful - start)
                        cost += weights[2] * spare
                    else:
                        cost += spare
                        if after > 0 and before > 0:
                            cost += weights[3]
                    if cost < best:
                        best = cost
                        best_row = j
                        best_start = start
        if best_row < 0:
            starts[i] = -1
            penalty += penalties[i]
            if penalty > limit:
                return TOO_DEAR, operations
            continue
        starts[i] = best_start
        begin = free[0, best_row]
        end = free[1, best_row]
        free[2, best_row] -= 1
        if best_start - begin >= shortest:
            stretches = _release(free, stretches, begin, best_start)
        again = next_start(opens, closes, windows, best_start + length)
        if end - again >= shortest:
            stretches = _release(free, stretches, again, end)
    return penalty, operations


@numba.njit(cache=True, nogil=True)
def tail_steps(lengths: Steps, batch_size: int, required: int, begin: int, starts: Steps, write: bool) -> int:
    """End of static batches, longest first, of the first `required` jobs that found no place.

    With `write`, their starts are entered: they begin at `begin`, when all others have ended.
    """
    t = begin
    longest = 0
    count = 0
    for i in range(required):
        if starts[i] < 0:
            if count % batch_size == 0:
                t += longest
                longest = lengths[i]
            if write:
                starts[i] = t
            count += 1
    return t + longest
