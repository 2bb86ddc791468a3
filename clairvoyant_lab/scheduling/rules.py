"""Compiled batch rules: the starts that continuous, static and staged policies give, in exact integers.

The reading of Algorithms 2 and 3 is fixed in the function `open_stage` and in the order of business of
`run_rule`; `simulation.batch_reference` says the same in plain Python. The pool of unstarted jobs is a
bit set over positions in the policy's order (`scheduling.pool`), so that packing skips at once to the
first job that can fit.
"""

from __future__ import annotations

from math import isqrt

import numba
import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.scheduling.pool import first_at_most, insert, largest, next_in, ranked, remove

__all__ = ["RULES", "rule_schedule", "rule_starts"]

Steps = NDArray[np.int64]

CONTINUOUS, STATIC, STAGED = 0, 1, 2
IDLE = np.iinfo(np.int64).max
RULES = (
    "fcfs",
    "sjf",
    "ljf",
    "isjl",
    "isjl_b2",
    "isjl_literal",
    "isjl_unguarded",
    "slack",
    "robust",
    "online",
)


def rule_schedule(
    name: str,
    lengths: Steps,
    batch_size: int,
    alpha: int | None = None,
    release_steps: Steps | None = None,
    upper_bounds: Steps | None = None,
) -> Steps:
    """Starts under a rule, and the jobs in the order in which they start.

    Parameters
    ----------
    name : str
        One of `RULES`.
    lengths : ndarray of int64, shape (n,)
        Tokens of each job, at least 1; arguments are taken as checked.
    batch_size : int
        Slots.
    alpha : int, optional
        Progress limit; needed by the staged rules.
    release_steps, upper_bounds : ndarray of int64, shape (n,), optional
        Earliest starts; lengths to plan with.

    Returns
    -------
    starts, sequence : ndarray of int64, shape (n,)
        First step of each job; jobs by ascending start.
    """
    n = lengths.size
    planned = lengths if upper_bounds is None else upper_bounds
    if name == "fcfs":
        kind = CONTINUOUS
        order = np.arange(n) if release_steps is None else np.argsort(release_steps, kind="stable")
    elif name == "sjf":
        kind = CONTINUOUS
        order = ranked(planned, False)
    else:
        kind = STATIC if name == "ljf" else STAGED
        order = ranked(planned, True)
    if kind == STAGED and alpha is None:
        raise ParameterError("alpha", None, f"{name} needs a progress limit >= 0")
    limit = 0 if alpha is None else min(alpha, int(planned.max()))  # a larger limit limits nothing more
    if name == "slack":
        most, allowance = limit, 0
    elif name == "isjl_b2":
        # x <= o_1 - o_2 + beta with beta = (sqrt 17 - 1)/4 alpha, for integers x, is this floor
        most, allowance = 2 * limit, (isqrt(17 * limit * limit) - limit) // 4
    else:
        most, allowance = 2 * limit, limit
    release = np.zeros(0, dtype=np.int64) if release_steps is None else release_steps
    arrivals = (
        np.zeros(0, dtype=np.int64) if release_steps is None else np.argsort(release_steps, kind="stable")
    )
    return run_rule(
        order,
        planned[order],
        lengths,
        release,
        arrivals,
        min(batch_size, n) if kind != STAGED else batch_size,
        limit,
        kind,
        most,
        allowance,
        name != "slack",
        name not in ("isjl_literal", "isjl_unguarded"),
        name == "isjl_literal",
    )


def rule_starts(
    name: str,
    lengths: Steps,
    batch_size: int,
    alpha: int | None = None,
    release_steps: Steps | None = None,
    upper_bounds: Steps | None = None,
) -> Steps:
    """Start step of each job under a rule, int64[n]; arguments as in `rule_schedule`."""
    return rule_schedule(name, lengths, batch_size, alpha, release_steps, upper_bounds)[0]


@numba.njit(cache=True, nogil=True)
def run_rule(
    order: Steps,
    sizes: Steps,
    lengths: Steps,
    release: Steps,
    arrivals: Steps,
    batch_size: int,
    alpha: int,
    kind: int,
    most: int,
    allowance: int,
    holds: bool,
    guarded: bool,
    literal: bool,
) -> tuple[Steps, Steps]:
    """Event loop over B workers (compiled); returns starts by job, and the jobs by ascending start.

    At one instant, in this order: finishes; releases; the held job starts; each idle worker goes on with
    its pack (P4: only if the largest progress is at most alpha, else the rest of the pack returns to the
    pool); idle workers take the first job of the pool (P5, same test); an empty machine opens a stage (P0).

    Parameters
    ----------
    order : ndarray of int64, shape (n,)
        Jobs in the order in which the rule takes them.
    sizes : ndarray of int64, shape (n,)
        Planned length by position in `order`.
    lengths : ndarray of int64, shape (n,)
        True length by job.
    release, arrivals : ndarray of int64, shape (n,) or (0,)
        Release by job and jobs by release; empty: all at 0.
    batch_size, alpha, kind, most, allowance : int
        A pack beside anchor j totals at most min(most, o_1 - o_j + allowance).
    holds, guarded, literal : bool
        Hold o_1 (P3); guard pack starts (P4); anchors are packed and Phase TWO starts at once.
    """
    n = order.size
    starts = np.full(n, -1, dtype=np.int64)
    words = (n + 63) >> 6
    bits = np.zeros(words, dtype=np.uint64)
    sums = np.zeros((words + 63) >> 6, dtype=np.uint64)
    tops = np.zeros((((words + 63) >> 6) + 63) >> 6, dtype=np.uint64)
    position = np.empty(n, dtype=np.int64)
    for p in range(n):
        position[order[p]] = p
    arrived = 0
    if release.size == 0:
        arrived = n
        for p in range(n):
            insert(bits, sums, tops, p)

    sequence = np.empty(n, dtype=np.int64)
    begun = 0
    ends = np.full(batch_size, IDLE, dtype=np.int64)
    begins = np.full(batch_size, IDLE, dtype=np.int64)
    pack_first = np.full(batch_size, -1, dtype=np.int64)  # packs are linked lists of positions
    pack_last = np.full(batch_size, -1, dtype=np.int64)
    pack_next = np.full(n, -1, dtype=np.int64)
    left = np.zeros(batch_size, dtype=np.int64)
    packed = False
    busy = 0
    held = -1
    held_until = 0
    phase_two_from = 0
    t = 0
    while True:
        soonest = IDLE  # next finish
        first_start = IDLE
        for w in range(batch_size):
            if ends[w] == t:
                ends[w] = IDLE
                begins[w] = IDLE
                busy -= 1
            soonest = min(soonest, ends[w])
            first_start = min(first_start, begins[w])
        if release.size > 0:
            while arrived < n and release[arrivals[arrived]] <= t:
                insert(bits, sums, tops, position[arrivals[arrived]])
                arrived += 1
        if held >= 0 and held_until == t:
            job = order[held]
            starts[job] = begins[0] = t
            ends[0] = t + lengths[job]
            soonest = min(soonest, ends[0])
            sequence[begun] = job
            begun += 1
            busy += 1
            held = -1
        close = first_start > t or t - first_start <= alpha
        opened = False
        while True:
            if packed:
                packed = False
                for w in range(1, batch_size):
                    p = pack_first[w]
                    if p < 0:
                        continue
                    if ends[w] != IDLE:
                        packed = True
                    elif guarded and not close:
                        while p >= 0:
                            insert(bits, sums, tops, p)
                            p = pack_next[p]
                        pack_first[w] = -1
                    else:
                        pack_first[w] = pack_next[p]
                        packed = packed or pack_first[w] >= 0
                        job = order[p]
                        starts[job] = begins[w] = t
                        ends[w] = t + lengths[job]
                        soonest = min(soonest, ends[w])
                        sequence[begun] = job
                        begun += 1
                        busy += 1
            admits = kind == CONTINUOUS or (kind == STAGED and close and busy > 0 and t >= phase_two_from)
            if admits and busy < batch_size:
                p = next_in(bits, sums, tops, 0, n)
                for w in range(1 if held >= 0 else 0, batch_size):
                    if p >= n or busy == batch_size:
                        break
                    if ends[w] != IDLE or pack_first[w] >= 0:
                        continue
                    remove(bits, sums, tops, p)
                    job = order[p]
                    starts[job] = begins[w] = t
                    ends[w] = t + lengths[job]
                    soonest = min(soonest, ends[w])
                    sequence[begun] = job
                    begun += 1
                    busy += 1
                    p = next_in(bits, sums, tops, p + 1, n)
            if opened or busy > 0 or held >= 0:
                break
            lead = next_in(bits, sums, tops, 0, n)
            if lead >= n:
                break
            opened = True
            hold = 0
            if kind == STAGED:
                hold = open_stage(
                    bits, sums, tops, sizes, lead, batch_size, alpha, most, allowance, holds, literal,
                    left, pack_first, pack_last, pack_next,
                )  # fmt: skip
                packed = True
                phase_two_from = t if literal else t + hold
            if hold > 0:
                remove(bits, sums, tops, lead)
                held = lead
                held_until = t + hold
                continue
            for w in range(batch_size if kind == STATIC else 1):
                if lead >= n:
                    break
                remove(bits, sums, tops, lead)
                job = order[lead]
                starts[job] = begins[w] = t
                ends[w] = t + lengths[job]
                soonest = min(soonest, ends[w])
                sequence[begun] = job
                begun += 1
                busy += 1
                lead = next_in(bits, sums, tops, lead + 1, n)
        if held >= 0:
            soonest = min(soonest, held_until)
        if arrived < n:
            soonest = min(soonest, release[arrivals[arrived]])
        if soonest == IDLE:
            return starts, sequence
        t = soonest


@numba.njit(cache=True, nogil=True)
def open_stage(
    bits: NDArray[np.uint64],
    sums: NDArray[np.uint64],
    tops: NDArray[np.uint64],
    sizes: Steps,
    lead: int,
    batch_size: int,
    alpha: int,
    most: int,
    allowance: int,
    holds: bool,
    literal: bool,
    left: Steps,
    pack_first: Steps,
    pack_last: Steps,
    pack_next: Steps,
) -> int:
    """Phase ONE (compiled): choose anchors and packs on an empty machine; return o_1's hold in steps.

    P0: no packs if there are fewer than two jobs or the second is at most alpha long. P1: the first
    M = min(B, #{o > alpha}) jobs are anchors, never packed (unless `literal`). P2: the rest is scanned by
    descending length and goes to the first of workers M+1..B (alpha in total each), then M..2, that has room.
    """
    n = sizes.size
    second = next_in(bits, sums, tops, lead + 1, n)
    if batch_size < 2 or second >= n or sizes[second] <= alpha:
        return 0
    m = 1
    left[0] = 0
    p = second
    while m < batch_size and p < n and sizes[p] > alpha:
        left[m] = min(most, sizes[lead] - sizes[p] + allowance)
        m += 1
        p = next_in(bits, sums, tops, p + 1, n)
    for w in range(m, batch_size):
        left[w] = alpha
    cap_last = left[m - 1]
    if literal:
        p = second
    room = largest(left)
    while p < n and room > 0:
        size = sizes[p]
        if size > room:
            p = next_in(bits, sums, tops, first_at_most(sizes, room, p), n)
            continue
        worker = -1
        for w in range(m, batch_size):
            if left[w] >= size:
                worker = w
                break
        if worker < 0:
            for w in range(m - 1, 0, -1):
                if left[w] >= size:
                    worker = w
                    break
        had = left[worker]
        left[worker] = had - size
        if had == room:
            room = largest(left)
        remove(bits, sums, tops, p)
        pack_next[p] = -1
        if pack_first[worker] < 0:
            pack_first[worker] = p
        else:
            pack_next[pack_last[worker]] = p
        pack_last[worker] = p
        p = next_in(bits, sums, tops, p + 1, n)
    if not holds:
        return 0
    return min(max(cap_last - left[m - 1] - alpha, 0), alpha)
