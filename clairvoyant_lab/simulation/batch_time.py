"""Seconds instead of steps: how long a batch step takes, and what a schedule's latencies then are.

A step's time depends on how many jobs run in it and on the largest token index among them (eq. 3's terms).
The schedule itself is not changed: policies decide in steps, this reads the result in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import DataError, ParameterError
from clairvoyant_lab.results import summary_html

if TYPE_CHECKING:
    import pandas as pd

    from clairvoyant_lab.simulation.batch import BatchRun

__all__ = ["FootprintTime", "MeasuredTime", "StepTime", "TimedRun", "UnitTime", "step_profile", "time_run"]

Seconds = NDArray[np.float64]
Steps = NDArray[np.int64]
LONGEST_PROFILE = 50_000_000


class StepTime(Protocol):
    """Time of a step from the number of running jobs and the largest token index."""

    def seconds(self, running: Steps, largest: Steps) -> Seconds:
        """Seconds of each step; arrays of equal shape. Steps with nothing running are given as 0 and 0."""
        ...


@dataclass(frozen=True, slots=True)
class UnitTime:
    """Every step takes the same time, as in the paper.

    Parameters
    ----------
    step_s : float
        Seconds a step.
    """

    step_s: float = 1.0

    def __post_init__(self) -> None:
        _positive("step_s", self.step_s)

    def seconds(self, running: Steps, largest: Steps) -> Seconds:
        """Return step_s for each step."""
        return np.full(running.shape, self.step_s)


@dataclass(frozen=True, slots=True)
class FootprintTime:
    """Eq. (3) read as time: base_s + per_token_s * |S| * max r.

    Parameters
    ----------
    base_s : float
        Seconds of a step whatever runs in it; an idle step takes this too.
    per_token_s : float
        Seconds a running job and token of the largest index.
    """

    base_s: float
    per_token_s: float

    def __post_init__(self) -> None:
        _positive("base_s", self.base_s)
        if not (self.per_token_s >= 0 and np.isfinite(self.per_token_s)):
            raise ParameterError("per_token_s", self.per_token_s, "give a finite number of seconds >= 0")

    def seconds(self, running: Steps, largest: Steps) -> Seconds:
        """Return the seconds of each step."""
        return np.asarray(self.base_s + self.per_token_s * (running * largest), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredTime:
    """A table of measured step times, bilinear in between, held constant beyond its edges.

    Parameters
    ----------
    running : array_like of int, shape (m,)
        Numbers of running jobs, ascending.
    context_tokens : array_like of int, shape (k,)
        Largest token indices, ascending.
    step_s : array_like of float, shape (m, k)
        Seconds of a step.
    """

    running: Seconds
    context_tokens: Seconds
    step_s: Seconds

    def __post_init__(self) -> None:
        rows = np.asarray(self.running, dtype=np.float64)
        columns = np.asarray(self.context_tokens, dtype=np.float64)
        table = np.asarray(self.step_s, dtype=np.float64)
        for name, axis in (("running", rows), ("context_tokens", columns)):
            if axis.ndim != 1 or axis.size == 0 or (np.diff(axis) <= 0).any():
                raise ParameterError(name, axis.tolist(), "give ascending values without repeats")
        if table.shape != (rows.size, columns.size):
            raise ParameterError(
                "step_s", f"shape {table.shape}", f"give one time a cell: {(rows.size, columns.size)}"
            )
        if not (np.isfinite(table) & (table > 0)).all():
            raise ParameterError("step_s", float(np.nanmin(table)), "give positive, finite seconds")
        for name, value in (("running", rows), ("context_tokens", columns), ("step_s", table)):
            object.__setattr__(self, name, value)

    @classmethod
    def from_frame(cls, frame: pd.DataFrame) -> MeasuredTime:
        """Read a tidy table with the columns running, context_tokens and step_s, one row a cell.

        Raises
        ------
        DataError
            For a missing column, or a cell that is missing or given twice.
        """
        for column in ("running", "context_tokens", "step_s"):
            if column not in frame:
                raise DataError("needs columns running, context_tokens, step_s", column=column)
        twice = frame.duplicated(["running", "context_tokens"])
        if twice.any():
            raise DataError("cell given twice", row=int(np.flatnonzero(twice)[0]))
        table = frame.pivot_table(index="running", columns="context_tokens", values="step_s")
        if table.isna().any(axis=None):
            missing = np.argwhere(table.isna().to_numpy())[0]
            jobs, tokens = table.index.to_numpy()[missing[0]], table.columns.to_numpy()[missing[1]]
            raise DataError(f"no time for {jobs} running jobs and {tokens} tokens", column="step_s")
        return cls(table.index.to_numpy(), table.columns.to_numpy(), table.to_numpy())

    def seconds(self, running: Steps, largest: Steps) -> Seconds:
        """Interpolate the seconds of each step."""
        i, u = _locate(self.running, running)
        j, v = _locate(self.context_tokens, largest)
        t = self.step_s
        i1, j1 = np.minimum(i + 1, t.shape[0] - 1), np.minimum(j + 1, t.shape[1] - 1)
        near = (1 - v) * t[i, j] + v * t[i, j1]
        far = (1 - v) * t[i1, j] + v * t[i1, j1]
        return np.asarray((1 - u) * near + u * far)


def _locate(axis: Seconds, values: Steps) -> tuple[Steps, Seconds]:
    inside = np.clip(values.astype(np.float64), axis[0], axis[-1])
    cell = np.clip(np.searchsorted(axis, inside, side="right") - 1, 0, max(axis.size - 2, 0))
    if axis.size == 1:
        return cell, np.zeros(inside.shape)
    return cell, (inside - axis[cell]) / (axis[cell + 1] - axis[cell])


@dataclass(frozen=True, slots=True, eq=False)
class TimedRun:
    """A batch run read in seconds.

    Parameters
    ----------
    run : BatchRun
    start_s, finish_s, release_s : ndarray of float64, shape (n,)
        When each job starts, ends and was released, in seconds since step 0.
    makespan_s : float
    """

    run: BatchRun
    start_s: Seconds = field(repr=False)
    finish_s: Seconds = field(repr=False)
    release_s: Seconds = field(repr=False)
    makespan_s: float

    @property
    def latency_s(self) -> Seconds:
        """Finish minus release."""
        return self.finish_s - self.release_s

    @property
    def throughput_tokens_s(self) -> float:
        """Tokens a second."""
        return self.run.tokens / self.makespan_s

    def summary(self) -> dict[str, object]:
        """Flat mapping of the figures."""
        latency = self.latency_s
        return {
            "policy": self.run.policy.label,
            "makespan_s": self.makespan_s,
            "throughput_tokens_s": self.throughput_tokens_s,
            "mean_latency_s": float(latency.mean()),
            "p50_latency_s": float(np.quantile(latency, 0.5)),
            "p95_latency_s": float(np.quantile(latency, 0.95)),
            "p99_latency_s": float(np.quantile(latency, 0.99)),
        }

    def to_frame(self) -> pd.DataFrame:
        """One row a job."""
        frame = self.run.to_frame()
        return frame.assign(start_s=self.start_s, finish_s=self.finish_s, latency_s=self.latency_s)

    def _repr_html_(self) -> str:
        return summary_html(f"Batch run in seconds, {self.run.policy.label}", self.summary())


def time_run(run: BatchRun, model: StepTime) -> TimedRun:
    """Read a run in seconds.

    Parameters
    ----------
    run : BatchRun
    model : StepTime
        `UnitTime`, `FootprintTime`, `MeasuredTime`, or anything with their `seconds`.

    Returns
    -------
    TimedRun

    Raises
    ------
    ParameterError
        If the model gives times that are negative or not finite, or the run has too many steps.
    """
    running, largest = step_profile(run.start_steps, run.lengths)
    spent = np.asarray(model.seconds(running, largest), dtype=np.float64)
    if spent.shape != running.shape or not (np.isfinite(spent) & (spent >= 0)).all():
        raise ParameterError("model", model, "must give a finite time >= 0 for each step")
    clock = np.concatenate([[0.0], np.cumsum(spent)])
    release = np.minimum(run.release_steps, clock.size - 1)
    return TimedRun(
        run=run,
        start_s=clock[run.start_steps],
        finish_s=clock[run.finish_steps],
        release_s=clock[release],
        makespan_s=float(clock[-1]),
    )


def step_profile(start_steps: ArrayLike, lengths: ArrayLike) -> tuple[Steps, Steps]:
    """Number of running jobs and largest token index (r of eq. 3) at each step.

    Parameters
    ----------
    start_steps, lengths : array_like of int, shape (n,)

    Returns
    -------
    running, largest : ndarray of int64, shape (T,)
        0 and 0 at steps when nothing runs.
    """
    starts = np.asarray(start_steps, dtype=np.int64)
    own = np.asarray(lengths, dtype=np.int64)
    steps = int((starts + own).max())
    if steps > LONGEST_PROFILE:
        raise ParameterError("start_steps", f"{steps} steps", f"at most {LONGEST_PROFILE} can be laid out")
    running = np.zeros(steps + 1, dtype=np.int64)
    np.add.at(running, starts, 1)
    np.add.at(running, starts + own, -1)
    return np.cumsum(running)[:steps], _largest_index(np.argsort(starts, kind="stable"), starts, own, steps)


@numba.njit(cache=True, nogil=True)
def _largest_index(order: Steps, starts: Steps, lengths: Steps, steps: int) -> Steps:
    """The job that started first leads until it ends; then the next by start that still runs."""
    largest = np.zeros(steps, dtype=np.int64)
    covered = 0
    for job in order:
        begin = starts[job]
        end = begin + lengths[job]
        for t in range(max(begin, covered), end):
            largest[t] = t - begin + 1
        covered = max(covered, end)
    return largest


def _positive(name: str, value: float) -> None:
    if not (value > 0 and np.isfinite(value)):
        raise ParameterError(name, value, "give a positive number of seconds")
