"""The compiled serial engine: the rule of `scheduling.selection` over arrays, for static keys.

Rows are in order of arrival, so "the oldest" is the lowest row and needs a pointer, not a heap, and ties of
keys go to the lower row. The heaps hold rows and look keys up: they are as long as the queue, not the trace.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from clairvoyant_lab.scheduling.serial import PROMOTIONS, SerialPolicy
from clairvoyant_lab.simulation.serial_state import COMPLETED, DROPPED, NOT_ARRIVED, QUEUED, RUNNING, Outcome
from clairvoyant_lab.simulation.trace import Trace

__all__ = ["run_compiled", "run_keyed"]

_OLDEST, _SHORTEST, _LONG_ONLY = range(len(PROMOTIONS))


@njit(cache=True)
def _push(heap: NDArray[np.int64], size: int, row: int, key: NDArray[np.float64]) -> int:
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        other = heap[parent]
        if key[other] < key[row] or (key[other] == key[row] and other < row):
            break
        heap[at] = other
        at = parent
    heap[at] = row
    return size + 1


@njit(cache=True)
def _pop(heap: NDArray[np.int64], size: int, key: NDArray[np.float64]) -> int:
    """Remove heap[0]; the caller has read it."""
    size -= 1
    row = heap[size]
    at = 0
    child = 1
    while child < size:
        left = heap[child]
        if child + 1 < size:
            right = heap[child + 1]
            if key[right] < key[left] or (key[right] == key[left] and right < left):
                child += 1
                left = right
        if key[row] < key[left] or (key[row] == key[left] and row < left):
            break
        heap[at] = left
        at = child
        child = 2 * at + 1
    heap[at] = row
    return size


@njit(cache=True)
def _kernel(
    arrival: NDArray[np.float64],
    service: NDArray[np.float64],
    key: NDArray[np.float64],
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
    heap = np.empty(n, np.int64)
    expired = np.empty(n if promotion == _SHORTEST else 0, np.int64)
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
            # whoever the heaps still hold has left: forget them at once instead of one by one
            size = expired_size = 0
            oldest = scanned = next_row
        if now > horizon:
            break
        while next_row < n and arrival[next_row] <= now:
            if 0 <= queue_limit <= waiting:
                state[next_row] = DROPPED
                seat[next_row] = 2
            else:
                size = _push(heap, size, next_row, key)
                seat[next_row] = 1
                waiting += 1
            next_row += 1
        chosen = -1
        if timeout >= 0.0:
            if promotion == _SHORTEST:
                while scanned < next_row and (seat[scanned] == 2 or now - arrival[scanned] > timeout):
                    if seat[scanned] == 1:
                        expired_size = _push(expired, expired_size, scanned, key)
                    scanned += 1
                while expired_size > 0 and seat[expired[0]] == 2:
                    expired_size = _pop(expired, expired_size, key)
                if expired_size > 0:
                    chosen = expired[0]
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
            while seat[heap[0]] == 2:
                size = _pop(heap, size, key)
            chosen = heap[0]
            size = _pop(heap, size, key)
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


def run_keyed(
    trace: Trace,
    policy: SerialPolicy,
    keys: NDArray[np.float64],
    slots: int = 1,
    queue_limit: int | None = None,
    until_s: float | None = None,
) -> Outcome:
    """Run with keys made before: a sweep over τ makes them once a trace."""
    out = Outcome.empty(len(trace))
    order = np.empty(len(trace), dtype=np.int64)
    dispatched = _kernel(
        trace.arrival_s,
        trace.service_s,
        keys,
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
    return run_keyed(trace, policy, policy.key(trace), slots, queue_limit, until_s)
