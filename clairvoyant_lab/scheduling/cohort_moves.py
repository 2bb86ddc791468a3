"""Random changes of a template of start windows (compiled), with whole-number arithmetic only.

The draws are xorshift on 64 bits and the step sizes powers of two, so a seed gives the same templates on
every machine.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["below", "change", "seeded_state"]

Steps = NDArray[np.int64]
Weights = NDArray[np.float64]
State = NDArray[np.uint64]

# what the packer's weights may become; see `cohort_pack`
_DEAD = np.array([0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
_SHIFT = np.array([-0.125, -0.03, 0.0, 0.03, 0.125, 0.4, 1.0, 2.0, 3.4])
_SPARE = np.array([-0.125, -0.03, 0.0, 0.01, 0.05, 0.125, 0.4, 1.0])
_CUT = np.array([0.0, 0.0, 20.0, 100.0])


def seeded_state(seed: int) -> State:
    """State of the generator for a seed: two rounds of splitmix64, never zero."""
    x = seed & (2**64 - 1)
    for _ in range(2):
        x = (x + 0x9E3779B97F4A7C15) & (2**64 - 1)
        z = x
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        x = z ^ (z >> 31)
    return np.array([x | 1], dtype=np.uint64)


@numba.njit(cache=True, nogil=True)
def below(state: State, bound: int) -> int:
    """Next draw in [0, bound)."""
    x = state[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state[0] = x
    return int((x >> np.uint64(20)) % np.uint64(bound))


@numba.njit(cache=True, nogil=True)
def _step(state: State, bits: int) -> int:
    """A signed distance, its order of magnitude uniform up to 2**bits."""
    size = 1 << below(state, bits + 1)
    size += below(state, size)
    return size if below(state, 2) == 0 else -size


@numba.njit(cache=True, nogil=True)
def _shift(opens: Steps, closes: Steps, begin: int, windows: int, distance: int) -> None:
    """Move window `begin` and all after it, and the horizon."""
    for k in range(begin, windows):
        opens[k] += distance
        closes[k] += distance
    opens[windows] += distance


@numba.njit(cache=True, nogil=True)
def _insert(
    state: State, lengths: Steps, alpha: int, opens: Steps, closes: Steps, windows: int, k: int
) -> int:
    """Cut a gap into window k: within it, or as long as some job and pushing on what follows."""
    width = closes[k] - opens[k]
    cut = opens[k] + below(state, width + 1)
    end = closes[k]
    if below(state, 2) == 0:
        again = cut + 1 + below(state, max(1, width) + 1)
        again = min(again, end)
        if again <= cut:
            return 0
        push = np.int64(0)
    else:
        push = lengths[below(state, lengths.size)]
        if below(state, 2) == 0:
            push = max(np.int64(1), push - below(state, alpha + 1))
        again = cut + push
    opens[windows + 1] = opens[windows] + push
    for j in range(windows - 1, k, -1):
        opens[j + 1] = opens[j] + push
        closes[j + 1] = closes[j] + push
    closes[k] = cut
    opens[k + 1] = again
    closes[k + 1] = end + push
    return windows + 1


@numba.njit(cache=True, nogil=True)
def change(
    state: State,
    lengths: Steps,
    alpha: int,
    opens: Steps,
    closes: Steps,
    windows: int,
    weights: Weights,
    bits: int,
    max_windows: int,
) -> int:
    """Change a template in place.

    Returns
    -------
    int
        The new number of windows; 0 for a change that makes no sense.
    """
    kind = below(state, 100)
    k = below(state, windows)
    if kind < 22:  # widen or narrow a window
        distance = _step(state, bits)
        closes[k] += distance
        _shift(opens, closes, k + 1, windows, distance)
    elif kind < 44:  # lengthen or shorten a gap
        _shift(opens, closes, k + 1, windows, _step(state, bits))
    elif kind < 54:
        closes[k] += _step(state, bits)
    elif kind < 64:
        opens[k + 1] += _step(state, bits)
    elif kind < 70:  # the horizon
        opens[windows] += _step(state, bits)
    elif kind < 74:  # close a gap
        if k == windows - 1:
            return 0
        closes[k] = closes[k + 1]
        for j in range(k + 1, windows - 1):
            opens[j] = opens[j + 1]
            closes[j] = closes[j + 1]
        opens[windows - 1] = opens[windows]
        windows -= 1
    elif kind < 79:
        if windows == max_windows:
            return 0
        windows = _insert(state, lengths, alpha, opens, closes, windows, k)
    elif kind < 83:  # drop a window and its gap
        if windows == 1:
            return 0
        back = opens[k + 1] - opens[k]
        for j in range(k, windows - 1):
            opens[j] = opens[j + 1] - back
            closes[j] = closes[j + 1] - back
        opens[windows - 1] = opens[windows] - back
        windows -= 1
    elif kind < 88:  # swap two neighbouring cycles
        if k == windows - 1:
            return 0
        width = closes[k] - opens[k]
        next_width = closes[k + 1] - opens[k + 1]
        next_gap = opens[k + 2] - closes[k + 1]
        closes[k] = opens[k] + next_width
        opens[k + 1] = closes[k] + next_gap
        closes[k + 1] = opens[k + 1] + width
    elif kind < 92:  # make a gap as long as some job
        gap = opens[k + 1] - closes[k]
        _shift(opens, closes, k + 1, windows, lengths[below(state, lengths.size)] - gap)
    elif kind < 95:  # move what lies between two gaps
        other = below(state, windows)
        distance = _step(state, bits)
        for j in range(min(k, other) + 1, max(k, other) + 1):
            opens[j] += distance
            closes[j] += distance
    else:
        which = below(state, 4)
        if which == 0:
            weights[0] = _DEAD[below(state, _DEAD.size)]
        elif which == 1:
            weights[1] = _SHIFT[below(state, _SHIFT.size)]
        elif which == 2:
            weights[2] = _SPARE[below(state, _SPARE.size)]
        else:
            weights[3] = _CUT[below(state, _CUT.size)]
    if opens[0] != 0:
        return 0
    for j in range(windows):
        if closes[j] < opens[j] or opens[j + 1] <= closes[j]:
            return 0
    return windows
