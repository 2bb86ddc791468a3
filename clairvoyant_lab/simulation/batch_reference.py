"""Plain-Python batch engine: the rules written for reading, the measures counted step by step.

It is the yardstick of the compiled engine (`scheduling.rules`, `scheduling.measure`): slower by orders of
magnitude, and written independently, with lists instead of bit sets and one loop a step instead of closed
forms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.scheduling.measure import ScheduleMeasure

__all__ = ["reference_measure", "reference_starts"]


@dataclass
class _Machine:
    """B workers, the pool, and what a stage has promised to each worker."""

    lengths: Sequence[int]  # true lengths, decide when a job ends
    planned: Sequence[int]  # lengths the policy plans with
    batch_size: int
    pool: list[int] = field(default_factory=list)
    running: dict[int, int] = field(default_factory=dict)  # worker -> job
    starts: dict[int, int] = field(default_factory=dict)  # job -> step
    packs: dict[int, list[int]] = field(default_factory=dict)  # worker -> jobs still to run, in order
    held: tuple[int, int] | None = None  # (job, step at which worker 0 starts it)
    phase_two_from: int = 0

    def end(self, worker: int) -> int:
        job = self.running[worker]
        return self.starts[job] + self.lengths[job]

    def start(self, worker: int, job: int, t: int) -> None:
        self.running[worker] = job
        self.starts[job] = t
        if job in self.pool:
            self.pool.remove(job)

    def largest_progress(self, t: int) -> int:
        return max((t - self.starts[job] for job in self.running.values()), default=0)

    def idle(self) -> list[int]:
        reserved = {0} if self.held is not None else set()
        return [w for w in range(self.batch_size) if w not in self.running and w not in reserved]


def reference_starts(
    name: str,
    lengths: Sequence[int],
    batch_size: int,
    alpha: int | None = None,
    release_steps: Sequence[int] | None = None,
    upper_bounds: Sequence[int] | None = None,
) -> list[int]:
    """Start step of each job under a named policy (all but planned ones); arguments as checked.

    The order of business at one instant: finishes, releases, the held job's start, packs in worker order,
    Phase TWO in worker order, and a new stage if the machine stands empty.
    """
    n = len(lengths)
    planned = list(lengths) if upper_bounds is None else list(upper_bounds)
    release = [0] * n if release_steps is None else list(release_steps)
    machine = _Machine(list(lengths), planned, batch_size)
    arrivals = sorted(range(n), key=lambda i: (release[i], i))

    def rank(job: int) -> tuple[int, int]:
        if name == "fcfs":
            return (release[job], job)
        return (planned[job] if name == "sjf" else -planned[job], job)

    t = 0
    while True:
        for worker in [w for w in machine.running if machine.end(w) <= t]:
            del machine.running[worker]
        while arrivals and release[arrivals[0]] <= t:
            machine.pool.append(arrivals.pop(0))
        machine.pool.sort(key=rank)
        if machine.held is not None and machine.held[1] == t:
            job = machine.held[0]
            machine.held = None
            machine.start(0, job, t)
        _carry_on(machine, name, alpha, t)
        if not machine.running and machine.held is None and machine.pool:
            _open_stage(machine, name, alpha, t)
            machine.pool.sort(key=rank)
            _carry_on(machine, name, alpha, t)
        events = [machine.end(w) for w in machine.running]
        if machine.held is not None:
            events.append(machine.held[1])
        if arrivals:
            events.append(release[arrivals[0]])
        if not events:
            return [machine.starts[i] for i in range(n)]
        t = min(events)


def _carry_on(machine: _Machine, name: str, alpha: int | None, t: int) -> None:
    """Continue packs, then admit to idle workers."""
    guarded = name not in {"isjl_literal", "isjl_unguarded"}
    for worker in machine.idle():
        pack = machine.packs.get(worker, [])
        if not pack:
            continue
        if guarded and machine.largest_progress(t) > _limit(alpha):
            machine.pool.extend(pack)
            machine.packs[worker] = []
            machine.pool.sort(key=lambda job: (-machine.planned[job], job))
        else:
            machine.start(worker, pack.pop(0), t)
    if name == "ljf":
        return
    for worker in machine.idle():
        if machine.packs.get(worker) or not machine.pool or t < machine.phase_two_from:
            continue
        if name in {"fcfs", "sjf"} or (machine.running and machine.largest_progress(t) <= _limit(alpha)):
            machine.start(worker, machine.pool[0], t)


def _limit(alpha: int | None) -> int:
    assert alpha is not None, "staged rules need alpha"
    return alpha


def _open_stage(machine: _Machine, name: str, alpha: int | None, t: int) -> None:
    """Phase ONE on an empty machine (P0-P3), or LJF's next static batch."""
    if name == "ljf":
        for worker in range(min(machine.batch_size, len(machine.pool))):
            machine.start(worker, machine.pool[0], t)
        return
    limit = _limit(alpha)
    size = machine.planned
    pool = list(machine.pool)
    machine.phase_two_from = t
    if len(pool) < 2 or machine.batch_size < 2 or size[pool[1]] <= limit:
        machine.start(0, pool[0], t)
        return
    m = min(machine.batch_size, sum(size[job] > limit for job in pool))
    anchors = pool[:m]
    longest = size[anchors[0]]
    if name == "slack":
        most, allowance = limit, 0
    elif name == "isjl_b2":
        most, allowance = 2 * limit, (isqrt(17 * limit * limit) - limit) // 4
    else:
        most, allowance = 2 * limit, limit
    caps = {w: min(most, longest - size[anchors[w]] + allowance) for w in range(1, m)}
    caps.update(dict.fromkeys(range(m, machine.batch_size), limit))
    choice = [*range(m, machine.batch_size), *range(m - 1, 0, -1)]
    packs: dict[int, list[int]] = {w: [] for w in caps}
    total = dict.fromkeys(caps, 0)
    for job in pool[1:] if name == "isjl_literal" else pool[m:]:
        for worker in choice:
            if total[worker] + size[job] <= caps[worker]:
                packs[worker].append(job)
                total[worker] += size[job]
                break
    for pack in packs.values():
        for job in pack:
            machine.pool.remove(job)
    machine.packs = packs
    hold = 0 if name == "slack" else min(max(total[m - 1] - limit, 0), limit)
    if hold > 0:
        machine.held = (anchors[0], t + hold)
        machine.pool.remove(anchors[0])
        if name != "isjl_literal":
            machine.phase_two_from = t + hold
    else:
        machine.start(0, anchors[0], t)


def reference_measure(
    start_steps: Sequence[int], lengths: Sequence[int], batch_size: int, alpha: int | None = None
) -> ScheduleMeasure:
    """Measure a schedule by walking through every step."""
    ends = [start + length for start, length in zip(start_steps, lengths, strict=True)]
    makespan = max(ends)
    externality = gaps = largest_sum = peak = max_gap = unfair = 0
    first: int | None = None
    pair: tuple[int, int] | None = None
    over: int | None = None
    jobs: NDArray[np.int64] = np.arange(len(ends))
    begins = np.asarray(start_steps)
    finish = np.asarray(ends)
    for t in range(makespan):
        active = jobs[(begins <= t) & (t < finish)]
        if active.size == 0:
            continue
        index = t - begins[active] + 1  # r of eq. 3
        top, low = int(index.max()), int(index.min())
        externality += int((top - index).sum())
        gaps += top - low
        largest_sum += top
        max_gap = max(max_gap, top - low)
        peak = max(peak, int(active.size))
        if active.size > batch_size and over is None:
            over = t
        if alpha is not None and top - low > alpha:
            unfair += 1
            if first is None:
                first = t
                pair = (int(active[index.argmin()]), int(active[index.argmax()]))
    return ScheduleMeasure(
        makespan_steps=makespan,
        externality=externality,
        intrinsic=sum(length * (length + 1) // 2 for length in lengths),
        tokens=sum(lengths),
        max_gap=max_gap,
        sum_extent=gaps,
        sum_max_progress=largest_sum,
        sum_completion_steps=sum(ends),
        peak_running=peak,
        unfair_steps=unfair,
        first_unfair_step=first,
        first_unfair_jobs=pair,
        over_capacity_step=over,
    )
