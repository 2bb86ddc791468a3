"""What would have happened: a trace under other policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clairvoyant_lab.errors import DataError, ParameterError
from clairvoyant_lab.results import summary_html, summary_text
from clairvoyant_lab.scheduling.serial import SerialPolicy, serial_policy
from clairvoyant_lab.simulation.serial import SerialRun, simulate_serial
from clairvoyant_lab.simulation.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["WhatIf", "what_if"]

CANDIDATES = ("fcfs", "sjf", "sjf_tokens", "sjf_service", "oracle", "srpt")


@dataclass(frozen=True, repr=False, eq=False)
class WhatIf:
    """A trace under several policies; the first is the base of all changes.

    Attributes
    ----------
    runs : tuple of SerialRun
    skipped : dict of str to str
        Policies that the trace lacks a column for, and which.
    """

    runs: tuple[SerialRun, ...]
    skipped: dict[str, str]

    def to_frame(self) -> pd.DataFrame:
        """One row a policy and class: percentiles of the sojourn time in seconds, change of P50 and P99."""
        import pandas as pd

        frames = []
        base = self.runs[0].percentiles().set_index("class")
        for run in self.runs:
            frame = run.percentiles()
            frame.insert(0, "policy", run.policy.label)
            for q in (50, 99):
                column = f"p{q}_sojourn_s"
                reference = frame["class"].map(base[column])
                frame[f"p{q}_change_pct"] = 100.0 * (frame[column] / reference - 1.0)
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)

    def summary(self) -> dict[str, Any]:
        """Return P50 and P99 over all requests by policy."""
        rows: dict[str, Any] = {"trace": self.runs[0].trace.source, "requests": len(self.runs[0].trace)}
        for run in self.runs:
            p50, p99 = run.percentile((50, 99))
            rows[run.policy.label] = f"P50 {p50:.3g} s, P99 {p99:.3g} s, {int(run.promoted.sum())} promoted"
        return rows | {f"skipped {name}": reason for name, reason in self.skipped.items()}

    def __repr__(self) -> str:
        return summary_text("WhatIf", self.summary())

    def _repr_html_(self) -> str:
        return summary_html("What if", self.summary())


def what_if(trace: Trace, policies: Sequence[SerialPolicy | str] | None = None, slots: int = 1) -> WhatIf:
    """Replay a trace, e.g. a proxy's journal, under other policies.

    Parameters
    ----------
    trace : Trace
    policies : sequence of SerialPolicy or str, optional
        By default every built-in one that the trace has the columns for.
    slots : int

    Raises
    ------
    DataError
        If a named policy needs a column that the trace lacks.
    """
    if len(trace) == 0:
        raise DataError("has no requests to replay", source=trace.source)
    wanted = CANDIDATES if policies is None else policies
    chosen = [p if isinstance(p, SerialPolicy) else serial_policy(p) for p in wanted]
    skipped: dict[str, str] = {}
    if policies is None:
        for policy in list(chosen):
            missing = [name for name in policy.needs if getattr(trace, name) is None]
            if missing or (policy.preemptive and slots != 1):
                skipped[policy.name] = f"no {missing[0]}" if missing else "one slot only"
                chosen.remove(policy)
    if not chosen:
        raise ParameterError("policies", policies, "give at least one")
    return WhatIf(tuple(simulate_serial(trace, policy, slots) for policy in chosen), skipped)
