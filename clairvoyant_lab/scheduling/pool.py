"""The pool of unstarted jobs: a three-level bit set over positions (compiled).

The next position at or after another is found in constant time, and a job that a pack gives back is put
back in constant time too. Sized for n positions: `bits` has one bit a position, `sums` one a word of
`bits`, `tops` one a word of `sums`.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["first_at_most", "insert", "largest", "next_in", "ranked", "remove"]

Steps = NDArray[np.int64]
Words = NDArray[np.uint64]

_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_BIT_OF = np.zeros(64, dtype=np.int64)
for _k in range(64):
    _BIT_OF[((1 << _k) * 0x03F79D71B4CB0A89 & (2**64 - 1)) >> 58] = _k


@numba.njit(inline="always")
def _lowest(word: np.uint64) -> int:
    """Index of the lowest set bit of a word that is not zero."""
    lowest = word & (~word + np.uint64(1))
    return _BIT_OF[(lowest * _DE_BRUIJN) >> np.uint64(58)]


@numba.njit(cache=True, nogil=True)
def insert(bits: Words, sums: Words, tops: Words, p: int) -> None:
    one = np.uint64(1)
    bits[p >> 6] |= one << np.uint64(p & 63)
    sums[p >> 12] |= one << np.uint64((p >> 6) & 63)
    tops[p >> 18] |= one << np.uint64((p >> 12) & 63)


@numba.njit(cache=True, nogil=True)
def remove(bits: Words, sums: Words, tops: Words, p: int) -> None:
    one = np.uint64(1)
    bits[p >> 6] &= ~(one << np.uint64(p & 63))
    if bits[p >> 6] == 0:
        sums[p >> 12] &= ~(one << np.uint64((p >> 6) & 63))
        if sums[p >> 12] == 0:
            tops[p >> 18] &= ~(one << np.uint64((p >> 12) & 63))


@numba.njit(cache=True, nogil=True)
def next_in(bits: Words, sums: Words, tops: Words, p: int, n: int) -> int:
    """First position >= p in the set, or n."""
    if p >= n:
        return n
    full = np.uint64(0xFFFFFFFFFFFFFFFF)
    word = bits[p >> 6] & (full << np.uint64(p & 63))
    if word != 0:
        return (p & ~63) | _lowest(word)
    q = (p >> 6) + 1
    if q >= bits.size:
        return n
    word = sums[q >> 6] & (full << np.uint64(q & 63))
    if word == 0:
        r = (q >> 6) + 1
        if r >= sums.size:
            return n
        k = r >> 6
        word = tops[k] & (full << np.uint64(r & 63))
        while word == 0:
            k += 1
            if k >= tops.size:
                return n
            word = tops[k]
        r = (k << 6) | _lowest(word)
        word = sums[r]
        q = r << 6
    q = (q & ~63) | _lowest(word)
    return (q << 6) | _lowest(bits[q])


@numba.njit(cache=True, nogil=True)
def first_at_most(sizes: Steps, most: int, low: int) -> int:
    """First position >= low whose size is at most `most`; sizes descend."""
    high = sizes.size
    while low < high:
        middle = (low + high) >> 1
        if sizes[middle] > most:
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(cache=True, nogil=True)
def largest(room: Steps) -> int:
    """Largest entry but the first (worker 1 carries no pack), at least 0."""
    most = 0
    for w in range(1, room.size):
        most = max(most, room[w])
    return most


def ranked(sizes: Steps, descending: bool) -> Steps:
    """Indices by size, ties by lower index; counting sort where the sizes are small, as lengths are."""
    if int(sizes.max()) <= 4 * sizes.size + 4096:
        return _counted(sizes, descending)
    return np.argsort(-sizes if descending else sizes, kind="stable")


@numba.njit(cache=True, nogil=True)
def _counted(sizes: Steps, descending: bool) -> Steps:
    most = sizes.max()
    first = np.zeros(most + 2, dtype=np.int64)
    for size in sizes:
        first[(most - size if descending else size) + 1] += 1
    for k in range(1, most + 2):
        first[k] += first[k - 1]
    order = np.empty(sizes.size, dtype=np.int64)
    for i in range(sizes.size):
        key = most - sizes[i] if descending else sizes[i]
        order[first[key]] = i
        first[key] += 1
    return order
