"""Traces: requests as columns, times in seconds, in order of arrival."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import DataError, ParameterError, unknown_name
from clairvoyant_lab.lengths import LengthClass, classify_lengths
from clairvoyant_lab.results import summary_html, summary_text

if TYPE_CHECKING:
    import pandas as pd

    from clairvoyant_lab.simulation.service_times import ServiceModel

__all__ = ["OPTIONAL_COLUMNS", "Trace"]

# column -> (dtype, smallest value, whether NaN may stand for "none")
OPTIONAL_COLUMNS: dict[str, tuple[type[np.generic] | None, float | None, bool]] = {
    "score": (np.float64, None, False),
    "request_id": (None, None, False),
    "prompt_tokens": (np.int64, 0, False),
    "response_tokens": (np.int64, 0, False),
    "length_class": (np.int8, 0, False),
    "predicted_class": (np.int8, 0, False),
    "predicted_tokens": (np.float64, 0, False),
    "expected_service_s": (np.float64, 0, False),
    "token_cap": (np.float64, 0, True),
}


@dataclass(frozen=True, repr=False, eq=False)
class Trace:
    """Requests in order of arrival. Make one with `from_arrays`, `from_poisson`, `from_burst` or `read`.

    Attributes
    ----------
    arrival_s, service_s : ndarray of float64, shape (n,)
        Arrival time, ascending, and service time, both in seconds.
    score : ndarray of float64 or None
        P(Long), or any score where lower should go first.
    request_id : ndarray of str or None
    prompt_tokens, response_tokens : ndarray of int64 or None
    length_class, predicted_class : ndarray of int8 or None
        True and predicted `LengthClass`. The true class follows from `response_tokens` if it is not given.
    predicted_tokens, expected_service_s : ndarray of float64 or None
    token_cap : ndarray of float64 or None
        max_tokens of the request; NaN where it has none.
    source : str
        Where it came from: a file, or the generator with its parameters and seed.
    service_model : str
        How service times came about.
    rows_read : int
        Rows that the source had.
    dropped : dict of str to int
        Rows left out, by reason; `rows_read == len(trace) + sum(dropped.values())`.
    """

    arrival_s: NDArray[np.float64]
    service_s: NDArray[np.float64]
    score: NDArray[np.float64] | None = None
    request_id: NDArray[np.str_] | None = None
    prompt_tokens: NDArray[np.int64] | None = None
    response_tokens: NDArray[np.int64] | None = None
    length_class: NDArray[np.int8] | None = None
    predicted_class: NDArray[np.int8] | None = None
    predicted_tokens: NDArray[np.float64] | None = None
    expected_service_s: NDArray[np.float64] | None = None
    token_cap: NDArray[np.float64] | None = None
    source: str = "arrays"
    service_model: str = "given"
    rows_read: int = -1
    dropped: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        arrival = _times("arrival_s", self.arrival_s)
        service = _times("service_s", self.service_s)
        _refuse("arrival_s", ~np.isfinite(arrival), arrival, "is not a finite time in seconds")
        back = np.zeros(arrival.size, dtype=np.bool_)
        back[1:] = arrival[1:] < arrival[:-1]
        _refuse("arrival_s", back, arrival, "is earlier than the row before; sort the requests by arrival")
        if service.size != arrival.size:
            raise DataError(f"has {service.size} rows, arrival_s has {arrival.size}", column="service_s")
        _refuse("service_s", ~np.isfinite(service), service, "is not a finite time in seconds")
        _refuse("service_s", service < 0, service, "is negative; give seconds, 0 or more")
        object.__setattr__(self, "arrival_s", arrival)
        object.__setattr__(self, "service_s", service)
        for name in OPTIONAL_COLUMNS:
            values = getattr(self, name)
            if values is not None:
                object.__setattr__(self, name, _column(name, values, arrival.size))
        if self.length_class is None and self.response_tokens is not None:
            object.__setattr__(self, "length_class", _frozen(classify_lengths(self.response_tokens)))
        if self.rows_read < 0:
            object.__setattr__(self, "rows_read", int(arrival.size) + sum(self.dropped.values()))
        elif self.rows_read != arrival.size + sum(self.dropped.values()):
            raise DataError(
                f"rows read ({self.rows_read}) != emitted ({arrival.size}) + dropped {self.dropped}",
                source=self.source,
            )

    @classmethod
    def from_arrays(
        cls,
        arrival_s: ArrayLike,
        service_s: ArrayLike,
        score: ArrayLike | None = None,
        **columns: Any,
    ) -> Trace:
        """Make a trace from arrays.

        Parameters
        ----------
        arrival_s, service_s : array_like of shape (n,)
            Seconds; arrivals ascending.
        score : array_like of shape (n,), optional
            P(Long) of each request.
        **columns
            Any other column of `Trace` of shape (n,); also `source` and `service_model` (text).

        Raises
        ------
        DataError
            For unsorted or non-finite times, a negative service time, or a column of another length: the
            column and the first bad row are named.
        ParameterError
            For an unknown column.
        """
        known = [f.name for f in fields(cls)][2:]
        for name in columns:
            if name not in known:
                raise unknown_name("column", name, known)
        return cls(
            arrival_s=np.asarray(arrival_s), service_s=np.asarray(service_s), score=_maybe(score), **columns
        )

    @classmethod
    def from_poisson(
        cls,
        n: int,
        service: ServiceModel,
        *,
        rho: float | None = None,
        rate_per_s: float | None = None,
        seed: int | np.random.Generator,
        accuracy: float | None = None,
    ) -> Trace:
        """Poisson arrivals at a load `rho` or a rate, service times from a model.

        See `clairvoyant_lab.simulation.workloads.poisson_trace`, which this calls.
        """
        from clairvoyant_lab.simulation.workloads import poisson_trace

        return poisson_trace(n, service, rho=rho, rate_per_s=rate_per_s, seed=seed, accuracy=accuracy)

    @classmethod
    def from_burst(
        cls,
        n: int,
        service: ServiceModel,
        *,
        seed: int | np.random.Generator,
        accuracy: float | None = None,
    ) -> Trace:
        """All `n` requests at once, in random order, the classes in their exact shares (rounded).

        See `clairvoyant_lab.simulation.workloads.burst_trace`, which this calls.
        """
        from clairvoyant_lab.simulation.workloads import burst_trace

        return burst_trace(n, service, seed=seed, accuracy=accuracy)

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, source: str = "frame") -> Trace:
        """Make a trace from a table whose columns bear the names of `Trace`; unknown columns are left out."""
        for name in ("arrival_s", "service_s"):
            if name not in frame.columns:
                raise DataError(
                    f"is missing; the table has {', '.join(map(str, frame.columns))}",
                    source=source,
                    column=name,
                )
        names = [name for name in OPTIONAL_COLUMNS if name in frame.columns]
        columns: dict[str, Any] = {name: frame[name].to_numpy() for name in names}
        return cls(frame["arrival_s"].to_numpy(), frame["service_s"].to_numpy(), source=source, **columns)

    @classmethod
    def read(cls, path: str | Path, **options: Any) -> Trace:
        """Read a trace from a parquet, CSV or JSONL file, or a public trace in its own format.

        See `clairvoyant_lab.simulation.trace_files.read_trace`, which this calls.
        """
        from clairvoyant_lab.simulation.trace_files import read_trace

        return read_trace(path, **options)

    def write(self, path: str | Path) -> None:
        """Write the columns as parquet, CSV or JSONL, by the file's ending."""
        from clairvoyant_lab.simulation.trace_files import write_trace

        write_trace(self, path)

    def to_frame(self) -> pd.DataFrame:
        """Return the columns that are there as a table, one row a request."""
        import pandas as pd

        return pd.DataFrame(self.columns())

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the columns that are there, by name."""
        names = ("arrival_s", "service_s", *OPTIONAL_COLUMNS)
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def with_columns(self, **columns: Any) -> Trace:
        """Return the trace with columns put in place or, by None, removed."""
        kept: dict[str, Any] = self.columns()
        kept.update(columns)
        arrival, service = kept.pop("arrival_s"), kept.pop("service_s")
        kept.setdefault("source", self.source)
        kept.setdefault("service_model", self.service_model)
        return type(self).from_arrays(arrival, service, **kept)

    def take(self, rows: Any) -> Trace:
        """Return some rows (a slice, a mask or ascending indices) as a trace of their own."""
        kept = {name: values[rows] for name, values in self.columns().items()}
        return type(self)(source=f"{self.source}, part", service_model=self.service_model, **kept)

    def __len__(self) -> int:
        return int(self.arrival_s.size)

    @property
    def mean_service_s(self) -> float:
        """Mean service time in seconds (NaN without requests)."""
        return float(self.service_s.mean()) if len(self) else float("nan")

    @property
    def load(self) -> float | None:
        """Work per second between first and last arrival; None for a burst or fewer than two requests."""
        span = float(self.arrival_s[-1] - self.arrival_s[0]) if len(self) else 0.0
        return None if span == 0.0 else float(self.service_s[:-1].sum()) / span

    def summary(self) -> dict[str, Any]:
        """Return the trace's figures: size, span, load, service moments, class shares."""
        n = len(self)
        span = float(self.arrival_s[-1] - self.arrival_s[0]) if n else 0.0
        mean = self.mean_service_s
        rows: dict[str, Any] = {
            "requests": n,
            "span_s": span,
            "mean_service_s": None if n == 0 else mean,
            "service_cs2": None if n == 0 or mean == 0 else float(self.service_s.var()) / mean**2,
            "load": self.load,
        }
        if self.length_class is not None and n:
            for cls in LengthClass:
                rows[f"share_{cls.name.lower()}"] = float(np.mean(self.length_class == cls))
        rows |= {"source": self.source, "service_model": self.service_model, "rows_read": self.rows_read}
        rows |= {f"dropped: {reason}": count for reason, count in self.dropped.items()}
        return rows

    def __repr__(self) -> str:
        return summary_text("Trace", self.summary())

    def _repr_html_(self) -> str:
        return summary_html("Trace", self.summary())


def _maybe(values: ArrayLike | None) -> NDArray[Any] | None:
    return None if values is None else np.asarray(values)


def _frozen(values: NDArray[Any]) -> NDArray[Any]:
    """A read-only copy unless it is one already: a trace shared by many runs must not change under them."""
    if values.flags.writeable:
        values = values.copy()
        values.flags.writeable = False
    return values


def _times(name: str, values: ArrayLike) -> NDArray[np.float64]:
    try:
        times = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"is not numeric ({error}); give seconds", column=name) from None
    if times.ndim != 1:
        raise DataError(f"has shape {times.shape}; give one value a request", column=name)
    frozen: NDArray[np.float64] = _frozen(times)
    return frozen


def _refuse(column: str, bad: NDArray[np.bool_], values: NDArray[Any], reason: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(f"{values[row]!s} {reason}", row=row, column=column)


def _column(name: str, values: ArrayLike, n: int) -> NDArray[Any]:
    dtype, minimum, may_be_none = OPTIONAL_COLUMNS[name]
    given = np.asarray(values)
    if given.shape != (n,):
        raise DataError(f"has shape {given.shape}, arrival_s has ({n},)", column=name)
    if dtype is None:
        return _frozen(given.astype(np.str_))
    try:
        numbers = given.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"is not numeric ({error})", column=name) from None
    finite = np.isfinite(numbers) | (np.isnan(numbers) if may_be_none else False)
    _refuse(name, ~finite, given, "is not a finite number")
    if minimum is not None:
        _refuse(name, numbers < minimum, given, f"is below {minimum:g}")
    if np.issubdtype(dtype, np.integer):
        _refuse(name, numbers != np.floor(numbers), given, "is not a whole number")
    if name in ("length_class", "predicted_class"):
        _refuse(name, numbers > max(LengthClass), given, "is no LengthClass (0, 1 or 2)")
    return _frozen(np.ascontiguousarray(numbers.astype(dtype)))


def _check_count(field_name: str, n: Any) -> int:
    """A positive whole number, or our error."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ParameterError(field_name, n, "give a whole number, 1 or more")
    return int(n)


def describe_drops(dropped: Mapping[str, int]) -> str:
    """`3 without output, 1 unreadable` for messages; `none` for an empty mapping."""
    return ", ".join(f"{count} {reason}" for reason, count in dropped.items()) or "none"
