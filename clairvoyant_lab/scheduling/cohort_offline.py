"""Planning a backlog of known lengths: templates, pairs, head and tail, and simple rules to fall back on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.scheduling.cohort_pairs import LONGEST, pair_starts
from clairvoyant_lab.scheduling.cohort_search import plan_externality
from clairvoyant_lab.scheduling.cohort_templates import search_templates
from clairvoyant_lab.scheduling.rules import rule_starts

__all__ = ["Candidate", "effort_budget", "plan_offline"]

Steps = NDArray[np.int64]

# places looked at: about 10 ms and, per unit of effort, about a second
BASE_BUDGET, EFFORT_BUDGET = 1_500_000, 75_000_000
# a backlog within these is planned whole; a larger one by heads of so many batches and fillers
WHOLE_JOBS, WHOLE_GROUPS = 600, 16
HEAD_GROUPS, HEAD_FILLERS = (3, 6, 12), 400
PAIR_PRICES = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)  # tokens a short job must save


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
            plans.append(
                (_whole(ordered, settings, [plans[0][0], *(c.starts[order] for c in found)]), "template")
            )
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


def _whole(ordered: Steps, settings: _Settings, known: Sequence[Steps]) -> Steps:
    starts, _ = search_templates(
        ordered,
        settings.batch_size,
        settings.alpha,
        budget=settings.budget,
        seed=settings.seed,
        externality_weight=settings.externality_weight,
        target=float(settings.lower_bound) if settings.externality_weight == 0 else 0.0,
        known=known,
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
