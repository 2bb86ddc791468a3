"""What a benchmark hands back, whatever it ran on: samples by policy and run, and the tables made of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.errors import ParameterError, unknown_name
from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.results import summary_html, summary_text

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BenchReport", "BenchSample"]


@dataclass(frozen=True, eq=False)
class BenchSample:
    """One run of one policy: the requests that were answered, and how many weren't.

    Attributes
    ----------
    policy : str
        Label of the policy.
    run : int
        Number of the repetition; equal numbers had equal requests.
    length_class : ndarray of int8 or None, shape (n,)
    wait_s, sojourn_s : ndarray of float64, shape (n,)
        Until the start (or the first token), and until the end, from arrival.
    promoted : ndarray of bool, shape (n,)
    makespan_s : float
        From first arrival to last completion.
    unfinished, failed : int
        Kept apart, so that failures never make latencies look better.
    """

    policy: str
    run: int
    length_class: NDArray[np.int8] | None
    wait_s: NDArray[np.float64]
    sojourn_s: NDArray[np.float64]
    promoted: NDArray[np.bool_]
    makespan_s: float
    unfinished: int = 0
    failed: int = 0

    def values(self, length_class: LengthClass | None, what: str) -> NDArray[np.float64]:
        """Times of one class in seconds."""
        times: NDArray[np.float64] = getattr(self, what)
        if length_class is None:
            return times
        if self.length_class is None:
            raise ParameterError("length_class", length_class, "the sample has no classes")
        return times[self.length_class == int(length_class)]


@dataclass(frozen=True, repr=False, eq=False)
class BenchReport:
    """A benchmark's samples and tables.

    Attributes
    ----------
    kind : str
        `burst`, `poisson` or `replay`.
    mode : str
        `simulate` (virtual time), `emulate` (HTTP at a profile's pace) or `live` (a real backend).
    profile : str
    samples : tuple of BenchSample
        The first policy is the base that others are compared with.
    parameters : dict
        Everything needed to run it again, seed included.
    """

    kind: str
    mode: str
    profile: str
    samples: tuple[BenchSample, ...]
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def policies(self) -> tuple[str, ...]:
        """Labels, in the order they were given."""
        return tuple(dict.fromkeys(sample.policy for sample in self.samples))

    @property
    def groups(self) -> tuple[LengthClass | None, ...]:
        """Classes that occur; None alone without classes."""
        seen = {int(c) for s in self.samples if s.length_class is not None for c in np.unique(s.length_class)}
        return tuple(c for c in LengthClass if int(c) in seen) or (None,)

    def percentile(
        self, policy: str, length_class: LengthClass | None, q: float, what: str = "sojourn_s"
    ) -> NDArray[np.float64]:
        """One percentile in each run, in seconds, shape (runs,); NaN for a run without such a request."""
        if what not in ("sojourn_s", "wait_s"):
            raise unknown_name("what", what, ("sojourn_s", "wait_s"))
        own = [s for s in self.samples if s.policy == policy]
        if not own:
            raise unknown_name("policy", policy, self.policies)
        values = [s.values(length_class, what) for s in own]
        return np.asarray([np.percentile(v, q) if v.size else np.nan for v in values])

    def to_frame(self, q: tuple[float, ...] = (50, 95, 99), what: str = "sojourn_s") -> pd.DataFrame:
        """One row a policy and class: mean and standard deviation over runs, and the cut against the base.

        Times in seconds; `cut` columns in percent, positive where the policy is faster than the first one.
        """
        import pandas as pd

        rows = []
        for policy in self.policies:
            for group in self.groups:
                row: dict[str, Any] = {"policy": policy, "class": "all" if group is None else group.label}
                own = [s for s in self.samples if s.policy == policy]
                row["requests"] = int(sum(s.values(group, what).size for s in own))
                for p in q:
                    ours = self.percentile(policy, group, p, what)
                    base = self.percentile(self.policies[0], group, p, what)
                    row[f"p{p:g}_s"] = float(np.mean(ours))
                    row[f"p{p:g}_sd_s"] = float(np.std(ours, ddof=1)) if ours.size > 1 else float("nan")
                    row[f"p{p:g}_cut_pct"] = 100.0 * (1.0 - float(np.mean(ours)) / float(np.mean(base)))
                row["throughput_per_s"] = float(np.mean([s.sojourn_s.size / s.makespan_s for s in own]))
                row["promoted_share"] = float(np.mean([s.promoted.mean() for s in own if s.promoted.size]))
                row["unfinished"] = sum(s.unfinished for s in own)
                row["failed"] = sum(s.failed for s in own)
                rows.append(row)
        return pd.DataFrame(rows)

    def summary(self) -> dict[str, Any]:
        """Return parameters, short P50 by policy and the cut against the first policy."""
        rows: dict[str, Any] = {"benchmark": self.kind, "mode": self.mode, "profile": self.profile}
        group = self.groups[0]
        label = "all" if group is None else group.name.lower()
        base = float(np.mean(self.percentile(self.policies[0], group, 50)))
        for policy in self.policies:
            p50 = float(np.mean(self.percentile(policy, group, 50)))
            rows[f"{label} p50_sojourn_s, {policy}"] = p50
            if policy != self.policies[0]:
                rows[f"{label} p50 cut_pct, {policy}"] = 100.0 * (1.0 - p50 / base)
        rows["failed"] = sum(s.failed for s in self.samples)
        rows["unfinished"] = sum(s.unfinished for s in self.samples)
        return rows | {key: str(value) for key, value in self.parameters.items()}

    def __repr__(self) -> str:
        return summary_text("BenchReport", self.summary())

    def _repr_html_(self) -> str:
        return summary_html("Benchmark", self.summary())
