"""The compiled serial engine: the rule of `scheduling.selection` over arrays, for static keys.

Rows are in order of arrival, so "the oldest" is the lowest row and needs a pointer, not a heap; keys are
turned into ranks once, so the heaps hold plain integers and ties are settled before the run begins.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from clairvoyant_lab.scheduling.serial import PROMOTIONS, SerialPolicy
from clairvoyant_lab.simulation.serial_state import COMPLETED, DROPPED, NOT_ARRIVED, QUEUED, RUNNING, Outcome
from clairvoyant_lab.simulation.trace import Trace

__all__ = ["rank_keys", "run_compiled", "run_ranked"]

_OLDEST, _SHORTEST, _LONG_ONLY = range(len(PROMOTIONS))


@njit(cache=True)
def _push(heap: NDArray[np.int32], size: int, value: int) -> int:
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if heap[parent] <= value:
            break
        heap[at] = heap[parent]
        at = parent
    heap[at] = value
    return size + 1


@njit(cache=True)
def _pop(heap: NDArray[np.int32], size: int) -> int:
    """Remove heap[0]; the caller has read it."""
    size -= 1
    value = heap[size]
    at = 0
    child = 1
    while child < size:
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[at] = heap[child]
        at = child
        child = 2 * at + 1
    heap[at] = value
    return size


@njit(cache=True)
def _kernel(
    arrival: NDArray[np.float64],
    service: NDArray[np.float64],
    rank_of: NDArray[np.int32],
    row_of: NDArray[np.int32],
    long: NDArray[np.bool_],
    timeout: float,
    promotion: int,
    slots: int,
    queue_limit: int,
    horizon: float,
    start: NDArray[np.float64],
    finish: NDArray[np.float64],
    promoted: NDArray[np.bool_],
    order: NDArray[np.int64],
    state: NDArray[np.int8],
    slot_of: NDArray[np.int16],
) -> int:
    """Run to the end or the horizon; a negative timeout or limit means none. Returns the dispatches made."""
    n = arrival.size
    heap = np.empty(n, np.int32)
    expired = np.empty(n if promotion == _SHORTEST else 0, np.int32)
    # 0: not admitted, 1: waits, 2: has left
    seat = np.zeros(n, np.int8)
    free = np.full(slots, -np.inf)
    size = expired_size = waiting = dispatched = next_row = oldest = scanned = 0
    now = -np.inf
    while next_row < n or waiting > 0:
        slot = 0
        for other in range(1, slots):
            if free[other] < free[slot]:
                slot = other
        now = max(now, free[slot])
        if waiting == 0 and next_row < n:
            now = max(now, arrival[next_row])
        if now > horizon:
            break
        while next_row < n and arrival[next_row] <= now:
            if 0 <= queue_limit <= waiting:
                state[next_row] = DROPPED
                seat[next_row] = 2
            else:
                size = _push(heap, size, rank_of[next_row])
                seat[next_row] = 1
                waiting += 1
            next_row += 1
        chosen = -1
        if timeout >= 0.0:
            if promotion == _SHORTEST:
                while scanned < next_row and (seat[scanned] == 2 or now - arrival[scanned] > timeout):
                    if seat[scanned] == 1:
                        expired_size = _push(expired, expired_size, rank_of[scanned])
                    scanned += 1
                while expired_size > 0 and seat[row_of[expired[0]]] == 2:
                    expired_size = _pop(expired, expired_size)
                if expired_size > 0:
                    chosen = row_of[expired[0]]
            else:
                while oldest < next_row and (
                    seat[oldest] == 2 or (promotion == _LONG_ONLY and not long[oldest])
                ):
                    oldest += 1
                if oldest < next_row and now - arrival[oldest] > timeout:
                    chosen = oldest
        if chosen >= 0:
            promoted[chosen] = True
        else:
            while seat[row_of[heap[0]]] == 2:
                size = _pop(heap, size)
            chosen = row_of[heap[0]]
            size = _pop(heap, size)
        seat[chosen] = 2
        waiting -= 1
        start[chosen] = now
        finish[chosen] = now + service[chosen]
        slot_of[chosen] = slot
        free[slot] = finish[chosen]
        if finish[chosen] <= horizon:
            state[chosen] = COMPLETED
        else:
            state[chosen] = RUNNING
            finish[chosen] = np.nan
        order[dispatched] = chosen
        dispatched += 1
    for row in range(next_row, n):
        if arrival[row] > horizon:
            state[row] = NOT_ARRIVED
        elif 0 <= queue_limit <= waiting:
            state[row] = DROPPED
        else:
            state[row] = QUEUED
            waiting += 1
    return dispatched


def rank_keys(keys: NDArray[np.float64]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Rank of each row by key (ties by row) and the row of each rank.

    Parameters
    ----------
    keys : ndarray of float64, shape (n,)
        Rows in order of arrival.
    """
    row_of = np.argsort(keys, kind="stable").astype(np.int32)
    rank_of = np.empty_like(row_of)
    rank_of[row_of] = np.arange(row_of.size, dtype=np.int32)
    return rank_of, row_of


def run_ranked(
    trace: Trace,
    policy: SerialPolicy,
    ranks: tuple[NDArray[np.int32], NDArray[np.int32]],
    slots: int = 1,
    queue_limit: int | None = None,
    until_s: float | None = None,
) -> Outcome:
    """Run with ranks made before: a sweep over τ ranks each trace once."""
    out = Outcome.empty(len(trace))
    order = np.empty(len(trace), dtype=np.int64)
    dispatched = _kernel(
        trace.arrival_s,
        trace.service_s,
        *ranks,
        policy.is_long(trace),
        -1.0 if policy.starvation_timeout_s is None else policy.starvation_timeout_s,
        PROMOTIONS.index(policy.promotion),
        slots,
        -1 if queue_limit is None else int(queue_limit),
        np.inf if until_s is None else float(until_s),
        out.start_s,
        out.finish_s,
        out.promoted,
        order,
        out.state,
        out.slot,
    )
    out.order = order[:dispatched]
    return out


def run_compiled(
    trace: Trace, policy: SerialPolicy, slots: int, queue_limit: int | None, until_s: float | None
) -> Outcome:
    """Run a static policy over a trace; the contract of `serial_plain.run_plain`."""
    return run_ranked(trace, policy, rank_keys(policy.key(trace)), slots, queue_limit, until_s)
