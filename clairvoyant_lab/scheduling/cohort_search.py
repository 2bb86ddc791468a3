"""Annealing over templates of start windows (compiled), counted in places looked at, not in seconds."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.scheduling.cohort_moves import below, change
from clairvoyant_lab.scheduling.cohort_pack import TOO_DEAR, pack, tail_steps
from clairvoyant_lab.scheduling.measure import FOOTPRINT, INTRINSIC, sweep

__all__ = ["anneal", "cooling", "plan_externality"]

Steps = NDArray[np.int64]
Weights = NDArray[np.float64]
State = NDArray[np.uint64]

# -ln of mid-rank quantiles, rounded so that no libm's last digit can turn a comparison
_EXPONENTIAL = np.round(-np.log((np.arange(4096) + 0.5) / 4096), 6)
_PHASES = 256


def cooling(first: float, last: float) -> Weights:
    """Temperatures in steps, falling geometrically over 256 equal parts of the budget."""
    fractions = np.arange(_PHASES) / (_PHASES - 1)
    return np.asarray(np.round(first * (last / first) ** fractions, 9), dtype=np.float64)


@numba.njit(cache=True, nogil=True)
def plan_externality(starts: Steps, lengths: Steps, batch_size: int) -> int:
    """Externality E of a schedule (eq. 6)."""
    measured = sweep(np.argsort(starts), starts, lengths, batch_size, -1)
    return measured[FOOTPRINT] - measured[INTRINSIC]


@numba.njit(cache=True, nogil=True)
def _last_end(starts: Steps, lengths: Steps) -> int:
    end = 0
    for i in range(lengths.size):
        if starts[i] >= 0 and starts[i] + lengths[i] > end:
            end = int(starts[i] + lengths[i])
    return end


@numba.njit(cache=True, nogil=True)
def anneal(
    lengths: Steps,
    penalties: Weights,
    required: int,
    batch_size: int,
    alpha: int,
    opens: Steps,
    closes: Steps,
    windows: int,
    weights: Weights,
    externality_weight: float,
    temperatures: Weights,
    budget: int,
    target: float,
    state: State,
    free: Steps,
    places: Steps,
    best_starts: Steps,
) -> tuple[float, int, int]:
    """Search templates from a first one; leave the best in `opens`, `closes`, `weights`, `best_starts`.

    Parameters
    ----------
    lengths : ndarray of int64, shape (n,)
        Descending.
    penalties : ndarray of float64, shape (n,)
        Cost of an unplaced job, in steps.
    required : int
        Jobs from this position on are optional: they may stay unplaced (start -1) for their penalty. The
        others, if unplaced, follow in static batches when all else has ended.
    batch_size, alpha : int
    opens, closes : ndarray of int64, shape (max_windows + 2,)
        First template in, best template out.
    windows : int
    weights : ndarray of float64, shape (4,)
        The packer's.
    externality_weight : float
        Steps per token-step of externality.
    temperatures : ndarray of float64
        From `cooling`.
    budget : int
        Places to look at.
    target : float
        Stop once the score is no higher.
    state : ndarray of uint64, shape (1,)
        The generator's.
    free, places : ndarray of int64
        Scratch, from `work_space`.
    best_starts : ndarray of int64, shape (n,)
        Output.

    Returns
    -------
    score : float
        Makespan, plus externality_weight times E, plus the penalties of unplaced optional jobs.
    windows : int
        Of the best template.
    operations : int
        Places looked at.
    """
    n = lengths.size
    max_windows = opens.size - 2
    starts = np.empty(n, dtype=np.int64)
    best_opens = opens.copy()
    best_closes = closes.copy()
    best_windows = windows
    best_weights = weights.copy()
    new_opens = opens.copy()
    new_closes = closes.copy()
    new_weights = weights.copy()
    new_windows = windows
    current = TOO_DEAR
    best = TOO_DEAR
    spent = 0
    horizon_bits = 1
    while (np.int64(2) << horizon_bits) < lengths[0]:
        horizon_bits += 1
    first = True
    while spent < budget or first:
        phase = spent * _PHASES // budget if spent < budget else _PHASES - 1
        threshold = TOO_DEAR
        if not first:
            new_opens[: windows + 1] = opens[: windows + 1]
            new_closes[:windows] = closes[:windows]
            new_weights[:] = weights
            bits = max(1, horizon_bits - horizon_bits * phase // (2 * _PHASES))
            new_windows = change(
                state, lengths, alpha, new_opens, new_closes, windows, new_weights, bits, max_windows
            )
            if new_windows == 0 or new_opens[new_windows] < lengths[0]:
                spent += 32
                continue
            threshold = current + temperatures[phase] * _EXPONENTIAL[below(state, _EXPONENTIAL.size)]
        first = False
        penalty, operations = pack(
            lengths,
            penalties,
            batch_size,
            alpha,
            new_opens,
            new_closes,
            new_windows,
            new_weights,
            threshold,
            starts,
            free,
            places,
        )
        spent += operations + 64  # the change and the copies
        if penalty >= TOO_DEAR:
            continue
        end = _last_end(starts, lengths)
        energy = end + penalty
        if energy > threshold:
            continue
        score = float(end)
        if penalty > 0:
            score = float(tail_steps(lengths, batch_size, required, end, starts, externality_weight > 0))
            for i in range(required, n):
                if starts[i] < 0:
                    score += penalties[i]
        if externality_weight > 0 and required == n:
            price = externality_weight * plan_externality(starts, lengths, batch_size)
            spent += 4 * n
            score += price
            energy += price
            if energy > threshold:
                continue
        current = energy
        windows = new_windows
        opens[: windows + 1] = new_opens[: windows + 1]
        closes[:windows] = new_closes[:windows]
        weights[:] = new_weights
        if penalty == 0:
            opens[windows] = max(end, closes[windows - 1] + 1)
        if score < best:
            best = score
            best_windows = windows
            best_opens[:] = opens
            best_closes[:] = closes
            best_weights[:] = weights
            if penalty > 0:
                tail_steps(lengths, batch_size, required, end, starts, True)
            best_starts[:] = starts
            if best <= target:
                break
    opens[:] = best_opens
    closes[:] = best_closes
    weights[:] = best_weights
    return best, best_windows, spent
