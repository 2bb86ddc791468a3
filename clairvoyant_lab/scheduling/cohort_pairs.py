"""Batches in which pairs of jobs end together (compiled): for large backlogs, where single steps count.

Sorted batches of a large backlog are nearly even, so what they lose is the last tokens of each slot, too few
for any job. A short job followed by a long one that together are exactly as long as the batch loses nothing.
But each short job so used is one less to fill the uneven first batches, so it has a price.

Stages as in `slack`: a batch starts on an empty machine and lasts as long as its longest job L, which starts
at once; in each other slot, short jobs (at most alpha in total) and then one long job. All start within
alpha, so any overlap is fair. When no job is longer than alpha, the rest runs freely, longest first.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["LONGEST", "pair_starts"]

Steps = NDArray[np.int64]

LONGEST = 1 << 22  # the tables have an entry for each length
_TARGETS = 12  # how far below a full slot exact fillings are looked for


@numba.njit(cache=True, nogil=True)
def _take(length: int, first: Steps, left: Steps, start: int, starts: Steps) -> None:
    """Start the next job of this length."""
    left[length] -= 1
    starts[first[length] + left[length]] = start


@numba.njit(cache=True, nogil=True)
def _largest(limit: int, left: Steps) -> int:
    """The largest length up to a limit that is left; 0 if none."""
    for length in range(limit, 0, -1):
        if left[length] > 0:
            return length
    return 0


@numba.njit(cache=True, nogil=True)
def _filling(room: int, left: Steps, chosen: Steps) -> int:
    """Choose short jobs that fill `room` as far as possible; return how many."""
    for target in range(room, max(room - _TARGETS, 0), -1):
        if left[target] > 0:
            chosen[0] = target
            return 1
        for large in range(target - 1, (target - 1) // 2, -1):
            small = target - large
            if left[large] > 0 and left[small] > (1 if small == large else 0):
                chosen[0] = large
                chosen[1] = small
                return 2
    count = 0
    while room > 0 and count < chosen.size:
        length = _largest(room, left)
        if length == 0:
            break
        chosen[count] = length
        left[length] -= 1
        room -= length
        count += 1
    for k in range(count):
        left[chosen[k]] += 1
    return count


@numba.njit(cache=True, nogil=True)
def pair_starts(lengths: Steps, batch_size: int, alpha: int, price: float, large_first: bool) -> Steps:
    """Start step of each job.

    Parameters
    ----------
    lengths : ndarray of int64, shape (n,)
        Descending, at most `LONGEST`.
    batch_size, alpha : int
    price : float
        Tokens that a short job must save to be used.
    large_first : bool
        Among exact pairs, take the one with the longest short job.

    Returns
    -------
    ndarray of int64, shape (n,)
    """
    n = lengths.size
    starts = np.full(n, -1, dtype=np.int64)
    first = np.full(lengths[0] + 1, -1, dtype=np.int64)
    left = np.zeros(lengths[0] + 1, dtype=np.int64)
    for i in range(n):
        if first[lengths[i]] < 0:
            first[lengths[i]] = i
        left[lengths[i]] += 1
    chosen = np.empty(8, dtype=np.int64)
    top = lengths[0]
    t = 0
    while True:
        top = _largest(top, left)
        if top <= alpha:
            break
        _take(top, first, left, t, starts)
        for _ in range(batch_size - 1):
            long = _largest(top, left)
            if long == 0:
                break
            if long <= alpha:  # no long job is left: short ones, as long as they may start
                start = 0
                while start <= alpha:
                    length = _largest(min(top - start, alpha), left)
                    if length == 0:
                        break
                    _take(length, first, left, t + start, starts)
                    start += length
                continue
            gap = top - long
            if gap == 0:
                _take(long, first, left, t, starts)
                continue
            left[long] -= 1
            count = _filling(min(gap, alpha), left, chosen)
            left[long] += 1
            filled = 0
            for k in range(count):
                filled += chosen[k]
            if count > 0 and filled <= price * count:
                count = 0
                filled = 0
            loss = gap - filled + price * count
            if loss > price:
                lowest = max(top - alpha, alpha + 1)
                for offset in range(long - lowest):
                    other = lowest + offset if large_first else long - 1 - offset
                    if left[other] > 0 and left[top - other] > 0:
                        long = other
                        count = 1
                        chosen[0] = top - other
                        break
            start = 0
            for k in range(count):
                _take(chosen[k], first, left, t + start, starts)
                start += chosen[k]
            _take(long, first, left, t + start, starts)
        t += top
    ends = np.full(batch_size, t, dtype=np.int64)
    while True:
        top = _largest(top, left)
        if top == 0:
            return starts
        while left[top] > 0:
            slot = np.argmin(ends)
            _take(top, first, left, ends[slot], starts)
            ends[slot] += top
