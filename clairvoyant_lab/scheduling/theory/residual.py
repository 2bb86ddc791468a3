"""The packable residual of upper bounds (section 3.4): what planning on u_i instead of o_i may cost.

Delta^pack is the least sum, over partitions of the jobs into groups of at most B whose lengths differ by at
most alpha, of each group's largest excess u_i - o_i.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.scheduling.batch import check_alpha, check_batch_size, check_steps

__all__ = ["PackedResidual", "packed_residual"]

Steps = NDArray[np.int64]
MOST_EXACT_JOBS = 14


@dataclass(frozen=True, slots=True)
class PackedResidual:
    """Delta^pack, or bounds on it.

    Parameters
    ----------
    lower, upper : int
        Equal if exact. `upper` belongs to a partition that was found.
    total : int
        Delta, the sum of the excesses: the pessimistic singleton partition.
    mean_slack : float
        Delta / O, Corollary 3.24's average slack.
    """

    lower: int
    upper: int
    total: int
    mean_slack: float

    @property
    def exact(self) -> bool:
        """Whether lower and upper agree."""
        return self.lower == self.upper


def packed_residual(
    lengths: ArrayLike, upper_bounds: ArrayLike, batch_size: int, alpha: int
) -> PackedResidual:
    """Delta^pack of an instance: exact for up to 14 jobs, between two bounds beyond.

    Upper bound: repeatedly the job with the largest excess takes along, among the jobs within alpha of it
    that keep the group's spread, those with the next largest excesses. Lower bound: sort the excesses; the
    best that any partition into groups of B can do is sum every B-th of them, whatever the lengths.

    Parameters
    ----------
    lengths, upper_bounds : array_like of int, shape (n,)
    batch_size, alpha : int
    """
    own = check_steps("lengths", lengths, at_least=1)
    bounds = check_steps("upper_bounds", upper_bounds, at_least=1, n=own.size, floor=own)
    size, limit = check_batch_size(batch_size), check_alpha(alpha)
    excess = bounds - own
    total = int(excess.sum())
    slack = total / int(own.sum())
    if own.size <= MOST_EXACT_JOBS:
        value = _exact(tuple(own.tolist()), tuple(excess.tolist()), size, limit)
        return PackedResidual(value, value, total, slack)
    lower = int(np.sort(excess)[::-1][::size].sum())
    return PackedResidual(lower, _greedy(own, excess, size, limit), total, slack)


def _greedy(lengths: Steps, excess: Steps, size: int, limit: int) -> int:
    """The better of two partitions: by excess as described, and by length in runs of B."""
    order = np.argsort(-excess, kind="stable")
    free = np.ones(lengths.size, dtype=bool)
    by_excess = 0
    for lead in order:
        if not free[lead]:
            continue
        if excess[lead] == 0:
            break
        by_excess += int(excess[lead])
        free[lead] = False
        low = high = int(lengths[lead])
        count = 1
        near = order[free[order] & (np.abs(lengths[order] - lengths[lead]) <= limit)]
        for job in near:
            if count == size:
                break
            length = int(lengths[job])
            if max(high, length) - min(low, length) <= limit:
                low, high = min(low, length), max(high, length)
                free[job] = False
                count += 1
    ordered = np.argsort(lengths, kind="stable")
    by_length = 0
    k = 0
    while k < ordered.size:
        end = min(k + size, ordered.size)
        spread = lengths[ordered[k:end]] - lengths[ordered[k]]
        end = k + int(np.searchsorted(spread, limit, side="right"))
        by_length += int(excess[ordered[k:end]].max())
        k = end
    return min(by_excess, by_length)


def _exact(lengths: tuple[int, ...], excess: tuple[int, ...], size: int, limit: int) -> int:
    """Partition by memoised search: the waiting job with the largest excess leads the next group.

    Then every member's excess is free, so of the members only which jobs are removed matters; taking more
    jobs into a group never costs, but which ones fit the spread does, so maximal groups are tried.
    """
    n = len(lengths)
    order = sorted(range(n), key=lambda i: (-excess[i], i))
    own = [lengths[i] for i in order]
    over = [excess[i] for i in order]

    @cache
    def least(mask: int) -> int:
        if not mask:
            return 0
        lead = (mask & -mask).bit_length() - 1
        if over[lead] == 0:
            return 0
        rest = mask & ~(1 << lead)
        best: int | None = None
        # choose the window of lengths [low, low + limit] that holds the lead
        lows = sorted(
            {own[i] for i in range(n) if mask >> i & 1 and own[lead] - limit <= own[i] <= own[lead]}
        )
        for low in lows:
            inside = [i for i in range(n) if rest >> i & 1 and low <= own[i] <= low + limit]
            for chosen in _maximal(inside, size - 1):
                value = least(rest & ~chosen)
                if best is None or value < best:
                    best = value
        assert best is not None
        return over[lead] + best

    return least((1 << n) - 1)


def _maximal(members: list[int], count: int) -> list[int]:
    """Masks of all subsets of the given size, or the whole if it is smaller."""
    from itertools import combinations

    if len(members) <= count:
        return [sum(1 << i for i in members)]
    return [sum(1 << i for i in chosen) for chosen in combinations(members, count)]
