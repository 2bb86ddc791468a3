"""Planning a backlog whose lengths are known: coarse search, refinement, head and tail, fall-backs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.scheduling.cohort_moves import seeded_state
from clairvoyant_lab.scheduling.cohort_pack import work_space
from clairvoyant_lab.scheduling.cohort_pairs import LONGEST, pair_starts
from clairvoyant_lab.scheduling.cohort_search import anneal, cooling, plan_externality
from clairvoyant_lab.scheduling.rules import rule_starts

__all__ = ["Candidate", "effort_budget", "plan_offline", "search_templates"]

Steps = NDArray[np.int64]
Weights = NDArray[np.float64]

MAX_WINDOWS = 24
# places looked at: about 10 ms and, per unit of effort, about a second
BASE_BUDGET, EFFORT_BUDGET = 1_500_000, 90_000_000
UNPLACED = 3.0  # steps charged for B tokens of a required job that found no place
# a backlog within these is planned whole; a larger one by heads of so many batches and fillers
WHOLE_JOBS, WHOLE_GROUPS = 600, 16
HEAD_GROUPS, HEAD_FILLERS = (3, 6, 12), 400
PAIR_PRICES = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)  # tokens a short job must save
FIRST_WEIGHTS = (4.0, 1.0, 0.01, 0.0)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A complete schedule, and the way of planning that gave it."""

    starts: Steps
    method: str
    makespan_steps: int
    externality: int

    def score(self, externality_weight: float) -> tuple[float, int]:
        """What is minimised: makespan plus weighted externality; then the externality."""
        return self.makespan_steps + externality_weight * self.externality, self.externality


def effort_budget(effort: float) -> int:
    """Places to look at: about 10 ms' worth, and about a second's per unit of effort."""
    return BASE_BUDGET + int(effort * EFFORT_BUDGET)


def _candidate(starts: Steps, lengths: Steps, batch_size: int, method: str) -> Candidate:
    return Candidate(
        starts=starts,
        method=method,
        makespan_steps=int((starts + lengths).max()),
        externality=int(plan_externality(starts, lengths, batch_size)),
    )


@dataclass(slots=True)
class _Template:
    opens: Steps
    closes: Steps
    windows: int
    weights: Weights
    score: float = np.inf
    starts: Steps | None = None

    def copy(self) -> _Template:
        return _Template(self.opens.copy(), self.closes.copy(), self.windows, self.weights.copy(), self.score)


def _static_template(lengths: Steps, batch_size: int, alpha: int, slack: bool) -> _Template:
    """LJF's template (one instant per batch), or slack's (windows as wide as batches are uneven)."""
    opens = np.zeros(MAX_WINDOWS + 2, dtype=np.int64)
    closes = np.zeros(MAX_WINDOWS + 2, dtype=np.int64)
    t = windows = 0
    jobs = lengths[lengths > alpha] if slack else lengths
    for begin in range(0, jobs.size, batch_size):
        if windows == MAX_WINDOWS - 1:
            break
        batch = jobs[begin : begin + batch_size]
        width = 0
        if slack:
            width = min(alpha, int(batch[0] - batch[-1]) if batch.size == batch_size else alpha)
        opens[windows] = t
        closes[windows] = min(t + width, t + int(batch[0]) - 1)
        t += int(batch[0])
        windows += 1
    if windows == 0:  # all jobs may run at any time
        closes[0] = max(1, -(-int(lengths.sum()) // batch_size))
        t = int(closes[0] + lengths[0])
        windows = 1
    opens[windows] = t
    return _Template(opens, closes, windows, np.array(FIRST_WEIGHTS))


class _Search:
    """One instance's arrays, and annealing runs on them that share a budget."""

    def __init__(
        self,
        lengths: Steps,
        batch_size: int,
        alpha: int,
        externality_weight: float,
        target: float,
        required: int,
    ) -> None:
        self.lengths = lengths
        self.batch_size = batch_size
        self.alpha = alpha
        self.externality_weight = externality_weight
        self.target = target
        self.required = required
        self.penalties = lengths / batch_size
        self.penalties[:required] *= UNPLACED
        self.free, self.places = work_space(lengths.size, batch_size, MAX_WINDOWS)

    def run(
        self,
        template: _Template,
        budget: int,
        first: float,
        last: float,
        seed: int,
        weight: float | None = None,
    ) -> _Template:
        """Anneal from a template; temperatures are shares of the longest job."""
        longest = float(self.lengths[0])
        out = template.copy()
        out.starts = np.empty(self.lengths.size, dtype=np.int64)
        out.score, out.windows, _ = anneal(
            self.lengths,
            self.penalties,
            self.required,
            self.batch_size,
            self.alpha,
            out.opens,
            out.closes,
            out.windows,
            out.weights,
            self.externality_weight if weight is None else weight,
            cooling(max(first * longest, 0.7), max(last * longest, 0.15)),
            budget,
            self.target if weight is None else 0.0,
            seeded_state(seed),
            self.free,
            self.places,
            out.starts,
        )
        return out

    def templates(self) -> list[_Template]:
        return [_static_template(self.lengths, self.batch_size, self.alpha, slack) for slack in (True, False)]


def _coarse(lengths: Steps, required: int, batch_size: int) -> tuple[Steps, int, int]:
    """A smaller instance of the same shape: a tenth or so of the slots, every so-manieth job."""
    size = min(batch_size, 10)
    n = max(1, round(lengths.size * size / batch_size))
    picked = ((np.arange(n) + 0.5) * lengths.size / n).astype(np.int64)
    picked[0] = 0
    return lengths[picked].copy(), max(1, int(np.searchsorted(picked, required))), size


def search_templates(
    lengths: Steps,
    batch_size: int,
    alpha: int,
    *,
    budget: int,
    seed: int,
    externality_weight: float = 0.0,
    target: float = 0.0,
    required: int | None = None,
) -> tuple[Steps, float]:
    """Best schedule found over templates for lengths in descending order.

    Many short runs on a coarse instance find the shape; the best few shapes are refined on the real one.

    Parameters
    ----------
    lengths : ndarray of int64, shape (n,)
        Descending.
    batch_size, alpha : int
    budget : int
        Places to look at, in all.
    seed : int
    externality_weight, target, required
        See `anneal`.

    Returns
    -------
    starts : ndarray of int64, shape (n,)
        -1 for optional jobs left out.
    score : float
    """
    n = lengths.size
    wanted = n if required is None else required
    search = _Search(lengths, batch_size, alpha, externality_weight, target, wanted)
    firsts = [search.run(template, 0, 0.02, 0.02, seed) for template in search.templates()]
    best = min(firsts, key=lambda t: t.score)
    coarse_lengths, coarse_required, coarse_size = _coarse(lengths, wanted, batch_size)
    if coarse_size < batch_size and n >= 4 * batch_size // coarse_size:
        coarse = _Search(
            coarse_lengths,
            coarse_size,
            alpha,
            externality_weight * batch_size / coarse_size,
            0.0,
            coarse_required if wanted < n else coarse_lengths.size,
        )
        shapes = coarse.templates()
    else:
        coarse = search
        shapes = firsts
    runs = 16
    share = budget // 2 // runs
    found: list[_Template] = []
    for run in range(runs):
        found.append(coarse.run(shapes[run % len(shapes)], share, 0.02, 0.002, seed + 1_000_003 * (run + 1)))
        if coarse is search and found[-1].score <= target:
            break
    found.sort(key=lambda t: t.score)
    starters = [*found[:3], best]
    refined = []
    for place, template in enumerate(starters):
        refined.append(
            search.run(template, budget // 4 // len(starters), 0.005, 0.001, seed + 7_919 * (place + 1))
        )
        if refined[-1].score <= target:
            break
    refined.sort(key=lambda t: t.score)
    if refined[0].score > target:
        refined.append(search.run(refined[0], budget // 4, 0.0025, 0.0005, seed + 104_729))
    best = min([best, *refined], key=lambda t: t.score)
    starts = best.starts
    assert starts is not None
    if externality_weight == 0 and wanted == n:
        # equally fast, but with less externality: all of it weighs less than one step
        externality = plan_externality(starts, lengths, batch_size)
        if externality > 0:
            calm = search.run(best, budget // 8, 0.0, 0.0, seed + 15_485_863, weight=0.9 / externality)
            assert calm.starts is not None
            if calm.score < best.score + 0.9:
                starts = calm.starts
    return starts, best.score


def plan_offline(
    lengths: Steps,
    batch_size: int,
    alpha: int,
    *,
    budget: int,
    seed: int,
    externality_weight: float = 0.0,
    lower_bound: int = 0,
) -> list[Candidate]:
    """Plan a backlog of jobs of known length, all released, in several ways.

    Parameters
    ----------
    lengths : ndarray of int64, shape (n,)
        In any order.
    batch_size, alpha : int
    budget : int
        Places to look at; see `effort_budget`.
    seed : int
    externality_weight : float
        Steps per token-step of externality.
    lower_bound : int
        Stop searching at this makespan.

    Returns
    -------
    list of Candidate
        Best first; LJF and slack are always among them.
    """
    alpha = min(alpha, int(lengths.max()))
    found = [
        _candidate(rule_starts(name, lengths, batch_size, alpha), lengths, batch_size, name)
        for name in ("ljf", "slack", "isjl")
    ]
    found.sort(key=lambda c: c.score(externality_weight))
    if lengths.size > 1 and (found[0].makespan_steps > lower_bound or found[0].externality > 0):
        order = np.argsort(-lengths, kind="stable")
        ordered = lengths[order]
        plans = [(_pairs(ordered, batch_size, alpha, externality_weight), "pairs")]
        settings = _Settings(batch_size, alpha, budget, seed, externality_weight, lower_bound)
        if lengths.size <= WHOLE_JOBS and lengths.size <= WHOLE_GROUPS * batch_size:
            plans.append((_whole(ordered, settings), "template"))
        else:
            plans += [
                (_head_and_tail(ordered, groups, settings, len(HEAD_GROUPS)), f"head of {groups} batches")
                for groups in HEAD_GROUPS
            ]
        for planned, method in plans:
            starts = np.empty_like(lengths)
            starts[order] = planned
            found.append(_candidate(starts, lengths, batch_size, method))
    # a stable sort: a simple rule wins a tie
    return sorted(found, key=lambda c: c.score(externality_weight))


@dataclass(frozen=True, slots=True)
class _Settings:
    batch_size: int
    alpha: int
    budget: int
    seed: int
    externality_weight: float
    lower_bound: int


def _whole(ordered: Steps, settings: _Settings) -> Steps:
    starts, _ = search_templates(
        ordered,
        settings.batch_size,
        settings.alpha,
        budget=settings.budget,
        seed=settings.seed,
        externality_weight=settings.externality_weight,
        target=float(settings.lower_bound) if settings.externality_weight == 0 else 0.0,
    )
    return starts


def _pairs(ordered: Steps, batch_size: int, alpha: int, externality_weight: float) -> Steps:
    """Best of `pair_starts` over prices of a short job; LJF where its tables would be too long."""
    if ordered[0] > LONGEST:
        return rule_starts("ljf", ordered, batch_size, alpha)
    plans = [
        pair_starts(ordered, batch_size, alpha, price, large_first)
        for price in PAIR_PRICES
        for large_first in (False, True)
    ]
    return min(
        plans, key=lambda plan: _candidate(plan, ordered, batch_size, "pairs").score(externality_weight)
    )


def _head_and_tail(ordered: Steps, groups: int, settings: _Settings, parts: int) -> Steps:
    """Search templates for the longest jobs and as many short ones as fill them; slack or pairs do the rest.

    In a large backlog only the first few batches, by descending length, are uneven. The short jobs they
    take are optional to the search: left out, they cost what they take at full use of the slots.
    """
    size = settings.batch_size
    required = min(groups * size, ordered.size)
    heads = np.arange(required)
    uneven = int((ordered[heads // size * size] - ordered[heads]).sum())
    others = np.arange(required, ordered.size)
    fillers = others[ordered[others] <= max(2 * settings.alpha, 1)]
    work = int(ordered[fillers].sum())
    if fillers.size > 0:
        share = min(1.0, 2.0 * uneven / max(work, 1), HEAD_FILLERS / fillers.size)
        count = max(1, int(share * fillers.size))
        fillers = fillers[((np.arange(count) + 0.5) * fillers.size / count).astype(np.int64)]
    chosen = np.concatenate([heads, fillers])
    planned, _ = search_templates(
        ordered[chosen],
        size,
        settings.alpha,
        budget=settings.budget // parts,
        seed=settings.seed + groups,
        externality_weight=settings.externality_weight,
        required=required,
    )
    starts = np.full(ordered.size, -1, dtype=np.int64)
    starts[chosen] = planned
    placed = starts >= 0
    rest = np.flatnonzero(~placed)
    if rest.size > 0:
        end = int((starts[placed] + ordered[placed]).max())
        tails = [
            rule_starts("slack", ordered[rest], size, settings.alpha),
            _pairs(ordered[rest], size, settings.alpha, settings.externality_weight),
        ]
        starts[rest] = end + min(
            tails,
            key=lambda tail: _candidate(tail, ordered[rest], size, "tail").score(settings.externality_weight),
        )
    return starts
