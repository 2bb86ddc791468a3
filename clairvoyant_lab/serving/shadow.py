"""Shadow mode: stay first-come-first-served, note what a policy would have done, estimate its gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.scheduling.serial import SerialPolicy, serial_policy
from clairvoyant_lab.serving.admission import Line, Waiter
from clairvoyant_lab.serving.history import Finished

if TYPE_CHECKING:
    from clairvoyant_lab.simulation.trace import Trace

__all__ = ["LEAST_FOR_ESTIMATE", "Shadow", "compare_on_window", "window_trace"]

LEAST_FOR_ESTIMATE = 20


class Shadow:
    """Follows the line under a policy that is not in force.

    Parameters
    ----------
    policy : SerialPolicy
        What would decide.

    Attributes
    ----------
    decisions, agreed : int
        Dispatches with a choice (two or more waited), and those where the policy would have chosen the same.
    """

    def __init__(self, policy: SerialPolicy) -> None:
        self.policy = policy
        self.decisions = 0
        self.agreed = 0
        self._line = Line(policy, slots=1)
        self._copies: dict[int, Waiter] = {}

    def joined(self, waiter: Waiter) -> None:
        """A request came."""
        copy = replace(waiter, granted=None)
        self._copies[waiter.ticket] = copy
        self._line.join(copy)

    def left(self, waiter: Waiter) -> None:
        """A request went away, dispatched or not."""
        copy = self._copies.pop(waiter.ticket, None)
        if copy is not None:
            self._line.leave(copy)

    def dispatched(self, waiter: Waiter, now_s: float) -> None:
        """The line in force chose a request."""
        if len(self._copies) > 1 and waiter.ticket in self._copies:
            self.decisions += 1
            self.agreed += self._line.order(now_s)[0].ticket == waiter.ticket
        self.left(waiter)

    def set_policy(self, policy: SerialPolicy) -> None:
        """Follow another policy (another τ, say); the counts go on."""
        self._line.set_policy(policy)
        self.policy = policy

    def state(self) -> dict[str, Any]:
        """Counts for the control API."""
        return {"policy": self.policy.label, "decisions": self.decisions, "agreed": self.agreed}


def window_trace(records: Sequence[Finished]) -> Trace:
    """The finished requests of a window as a trace, with the predictions they had on arrival."""
    from clairvoyant_lab.simulation.trace import Trace

    rows = sorted(records, key=lambda r: r.arrival_s)
    columns: dict[str, Any] = {
        "request_id": [r.request_id for r in rows],
        "predicted_tokens": [r.predicted_tokens for r in rows],
        "expected_service_s": [r.expected_service_s for r in rows],
        "predicted_class": [int(np.argmax(r.probabilities)) for r in rows],
        # an embedding call is a short job; an answer of unknown length counts as what was predicted
        "length_class": [
            int(np.argmax(r.probabilities) if r.length_class is None else r.length_class) for r in rows
        ],
    }
    origin = rows[0].arrival_s if rows else 0.0
    return Trace.from_arrays(
        [r.arrival_s - origin for r in rows],
        [0.0 if r.service_s is None else r.service_s for r in rows],
        [r.probabilities[2] for r in rows],
        source="the proxy's last requests",
        service_model="as served",
        **{name: np.asarray(values) for name, values in columns.items()},
    )


def compare_on_window(
    records: Sequence[Finished], policy: SerialPolicy, slots: int, seed: int = 0
) -> dict[str, Any]:
    """Replay the last requests under first-come-first-served and under a policy.

    Service times are those measured, so the estimate says nothing of a cache that another order would
    warm or cool.

    Parameters
    ----------
    records : sequence of Finished
        Requests served to their end.
    policy : SerialPolicy
        The policy to try.
    slots : int
        Slots of the backend.
    seed : int
        Of the bootstrap (blocks of up to 20 requests, 200 draws).

    Returns
    -------
    dict
        `n`; for `fcfs` and `policy` the sojourn P50 and P95 of short and of long requests in seconds;
        `short_p50_gain` (share of the FCFS value saved) with its 95 % interval. Values are None when
        there are fewer than `LEAST_FOR_ESTIMATE` requests.
    """
    from clairvoyant_lab.simulation.serial import simulate_serial

    out: dict[str, Any] = {
        "n": len(records),
        "policy": policy.label,
        "fcfs": None,
        "under_policy": None,
        "short_p50_gain": None,
        "short_p50_gain_low": None,
        "short_p50_gain_high": None,
    }
    if len(records) < LEAST_FOR_ESTIMATE:
        return out
    trace = window_trace(records)
    assert trace.length_class is not None
    runs = {
        "fcfs": simulate_serial(trace, serial_policy("fcfs"), slots=slots).sojourn_s,
        "under_policy": simulate_serial(trace, policy, slots=slots).sojourn_s,
    }
    short, long = trace.length_class == LengthClass.SHORT, trace.length_class == LengthClass.LONG
    for name, sojourn in runs.items():
        out[name] = {
            "short_p50_s": _percentile(sojourn[short], 50),
            "short_p95_s": _percentile(sojourn[short], 95),
            "long_p50_s": _percentile(sojourn[long], 50),
            "long_p95_s": _percentile(sojourn[long], 95),
            "mean_s": float(sojourn.mean()),
        }
    if short.any():
        before, after = runs["fcfs"][short], runs["under_policy"][short]
        out["short_p50_gain"] = _gain(before, after)
        rng = np.random.default_rng(seed)
        block = min(20, max(1, before.size // 5))
        blocks = -(-before.size // block)
        starts = rng.integers(0, before.size - block + 1, size=(200, blocks))
        rows = (starts[:, :, None] + np.arange(block)).reshape(200, -1)[:, : before.size]
        draws = np.array([_gain(before[r], after[r]) for r in rows])
        out["short_p50_gain_low"] = float(np.percentile(draws, 2.5))
        out["short_p50_gain_high"] = float(np.percentile(draws, 97.5))
    return out


def _gain(before: Any, after: Any) -> float:
    base = float(np.median(before))
    return 0.0 if base == 0.0 else 1.0 - float(np.median(after)) / base


def _percentile(values: Any, q: float) -> float | None:
    return float(np.percentile(values, q)) if values.size else None
