"""Hardware profiles: service times by class and a token pace, each number with its source."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import DataError, ParameterError, StarvedDatasetError, unknown_name
from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.results import summary_html, summary_text
from clairvoyant_lab.simulation.service_times import ServiceModel, ServiceTime, empirical
from clairvoyant_lab.simulation.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["HardwareProfile", "TokenPace", "hardware_profile", "profile_from_trace", "profile_names"]

_FILE = Path(__file__).with_name("profiles.toml")


@dataclass(frozen=True)
class TokenPace:
    """Service time of a request from its tokens: overhead + prompt / prefill + response / decode.

    Attributes
    ----------
    prefill_tokens_per_s, decode_tokens_per_s : float
    overhead_s : float
        Seconds a request costs before its first token is computed.
    """

    prefill_tokens_per_s: float = 320.0
    decode_tokens_per_s: float = 32.7
    overhead_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("prefill_tokens_per_s", "decode_tokens_per_s"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0):
                raise ParameterError(name, value, "give tokens per second, more than 0")
        if not (np.isfinite(self.overhead_s) and self.overhead_s >= 0):
            raise ParameterError("overhead_s", self.overhead_s, "give seconds, 0 or more")

    def service_s(self, prompt_tokens: ArrayLike, response_tokens: ArrayLike) -> NDArray[np.float64]:
        """Service times in seconds, shape (n,)."""
        prompt = np.asarray(prompt_tokens, dtype=np.float64)
        response = np.asarray(response_tokens, dtype=np.float64)
        seconds: NDArray[np.float64] = (
            self.overhead_s + prompt / self.prefill_tokens_per_s + response / self.decode_tokens_per_s
        )
        return seconds

    def describe(self) -> str:
        """The pace in words, for a trace's `service_model`."""
        return (
            f"{self.overhead_s:g} s + prompt tokens / {self.prefill_tokens_per_s:g} per s"
            f" + response tokens / {self.decode_tokens_per_s:g} per s"
        )


@dataclass(frozen=True, repr=False)
class HardwareProfile:
    """A machine with a model on it, as the simulator sees it.

    Attributes
    ----------
    name, title, source : str
    classes : dict of LengthClass to (share, ServiceTime, source)
    pace : TokenPace
        For traces that come with token counts.
    notes : dict of str to str
        Where the shares and the pace come from.
    """

    name: str
    title: str
    source: str
    classes: Mapping[LengthClass, tuple[float, ServiceTime, str]]
    pace: TokenPace
    notes: Mapping[str, str] = field(default_factory=dict)

    def service_model(self, shares: Mapping[LengthClass | int, float] | None = None) -> ServiceModel:
        """Return the profile's mixture of service times.

        Parameters
        ----------
        shares : mapping of LengthClass to float, optional
            Other shares; they are scaled to add to 1. A class that is left out doesn't come.
        """
        if shares is None:
            shares = {c: share for c, (share, _, _) in self.classes.items()}
        parts = []
        total = float(sum(shares.values()))
        if total <= 0 or any(share < 0 for share in shares.values()):
            raise ParameterError("shares", dict(shares), "give shares or counts, 0 or more, not all 0")
        for key, share in shares.items():
            length_class = LengthClass(key)
            if share == 0:
                continue
            if length_class not in self.classes:
                known = ", ".join(c.label for c in self.classes)
                raise ParameterError("shares", length_class.label, f"profile {self.name!r} knows {known}")
            parts.append((share / total, self.classes[length_class][1], length_class))
        return ServiceModel(tuple(parts), name=self.name)

    def to_frame(self) -> pd.DataFrame:
        """One row a class: share, mean, C_s² and source."""
        import pandas as pd

        return pd.DataFrame(
            [
                {"profile": self.name, "class": c.label, "share": share, "mean_service_s": part.mean_s,
                 "service_cs2": part.cs2, "source": source}
                for c, (share, part, source) in self.classes.items()
            ]
        )  # fmt: skip

    def summary(self) -> dict[str, Any]:
        """Return the profile's figures with their sources."""
        model = self.service_model()
        rows: dict[str, Any] = {"title": self.title, "source": self.source}
        rows |= {"mean_service_s": model.mean_s, "service_cs2": model.cs2, "pace": self.pace.describe()}
        for c, (share, part, source) in self.classes.items():
            rows[c.label] = f"share {share:.3g}, mean {part.mean_s:.3g} s, C_s² {part.cs2:.3g} ({source})"
        return rows | dict(self.notes)

    def __repr__(self) -> str:
        return summary_text(f"HardwareProfile {self.name!r}", self.summary())

    def _repr_html_(self) -> str:
        return summary_html(f"Hardware profile {self.name}", self.summary())


@functools.cache
def _profiles() -> dict[str, HardwareProfile]:
    with _FILE.open("rb") as file:
        raw = tomllib.load(file)
    return {name: _parse(name, table) for name, table in raw.items()}


def profile_names() -> tuple[str, ...]:
    """Names of the profiles that come with the package."""
    return tuple(_profiles())


def hardware_profile(name: str | HardwareProfile) -> HardwareProfile:
    """Return a profile by name (see `profile_names`), from a TOML file of the same form, or as it is.

    Raises
    ------
    ParameterError
        For a name that is neither known nor a file.
    DataError
        For a file that isn't a profile.
    """
    if isinstance(name, HardwareProfile):
        return name
    known = _profiles()
    if name in known:
        return known[name]
    path = Path(name)
    if path.suffix != ".toml" or not path.is_file():
        raise unknown_name("profile", name, known)
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
        return _parse(*next(iter(raw.items())))
    except (tomllib.TOMLDecodeError, KeyError, TypeError, StopIteration, AttributeError) as error:
        raise DataError(f"is no profile ({error!r})", source=str(path)) from error


def profile_from_trace(trace: Trace, name: str = "own") -> HardwareProfile:
    """Make a profile of the user's own machine from a trace, e.g. a journal's.

    Service times are drawn from the measured ones of each class; the pace is a least-squares fit where the
    trace has token counts (the default pace of `TokenPace` else, and the notes say so).

    Raises
    ------
    StarvedDatasetError
        If the trace has no classes, or is empty.
    """
    if len(trace) == 0 or trace.length_class is None:
        raise StarvedDatasetError("the trace has no requests with a class", column="length_class")
    model = empirical(trace.service_s, trace.length_class)
    classes = {
        c: (share, part, f"{int(np.sum(trace.length_class == c))} requests of {trace.source}")
        for share, part, c in model.parts
        if c is not None
    }
    pace, note = _fitted_pace(trace)
    return HardwareProfile(
        name, f"measured: {trace.source}", trace.source, classes, pace, {"pace_source": note}
    )


def _fitted_pace(trace: Trace) -> tuple[TokenPace, str]:
    if trace.prompt_tokens is None or trace.response_tokens is None:
        return TokenPace(), "no token counts in the trace: default pace"
    design = np.column_stack([np.ones(len(trace)), trace.prompt_tokens, trace.response_tokens])
    from scipy.optimize import nnls

    overhead, prefill, decode = nnls(design.astype(np.float64), trace.service_s)[0]
    if decode <= 0:
        return TokenPace(), "service times don't grow with response tokens: default pace"
    # a prefill too fast to see is as fast as the fit can tell apart from nothing
    prefill = max(prefill, decode / 1000.0)
    return TokenPace(1.0 / prefill, 1.0 / decode, overhead), "least squares on the trace's token counts"


def _parse(name: str, table: Mapping[str, Any]) -> HardwareProfile:
    classes = {}
    for c in LengthClass:
        own = table.get(c.name.lower())
        if own is not None:
            part = ServiceTime("lognormal", float(own["mean_s"]), float(own["cs2"]))
            classes[c] = (float(own["share"]), part, str(own["source"]))
    notes = {key: str(table[key]) for key in ("shares_source", "pace_source") if key in table}
    return HardwareProfile(
        name, str(table["title"]), str(table["source"]), classes, TokenPace(**table["pace"]), notes
    )
