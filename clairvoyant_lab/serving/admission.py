"""The live queue: who waits, who runs, who goes next and why.

The choice is `scheduling.selection.WaitingQueue`'s, the very one the simulator uses. `Line` is the plain
bookkeeping around it, with the time handed in, so a fake clock can drive it; `Admission` lets coroutines
wait on it.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.errors import QueueFullError
from clairvoyant_lab.scheduling.selection import WaitingQueue
from clairvoyant_lab.scheduling.serial import RequestColumns, SerialPolicy
from clairvoyant_lab.serving.forecast import Forecast
from clairvoyant_lab.serving.policies import check_live

__all__ = ["Admission", "Dispatch", "DrainingError", "Line", "Waiter"]

_KEPT_DISPATCHES = 4096

_READ: dict[str, Callable[[Waiter], float]] = {
    "score": lambda w: w.forecast.p_long,
    "predicted_tokens": lambda w: w.forecast.predicted_tokens,
    "expected_service_s": lambda w: w.expected_service_s,
}


class DrainingError(QueueFullError):
    """The proxy is stopping and takes no more requests."""


@dataclass(slots=True, eq=False)
class Waiter:
    """One request in the line. Times are of the line's clock."""

    ticket: int
    request_id: str
    arrival_s: float
    forecast: Forecast
    expected_service_s: float
    background: bool = False
    prompt_tokens: int = 0
    key: float = 0.0
    position: int = 1
    start_s: float | None = None
    promoted: bool = False
    dispatch_number: int = 0
    granted: asyncio.Future[None] | None = field(default=None, repr=False)

    def wait_s(self, now_s: float) -> float:
        """Time spent waiting so far."""
        return (now_s if self.start_s is None else self.start_s) - self.arrival_s


class Dispatch(NamedTuple):
    """One decision, kept to explain the line to those who wait."""

    number: int
    request_id: str
    arrival_s: float
    at_s: float
    key: float
    promoted: bool
    predicted_tokens: float
    policy: str


class Line:
    """Waiting and running requests under one policy, without a clock of its own.

    Parameters
    ----------
    policy : SerialPolicy
        What to run next.
    slots : int
        Requests that may run at once.
    """

    def __init__(self, policy: SerialPolicy, slots: int = 1) -> None:
        check_live(policy)
        self.policy = policy
        self.slots = slots
        self.waiting: dict[int, Waiter] = {}
        self.running: dict[int, Waiter] = {}
        self.dispatches: deque[Dispatch] = deque(maxlen=_KEPT_DISPATCHES)
        self.dispatched = 0
        self.promoted = 0
        self.key_failures = 0
        self._tickets = itertools.count()
        self._queue = WaitingQueue(policy, self._keys_of)
        # who came to an idle line: it goes next whatever its key, so the key is only made if it has to wait
        self._lone: Waiter | None = None

    def ticket(self) -> int:
        """Next ticket; tickets break ties, so they are given in order of arrival."""
        return next(self._tickets)

    def join(self, waiter: Waiter) -> None:
        """Let a request wait."""
        if not self.waiting and len(self.running) < self.slots and self.policy.function is None:
            waiter.position, waiter.dispatch_number = 1, self.dispatched
            self.waiting[waiter.ticket] = self._lone = waiter
            return
        self._settle()
        if not self.policy.dynamic:
            waiter.key = float(self._key([waiter], waiter.arrival_s)[0])
        waiter.position = 1 + self._before(waiter)
        self.waiting[waiter.ticket] = waiter
        self._enqueue(self._queue, waiter)
        waiter.dispatch_number = self.dispatched

    def leave(self, waiter: Waiter) -> bool:
        """Drop a request that waits; False if it does not wait (any more)."""
        if self._lone is waiter:
            self._lone = None
        else:
            self._queue.discard(waiter.ticket)
        return self.waiting.pop(waiter.ticket, None) is not None

    def next(self, now_s: float) -> Waiter | None:
        """Dispatch the next request if a slot is free and one waits."""
        if len(self.running) >= self.slots or not self.waiting:
            return None
        waiter, promoted = self._take(now_s)
        ticket = waiter.ticket
        waiter.start_s, waiter.promoted = now_s, promoted
        self.running[ticket] = waiter
        self.dispatched += 1
        self.promoted += promoted
        self.dispatches.append(
            Dispatch(
                self.dispatched,
                waiter.request_id,
                waiter.arrival_s,
                now_s,
                waiter.key,
                promoted,
                waiter.forecast.predicted_tokens,
                self.policy.name,
            )
        )
        return waiter

    def finish(self, waiter: Waiter) -> bool:
        """Free the slot of a running request; False if it does not run (any more)."""
        return self.running.pop(waiter.ticket, None) is not None

    def set_policy(self, policy: SerialPolicy) -> None:
        """Exchange the policy; those who wait keep their arrival times."""
        check_live(policy)
        fresh = WaitingQueue(policy, self._keys_of)
        before = self.policy
        self.policy = policy
        try:
            waiters = list(self.waiting.values())
            if waiters and not policy.dynamic:
                for waiter, key in zip(waiters, self._key(waiters, waiters[-1].arrival_s), strict=True):
                    waiter.key = float(key)
            for waiter in waiters:
                self._enqueue(fresh, waiter)
            self._lone = None
        except Exception:
            self.policy = before
            raise
        self._queue = fresh

    def order(self, now_s: float) -> list[Waiter]:
        """Those who wait, in the order in which they would go if the clock stood still."""
        self._settle()
        return [self.waiting[ticket] for ticket in self._queue.order_at(now_s)]

    def keys(self, waiters: Sequence[Waiter], now_s: float) -> NDArray[np.float64]:
        """Keys of some requests at a time, under the policy in force."""
        return self._key(waiters, now_s)

    def _take(self, now_s: float) -> tuple[Waiter, bool]:
        """Remove the next of those who wait; whether the starvation timeout chose it."""
        lone, timeout_s = self._lone, self.policy.starvation_timeout_s
        if lone is not None and (timeout_s is None or now_s - lone.arrival_s <= timeout_s):
            self._lone = None
            return self.waiting.pop(lone.ticket), False
        self._settle()
        ticket, promoted = self._queue.take(now_s)
        waiter = self.waiting.pop(ticket)
        if self.policy.dynamic:
            waiter.key = float(self._key([waiter], now_s)[0])
        return waiter, promoted

    def _settle(self) -> None:
        """Give the request that came to an idle line its key and its place among others."""
        waiter, self._lone = self._lone, None
        if waiter is not None:
            if not self.policy.dynamic:
                waiter.key = float(self._key([waiter], waiter.arrival_s)[0])
            self._enqueue(self._queue, waiter)

    def _before(self, waiter: Waiter) -> int:
        """How many of those who wait would go before a newcomer, by key alone."""
        if self.policy.dynamic:
            others = list(self.waiting.values())
            keys = self._key([*others, waiter], waiter.arrival_s)
            return int(np.count_nonzero(keys[:-1] <= keys[-1]))
        key = waiter.key
        return sum(other.key <= key for other in self.waiting.values())

    def _enqueue(self, queue: WaitingQueue, waiter: Waiter) -> None:
        long = self.policy.promotes_long_only and bool(
            self.policy.is_long(_columns([waiter], self.policy))[0]
        )
        queue.add(waiter.ticket, waiter.arrival_s, waiter.key, long)

    def _keys_of(self, tickets: Sequence[int], now_s: float) -> NDArray[np.float64]:
        return self._key([self.waiting[ticket] for ticket in tickets], now_s)

    def _key(self, waiters: Sequence[Waiter], now_s: float) -> NDArray[np.float64]:
        columns = _columns(waiters, self.policy)
        if self.policy.function is None:
            keys = self.policy.key(columns, now_s)
        else:
            try:
                keys = self.policy.key(columns, now_s)
            except Exception:  # a user's function may fail; a request may not be lost for it
                self.key_failures += 1
                keys = columns.arrival_s
        if self.policy.name == "fcfs" and self.policy.function is None:
            # arrival order is what the backend would do by itself; nothing jumps and nothing steps back
            return keys
        if any(waiter.background or waiter.forecast.origin == "embedding" for waiter in waiters):
            keys = keys.copy()
            for row, waiter in enumerate(waiters):
                if waiter.background:
                    keys[row] = math.inf
                elif waiter.forecast.origin == "embedding":
                    keys[row] = -math.inf
        return keys


def _columns(waiters: Sequence[Waiter], policy: SerialPolicy) -> RequestColumns:
    """What the policy reads; a user's function may read any column."""
    arrival = [w.arrival_s for w in waiters]
    if policy.function is None:
        columns = {name: [_READ[name](w) for w in waiters] for name in policy.needs if name in _READ}
        if policy.name == "hrrn":
            columns["expected_service_s"] = [w.expected_service_s for w in waiters]
        return RequestColumns(arrival_s=arrival, **columns)
    return RequestColumns(
        arrival_s=arrival,
        score=[w.forecast.p_long for w in waiters],
        predicted_tokens=[w.forecast.predicted_tokens for w in waiters],
        predicted_class=[int(w.forecast.length_class) for w in waiters],
        expected_service_s=[w.expected_service_s for w in waiters],
        prompt_tokens=[w.prompt_tokens for w in waiters],
    )


class Admission:
    """Lets coroutines wait for a slot.

    Parameters
    ----------
    line : Line
        The bookkeeping.
    clock : callable
        Monotonic seconds.
    max_queue : int
        Requests that may wait.
    on_dispatch : callable, optional
        Called with each waiter at the moment it gets its slot.
    """

    def __init__(
        self,
        line: Line,
        clock: Callable[[], float],
        max_queue: int,
        on_dispatch: Callable[[Waiter], None] | None = None,
    ) -> None:
        self.line = line
        self.clock = clock
        self.max_queue = max_queue
        self.draining = False
        self._on_dispatch = on_dispatch

    def enter(self, waiter: Waiter) -> None:
        """Take a place in the line; `granted` waits for the slot.

        Raises
        ------
        DrainingError
            While the proxy is stopping.
        QueueFullError
            If `max_queue` requests wait already.
        """
        if self.draining:
            raise DrainingError("the proxy is stopping")
        if len(self.line.waiting) >= self.max_queue:
            raise QueueFullError(f"the queue is full ({self.max_queue} requests wait)")
        self.line.join(waiter)

    async def granted(self, waiter: Waiter) -> None:
        """Wait for the slot. A waiter that is cancelled leaves no trace, even if it was granted meanwhile."""
        self.pump()
        if waiter.start_s is not None:
            return
        waiter.granted = asyncio.get_running_loop().create_future()
        try:
            await waiter.granted
        except BaseException:
            # cancelled at the very moment of the grant: the slot is ours and must go back
            self.release(waiter)
            raise

    def release(self, waiter: Waiter) -> None:
        """Give back a slot or a place in the line; doing it twice is harmless."""
        if self.line.finish(waiter) or self.line.leave(waiter):
            self.pump()

    def drain(self) -> None:
        """Stop taking requests; those who wait are refused, those who run may finish."""
        self.draining = True
        for waiter in list(self.line.waiting.values()):
            self.line.leave(waiter)
            if waiter.granted is not None and not waiter.granted.done():
                waiter.granted.set_exception(DrainingError("the proxy is stopping"))

    def pump(self) -> None:
        """Dispatch as long as slots are free."""
        while (waiter := self.line.next(self.clock())) is not None:
            if self._on_dispatch is not None:
                self._on_dispatch(waiter)
            if waiter.granted is not None and not waiter.granted.done():
                waiter.granted.set_result(None)
