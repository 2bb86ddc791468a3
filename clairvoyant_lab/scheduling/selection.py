"""The choice at a dispatch: promotion, then the smallest key. One place for the simulator and a live queue.

Section 3.4: just before each dispatch, if some waiting request has waited strictly longer than τ, one that
did is promoted; which one is the policy's `promotion`. Otherwise the smallest key goes, ties by earlier
arrival, then by lower ticket.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.scheduling.serial import SerialPolicy

__all__ = ["WaitingQueue"]

DynamicKeys = Callable[[Sequence[int], float], NDArray[np.float64]]


class WaitingQueue:
    """Requests that wait, and the rule that says who is next.

    Parameters
    ----------
    policy : SerialPolicy
        Not preemptive.
    dynamic_keys : callable, optional
        `(tickets, now_s) -> float64[len(tickets)]`; needed by a dynamic policy only.

    Notes
    -----
    `add`, `discard` and `take` cost O(log n) amortised for a static key; `take` under a dynamic key looks at
    every waiting request. Times passed to `take` must not go back.
    """

    def __init__(self, policy: SerialPolicy, dynamic_keys: DynamicKeys | None = None) -> None:
        if policy.preemptive:
            raise ParameterError("policy", policy, "a preemptive policy has no waiting queue: simulate it")
        if policy.dynamic and dynamic_keys is None:
            raise ParameterError("dynamic_keys", None, f"policy {policy.name!r} is dynamic and needs it")
        self.policy = policy
        self._dynamic_keys = dynamic_keys
        # ticket -> (key, arrival_s, long); what is not here has left, heaps may still hold it
        self._waiting: dict[int, tuple[float, float, bool]] = {}
        self._by_key: list[tuple[float, float, int]] = []
        self._by_arrival: list[tuple[float, int]] = []
        self._expired_by_key: list[tuple[float, float, int]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, ticket: int) -> bool:
        return ticket in self._waiting

    def add(self, ticket: int, arrival_s: float, key: float = 0.0, long: bool = False) -> None:
        """Let a request wait.

        Parameters
        ----------
        ticket : int
            Unique; breaks ties of equal key and arrival.
        arrival_s : float
            When its wait began.
        key : float
            `policy.key` of the request; ignored under a dynamic policy.
        long : bool
            `policy.is_long` of the request; matters under `long_only`.
        """
        if ticket in self._waiting:
            raise ParameterError("ticket", ticket, "already waits; give each request its own")
        self._waiting[ticket] = (key, arrival_s, long)
        if not self.policy.dynamic:
            heapq.heappush(self._by_key, (key, arrival_s, ticket))
        if self.policy.starvation_timeout_s is not None and (long or self.policy.promotion != "long_only"):
            heapq.heappush(self._by_arrival, (arrival_s, ticket))

    def discard(self, ticket: int) -> bool:
        """Forget a request whose client left; False if it does not wait (any more)."""
        found = self._waiting.pop(ticket, None) is not None
        self._shed()
        return found

    def take(self, now_s: float) -> tuple[int, bool]:
        """Remove and return the next request.

        Parameters
        ----------
        now_s : float
            Time of the dispatch.

        Returns
        -------
        ticket : int
        promoted : bool
            Whether the promotion rule chose it (even if the key would have chosen it too).

        Raises
        ------
        IndexError
            If nothing waits.
        """
        if not self._waiting:
            raise IndexError("take from an empty queue")
        ticket = self._expired(now_s)
        promoted = ticket is not None
        if ticket is None:
            ticket = (
                self._smallest(list(self._waiting), now_s) if self.policy.dynamic else self._first_by_key()
            )
        del self._waiting[ticket]
        self._shed()
        return ticket, promoted

    def order_at(self, now_s: float) -> list[int]:
        """Tickets in the order in which they would go if the clock stood still at `now_s`."""
        tickets = list(self._waiting)
        if not tickets:
            return []
        if self.policy.dynamic and self._dynamic_keys is not None:
            keys = dict(zip(tickets, map(float, self._dynamic_keys(tickets, now_s)), strict=True))
        else:
            keys = {ticket: self._waiting[ticket][0] for ticket in tickets}
        timeout = self.policy.starvation_timeout_s

        def rank(ticket: int) -> tuple[int, float, float, int]:
            _, arrival_s, long = self._waiting[ticket]
            expired = timeout is not None and now_s - arrival_s > timeout
            if expired and self.policy.promotion == "oldest":
                return (0, arrival_s, 0.0, ticket)
            if expired and self.policy.promotion == "shortest":
                return (0, keys[ticket], arrival_s, ticket)
            if expired and long:
                return (0, arrival_s, 0.0, ticket)
            return (1, keys[ticket], arrival_s, ticket)

        return sorted(tickets, key=rank)

    def _expired(self, now_s: float) -> int | None:
        timeout = self.policy.starvation_timeout_s
        if timeout is None:
            return None
        if self.policy.promotion == "shortest":
            while self._by_arrival and (
                self._by_arrival[0][1] not in self._waiting or now_s - self._by_arrival[0][0] > timeout
            ):
                arrival_s, ticket = heapq.heappop(self._by_arrival)
                if ticket in self._waiting:
                    heapq.heappush(self._expired_by_key, (self._waiting[ticket][0], arrival_s, ticket))
            while self._expired_by_key and self._expired_by_key[0][2] not in self._waiting:
                heapq.heappop(self._expired_by_key)
            if self._expired_by_key and self.policy.dynamic:
                return self._smallest([t for _, _, t in self._expired_by_key if t in self._waiting], now_s)
            return self._expired_by_key[0][2] if self._expired_by_key else None
        while self._by_arrival and self._by_arrival[0][1] not in self._waiting:
            heapq.heappop(self._by_arrival)
        if self._by_arrival and now_s - self._by_arrival[0][0] > timeout:
            return self._by_arrival[0][1]
        return None

    def _first_by_key(self) -> int:
        while self._by_key[0][2] not in self._waiting:
            heapq.heappop(self._by_key)
        return self._by_key[0][2]

    def _smallest(self, tickets: list[int], now_s: float) -> int:
        assert self._dynamic_keys is not None
        keys = self._dynamic_keys(tickets, now_s)
        ranked = zip(map(float, keys), (self._waiting[t][1] for t in tickets), tickets, strict=True)
        return min(ranked)[2]

    def _shed(self) -> None:
        """Rebuild a heap once most of it has left, so memory follows the queue, not its history."""
        limit = 2 * len(self._waiting) + 64
        for heap in (self._by_key, self._expired_by_key):
            if len(heap) > limit:
                heap[:] = [entry for entry in heap if entry[2] in self._waiting]
                heapq.heapify(heap)
        if len(self._by_arrival) > limit:
            self._by_arrival[:] = [entry for entry in self._by_arrival if entry[1] in self._waiting]
            heapq.heapify(self._by_arrival)
