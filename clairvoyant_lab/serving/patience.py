"""A time limit whose end moves with every piece that comes, at the price of an assignment."""

from __future__ import annotations

import asyncio
import math
from types import TracebackType

__all__ = ["Patience"]


class Patience:
    """As `asyncio.timeout`, for limits that are put off hundreds of times; re-armed only when due.

    Parameters
    ----------
    seconds : float or None
        The first limit, from entering on; None is no limit.
    soonest_s : float, optional
        The shortest limit that is to come: the timer is set for it at once, which saves setting it twice.

    Raises
    ------
    TimeoutError
        From the block, when the limit has passed.
    """

    __slots__ = (
        "_armed_at",
        "_cancelling",
        "_deadline",
        "_expired",
        "_handle",
        "_loop",
        "_seconds",
        "_soonest_s",
        "_task",
    )

    def __init__(self, seconds: float | None, soonest_s: float | None = None) -> None:
        self._seconds = math.inf if seconds is None else seconds
        self._soonest_s = self._seconds if soonest_s is None else min(self._seconds, soonest_s)
        self._expired = False
        self._deadline = self._armed_at = math.inf
        self._handle: asyncio.TimerHandle | None = None

    def __enter__(self) -> Patience:
        task = asyncio.current_task()
        assert task is not None, "used inside a task only"
        self._task = task
        self._loop = task.get_loop()
        self._cancelling = task.cancelling()
        now = self._loop.time()
        self._deadline = now + self._seconds
        if self._soonest_s < math.inf:
            self._arm(now + self._soonest_s)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle is not None:
            self._handle.cancel()
        if self._expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def renew(self, seconds: float | None) -> None:
        """Let the limit end so many seconds from now; None puts it off for good."""
        self._deadline = deadline = math.inf if seconds is None else self._loop.time() + seconds
        if deadline < self._armed_at:
            if self._handle is not None:
                self._handle.cancel()
            self._arm(deadline)

    def _arm(self, at: float) -> None:
        self._armed_at = at
        self._handle = self._loop.call_at(at, self._due)

    def _due(self) -> None:
        if self._loop.time() < self._deadline:
            if self._deadline < math.inf:
                self._arm(self._deadline)
            else:
                self._armed_at, self._handle = math.inf, None
            return
        self._handle = None
        self._expired = True
        self._task.cancel()
