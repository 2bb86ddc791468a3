"""The exact alpha-fair optimum of small batch instances.

Two independent ways: a real solver (`batch_optimum`, CP-SAT, extra `exact`) with a time limit and a proven
bound, and an exhaustive search over states (`exhaustive_optimum`), for a handful of jobs, which also finds
the schedule of least cost c T + tau E.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import MissingExtraError, ParameterError, unknown_name
from clairvoyant_lab.results import summary_html
from clairvoyant_lab.scheduling.batch import check_alpha, check_batch_size, check_steps

__all__ = ["BatchOptimum", "batch_optimum", "exhaustive_optimum"]

Steps = NDArray[np.int64]
MOST_EXHAUSTIVE_JOBS = 8


@dataclass(frozen=True, slots=True, eq=False)
class BatchOptimum:
    """The best fair schedule found and what is proved about it.

    Parameters
    ----------
    start_steps : ndarray of int64, shape (n,)
    makespan_steps : int
        Makespan of that schedule.
    bound_steps : int
        No alpha-fair, non-preemptive schedule is shorter.
    seconds : float
        Time spent.
    formulation : str
        Which model was solved.
    """

    start_steps: Steps = field(repr=False)
    makespan_steps: int
    bound_steps: int
    seconds: float
    formulation: str

    @property
    def proven(self) -> bool:
        """Whether the schedule is optimal."""
        return self.makespan_steps == self.bound_steps

    @property
    def gap(self) -> float:
        """Makespan over bound, minus 1; 0 if proven."""
        return self.makespan_steps / self.bound_steps - 1

    def summary(self) -> dict[str, object]:
        """Flat mapping of the figures."""
        return {
            "makespan_steps": self.makespan_steps,
            "bound_steps": self.bound_steps,
            "gap": self.gap,
            "proven": self.proven,
            "seconds": self.seconds,
            "formulation": self.formulation,
        }

    def _repr_html_(self) -> str:
        return summary_html("Fair batch optimum", self.summary())


def batch_optimum(
    lengths: ArrayLike,
    batch_size: int,
    alpha: int | None,
    release_steps: ArrayLike | None = None,
    *,
    time_limit_s: float = 10.0,
    formulation: Literal["intervals", "appendix8"] = "intervals",
    workers: int = 1,
    seed: int = 0,
) -> BatchOptimum:
    """Find the shortest alpha-fair schedule with CP-SAT.

    Parameters
    ----------
    lengths : array_like of int, shape (n,)
        Tokens of each job.
    batch_size : int
        Slots.
    alpha : int or None
        Progress limit; None: no limit (strongly NP-hard all the same, Proposition 2.1).
    release_steps : array_like of int, shape (n,), optional
        Earliest starts.
    time_limit_s : float
        Wall-clock limit of the solver; what is proved by then is returned.
    formulation : {"intervals", "appendix8"}
        `intervals`: one start a job, a cumulative capacity, and for each pair "one after the other, or starts
        at most alpha apart". `appendix8`: the paper's 0-1 programme indexed by time, for checking; its size
        grows with n times the horizon.
    workers, seed : int
        The solver's threads and seed; one worker gives the same answer each time.

    Returns
    -------
    BatchOptimum

    Raises
    ------
    ParameterError
        For bad input.
    MissingExtraError
        Without ortools.
    """
    own = check_steps("lengths", lengths, at_least=1)
    size = check_batch_size(batch_size)
    limit = int(own.max()) if alpha is None else check_alpha(alpha)
    release = (
        np.zeros(own.size, dtype=np.int64)
        if release_steps is None
        else check_steps("release_steps", release_steps, at_least=0, n=own.size)
    )
    if not time_limit_s > 0:
        raise ParameterError("time_limit_s", time_limit_s, "give a positive number of seconds")
    if formulation not in ("intervals", "appendix8"):
        raise unknown_name("formulation", formulation, ("intervals", "appendix8"))
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        raise MissingExtraError("ortools", "exact", "the exact batch optimum") from None

    begun = time.perf_counter()
    known = _best_known(own, size, limit, release)
    horizon = int((known + own).max())
    bound = _simple_bound(own, size, limit, release)
    if bound == horizon:
        return BatchOptimum(known, horizon, bound, time.perf_counter() - begun, formulation)
    model = cp_model.CpModel()
    build = _interval_model if formulation == "intervals" else _time_indexed_model
    starts, makespan = build(model, own, size, limit, release, horizon, known)
    model.Add(makespan >= bound)
    model.Minimize(makespan)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = float(time_limit_s)
    solver.parameters.num_workers = workers
    solver.parameters.random_seed = seed
    status = solver.Solve(model)
    proved = max(bound, int(np.ceil(solver.BestObjectiveBound() - 1e-6)))
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        known = np.array([int(solver.Value(start)) for start in starts], dtype=np.int64)
    length = int((known + own).max())
    return BatchOptimum(known, length, min(proved, length), time.perf_counter() - begun, formulation)


def exhaustive_optimum(
    lengths: ArrayLike,
    batch_size: int,
    alpha: int | None,
    release_steps: ArrayLike | None = None,
    *,
    step_cost: int = 1,
    footprint_cost: int = 0,
) -> BatchOptimum:
    """Find the alpha-fair schedule of least step_cost * T + footprint_cost * E by looking at every one.

    Step by step, every set of waiting jobs that fits is started; states that agree in what waits and how far
    each running job is are looked at once. For up to 8 jobs with short lengths; independent of the solver
    and of the engines. The fields of the result hold the makespan of the best schedule (`bound_steps` equals
    it, since the search is complete); ties go to the shorter schedule.

    Parameters
    ----------
    lengths, batch_size, alpha, release_steps
        As in `batch_optimum`.
    step_cost, footprint_cost : int
        Weights of makespan and externality, not negative.
    """
    own = check_steps("lengths", lengths, at_least=1)
    size = check_batch_size(batch_size)
    limit = int(own.max()) if alpha is None else check_alpha(alpha)
    release = (
        [0] * own.size
        if release_steps is None
        else check_steps("release_steps", release_steps, at_least=0, n=own.size).tolist()
    )
    if own.size > MOST_EXHAUSTIVE_JOBS:
        raise ParameterError("lengths", f"{own.size} jobs", f"give at most {MOST_EXHAUSTIVE_JOBS}")
    for name, weight in (("step_cost", step_cost), ("footprint_cost", footprint_cost)):
        if weight < 0:
            raise ParameterError(name, weight, "give 0 or more")
    begun = time.perf_counter()
    jobs = own.tolist()
    search = _Exhaustive(jobs, size, limit, release, step_cost, footprint_cost)
    search.best(0, frozenset(range(len(jobs))), ())
    starts = search.starts()
    length = int((starts + own).max())
    return BatchOptimum(starts, length, length, time.perf_counter() - begun, "exhaustive")


class _Exhaustive:
    """Memoised search; a state is the time (while releases matter), the waiting jobs and the running ones."""

    def __init__(
        self, jobs: list[int], size: int, limit: int, release: list[int], step_cost: int, footprint_cost: int
    ) -> None:
        self.jobs, self.size, self.limit, self.release = jobs, size, limit, release
        self.step_cost, self.footprint_cost = step_cost, footprint_cost
        self.last_release = max(release)
        self.memo: dict[Any, tuple[tuple[int, int], tuple[int, ...]]] = {}

    def best(self, t: int, waiting: frozenset[int], running: tuple[tuple[int, int], ...]) -> tuple[int, int]:
        """Least (cost, steps) to finish from here; running holds (job, progress)."""
        if not waiting and not running:
            return (0, 0)
        key = (min(t, self.last_release), waiting, running)
        if key in self.memo:
            return self.memo[key][0]
        answer: tuple[int, int] | None = None
        choice: tuple[int, ...] = ()
        least = self._least(waiting, running)
        ahead = max((progress for _, progress in running), default=0)
        ready = [job for job in sorted(waiting) if self.release[job] <= t]
        room = self.size - len(running) if ahead <= self.limit else 0
        for count in range(min(room, len(ready)), -1, -1):
            if count == 0 and not running and len(ready) == len(waiting):
                continue  # idling an empty machine with everything released never helps
            for chosen in combinations(ready, count):
                if self._skips_a_twin(chosen, ready):
                    continue
                cost, steps = self._after(t, waiting, running, chosen)
                if answer is None or (cost, steps) < answer:
                    answer, choice = (cost, steps), chosen
                if answer == least:
                    break
            if answer == least:
                break
        assert answer is not None
        self.memo[key] = (answer, choice)
        return answer

    def _least(self, waiting: frozenset[int], running: tuple[tuple[int, int], ...]) -> tuple[int, int] | None:
        """What no way on from here undercuts, where only steps cost: who reaches it may stop looking."""
        if self.footprint_cost:
            return None
        left = [self.jobs[job] for job in waiting]
        left += [self.jobs[job] - progress for job, progress in running]
        steps = max(-(-sum(left) // self.size), max(left))
        return (self.step_cost * steps, steps)

    def _skips_a_twin(self, chosen: tuple[int, ...], ready: list[int]) -> bool:
        """Of jobs that nothing tells apart, the earlier ones go first."""
        taken = set(chosen)
        return any(
            other < job
            and other not in taken
            and (self.jobs[other], self.release[other]) == (self.jobs[job], self.release[job])
            for job in chosen
            for other in ready
        )

    def _after(
        self,
        t: int,
        waiting: frozenset[int],
        running: tuple[tuple[int, int], ...],
        chosen: tuple[int, ...],
    ) -> tuple[int, int]:
        active = [*running, *((job, 0) for job in chosen)]
        top = max((progress for _, progress in active), default=0)
        spent = self.step_cost + self.footprint_cost * sum(top - progress for _, progress in active)
        cost, steps = self.best(t + 1, waiting - set(chosen), self._advance(active))
        return (spent + cost, 1 + steps)

    def _advance(self, active: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        moved = ((job, progress + 1) for job, progress in active)
        return tuple(sorted(pair for pair in moved if pair[1] < self.jobs[pair[0]]))

    def starts(self) -> Steps:
        """Walk the remembered choices from the beginning."""
        found = np.zeros(len(self.jobs), dtype=np.int64)
        t, waiting = 0, frozenset(range(len(self.jobs)))
        running: tuple[tuple[int, int], ...] = ()
        while waiting or running:
            chosen = self.memo[(min(t, self.last_release), waiting, running)][1]
            found[list(chosen)] = t
            running = self._advance([*running, *((job, 0) for job in chosen)])
            waiting -= set(chosen)
            t += 1
        return found


def _best_known(lengths: Steps, size: int, limit: int, release: Steps) -> Steps:
    from clairvoyant_lab.scheduling.rules import rule_starts

    later = release if release.any() else None
    candidates = [rule_starts(name, lengths, size, limit, later) for name in ("ljf", "slack", "isjl")]
    return min(candidates, key=lambda starts: int((starts + lengths).max()))


def _simple_bound(lengths: Steps, size: int, limit: int, release: Steps) -> int:
    from clairvoyant_lab.scheduling.theory.bounds import makespan_bound

    return max(makespan_bound(lengths, size, limit), int((release + lengths).max()))


def _interval_model(
    model: Any, lengths: Steps, size: int, limit: int, release: Steps, horizon: int, hint: Steps
) -> tuple[list[Any], Any]:
    n = lengths.size
    size_of = lengths.tolist()
    starts = [model.NewIntVar(int(release[i]), horizon - size_of[i], f"s{i}") for i in range(n)]
    makespan = model.NewIntVar(int(lengths.max()), horizon, "T")
    intervals = [
        model.NewIntervalVar(starts[i], size_of[i], starts[i] + size_of[i], f"i{i}") for i in range(n)
    ]
    model.AddCumulative(intervals, [1] * n, size)
    hint = hint.copy()
    for group in _twins(lengths, release):
        hint[group] = np.sort(hint[group])
    for i in range(n):
        model.Add(makespan >= starts[i] + size_of[i])
        model.AddHint(starts[i], int(hint[i]))
    for i, j in combinations(range(n), 2):
        if max(size_of[i], size_of[j]) <= limit + 1:
            continue  # their progress can't differ by more than the longer one's length - 1
        first, second, near = (model.NewBoolVar(f"{kind}{i},{j}") for kind in "abc")
        model.AddExactlyOne(first, second, near)
        model.Add(starts[j] >= starts[i] + size_of[i]).OnlyEnforceIf(first)
        model.Add(starts[i] >= starts[j] + size_of[j]).OnlyEnforceIf(second)
        model.Add(starts[i] - starts[j] <= limit).OnlyEnforceIf(near)
        model.Add(starts[j] - starts[i] <= limit).OnlyEnforceIf(near)
    for group in _twins(lengths, release):
        for i, j in pairwise(group):
            model.Add(starts[i] <= starts[j])
    return starts, makespan


def _twins(lengths: Steps, release: Steps) -> list[list[int]]:
    """Groups of jobs that nothing tells apart: their order is free, so it is fixed."""
    groups: dict[tuple[int, int], list[int]] = {}
    for job, kind in enumerate(zip(lengths.tolist(), release.tolist(), strict=True)):
        groups.setdefault(kind, []).append(job)
    return [group for group in groups.values() if len(group) > 1]


def _time_indexed_model(
    model: Any, lengths: Steps, size: int, limit: int, release: Steps, horizon: int, hint: Steps
) -> tuple[list[Any], Any]:
    """Constraints (1) to (6) of appendix 8, 0-based in time."""
    n = lengths.size
    size_of = lengths.tolist()
    if n * horizon > 20_000:
        raise ParameterError(
            "formulation", "appendix8", f"{n} jobs x {horizon} steps is too large; use intervals"
        )
    big = int(lengths.max())
    last = [horizon - size_of[i] for i in range(n)]
    begins = [
        {t: model.NewBoolVar(f"u{i},{t}") for t in range(int(release[i]), last[i] + 1)} for i in range(n)
    ]
    runs = [[model.NewBoolVar(f"x{i},{t}") for t in range(horizon)] for i in range(n)]
    progress = [[model.NewIntVar(0, size_of[i], f"s{i},{t}") for t in range(horizon)] for i in range(n)]
    makespan = model.NewIntVar(big, horizon, "T")
    starts = []
    for i in range(n):
        model.AddExactlyOne(begins[i].values())
        start = sum(t * flag for t, flag in begins[i].items())
        starts.append(start)
        model.Add(makespan >= start + size_of[i])
        for t in range(horizon):
            covering = [flag for at, flag in begins[i].items() if at <= t < at + size_of[i]]
            model.Add(runs[i][t] == sum(covering))
            model.Add(progress[i][t] == sum(runs[i][:t]))
        for at, flag in begins[i].items():
            model.AddHint(flag, int(at == hint[i]))
    for t in range(horizon):
        model.Add(sum(runs[i][t] for i in range(n)) <= size)
        for i, j in combinations(range(n), 2):
            slack = big * (2 - runs[i][t] - runs[j][t])
            model.Add(progress[i][t] - progress[j][t] <= limit + slack)
            model.Add(progress[j][t] - progress[i][t] <= limit + slack)
    return starts, makespan
