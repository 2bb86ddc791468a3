"""Serial policies: which waiting request goes next when a slot is free.

A `SerialPolicy` is a small frozen value: a key (lower goes first), a starvation timeout and a promotion
rule. It holds no requests and no clock, so one value drives both worlds:

* the simulator calls `policy.key(trace)` once for a whole trace and runs in virtual time;
* a live queue keeps a `clairvoyant_lab.scheduling.selection.WaitingQueue(policy)`. When a request comes
  it computes `policy.key(RequestColumns(arrival_s=[t], score=[p]))[0]` and calls
  `queue.add(ticket, t, key, long=policy.is_long(columns)[0])`; when the slot is free it calls
  `queue.take(now_s)`; when a client leaves it calls `queue.discard(ticket)`. After a change of policy it
  makes a new `WaitingQueue` and adds what still waits, each with its first arrival time. For a dynamic
  policy it hands `WaitingQueue` a function that gives the keys of some tickets at a time.

The choice itself (promotion, ties) is made in `selection` only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import DataError, ParameterError, unknown_name

__all__ = ["POLICY_NAMES", "PROMOTIONS", "RequestColumns", "SerialPolicy", "serial_policy"]

PROMOTIONS = ("oldest", "shortest", "long_only")
"""Promotion rules: section 3.4's, and two variants for study and for better service."""

# name -> the column its key is made of (None: more than one; see `_builtin_key`)
_KEY_COLUMN: dict[str, str | None] = {
    "fcfs": "arrival_s",
    "sjf": "score",
    "sjf_tokens": "predicted_tokens",
    "sjf_service": "expected_service_s",
    "oracle": "service_s",
    "aging": None,
    "hrrn": None,
    "srpt": "service_s",
}
POLICY_NAMES = tuple(_KEY_COLUMN)

_BRINGS = {
    "score": "P(Long) of each request, e.g. from LengthPredictor.predict_proba",
    "predicted_tokens": "predicted response tokens of each request",
    "expected_service_s": "predicted service time of each request in seconds",
    "service_s": "true service times; only a simulation knows them",
}

KeyFunction = Callable[..., ArrayLike]


class RequestColumns:
    """A few requests as columns: what a live queue hands to `SerialPolicy.key`. A `Trace` has the same names.

    Parameters
    ----------
    arrival_s : array_like of shape (n,)
        Arrival times in seconds.
    **columns : array_like of shape (n,)
        Any further columns of a trace (`score`, `predicted_tokens`, `expected_service_s`, ...). A name that
        was not given reads as None.
    """

    def __init__(self, arrival_s: ArrayLike, **columns: ArrayLike | None) -> None:
        self.arrival_s: NDArray[np.float64] = np.atleast_1d(np.asarray(arrival_s, dtype=np.float64))
        for name, values in columns.items():
            column = None if values is None else np.atleast_1d(np.asarray(values))
            if column is not None and column.shape != self.arrival_s.shape:
                raise DataError(
                    f"has shape {column.shape}, arrival_s has {self.arrival_s.shape}", column=name
                )
            setattr(self, name, column)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return None

    def __len__(self) -> int:
        return int(self.arrival_s.size)


@dataclass(frozen=True, repr=False)
class SerialPolicy:
    """A key, a starvation timeout and a promotion rule; made by `serial_policy`.

    Attributes
    ----------
    name : str
        One of `POLICY_NAMES`, or the name of the user's function.
    starvation_timeout_s : float or None
        τ of Clairvoyant in seconds; None: no limit.
    promotion : str
        `oldest` (section 3.4): the request that has waited longest goes first if it has waited strictly
        longer than τ. `shortest`: of those that waited longer than τ, the one with the smallest key.
        `long_only`: only requests with score >= `long_from_score` are promoted, the oldest first.
    long_from_score : float
        Bound of `long_only`.
    rate_per_s : float or None
        Rate of `aging`: what a second of later arrival adds to the key.
    function : callable or None
        The user's key function.
    dynamic : bool
        The key depends on the time and is evaluated at each dispatch.
    """

    name: str
    starvation_timeout_s: float | None = None
    promotion: str = "oldest"
    long_from_score: float = 0.5
    rate_per_s: float | None = None
    function: KeyFunction | None = None
    dynamic: bool = False

    @property
    def preemptive(self) -> bool:
        """Whether a running request may be interrupted (SRPT only; for simulation)."""
        return self.function is None and self.name == "srpt"

    @property
    def needs(self) -> tuple[str, ...]:
        """Columns that the policy reads beside `arrival_s`; what a user's function reads is not known."""
        column = _KEY_COLUMN.get(self.name) if self.function is None else None
        names = ["score"] if self.name == "aging" and self.function is None else []
        if column is not None and column != "arrival_s":
            names.append(column)
        if self.promotes_long_only and "score" not in names:
            names.append("score")
        return tuple(names)

    @property
    def promotes_long_only(self) -> bool:
        """Whether the promotion rule asks which requests are predicted long."""
        return self.starvation_timeout_s is not None and self.promotion == "long_only"

    @property
    def label(self) -> str:
        """A short name for legends and tables, with τ and the rule where they differ from the default."""
        text = self.name if self.rate_per_s is None else f"{self.name}({self.rate_per_s:g})"
        if self.starvation_timeout_s is not None:
            text += f", τ = {self.starvation_timeout_s:g} s"
            if self.promotion != "oldest":
                text += f", {self.promotion}"
        return text

    def with_timeout(self, starvation_timeout_s: float | None) -> SerialPolicy:
        """Return the same policy with another τ."""
        _check_timeout(starvation_timeout_s, self.preemptive)
        return replace(self, starvation_timeout_s=_as_float(starvation_timeout_s))

    def key(self, requests: Any, now_s: float | None = None) -> NDArray[np.float64]:
        """Priority of each request; lower goes first, ties go by arrival, then by index.

        Parameters
        ----------
        requests : Trace or RequestColumns
            Anything with the columns that the policy needs as attributes.
        now_s : float, optional
            The time of the dispatch; a dynamic policy needs it, others ignore it.

        Returns
        -------
        ndarray of float64, shape (n,)

        Raises
        ------
        DataError
            For a missing column, a key of the wrong shape, or a key that is not a number (the row is named).
        ParameterError
            If a dynamic policy gets no time.
        """
        if self.dynamic and now_s is None:
            raise ParameterError("now_s", now_s, f"policy {self.name!r} is dynamic: give the dispatch time")
        arrival = np.asarray(requests.arrival_s, dtype=np.float64)
        if self.function is None:
            keys = self._builtin_key(requests, arrival, now_s)
        else:
            raw = self.function(requests, now_s) if self.dynamic else self.function(requests)
            keys = np.asarray(raw, dtype=np.float64)
        if keys.shape != arrival.shape:
            raise DataError(
                f"the key has shape {keys.shape}; give one number a request, shape {arrival.shape}",
                source=f"policy {self.name!r}",
            )
        bad = np.isnan(keys)
        if bad.any():
            raise DataError(
                "the key is not a number",
                source=f"policy {self.name!r}",
                row=int(np.argmax(bad)),
                column="key",
            )
        return keys

    def is_long(self, requests: Any) -> NDArray[np.bool_]:
        """Which requests `long_only` may promote: score >= `long_from_score`. All False under other rules."""
        if not self.promotes_long_only:
            return np.zeros(np.shape(requests.arrival_s), dtype=np.bool_)
        return self._column(requests, "score") >= self.long_from_score

    def _builtin_key(
        self, requests: Any, arrival: NDArray[np.float64], now_s: float | None
    ) -> NDArray[np.float64]:
        if self.name == "fcfs":
            return arrival
        if self.name == "aging":
            return self._column(requests, "score") + float(self.rate_per_s or 0.0) * arrival
        if self.name == "hrrn":
            # the prediction where there is one; a simulation without predictions knows the truth
            expected = getattr(requests, "expected_service_s", None)
            service = self._column(requests, "service_s" if expected is None else "expected_service_s")
            wait = float(now_s or 0.0) - arrival
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = (wait + service) / service
            return -np.where(service == 0.0, np.inf, ratio)
        column = _KEY_COLUMN[self.name]
        return self._column(requests, str(column))

    def _column(self, requests: Any, name: str) -> NDArray[np.float64]:
        values = getattr(requests, name, None)
        if values is None:
            raise DataError(
                f"policy {self.name!r} needs it and the requests have none: give {_BRINGS[name]}", column=name
            )
        return np.asarray(values, dtype=np.float64)

    def __repr__(self) -> str:
        parts = [repr(self.name)]
        if self.starvation_timeout_s is not None:
            parts.append(f"starvation_timeout_s={self.starvation_timeout_s!r}")
        if self.promotion != "oldest":
            parts.append(f"promotion={self.promotion!r}")
        if self.long_from_score != 0.5:
            parts.append(f"long_from_score={self.long_from_score!r}")
        if self.rate_per_s is not None:
            parts.append(f"rate={self.rate_per_s!r}")
        if self.dynamic and self.function is not None:
            parts.append("dynamic=True")
        return f"serial_policy({', '.join(parts)})"


def serial_policy(
    name: str | KeyFunction,
    starvation_timeout_s: float | None = None,
    promotion: str = "oldest",
    **params: Any,
) -> SerialPolicy:
    """Make a serial policy.

    Parameters
    ----------
    name : str or callable
        `fcfs`: by arrival. `sjf`: by score, i.e. P(Long) (the paper's). `sjf_tokens`: by predicted tokens.
        `sjf_service`: by expected service time. `oracle`: by true service time. `aging` (needs `rate`): by
        score + rate * arrival_s. `hrrn`: highest response ratio next, evaluated at each dispatch. `srpt`:
        shortest remaining time, preemptive, for simulation only. Or a function `key(requests) -> float64[n]`
        that looks at each row by itself; with `dynamic=True` (or an attribute `dynamic` that is true)
        `key(requests, now_s)`, called at each dispatch with the waiting requests.
    starvation_timeout_s : float, optional
        τ in seconds, 0 or more; None: no limit.
    promotion : {"oldest", "shortest", "long_only"}
        Who goes first among requests that have waited strictly longer than τ (see `SerialPolicy`).
    **params
        `rate` for aging (per second, 0 or more); `long_from_score` for `long_only` (default 0.5);
        `dynamic` for a function.

    Returns
    -------
    SerialPolicy

    Raises
    ------
    ParameterError
        For an unknown name, rule or parameter, a τ that is negative or not finite, or a τ for `srpt`.
    """
    function = name if callable(name) else None
    label = getattr(name, "__name__", type(name).__name__) if function is not None else str(name)
    if function is None and label not in _KEY_COLUMN:
        raise unknown_name("name", name, POLICY_NAMES)
    if promotion not in PROMOTIONS:
        raise unknown_name("promotion", promotion, PROMOTIONS)
    known = ["long_from_score"]
    if function is not None:
        known.append("dynamic")
    elif label == "aging":
        known.append("rate")
    for given in params:
        if given not in known:
            raise unknown_name(f"parameter of {label!r}", given, known)
    _check_timeout(starvation_timeout_s, function is None and label == "srpt")
    rate = _finite("rate", params["rate"], minimum=0.0) if "rate" in params else None
    if function is None and label == "aging" and rate is None:
        raise ParameterError("rate", None, "policy 'aging' needs it: what a second of later arrival adds")
    return SerialPolicy(
        name=label,
        starvation_timeout_s=_as_float(starvation_timeout_s),
        promotion=promotion,
        long_from_score=_finite("long_from_score", params.get("long_from_score", 0.5)),
        rate_per_s=rate,
        function=function,
        dynamic=bool(params.get("dynamic", getattr(function, "dynamic", False)))
        if function is not None
        else label == "hrrn",
    )


def _as_float(value: float | None) -> float | None:
    return None if value is None else float(value)


def _finite(field: str, value: Any, minimum: float | None = None) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ParameterError(field, value, "give a number") from None
    if not np.isfinite(number) or (minimum is not None and number < minimum):
        least = "" if minimum is None else f", {minimum:g} or more"
        raise ParameterError(field, value, f"give a finite number{least}")
    return number


def _check_timeout(starvation_timeout_s: float | None, preemptive: bool) -> None:
    if starvation_timeout_s is None:
        return
    number = starvation_timeout_s
    if isinstance(number, bool) or not isinstance(number, int | float | np.number):
        raise ParameterError("starvation_timeout_s", number, "give seconds, 0 or more; None means no limit")
    if not np.isfinite(number) or number < 0:
        raise ParameterError("starvation_timeout_s", number, "give seconds, 0 or more; None means no limit")
    if preemptive:
        raise ParameterError(
            "starvation_timeout_s", number, "'srpt' is the preemptive bound and has no timeout: give None"
        )
