"""Instances that the papers argue with: unfair examples, adversaries, tight families, memory arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.scheduling.theory.ratios import ONLINE_RATIO_LIMIT

if TYPE_CHECKING:
    from clairvoyant_lab.scheduling.batch import BatchPolicy

__all__ = [
    "AdversaryPlay",
    "KvMemory",
    "best_waiting_ratio",
    "jigsaw",
    "ljf_tight",
    "long_and_ones",
    "online_adversary",
    "over_inserting",
    "under_inserting",
    "unfair_fcfs",
    "unfair_sjf",
]

Steps = NDArray[np.int64]


def unfair_fcfs(long: int = 100, medium: int = 60, tiny: int = 5) -> tuple[Steps, int]:
    """Example 2.4, B = 2: the third request runs in the first one's long tail under FCFS."""
    if not long > medium > tiny >= 1:
        raise ParameterError("long, medium, tiny", (long, medium, tiny), "give long > medium > tiny >= 1")
    return np.array([long, medium, tiny]), 2


def unfair_sjf(longest: int = 100) -> tuple[Steps, int]:
    """Example 2.5, B = 2: five requests o_1 > ... > o_5; shortest first batches each with a larger tail."""
    if longest < 9:
        raise ParameterError("longest", longest, "give at least 9, for five different lengths")
    return np.array([longest * share // 9 for share in (9, 7, 5, 3, 1)]), 2


def long_and_ones(long: int) -> tuple[Steps, int]:
    """Proposition 5.4, B = 2: one request of length L, then L of length 1."""
    if long < 1:
        raise ParameterError("long", long, "give at least 1")
    return np.array([long] + [1] * long), 2


def jigsaw(batch_size: int) -> Steps:
    """Section 4.1's jigsaw family {2B-1, 2B-1, ..., B+1, B+1, B, B, B}: 2B + 1 jobs; the optimum is 3B."""
    if batch_size < 2:
        raise ParameterError("batch_size", batch_size, "give at least 2")
    pairs = [length for length in range(2 * batch_size - 1, batch_size, -1) for _ in range(2)]
    return np.array([*pairs, *[batch_size] * 3])


def ljf_tight(batch_size: int, scale: int) -> Steps:
    """A family on which LJF's ratio tends to B / (2B - 1): one job of B k and B (B - 1) k of length 1.

    With alpha >= B k the optimum is B k: the ones run beside the long job.
    """
    if batch_size < 1 or scale < 1:
        raise ParameterError("batch_size, scale", (batch_size, scale), "give at least 1")
    return np.array([batch_size * scale] + [1] * (batch_size * (batch_size - 1) * scale))


def over_inserting(alpha: int, longest: int) -> Steps:
    """Lemma 4.1's worst case for B = 2 at gamma = alpha / longest: o_1 = o_2 and two short jobs just below.

    The short jobs have length min(alpha, longest - alpha) - 1 (at least 1).
    """
    if not 0 < alpha < longest:
        raise ParameterError("alpha", alpha, f"give a limit between 0 and longest = {longest}")
    short = max(min(alpha, longest - alpha) - 1, 1)
    return np.array([longest, longest, short, short])


def under_inserting(alpha: int, longest: int) -> Steps:
    """Lemma 4.2's worst case for B = 2: o_3 just above o_1 - o_2 + alpha, so it is not inserted."""
    if not 0 < alpha < longest:
        raise ParameterError("alpha", alpha, f"give a limit between 0 and longest = {longest}")
    if 3 * alpha <= longest:
        second = longest - alpha + 1
        third = 2 * alpha
    else:
        second = third = (longest + alpha) // 2 + 1
    return np.array([longest, second, min(third, second)])


@dataclass(frozen=True, slots=True)
class AdversaryPlay:
    """What Proposition 3.27's adversary did to a policy.

    Parameters
    ----------
    first_start : int
        s, when the policy started the only job it was shown.
    alone : float
        Ratio if no other job comes: L / (s + L).
    joined : float
        Ratio if an equal job comes right after s + alpha: clairvoyant makespan over the policy's.
    limit : float
        (sqrt 5 - 1) / 2.
    """

    first_start: int
    alone: float
    joined: float
    limit: float = ONLINE_RATIO_LIMIT

    @property
    def ratio(self) -> float:
        """The smaller of the two: what the adversary picks."""
        return min(self.alone, self.joined)


def online_adversary(policy: BatchPolicy, alpha: int, length: int) -> AdversaryPlay:
    """Play Proposition 3.27's adversary (B = 2) against a policy that sees releases as they come.

    Parameters
    ----------
    policy : BatchPolicy
        Must be causal: `online`, `isjl`, `slack`, `ljf`, ... or a user's planner that keeps to that.
    alpha, length : int
        The limit and L, the length of both jobs; the bound is approached as alpha / L -> 0.
    """
    from clairvoyant_lab.scheduling.batch import plan_schedule

    jobs = np.array([length, length], dtype=np.int64)
    far = np.array([0, 10**9], dtype=np.int64)
    start = int(plan_schedule(policy, jobs, 2, far).start_steps[0])
    second = start + alpha + 1
    starts = plan_schedule(policy, jobs, 2, np.array([0, second])).start_steps
    if int(starts[0]) != start:
        raise ParameterError("policy", policy.label, "looked ahead: a later release changed an earlier start")
    online = int((starts + jobs).max())
    offline = min(second + length, 2 * length)
    return AdversaryPlay(start, length / (start + length), offline / online)


def best_waiting_ratio(alpha: int, length: int, shares: ArrayLike) -> tuple[float, float]:
    """Play the adversary against "wait x L, then start": the best ratio over x, and its x.

    Any deterministic policy starts the first job after some wait, so this is the best any of them can do.

    Parameters
    ----------
    alpha, length : int
    shares : array_like of float
        The x to try.
    """
    from clairvoyant_lab.scheduling.batch import batch_policy

    best = (0.0, 0.0)
    for share in np.asarray(shares, dtype=np.float64):
        wait = int(share * length)

        def start_after(
            lengths: Steps, batch_size: int, limit: int, release_steps: Steps, wait: int = wait
        ) -> Steps:
            second = int(release_steps[1])
            near = second <= wait + limit
            return np.array([wait, max(second, wait) if near else max(second, wait + int(lengths[0]))])

        ratio = online_adversary(batch_policy(start_after, alpha=alpha), alpha, length).ratio
        best = max(best, (ratio, float(share)))
    return best


@dataclass(frozen=True, slots=True)
class KvMemory:
    """Memory of a model with one key-value cache a slot (Clairvoyant, section 2.3).

    Parameters
    ----------
    weights_bytes : float
        Model weights.
    layers, kv_heads, head_dim : int
        Shape of the cache; kv_heads is smaller than the attention heads in grouped-query models.
    value_bytes : float
        Bytes of a cached value: 2 for 16 bit.
    overhead_bytes : float
        Whatever else the runtime needs, once.
    """

    weights_bytes: float
    layers: int
    kv_heads: int
    head_dim: int
    value_bytes: float = 2.0
    overhead_bytes: float = 0.0

    def __post_init__(self) -> None:
        for name in ("weights_bytes", "layers", "kv_heads", "head_dim", "value_bytes"):
            if not getattr(self, name) > 0:
                raise ParameterError(name, getattr(self, name), "give a positive number")

    @property
    def bytes_a_token(self) -> float:
        """Keys and values of one token: 2 * layers * kv_heads * head_dim * value_bytes."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.value_bytes

    def cache_bytes(self, context_tokens: int) -> float:
        """Cache of one slot with room for so many tokens."""
        return self.bytes_a_token * context_tokens

    def needed_bytes(self, slots: int, context_tokens: int) -> float:
        """Memory for so many slots, each with its own full context."""
        return self.weights_bytes + self.overhead_bytes + slots * self.cache_bytes(context_tokens)

    def slots(self, memory_bytes: float, context_tokens: int) -> int:
        """How many slots fit; 0 if not even one does."""
        free = memory_bytes - self.weights_bytes - self.overhead_bytes
        return max(int(free // self.cache_bytes(context_tokens)), 0)
