"""Serial simulation: one or a few slots, one request each, any serial policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.errors import ParameterError, is_finite_number, unknown_name
from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.results import summary_html, summary_text
from clairvoyant_lab.scheduling.serial import KeyFunction, SerialPolicy, serial_policy
from clairvoyant_lab.simulation.serial_state import (
    COMPLETED,
    DROPPED,
    NOT_ARRIVED,
    QUEUED,
    RUNNING,
    STATE_NAMES,
)
from clairvoyant_lab.simulation.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ENGINES", "SerialRun", "simulate_serial"]

ENGINES = ("auto", "compiled", "plain")


@dataclass(frozen=True, repr=False, eq=False)
class SerialRun:
    """What happened to each request; rows are those of the trace.

    Attributes
    ----------
    start_s, finish_s : ndarray of float64, shape (n,)
        NaN where it did not happen.
    wait_s : ndarray of float64, shape (n,)
        start - arrival (under preemptive SRPT: until the first start).
    sojourn_s : ndarray of float64, shape (n,)
        finish - arrival.
    promoted : ndarray of bool, shape (n,)
        The promotion rule chose the request, even if its key would have chosen it too.
    order : ndarray of int64
        Rows in the order of dispatch.
    state : ndarray of int8, shape (n,)
        Index into `serial_state.STATE_NAMES`.
    slot : ndarray of int16, shape (n,)
        Slot that served the request; -1 for none.
    warmup_s : float
        Requests that arrived before this time are left out of all statistics (not out of the arrays).
    until_s : float or None
        When the clock was stopped; None: after the last completion, nothing is censored.
    """

    trace: Trace
    policy: SerialPolicy
    slots: int
    start_s: NDArray[np.float64]
    finish_s: NDArray[np.float64]
    wait_s: NDArray[np.float64]
    sojourn_s: NDArray[np.float64]
    promoted: NDArray[np.bool_]
    order: NDArray[np.int64]
    state: NDArray[np.int8]
    slot: NDArray[np.int16]
    engine: str
    queue_limit: int | None = None
    until_s: float | None = None
    warmup_s: float = 0.0

    def counts(self) -> dict[str, int]:
        """Injected requests and what became of them: injected = completed + queued + running + dropped."""
        tally = np.bincount(self.state, minlength=len(STATE_NAMES))
        return {
            "injected": int(len(self.trace) - tally[NOT_ARRIVED]),
            "completed": int(tally[COMPLETED]),
            "queued": int(tally[QUEUED]),
            "running": int(tally[RUNNING]),
            "dropped": int(tally[DROPPED]),
        }

    @property
    def measured(self) -> NDArray[np.bool_]:
        """Rows that statistics are made of: completed, and arrived at `warmup_s` or later."""
        mask: NDArray[np.bool_] = (self.state == COMPLETED) & (self.trace.arrival_s >= self.warmup_s)
        return mask

    @property
    def censored(self) -> int:
        """Requests that arrived after warm-up and were still queued or running when the clock stopped."""
        open_rows = (self.state == QUEUED) | (self.state == RUNNING)
        return int(np.sum(open_rows & (self.trace.arrival_s >= self.warmup_s)))

    @property
    def makespan_s(self) -> float:
        """From the first arrival to the last completion (NaN if nothing completed)."""
        done = self.state == COMPLETED
        return float(self.finish_s[done].max() - self.trace.arrival_s[0]) if done.any() else float("nan")

    @property
    def throughput_per_s(self) -> float:
        """Completed requests per second of makespan."""
        makespan = self.makespan_s
        return float(np.sum(self.state == COMPLETED)) / makespan if makespan > 0 else float("nan")

    def percentile(
        self,
        q: float | Sequence[float],
        length_class: LengthClass | int | None = None,
        what: str = "sojourn_s",
    ) -> Any:
        """Percentiles over the measured requests, of one class or of all.

        Parameters
        ----------
        q : float or sequence of float
            In 0..100.
        length_class : LengthClass, optional
            Needs a trace with classes.
        what : {"sojourn_s", "wait_s"}

        Returns
        -------
        float or ndarray
            NaN where no request was measured.
        """
        values = self._measured_values(what, length_class)
        if values.size == 0:
            return float("nan") if np.ndim(q) == 0 else np.full(np.shape(q), np.nan)
        result = np.percentile(values, q)
        return float(result) if np.ndim(q) == 0 else result

    def percentiles(self, q: Sequence[float] = (50, 95, 99), what: str = "sojourn_s") -> pd.DataFrame:
        """Percentiles by class: columns class, requests, promoted (share), mean, and one a percentile.

        Times in seconds. Without classes in the trace there is one row, `all`.
        """
        import pandas as pd

        rows = []
        groups: list[LengthClass | None] = [None]
        if self.trace.length_class is not None:
            groups += list(LengthClass)
        for group in groups:
            values = self._measured_values(what, group)
            if group is not None and values.size == 0:
                continue
            row: dict[str, Any] = {"class": "all" if group is None else group.label, "requests": values.size}
            row["promoted_share"] = self._promoted_share(group)
            name = what.removesuffix("_s")
            row[f"mean_{name}_s"] = float(values.mean()) if values.size else float("nan")
            cuts = np.percentile(values, q) if values.size else np.full(len(q), np.nan)
            row |= {f"p{p:g}_{name}_s": float(cut) for p, cut in zip(q, cuts, strict=True)}
            rows.append(row)
        return pd.DataFrame(rows)

    def summary(self) -> dict[str, Any]:
        """Return the run's main figures, None where there is none; a censored run says so."""
        rows: dict[str, Any] = {"policy": self.policy.label, "slots": self.slots, **self.counts()}
        rows["warm-up left out"] = int(
            np.sum((self.trace.arrival_s < self.warmup_s) & (self.state == COMPLETED))
        )
        rows["censored"] = self.censored
        if self.until_s is not None:
            rows["clock stopped at_s"] = self.until_s
            rows["note"] = (
                "percentiles are of completed requests only" if self.censored else "nothing censored"
            )
        rows["promoted"] = int(np.sum(self.promoted))
        rows["throughput_per_s"] = self.throughput_per_s
        groups: list[LengthClass | None] = [None]
        if self.trace.length_class is not None:
            groups += [c for c in LengthClass if np.any(self.trace.length_class == c)]
        for group in groups:
            label = "all" if group is None else group.name.lower()
            cuts = self.percentile((50, 95, 99), group)
            for p, cut in zip((50, 95, 99), cuts, strict=True):
                rows[f"{label} p{p}_sojourn_s"] = float(cut)
        rows |= {"requests": len(self.trace), "source": self.trace.source, "engine": self.engine}
        return {name: None if value != value else value for name, value in rows.items()}  # NaN is no JSON

    def to_frame(self) -> pd.DataFrame:
        """Return one row a request: the trace's columns, times, promoted, state, position in the order."""
        import pandas as pd

        position = np.full(len(self.trace), -1, dtype=np.int64)
        position[self.order] = np.arange(self.order.size)
        frame = self.trace.to_frame()
        frame["start_s"], frame["finish_s"] = self.start_s, self.finish_s
        frame["wait_s"], frame["sojourn_s"] = self.wait_s, self.sojourn_s
        frame["promoted"], frame["slot"], frame["position"] = self.promoted, self.slot, position
        frame["state"] = pd.Categorical(np.asarray(STATE_NAMES)[self.state], categories=list(STATE_NAMES))
        frame["measured"] = self.measured
        return frame

    def _measured_values(self, what: str, length_class: LengthClass | int | None) -> NDArray[np.float64]:
        if what not in ("sojourn_s", "wait_s"):
            raise unknown_name("what", what, ("sojourn_s", "wait_s"))
        values: NDArray[np.float64] = getattr(self, what)[self._rows(length_class)]
        return values

    def _rows(self, length_class: LengthClass | int | None) -> NDArray[np.bool_]:
        mask = self.measured
        if length_class is None:
            return mask
        if self.trace.length_class is None:
            raise ParameterError("length_class", length_class, "the trace has no classes: give it the column")
        return mask & (self.trace.length_class == int(length_class))

    def _promoted_share(self, length_class: LengthClass | None) -> float:
        rows = self._rows(length_class)
        return float(self.promoted[rows].mean()) if rows.any() else float("nan")

    def __repr__(self) -> str:
        return summary_text("SerialRun", self.summary())

    def _repr_html_(self) -> str:
        return summary_html("Serial run", self.summary())


def simulate_serial(
    trace: Trace,
    policy: SerialPolicy | str | KeyFunction,
    slots: int = 1,
    *,
    queue_limit: int | None = None,
    until_s: float | None = None,
    warmup_s: float = 0.0,
    engine: str = "auto",
) -> SerialRun:
    """Run a policy over a trace in virtual time, exactly.

    A request that arrives at t is in the queue before the dispatch at t. Of equal keys the earlier arrival
    goes first, then the lower row.

    Parameters
    ----------
    trace : Trace
    policy : SerialPolicy, str or callable
        A name or a function is handed to `serial_policy`.
    slots : int
        Requests served at once, each at full speed (OLLAMA_NUM_PARALLEL); `srpt` has one.
    queue_limit : int, optional
        A request that finds so many waiting is dropped; None: no limit.
    until_s : float, optional
        Stop the clock here; what is then queued or running is censored. None: run to the end.
    warmup_s : float
        Leave requests that arrived before this time out of the statistics.
    engine : {"auto", "compiled", "plain"}
        `auto`: compiled, except for dynamic and preemptive policies. Both give the same, to the bit.

    Returns
    -------
    SerialRun

    Raises
    ------
    ParameterError
        For a bad number of slots, limit, time or engine.
    DataError
        For a column that the policy needs and the trace lacks.
    """
    if not isinstance(trace, Trace):
        raise ParameterError("trace", trace, "give a Trace, e.g. Trace.from_arrays(arrival_s, service_s)")
    if not isinstance(policy, SerialPolicy):
        policy = serial_policy(policy)
    _check(slots, queue_limit, until_s, warmup_s, engine, policy)
    plain_only = policy.dynamic or policy.preemptive
    if engine == "compiled" and plain_only:
        raise ParameterError(
            "engine", engine, f"{policy.name!r} is dynamic or preemptive: use 'plain' or 'auto'"
        )
    compiled = engine == "compiled" or (engine == "auto" and not plain_only)
    if compiled:
        from clairvoyant_lab.simulation.serial_compiled import run_compiled

        out = run_compiled(trace, policy, slots, queue_limit, until_s)
    elif policy.preemptive:
        from clairvoyant_lab.simulation.serial_plain import run_preemptive

        out = run_preemptive(trace, policy, until_s)
    else:
        from clairvoyant_lab.simulation.serial_plain import run_plain

        out = run_plain(trace, policy, slots, queue_limit, until_s)
    return SerialRun(
        trace=trace,
        policy=policy,
        slots=slots,
        start_s=out.start_s,
        finish_s=out.finish_s,
        wait_s=out.start_s - trace.arrival_s,
        sojourn_s=out.finish_s - trace.arrival_s,
        promoted=out.promoted,
        order=out.order,
        state=out.state,
        slot=out.slot,
        engine="compiled" if compiled else "plain",
        queue_limit=queue_limit,
        until_s=until_s,
        warmup_s=float(warmup_s),
    )


def _check(
    slots: Any, queue_limit: Any, until_s: Any, warmup_s: Any, engine: str, policy: SerialPolicy
) -> None:
    if isinstance(slots, bool) or not isinstance(slots, int | np.integer) or not 1 <= slots <= 4096:
        raise ParameterError("slots", slots, "give a whole number from 1 to 4096")
    if policy.preemptive and slots != 1:
        raise ParameterError("slots", slots, "'srpt' is the bound for one slot: give 1")
    if queue_limit is not None and (
        isinstance(queue_limit, bool) or not isinstance(queue_limit, int | np.integer) or queue_limit < 1
    ):
        raise ParameterError(
            "queue_limit", queue_limit, "give a whole number, 1 or more; None means no limit"
        )
    if policy.preemptive and queue_limit is not None:
        raise ParameterError("queue_limit", queue_limit, "'srpt' has no queue limit: give None")
    if until_s is not None and not is_finite_number(until_s):
        raise ParameterError("until_s", until_s, "give seconds; None means to the end")
    if not is_finite_number(warmup_s):
        raise ParameterError("warmup_s", warmup_s, "give seconds")
    if engine not in ENGINES:
        raise unknown_name("engine", engine, ENGINES)
