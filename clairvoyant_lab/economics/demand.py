"""Which requests are accepted: by length and price alone (section 5.2), or by the wait as well (5.3)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.results import summary_html
from clairvoyant_lab.scheduling.batch import BatchPolicy, check_steps

if TYPE_CHECKING:
    from clairvoyant_lab.simulation.batch import BatchRun

__all__ = [
    "DelayDemand",
    "accept_by_length",
    "accept_with_delay",
    "acceptance_probability",
    "table1_workload",
]


def acceptance_probability(
    lengths: ArrayLike, token_price: float, *, bucket_tokens: int = 100, reference_price: float | None = None
) -> NDArray[np.float64]:
    """Probability that a request of each length accepts its price (section 5.2).

    max(0, 1 - k_b p_i) with p_i = token_price * o_i and k_b = 1 / (p_ref (2b - 1) 100) in length bucket b of
    100 tokens: about one half on average in each bucket.

    Parameters
    ----------
    lengths : array_like of int, shape (n,)
    token_price : float
        Price of a token.
    bucket_tokens : int
        Width of a bucket.
    reference_price : float, optional
        The price that the k_b are set for; by default token_price, as in the paper, where the probability
        then doesn't depend on the price at all. Keep it fixed to see demand react to the price.

    Returns
    -------
    ndarray of float64, shape (n,)
    """
    own = check_steps("lengths", lengths, at_least=1)
    if bucket_tokens < 1:
        raise ParameterError("bucket_tokens", bucket_tokens, "give at least 1 token")
    reference = token_price if reference_price is None else reference_price
    for name, value in (("token_price", token_price), ("reference_price", reference)):
        if not (value > 0 and math.isfinite(value)):
            raise ParameterError(name, value, "give a positive price of a token")
    bucket = (own - 1) // bucket_tokens + 1
    sensitivity = 1 / (reference * (2 * bucket - 1) * bucket_tokens)
    return np.maximum(0.0, 1 - sensitivity * token_price * own)


def accept_by_length(
    lengths: ArrayLike, token_price: float, seed: int | np.random.Generator, **options: float
) -> NDArray[np.int64]:
    """Draw who accepts; returns the accepted lengths in order of arrival.

    Parameters
    ----------
    lengths, token_price, **options
        As in `acceptance_probability`.
    seed : int or Generator
    """
    own = check_steps("lengths", lengths, at_least=1)
    probability = acceptance_probability(own, token_price, **options)  # type: ignore[arg-type]
    return own[np.random.default_rng(seed).random(own.size) < probability]


def table1_workload(
    seed: int | np.random.Generator, n: int = 400, longest: int = 1000, token_price: float = 1 / 500
) -> NDArray[np.int64]:
    """Accepted workload of Table 1: n potential requests, uniform on 1..longest, accepted by length.

    Parameters
    ----------
    seed : int or Generator
    n : int
        Potential requests; about half of them accept.
    longest : int
        Largest length.
    token_price : float
        p_0 = p / 500 with p = 1.
    """
    if n < 1 or longest < 1:
        raise ParameterError("n, longest", (n, longest), "give at least 1")
    rng = np.random.default_rng(seed)
    return accept_by_length(rng.integers(1, longest + 1, n), token_price, rng)


@dataclass(frozen=True, slots=True, eq=False)
class DelayDemand:
    """Who stays when the wait counts, and what the scheduler then earns.

    Parameters
    ----------
    run : BatchRun or None
        The schedule of those who accepted; None if nobody did.
    accepted : ndarray of bool, shape (n,)
    expected_wait_steps : ndarray of float64, shape (n,)
        The wait each customer expected: the mean wait of its length bucket.
    settled : bool
        Whether expectations and waits agreed within the tolerance.
    rounds : int
        Rounds until then.
    largest_error_steps : float
        Largest difference of expected and realised bucket wait at the end.
    """

    run: BatchRun | None
    accepted: NDArray[np.bool_] = field(repr=False)
    expected_wait_steps: NDArray[np.float64] = field(repr=False)
    settled: bool
    rounds: int
    largest_error_steps: float

    def summary(self) -> dict[str, object]:
        """Flat mapping of the figures."""
        rows: dict[str, object] = {
            "accepted": int(self.accepted.sum()),
            "accepted_share": float(self.accepted.mean()),
            "settled": self.settled,
            "rounds": self.rounds,
            "largest_error_steps": self.largest_error_steps,
        }
        return rows if self.run is None else {**rows, **self.run.summary()}

    def _repr_html_(self) -> str:
        return summary_html("Demand that minds the wait", self.summary())


def accept_with_delay(
    lengths: ArrayLike,
    values: ArrayLike,
    token_price: float,
    delay_cost: ArrayLike,
    policy: BatchPolicy,
    batch_size: int,
    *,
    release_steps: ArrayLike | None = None,
    bucket_tokens: int = 100,
    tolerance_steps: float = 1.0,
    most_rounds: int = 200,
    schedule: Callable[..., BatchRun] | None = None,
) -> DelayDemand:
    """Find who accepts when v_i - p_i - h_i E[W_i] >= 0 (section 5.3) and the wait depends on who does.

    A customer expects the mean wait (start minus release) of requests of its length bucket. Expectations move
    towards the realised waits by a step that shrinks from round to round; a fixed point may not exist for
    finitely many customers, so the result says whether one was reached and how far off it is.

    Parameters
    ----------
    lengths : array_like of int, shape (n,)
    values : array_like of float, shape (n,)
        v_i, what an answer is worth to each customer.
    token_price : float
        p_i = token_price * o_i.
    delay_cost : array_like of float, scalar or shape (n,)
        h_i, what a step of waiting costs the customer.
    policy, batch_size, release_steps
        As in `simulate_batch`.
    bucket_tokens : int
        Width of the buckets that share an expectation.
    tolerance_steps : float
        Largest error of an expectation that counts as settled.
    most_rounds : int
    schedule : callable, optional
        Stands in for `simulate_batch`.

    Returns
    -------
    DelayDemand
    """
    if schedule is None:
        from clairvoyant_lab.simulation.batch import simulate_batch

        schedule = simulate_batch
    own = check_steps("lengths", lengths, at_least=1)
    n = own.size
    release = (
        np.zeros(n, dtype=np.int64)
        if release_steps is None
        else check_steps("release_steps", release_steps, at_least=0, n=n)
    )
    worth = _amounts("values", values, n)
    cost_of_step = _amounts("delay_cost", delay_cost, n)
    if not (token_price >= 0 and math.isfinite(token_price)):
        raise ParameterError("token_price", token_price, "give a finite price >= 0")
    if most_rounds < 1 or bucket_tokens < 1:
        raise ParameterError("most_rounds, bucket_tokens", (most_rounds, bucket_tokens), "give at least 1")
    bucket = (own - 1) // bucket_tokens
    surplus = worth - token_price * own
    expected = np.zeros(bucket.max() + 1)
    best: tuple[float, int, NDArray[np.bool_], BatchRun | None, NDArray[np.float64]] | None = None
    for round_ in range(1, most_rounds + 1):
        accepted = surplus - cost_of_step * expected[bucket] >= 0
        run = None
        realised = np.zeros_like(expected)
        if accepted.any():
            run = schedule(own[accepted], policy, batch_size, release_steps=release[accepted])
            wait = (run.start_steps - run.release_steps).astype(np.float64)
            count = np.bincount(bucket[accepted], minlength=expected.size)
            total = np.bincount(bucket[accepted], weights=wait, minlength=expected.size)
            # a bucket without accepted requests expects the wait of all
            realised = np.where(count > 0, total / np.maximum(count, 1), wait.mean())
        error = float(np.abs(realised - expected).max())
        if best is None or error < best[0]:
            best = (error, round_, accepted, run, expected[bucket])
        if error <= tolerance_steps:
            break
        expected = expected + (realised - expected) / (1 + 0.5 * round_)
    assert best is not None
    error, _, accepted, run, waits = best
    return DelayDemand(run, accepted, waits, error <= tolerance_steps, round_, error)


def _amounts(name: str, given: ArrayLike, n: int) -> NDArray[np.float64]:
    amounts = np.asarray(given, dtype=np.float64)
    if amounts.ndim == 0:
        amounts = np.full(n, float(amounts))
    if amounts.shape != (n,):
        raise ParameterError(name, f"shape {amounts.shape}", f"give one amount for each of the {n} requests")
    bad = ~(np.isfinite(amounts) & (amounts >= 0))
    if bad.any():
        index = int(np.flatnonzero(bad)[0])
        raise ParameterError(f"{name}[{index}]", float(amounts[index]), "give a finite amount >= 0")
    return amounts
