"""Searching templates for one instance: first templates, a coarse stage, refinement, a calmer finish."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.scheduling.cohort_moves import seeded_state
from clairvoyant_lab.scheduling.cohort_pack import work_space
from clairvoyant_lab.scheduling.cohort_search import anneal, cooling, plan_externality

__all__ = ["search_templates"]

Steps = NDArray[np.int64]
Weights = NDArray[np.float64]

MAX_WINDOWS = 24
UNPLACED = 3.0  # steps charged for B tokens of a required job that found no place
FIRST_WEIGHTS = (4.0, 1.0, 0.01, 0.0)


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


def _template_of(starts: Steps, lengths: Steps, alpha: int) -> _Template | None:
    """The widest windows under which a fair schedule passes; None if they are too many.

    An instant is allowed if it lies in no (s_i + alpha, s_i + o_i). Windows without a start are dropped.
    """
    bars = np.flatnonzero(lengths > alpha + 1)
    bars = bars[np.argsort(starts[bars], kind="stable")]
    opens: list[int] = []
    closes: list[int] = []
    t = 0
    for bar in bars:
        begin, end = int(starts[bar]) + alpha + 1, int(starts[bar] + lengths[bar])
        if begin > t:
            opens.append(t)
            closes.append(begin - 1)
        t = max(t, end)
    last = int(starts.max())
    if last >= t:
        opens.append(t)
        closes.append(last)
    used = np.sort(starts)
    kept = [
        (low, min(high, last))
        for low, high in zip(opens, closes, strict=True)
        if np.searchsorted(used, high, side="right") > np.searchsorted(used, low)
    ]
    if not kept or len(kept) > MAX_WINDOWS - 2 or kept[0][0] != 0:
        return None
    bounds = np.zeros((2, MAX_WINDOWS + 2), dtype=np.int64)
    bounds[:, : len(kept)] = np.array(kept).T
    bounds[0, len(kept)] = max(int((starts + lengths).max()), kept[-1][1] + 1)
    return _Template(bounds[0].copy(), bounds[1].copy(), len(kept), np.array(FIRST_WEIGHTS))


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
    known: Sequence[Steps] = (),
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
    known : sequence of ndarray of int64, shape (n,)
        Fair schedules whose windows are tried, too.

    Returns
    -------
    starts : ndarray of int64, shape (n,)
        -1 for optional jobs left out.
    score : float
    """
    n = lengths.size
    wanted = n if required is None else required
    search = _Search(lengths, batch_size, alpha, externality_weight, target, wanted)
    learnt = [template for starts in known if (template := _template_of(starts, lengths, alpha)) is not None]
    firsts = [search.run(template, 0, 0.02, 0.02, seed) for template in [*search.templates(), *learnt]]
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
        shapes = [*coarse.templates(), *learnt]
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
