"""What an engine hands back for each request, before it becomes a `SerialRun`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["COMPLETED", "DROPPED", "NOT_ARRIVED", "QUEUED", "RUNNING", "STATE_NAMES", "Outcome"]

COMPLETED, RUNNING, QUEUED, DROPPED, NOT_ARRIVED = range(5)
STATE_NAMES = ("completed", "running", "queued", "dropped", "not arrived")


@dataclass
class Outcome:
    """Arrays of one run; NaN times and slot -1 where something did not happen."""

    start_s: NDArray[np.float64]
    finish_s: NDArray[np.float64]
    promoted: NDArray[np.bool_]
    order: NDArray[np.int64]
    state: NDArray[np.int8]
    slot: NDArray[np.int16]

    @classmethod
    def empty(cls, n: int) -> Outcome:
        """Nothing has happened to n requests yet."""
        return cls(
            np.full(n, np.nan),
            np.full(n, np.nan),
            np.zeros(n, dtype=np.bool_),
            np.empty(0, dtype=np.int64),
            np.full(n, QUEUED, dtype=np.int8),
            np.full(n, -1, dtype=np.int16),
        )
