"""Look for instances that break a claim: all small ones by size, then random larger ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from time import perf_counter

import numpy as np

from clairvoyant_lab.errors import ParameterError, unknown_name
from clairvoyant_lab.results import summary_html
from clairvoyant_lab.scheduling.theory.claims import CLAIMS, ClaimCheck, check_claim

__all__ = ["SearchResult", "find_violation", "multisets"]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search for a violation found.

    Parameters
    ----------
    claim : str
    violation : ClaimCheck or None
        The first instance, by total tokens, on which the claim fails.
    worst : ClaimCheck or None
        Of those tried, the one with the least room (left / right largest).
    tried : int
        Instances checked.
    complete_tokens : int
        Every instance up to this many tokens, within the given jobs, batch sizes and limits, was tried
        (up to the violation's own total if there is one).
    seconds : float
    """

    claim: str
    violation: ClaimCheck | None
    worst: ClaimCheck | None
    tried: int
    complete_tokens: int
    seconds: float

    def summary(self) -> dict[str, object]:
        """Flat mapping; the instance is shown as text."""
        claim = CLAIMS[self.claim]
        shown = self.violation or self.worst
        return {
            "claim": claim.source,
            "says": claim.says,
            "found": self.violation is not None,
            "instance": "" if shown is None else _text(shown),
            "detail": "" if shown is None else shown.detail,
            "tried": self.tried,
            "complete_tokens": self.complete_tokens,
            "seconds": self.seconds,
        }

    def _repr_html_(self) -> str:
        return summary_html("Search for a violation", self.summary())


def _text(check: ClaimCheck) -> str:
    bounds = f", u = {list(check.upper_bounds)}" if check.upper_bounds else ""
    return f"{list(check.lengths)}{bounds}, B = {check.batch_size}, α = {check.alpha}"


def find_violation(
    claim: str,
    *,
    batch_sizes: Sequence[int] = (2, 3),
    most_tokens: int = 14,
    most_jobs: int = 6,
    random_instances: int = 0,
    longest: int = 12,
    seed: int | np.random.Generator = 0,
    time_limit_s: float | None = None,
    stop_at_first: bool = True,
) -> SearchResult:
    """Search for the smallest instance on which a claim fails.

    Parameters
    ----------
    claim : str
        A key of `CLAIMS`.
    batch_sizes : sequence of int
        Batch sizes to try; those the claim doesn't speak of are left out.
    most_tokens, most_jobs : int
        Every multiset of lengths with at most so many tokens and jobs is tried, in order of tokens, with
        every alpha up to the longest length and, for claims on upper bounds, every excess of 0 to 2 a job.
    random_instances, longest : int
        Afterwards, so many random instances with lengths up to `longest`.
    seed : int or Generator
        For the random ones.
    time_limit_s : float, optional
        Stop after so long; what was complete by then is said.
    stop_at_first : bool
        Stop at the first violation; otherwise go on to find the worst.

    Returns
    -------
    SearchResult
    """
    if claim not in CLAIMS:
        raise unknown_name("claim", claim, CLAIMS)
    allowed = CLAIMS[claim].batch_sizes
    sizes = [size for size in batch_sizes if allowed is None or size in allowed]
    if not sizes:
        raise ParameterError("batch_sizes", list(batch_sizes), f"{CLAIMS[claim].source} speaks of {allowed}")
    begun = perf_counter()
    violation: ClaimCheck | None = None
    worst: ClaimCheck | None = None
    tried = complete = 0

    def out_of_time() -> bool:
        return time_limit_s is not None and perf_counter() - begun > time_limit_s

    for instance in _instances(claim, sizes, most_tokens, most_jobs):
        tokens = sum(instance[0])
        complete = max(complete, tokens - 1)
        check = check_claim(claim, *instance)
        tried += 1
        worst = _tighter(check, worst)
        if not check.holds and violation is None:
            violation = check
            if stop_at_first:
                break
        if out_of_time():
            break
    else:
        complete = most_tokens
    rng = np.random.default_rng(seed)
    for _ in range(random_instances):
        if (violation is not None and stop_at_first) or out_of_time():
            break
        check = check_claim(claim, *_random_instance(claim, sizes, longest, rng))
        tried += 1
        worst = _tighter(check, worst)
        if not check.holds and (violation is None or sum(check.lengths) < sum(violation.lengths)):
            violation = check
    return SearchResult(claim, violation, worst, tried, complete, perf_counter() - begun)


def _tighter(check: ClaimCheck, worst: ClaimCheck | None) -> ClaimCheck:
    def tightness(item: ClaimCheck) -> float:
        return item.left / item.right if item.right > 0 else float(item.left > 0)

    return check if worst is None or tightness(check) > tightness(worst) + 1e-12 else worst


Instance = tuple[tuple[int, ...], int, int, tuple[int, ...] | None]


def _instances(claim: str, sizes: Sequence[int], most_tokens: int, most_jobs: int) -> Iterator[Instance]:
    rule = CLAIMS[claim]
    for jobs in multisets(most_tokens, most_jobs):
        for size, alpha in product(sizes, range(rule.least_alpha, jobs[0] + 1)):
            if not rule.needs_bounds:
                yield jobs, size, alpha, None
                continue
            for excess in product(range(3), repeat=len(jobs)):
                yield jobs, size, alpha, tuple(o + e for o, e in zip(jobs, excess, strict=True))


def multisets(most_tokens: int, most_jobs: int) -> Iterator[tuple[int, ...]]:
    """Every multiset of lengths by total tokens, each as a descending tuple."""
    for tokens in range(1, most_tokens + 1):
        yield from _partitions(tokens, tokens, most_jobs)


def _partitions(total: int, largest: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Descending parts that add to total."""
    if total == 0:
        yield ()
        return
    if parts == 0:
        return
    for first in range(min(total, largest), 0, -1):
        for rest in _partitions(total - first, first, parts - 1):
            yield (first, *rest)


def _random_instance(claim: str, sizes: Sequence[int], longest: int, rng: np.random.Generator) -> Instance:
    rule = CLAIMS[claim]
    size = int(rng.choice(np.asarray(sizes)))
    n = int(rng.integers(2, 3 * size + 2))
    jobs = tuple(int(o) for o in np.sort(rng.integers(1, longest + 1, n))[::-1])
    alpha = int(rng.integers(rule.least_alpha, jobs[0] + 1))
    if not rule.needs_bounds:
        return jobs, size, alpha, None
    excess = rng.integers(0, longest // 2 + 1, n)
    return jobs, size, alpha, tuple(o + int(e) for o, e in zip(jobs, excess, strict=True))
