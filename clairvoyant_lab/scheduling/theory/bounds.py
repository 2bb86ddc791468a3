"""Lower bounds on every non-preemptive alpha-fair makespan, and how fast a pool fills like batches.

Jobs are taken by descending length, o_1 >= o_2 >= ...; two jobs longer than 2 alpha that don't start within
alpha of each other can't overlap, so long jobs run in groups, and the bounds say what that costs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.scheduling.batch import check_alpha, check_batch_size, check_steps

__all__ = [
    "MatchingBound",
    "alpha_cost",
    "cell_bound",
    "idle_bound",
    "ljf_makespan",
    "makespan_bound",
    "makespan_bounds",
    "matching_bound",
    "work_bound",
]

Steps = NDArray[np.int64]


def ljf_makespan(lengths: ArrayLike, batch_size: int) -> int:
    """Makespan of LJF: the sum of the longest job of each static batch; 0 without jobs."""
    ordered = np.sort(np.asarray(lengths, dtype=np.int64))[::-1]
    return int(ordered[:: check_batch_size(batch_size)].sum())


def work_bound(lengths: ArrayLike, batch_size: int) -> int:
    """max(o_1, ceil(O / B)): holds for any schedule, fair or not."""
    own = check_steps("lengths", lengths, at_least=1)
    return max(int(own.max()), -(-int(own.sum()) // check_batch_size(batch_size)))


def idle_bound(lengths: ArrayLike, batch_size: int, alpha: int) -> int:
    """Work plus the slots that long groups must leave idle, over B.

    B T >= O + sum over groups of B by descending length whose longest L exceeds 2 alpha of
    sum over its slots of max(L - alpha - o_i, 0), an empty slot counting as o_i = 0.
    """
    own = check_steps("lengths", lengths, at_least=1)
    size, limit = check_batch_size(batch_size), check_alpha(alpha)
    ordered = np.sort(own)[::-1]
    groups = int(np.count_nonzero(ordered[::size] > 2 * limit))
    padded = np.zeros(groups * size, dtype=np.int64)
    taken = ordered[: groups * size]
    padded[: taken.size] = taken
    table = padded.reshape(groups, size)
    idle = int(np.maximum(table[:, :1] - limit - table, 0).sum())
    return -(-(int(own.sum()) + idle) // size)


def cell_bound(lengths: ArrayLike, batch_size: int, alpha: int) -> int:
    """Length of the groups that long jobs need, one after another, and what is left of the next.

    With c = ceil(#{o > 2 alpha} / B): T >= sum_{k<c} o_{Bk+1} + max(o_{Bc+1} - alpha, 0), 1-based.
    The first sum is LJF's makespan on the jobs longer than 2 alpha.
    """
    own = check_steps("lengths", lengths, at_least=1)
    size, limit = check_batch_size(batch_size), check_alpha(alpha)
    ordered = np.sort(own)[::-1]
    cells = -(-int(np.count_nonzero(ordered > 2 * limit)) // size)
    total = int(ordered[: size * cells : size].sum())
    if size * cells < ordered.size:
        total += max(int(ordered[size * cells]) - limit, 0)
    return total


def makespan_bounds(lengths: ArrayLike, batch_size: int, alpha: int) -> dict[str, int]:
    """Every bound by name: `work`, `long_jobs` (LJF of the jobs longer than 2 alpha), `idle`, `cells`."""
    own = check_steps("lengths", lengths, at_least=1)
    limit = check_alpha(alpha)
    return {
        "work": work_bound(own, batch_size),
        "long_jobs": ljf_makespan(own[own > 2 * limit], batch_size),
        "idle": idle_bound(own, batch_size, limit),
        "cells": cell_bound(own, batch_size, limit),
    }


def makespan_bound(lengths: ArrayLike, batch_size: int, alpha: int) -> int:
    """The strongest of `makespan_bounds`."""
    return max(makespan_bounds(lengths, batch_size, alpha).values())


def alpha_cost(lengths: ArrayLike, delta: float) -> float:
    """Largest alpha whose externality is at most the share delta of the intrinsic cost (section 5.1).

    delta Q / O: since E <= alpha O for every alpha-fair schedule, tau E <= delta tau Q.

    Parameters
    ----------
    lengths : array_like of int, shape (n,)
    delta : float
        Accepted share, at least 0.
    """
    own = check_steps("lengths", lengths, at_least=1)
    if not (delta >= 0 and np.isfinite(delta)):
        raise ParameterError("delta", delta, "give a share of the intrinsic cost, at least 0")
    return delta * int((own * (own + 1) // 2).sum()) / int(own.sum())


@dataclass(frozen=True, slots=True)
class MatchingBound:
    """How many waiting jobs can go into full batches of like length (section 7).

    Parameters
    ----------
    pending : int
        N.
    matched : int
        Jobs in full batches, by construction.
    promised : int
        N - K (B - 1), at least 0: the paper's bound.
    intervals : int
        K, the number of length intervals of width alpha.
    """

    pending: int
    matched: int
    promised: int
    intervals: int

    @property
    def unmatched_share(self) -> float:
        """Share of the jobs that is left over."""
        return 1 - self.matched / self.pending

    @property
    def unmatched_share_bound(self) -> float:
        """K (B - 1) / N, at most 1."""
        return 1 - self.promised / self.pending


def matching_bound(lengths: ArrayLike, batch_size: int, alpha: int) -> MatchingBound:
    """Cut lengths into intervals of width alpha and fill batches within each (section 7).

    Parameters
    ----------
    lengths : array_like of int, shape (N,)
    batch_size : int
    alpha : int
        At least 1: the width of an interval.
    """
    own = check_steps("lengths", lengths, at_least=1)
    size, width = check_batch_size(batch_size), check_alpha(alpha)
    if width < 1:
        raise ParameterError("alpha", alpha, "give at least 1: it is the width of a length interval")
    counts = np.bincount((own - 1) // width)
    intervals = -(-int(own.max()) // width)
    return MatchingBound(
        pending=own.size,
        matched=int((counts // size * size).sum()),
        promised=max(own.size - intervals * (size - 1), 0),
        intervals=intervals,
    )
