"""The plain serial engine: readable, serves user functions, and what the compiled one is checked against."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.scheduling.selection import WaitingQueue
from clairvoyant_lab.scheduling.serial import SerialPolicy
from clairvoyant_lab.simulation.serial_state import COMPLETED, DROPPED, NOT_ARRIVED, QUEUED, RUNNING, Outcome
from clairvoyant_lab.simulation.trace import Trace

__all__ = ["run_plain", "run_preemptive"]


class _Rows:
    """Some rows of a trace under the trace's own column names, for a key function."""

    def __init__(self, trace: Trace, rows: NDArray[np.int64]) -> None:
        self._trace = trace
        self._rows = rows

    def __getattr__(self, name: str) -> object:
        values = getattr(self._trace, name)
        return values[self._rows] if isinstance(values, np.ndarray) else values

    def __len__(self) -> int:
        return int(self._rows.size)


def run_plain(
    trace: Trace,
    policy: SerialPolicy,
    slots: int,
    queue_limit: int | None,
    until_s: float | None,
) -> Outcome:
    """Dispatch by dispatch: admit what has arrived, let `WaitingQueue` choose, start it on a free slot."""

    def keys_at(tickets: Sequence[int], now_s: float) -> NDArray[np.float64]:
        return policy.key(_Rows(trace, np.asarray(tickets, dtype=np.int64)), now_s)

    n = len(trace)
    keys = np.zeros(n) if policy.dynamic else policy.key(trace)
    long = policy.is_long(trace)
    arrival, service = trace.arrival_s, trace.service_s
    out = Outcome.empty(n)
    queue = WaitingQueue(policy, keys_at)
    free = [(float("-inf"), slot) for slot in range(slots)]
    order: list[int] = []
    horizon = float("inf") if until_s is None else until_s
    next_row = 0
    now = float("-inf")
    while next_row < n or len(queue):
        now = max(now, free[0][0])
        if not len(queue) and next_row < n:
            now = max(now, float(arrival[next_row]))
        if now > horizon:
            break
        while next_row < n and arrival[next_row] <= now:
            if queue_limit is not None and len(queue) >= queue_limit:
                out.state[next_row] = DROPPED
            else:
                queue.add(next_row, float(arrival[next_row]), float(keys[next_row]), bool(long[next_row]))
            next_row += 1
        chosen, promoted = queue.take(now)
        finish = now + float(service[chosen])
        out.start_s[chosen], out.finish_s[chosen] = now, finish
        out.promoted[chosen] = promoted
        out.slot[chosen] = free[0][1]
        out.state[chosen] = COMPLETED if finish <= horizon else RUNNING
        heapq.heapreplace(free, (finish, free[0][1]))
        order.append(chosen)
    # what the clock found waiting, and what came while nothing could be dispatched any more
    waiting = len(queue)
    for row in range(next_row, n):
        if arrival[row] > horizon:
            out.state[row] = NOT_ARRIVED
        elif queue_limit is not None and waiting >= queue_limit:
            out.state[row] = DROPPED
        else:
            out.state[row] = QUEUED
            waiting += 1
    out.finish_s[out.state == RUNNING] = np.nan
    out.order = np.asarray(order, dtype=np.int64)
    return out


def run_preemptive(trace: Trace, policy: SerialPolicy, until_s: float | None) -> Outcome:
    """Shortest remaining processing time on one slot (Schrage and Miller's SRPT).

    `order` is the order of first starts. A request that arrives with exactly the remaining time of the
    running one doesn't interrupt it: equal keys go by earlier arrival.
    """
    n = len(trace)
    remaining = policy.key(trace).copy()
    arrival = trace.arrival_s
    out = Outcome.empty(n)
    ready: list[tuple[float, int]] = []
    order: list[int] = []
    horizon = float("inf") if until_s is None else until_s
    now = float("-inf")
    next_row = 0
    while next_row < n or ready:
        if not ready:
            now = max(now, float(arrival[next_row]))
        if now > horizon:
            break
        while next_row < n and arrival[next_row] <= now:
            heapq.heappush(ready, (float(remaining[next_row]), next_row))
            next_row += 1
        left, row = heapq.heappop(ready)
        if np.isnan(out.start_s[row]):
            out.start_s[row] = now
            out.slot[row] = 0
            order.append(row)
        finish = now + left
        pause = float(arrival[next_row]) if next_row < n else float("inf")
        if finish > horizon and pause > horizon:
            out.state[row] = RUNNING
            break
        if finish <= pause:
            out.finish_s[row] = finish
            out.state[row] = COMPLETED
            now = finish
        else:
            heapq.heappush(ready, (left - (pause - now), row))
            now = pause
    for _, row in ready:
        # an interrupted request has begun, so it counts as running, not as queued
        out.state[row] = QUEUED if np.isnan(out.start_s[row]) else RUNNING
    for row in range(next_row, n):
        out.state[row] = NOT_ARRIVED if arrival[row] > horizon else QUEUED
    out.order = np.asarray(order, dtype=np.int64)
    return out
