"""What has happened: one record a request, counters that add up, running means and quantiles."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, deque
from typing import Any, NamedTuple

import numpy as np

from clairvoyant_lab.lengths import LONG_FROM_TOKENS, SHORT_BELOW_TOKENS, LengthClass

__all__ = ["OUTCOMES", "Finished", "Histogram", "History", "Pace"]

OUTCOMES = (
    "done",  # the backend answered with a success and the client has it
    "backend_status",  # the backend answered with another status, passed on as it is
    "backend_failed",  # refused, died, silent or unreadable: 502, 504 or a cut stream
    "gone_queued",  # the client left while it waited
    "gone_running",  # the client left while its answer was made
    "refused_full",  # 429
    "refused_body",  # 413, or a body that never came whole
    "refused_draining",  # 503
)

_WAIT_BOUNDS_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0)


class Finished(NamedTuple):
    """One scheduled request, after its end. Times in seconds; `arrival_unix_s` is wall-clock.

    `response_tokens` is None where the answer did not say and could not be counted; `service_s` runs from
    dispatch to the slot's release.
    """

    request_id: str
    arrival_unix_s: float
    arrival_s: float
    path: str
    outcome: str
    status: int
    origin: str
    stated: str | None
    probabilities: tuple[float, float, float]
    predicted_tokens: float
    expected_service_s: float
    token_cap: int | None
    prompt_tokens: int | None
    response_tokens: int | None
    wait_s: float
    first_token_s: float | None
    service_s: float | None
    promoted: bool
    position: int
    policy: str
    stream: bool

    @property
    def length_class(self) -> LengthClass | None:
        """Class of the answer as it came; None where its tokens are not known."""
        if self.response_tokens is None:
            return None
        long, medium = self.response_tokens >= LONG_FROM_TOKENS, self.response_tokens >= SHORT_BELOW_TOKENS
        return LengthClass(int(medium) + int(long))

    def event(self) -> dict[str, Any]:
        """What the event stream tells of it."""
        return {
            "request_id": self.request_id,
            "outcome": self.outcome,
            "status": self.status,
            "wait_s": round(self.wait_s, 6),
            "service_s": None if self.service_s is None else round(self.service_s, 6),
            "first_token_s": None if self.first_token_s is None else round(self.first_token_s, 6),
            "response_tokens": self.response_tokens,
            "length_class": None if self.length_class is None else self.length_class.label,
            "promoted": self.promoted,
        }


class Pace:
    """Running straight line through (response tokens, service time): service = overhead + tokens * per token.

    Old requests fade (weight 0.98 a request), so a changed model or machine is learnt within a hundred.
    """

    FADE = 0.98

    def __init__(self, overhead_s: float = 0.1, per_token_s: float = 0.02) -> None:
        self.overhead_s, self.per_token_s = overhead_s, per_token_s
        self._n = self._x = self._y = self._xx = self._xy = 0.0

    def learn(self, response_tokens: int, service_s: float) -> None:
        """Take one finished request."""
        fade = self.FADE
        self._n = self._n * fade + 1.0
        self._x = self._x * fade + response_tokens
        self._y = self._y * fade + service_s
        self._xx = self._xx * fade + response_tokens * response_tokens
        self._xy = self._xy * fade + response_tokens * service_s
        spread = self._n * self._xx - self._x * self._x
        if spread > 1e-6 * self._n * self._xx and self._n > 2.0:
            slope = (self._n * self._xy - self._x * self._y) / spread
            offset = (self._y - slope * self._x) / self._n
            if slope > 0.0 and offset >= 0.0:
                self.per_token_s, self.overhead_s = slope, offset
                return
        if self._x > 0.0:  # too alike to tell overhead from pace
            self.per_token_s, self.overhead_s = self._y / self._x, 0.0

    def expected_s(self, tokens: float) -> float:
        """Expected service time of so many response tokens."""
        return self.overhead_s + self.per_token_s * tokens


class Histogram:
    """Counts under fixed bounds, cumulative only when read."""

    def __init__(self, bounds: tuple[float, ...] = _WAIT_BOUNDS_S) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative `(upper bound, count)` as Prometheus has them."""
        out, run = [], 0
        for bound, count in zip((*self.bounds, math.inf), self.counts, strict=True):
            run += count
            out.append(("+Inf" if bound == math.inf else repr(bound), float(run)))
        return out


class History:
    """Counters, a window of finished requests, and the pace.

    Parameters
    ----------
    window : int
        Finished requests that are kept for quantiles, shadow runs and calibration.
    """

    def __init__(self, window: int = 2000) -> None:
        self.received = 0
        self.passed_through = 0
        self.outcomes: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))
        self.recent: deque[Finished] = deque(maxlen=window)
        self.short_service_s: deque[float] = deque(maxlen=200)
        self.pace = Pace()
        self.wait_histogram = Histogram()
        self.service_histogram = Histogram()
        self.response_tokens = 0

    def add(self, record: Finished) -> None:
        """Take a request that has ended; failures are counted but never enter latencies."""
        self.outcomes[record.outcome] += 1
        if record.outcome != "done" or record.service_s is None:
            return
        self.recent.append(record)
        self.wait_histogram.add(record.wait_s)
        self.service_histogram.add(record.service_s)
        if record.origin == "embedding" or record.response_tokens is None:
            return
        self.response_tokens += record.response_tokens
        self.pace.learn(record.response_tokens, record.service_s)
        if record.response_tokens < SHORT_BELOW_TOKENS:
            self.short_service_s.append(record.service_s)

    @property
    def ended(self) -> int:
        """Requests that have ended, however they did."""
        return sum(self.outcomes.values())

    def by_class(self) -> dict[str, dict[str, Any]]:
        """Waits and service times of the window by length class, with n; quantiles need at least one."""
        groups: dict[str, list[Finished]] = {label: [] for label in ("Short", "Medium", "Long", "Embedding")}
        for record in self.recent:
            if record.origin == "embedding":
                groups["Embedding"].append(record)
            elif record.length_class is not None:
                groups[record.length_class.label].append(record)
        return {label: _spread(records) for label, records in groups.items()}


def _spread(records: list[Finished]) -> dict[str, Any]:
    if not records:
        return {
            "n": 0,
            "wait_p50_s": None,
            "wait_p95_s": None,
            "service_mean_s": None,
            "sojourn_p50_s": None,
            "sojourn_p95_s": None,
            "promoted": 0,
        }
    wait = np.array([r.wait_s for r in records])
    service = np.array([r.service_s for r in records], dtype=np.float64)
    sojourn = wait + service
    return {
        "n": len(records),
        "wait_p50_s": float(np.percentile(wait, 50)),
        "wait_p95_s": float(np.percentile(wait, 95)),
        "service_mean_s": float(service.mean()),
        "sojourn_p50_s": float(np.percentile(sojourn, 50)),
        "sojourn_p95_s": float(np.percentile(sojourn, 95)),
        "promoted": sum(r.promoted for r in records),
    }
