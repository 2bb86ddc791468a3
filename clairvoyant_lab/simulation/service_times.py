"""Service times: distributions with their moments, alone or mixed by length class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import DataError, ParameterError, is_finite_number, unknown_name
from clairvoyant_lab.lengths import LengthClass

__all__ = [
    "SERVICE_KINDS",
    "ServiceModel",
    "ServiceTime",
    "deterministic",
    "empirical",
    "exponential",
    "gamma",
    "lognormal",
    "mixture",
]

SERVICE_KINDS = ("deterministic", "gamma", "lognormal", "empirical")


@dataclass(frozen=True)
class ServiceTime:
    """One distribution of service times.

    Attributes
    ----------
    kind : str
        One of `SERVICE_KINDS`; exponential is gamma with C_s² = 1.
    mean_s : float
        Mean in seconds.
    cs2 : float
        Squared coefficient of variation, Var[S] / E[S]² (of eq. 1).
    values_s : tuple of float
        The values of an empirical distribution, ascending; each is as likely.
    """

    kind: str
    mean_s: float
    cs2: float = 0.0
    values_s: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in SERVICE_KINDS:
            raise unknown_name("kind", self.kind, SERVICE_KINDS)
        if not (is_finite_number(self.mean_s) and self.mean_s > 0):
            raise ParameterError("mean_s", self.mean_s, "give seconds, more than 0")
        if not (is_finite_number(self.cs2) and self.cs2 >= 0):
            raise ParameterError("cs2", self.cs2, "give 0 or more")
        if self.kind in ("gamma", "lognormal") and self.cs2 == 0:
            object.__setattr__(self, "kind", "deterministic")

    def quantile(self, u: ArrayLike) -> NDArray[np.float64]:
        """Inverse distribution function in seconds; u in (0, 1).

        Sampling goes through it, so equal uniforms give service times that move smoothly with the parameters.
        """
        from scipy import special

        p = np.asarray(u, dtype=np.float64)
        if self.kind == "gamma":
            return np.asarray(special.gammaincinv(1.0 / self.cs2, p) * (self.mean_s * self.cs2))
        if self.kind == "lognormal":
            mu, sigma = self._log_parameters()
            return np.asarray(np.exp(mu + sigma * special.ndtri(p)))
        if self.kind == "empirical":
            values = np.asarray(self.values_s)
            return values[np.minimum((p * values.size).astype(np.int64), values.size - 1)]
        return np.full(p.shape, self.mean_s)

    def moment(self, k: int) -> float:
        """E[S^k] in seconds^k for k = 1, 2, 3."""
        return float(self.partial_moment(k, np.asarray([np.inf]))[0])

    def partial_moment(self, k: int, x: ArrayLike) -> NDArray[np.float64]:
        """E[S^k; S <= x] for each x in seconds; k = 0 is the distribution function."""
        from scipy import special

        at = np.asarray(x, dtype=np.float64)
        if self.kind == "gamma":
            shape, scale = 1.0 / self.cs2, self.mean_s * self.cs2
            whole = scale**k * np.prod(shape + np.arange(k)) if k else 1.0
            return np.asarray(whole * special.gammainc(shape + k, np.maximum(at, 0.0) / scale))
        if self.kind == "lognormal":
            mu, sigma = self._log_parameters()
            with np.errstate(divide="ignore"):
                z = (np.log(np.maximum(at, 0.0)) - mu) / sigma - k * sigma
            return np.asarray(np.exp(k * mu + 0.5 * (k * sigma) ** 2) * special.ndtr(z))
        values = np.asarray(self.values_s if self.kind == "empirical" else (self.mean_s,))
        totals = np.concatenate([[0.0], np.cumsum(values**k)]) / values.size
        return np.asarray(totals[np.searchsorted(values, at, side="right")])

    def _log_parameters(self) -> tuple[float, float]:
        variance = float(np.log1p(self.cs2))
        return float(np.log(self.mean_s)) - variance / 2.0, variance**0.5


@dataclass(frozen=True)
class ServiceModel:
    """A mixture of service-time distributions, each part with its share and, if known, its length class.

    Attributes
    ----------
    parts : tuple of (share, ServiceTime, LengthClass or None)
        Shares add to 1.
    name : str
        Said in a trace's `service_model`.
    """

    parts: tuple[tuple[float, ServiceTime, LengthClass | None], ...]
    name: str = ""

    def __post_init__(self) -> None:
        if not self.parts:
            raise ParameterError("parts", self.parts, "give at least one (share, service time, class)")
        total = sum(share for share, _, _ in self.parts)
        if any(share < 0 for share, _, _ in self.parts) or abs(total - 1.0) > 1e-9:
            raise ParameterError("share", [p[0] for p in self.parts], "give shares >= 0 that add to 1")
        if len({part[2] is None for part in self.parts}) == 2:
            raise ParameterError("length_class", None, "give every part a class, or none")

    @property
    def mean_s(self) -> float:
        """E[S] in seconds."""
        return self.moment(1)

    @property
    def cs2(self) -> float:
        """Squared coefficient of variation of the whole mixture."""
        return self.moment(2) / self.moment(1) ** 2 - 1.0

    @property
    def has_classes(self) -> bool:
        """Whether each part names its length class."""
        return self.parts[0][2] is not None

    def moment(self, k: int) -> float:
        """E[S^k] in seconds^k."""
        return sum(share * part.moment(k) for share, part, _ in self.parts)

    def partial_moment(self, k: int, x: ArrayLike) -> NDArray[np.float64]:
        """E[S^k; S <= x] for each x in seconds."""
        at = np.asarray(x, dtype=np.float64)
        return np.sum([share * part.partial_moment(k, at) for share, part, _ in self.parts], axis=0)

    def class_moment(self, length_class: LengthClass, k: int = 1) -> float:
        """E[S^k] of one class in seconds^k."""
        own = [(share, part) for share, part, c in self.parts if c == length_class]
        total = sum(share for share, _ in own)
        if total <= 0:
            raise ParameterError("length_class", length_class, "no part of the model has this class")
        return sum(share * part.moment(k) for share, part in own) / total

    def sample(
        self, n: int, choose: np.random.Generator, draw: np.random.Generator, exact_shares: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.int8] | None]:
        """Draw service times in seconds and their classes.

        Parameters
        ----------
        n : int
        choose, draw : Generator
            Streams for the part of each request and for its service time.
        exact_shares : bool
            Give each part its share of n, rounded to add to n, in random order (a burst of 50 and 50).
        """
        cuts = np.cumsum([share for share, _, _ in self.parts])
        u = choose.random(n)
        if exact_shares:
            ends = np.rint(cuts * n).astype(np.int64)
            part = np.empty(n, dtype=np.int64)
            part[np.argsort(u, kind="stable")] = np.searchsorted(ends, np.arange(n), side="right")
        else:
            part = np.minimum(np.searchsorted(cuts, u, side="right"), len(self.parts) - 1)
        p = draw.random(n)
        service = np.empty(n)
        for index, (_, own, _) in enumerate(self.parts):
            rows = part == index
            service[rows] = own.quantile(p[rows])
        if not self.has_classes:
            return service, None
        of_part = np.asarray([int(c) for _, _, c in self.parts if c is not None], dtype=np.int8)
        return service, of_part[part]

    def describe(self) -> str:
        """The model in words, for a trace's `service_model`."""
        words = []
        for share, part, length_class in self.parts:
            label = "" if length_class is None else f"{length_class.label} "
            spread = "" if part.kind == "deterministic" else f", C_s² {part.cs2:.3g}"
            words.append(f"{share:.3g} {label}{part.kind} (mean {part.mean_s:.4g} s{spread})")
        return (f"{self.name}: " if self.name else "") + " + ".join(words)


def deterministic(mean_s: float) -> ServiceModel:
    """Every request takes `mean_s` seconds."""
    return ServiceModel(((1.0, ServiceTime("deterministic", mean_s), None),))


def exponential(mean_s: float) -> ServiceModel:
    """Exponential service times (C_s² = 1)."""
    return gamma(mean_s, 1.0)


def gamma(mean_s: float, cs2: float) -> ServiceModel:
    """Gamma service times with a mean in seconds and a squared coefficient of variation (section 5.6)."""
    return ServiceModel(((1.0, ServiceTime("gamma", mean_s, cs2), None),))


def lognormal(mean_s: float, cs2: float) -> ServiceModel:
    """Lognormal service times with a mean in seconds and a squared coefficient of variation."""
    return ServiceModel(((1.0, ServiceTime("lognormal", mean_s, cs2), None),))


def empirical(values_s: ArrayLike, length_class: ArrayLike | None = None) -> ServiceModel:
    """Draw from measured service times, by class if the classes are given.

    Raises
    ------
    DataError
        For a value that is not a finite number of seconds, 0 or more; the row is named.
    """
    values = np.asarray(values_s, dtype=np.float64)
    bad = ~(np.isfinite(values) & (values >= 0))
    if values.ndim != 1 or values.size == 0:
        raise DataError(f"has shape {values.shape}; give measured service times", column="values_s")
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(f"{values[row]} is no service time in seconds", row=row, column="values_s")
    if length_class is None:
        return ServiceModel(((1.0, _measured(values), None),), name="measured")
    classes = np.asarray(length_class)
    parts = tuple(
        (float(np.mean(classes == c)), _measured(values[classes == c]), c)
        for c in LengthClass
        if np.any(classes == c)
    )
    return ServiceModel(parts, name="measured")


def mixture(
    parts: Mapping[LengthClass, tuple[float, ServiceTime]] | Sequence[tuple[float, ServiceTime, Any]],
    name: str = "",
) -> ServiceModel:
    """Mix distributions by class: `{LengthClass.SHORT: (0.5, ServiceTime("gamma", 3.5, 0.2)), ...}`."""
    if isinstance(parts, Mapping):
        return ServiceModel(tuple((share, part, LengthClass(c)) for c, (share, part) in parts.items()), name)
    return ServiceModel(tuple(parts), name)


def _measured(values: NDArray[np.float64]) -> ServiceTime:
    mean = float(values.mean())
    return ServiceTime("empirical", mean, float(values.var()) / mean**2, tuple(np.sort(values).tolist()))
