"""Published and measured numbers, and the verdict that is computed from the two.

Nobody writes a verdict: `judge` computes it from the numbers, the tolerance stated beside the published
value, its printed precision and spread, our interval, and the paper's contradictions with itself.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.results import counted

__all__ = [
    "VERDICT_KINDS",
    "Contradiction",
    "Measured",
    "Published",
    "Relation",
    "Verdict",
    "VerdictKind",
    "count_of_kind",
    "format_number",
    "judge",
]

Relation = Literal["=", "~", "<", "<=", ">", ">="]
VerdictKind = Literal["reproduced", "differs", "contradiction", "not run here"]

VERDICT_KINDS: tuple[VerdictKind, ...] = ("reproduced", "differs", "contradiction", "not run here")
_PLURALS = {"differs": "differ", "contradiction": "contradictions"}


@dataclass(frozen=True)
class Published:
    """One number as a paper printed it.

    Parameters
    ----------
    key : str
        Stable name, e.g. ``clairvoyant.table10.cs2_2.0.tau_1x.p50_s``.
    paper : str
        ``clairvoyant`` or ``isjl``.
    table : str
        Where it stands: a table, figure or section.
    cell : str
        Which cell, row and column or phrase there.
    value : float
        The number in `unit`; the lower end of a printed range.
    unit : str
        Unit of `value`; empty for a pure number.
    text : str
        The number as printed.
    relation : {"=", "~", "<", "<=", ">", ">="}
        What the paper claims about `value`: equal, about, below, at most, above, at least.
    upper : float, optional
        The upper end of a printed range.
    spread : float, optional
        The standard deviation printed with it.
    tolerance : float
        How far ours may lie off and still count as reproduced, in `unit`, besides half a printed digit and
        two printed standard deviations.
    tolerance_why : str
        Why that much.
    decimals : int
        Printed digits after the point.
    how : str
        The command that gets our number where it can't be had here.
    reason : str
        What is known to make it differ; shown only if it does.
    needs : str
        What it takes to run it; shown where it was not run.
    same_as : str
        Key of the number that this one repeats; without a measurement of its own it takes that one's.
    """

    key: str
    paper: str
    table: str
    cell: str
    value: float
    unit: str
    text: str
    relation: Relation = "="
    upper: float | None = None
    spread: float | None = None
    tolerance: float = 0.0
    tolerance_why: str = ""
    decimals: int = 0
    how: str = ""
    reason: str = ""
    needs: str = ""
    same_as: str = ""

    @property
    def allowance(self) -> float:
        """Largest distance that counts as reproduced, in `unit`."""
        spread = 0.0 if self.spread is None else 2.0 * self.spread
        return max(self.tolerance, spread) + 0.5 * 10.0**-self.decimals


@dataclass(frozen=True)
class Measured:
    """Our number for a published one, or the statement that there is none.

    Parameters
    ----------
    key : str
        Key of the published number.
    value : float or None
        Ours, in the published unit; None if not run here (use `Measured.not_run`) or if our run has no such
        number (use `Measured.no_value`).
    low, high : float, optional
        Ends of our interval (95 % unless the note says otherwise).
    n : int, optional
        Runs, rows or requests behind `value`.
    how : str
        The call that made it, or the command that would.
    note : str
        What a reader must know besides.
    because : str
        Why it differs; shown only if it does.
    variant : str
        Name of the way it was run where one number is re-run in several ways.
    ran : bool
        False for what was not run here.

    Raises
    ------
    ParameterError
        `how` is empty, a number is not finite, or the interval does not hold the value.
    """

    key: str
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    how: str = ""
    note: str = ""
    because: str = ""
    variant: str = ""
    ran: bool = True

    def __post_init__(self) -> None:
        if not self.how:
            raise ParameterError("how", self.how, f"name the call that makes {self.key}")
        for field in ("value", "low", "high"):
            given = getattr(self, field)
            if given is None:
                continue
            number = float(given)  # numpy scalars become plain floats: rows go to JSON
            if not math.isfinite(number):
                raise ParameterError(
                    field, given, f"{self.key}: give a finite number, or Measured.not_run(...)"
                )
            object.__setattr__(self, field, number)
        if self.value is None and self.ran and not self.because:
            raise ParameterError(
                "value", None, f"{self.key}: give a number, Measured.not_run or Measured.no_value"
            )
        if self.n is not None:
            object.__setattr__(self, "n", int(self.n))
        if (self.low is None) != (self.high is None):
            raise ParameterError("low, high", (self.low, self.high), f"{self.key}: give both ends or neither")
        if self.low is not None and self.high is not None:
            if self.value is None:
                raise ParameterError("value", None, f"{self.key}: an interval needs its value")
            slack = 1e-9 * max(1.0, abs(self.value))
            if not self.low - slack <= self.value <= self.high + slack:
                raise ParameterError(
                    "low, high", (self.low, self.high), f"{self.key}: must enclose the value {self.value}"
                )

    @classmethod
    def not_run(cls, key: str, *, how: str, why: str = "", variant: str = "") -> Measured:
        """State that a number can't be had here: `how` is the command that gets it, `why` what it needs."""
        return cls(key, None, how=how, note=why, variant=variant, ran=False)

    @classmethod
    def no_value(
        cls, key: str, *, how: str, because: str, n: int | None = None, variant: str = ""
    ) -> Measured:
        """State that it ran and there is no such number, e.g. a break-even cost where nothing breaks even."""
        return cls(key, None, n=n, how=how, because=because, variant=variant)


@dataclass(frozen=True)
class Contradiction:
    """Published numbers that can't all be true, found by computing with them.

    Parameters
    ----------
    name : str
        Short stable name of the check.
    keys : tuple of str
        The published numbers involved.
    cells : str
        The cells in words, e.g. "Table 6 and Table 8".
    detail : str
        The arithmetic, with its numbers.
    """

    name: str
    keys: tuple[str, ...]
    cells: str
    detail: str


@dataclass(frozen=True)
class Verdict:
    """What comparing gave.

    Parameters
    ----------
    kind : {"reproduced", "differs", "contradiction", "not run here"}
        One of `VERDICT_KINDS`.
    text : str
        The verdict in words, with its numbers.
    difference : float, optional
        Ours minus published, in the published unit (to the nearer end of a range).
    weak : bool
        True if "reproduced" rests on an interval of ours that is wider than the tolerance, or our interval
        reaches beyond a printed bound.
    """

    kind: VerdictKind
    text: str
    difference: float | None = None
    weak: bool = False


def judge(
    published: Published, measured: Measured | None, contradictions: Sequence[Contradiction] = ()
) -> Verdict:
    """Compute the verdict of one published number.

    Parameters
    ----------
    published : Published
        The printed number with its tolerance.
    measured : Measured, optional
        Ours; None if nothing ran.
    contradictions : sequence of Contradiction
        Those that involve this number.

    Returns
    -------
    Verdict
        A number that we reproduce stays "reproduced" even if other cells contradict it (the text says so);
        one that differs, or was not run, and stands in a contradiction is a "contradiction".
    """
    clash = "; ".join(f"{item.cells}: {item.detail}" for item in contradictions)
    if measured is None or not measured.ran:
        why = measured.note if measured is not None else ""
        why = why or (f"needs {published.needs}" if published.needs else "")
        how = measured.how if measured is not None else published.how
        if clash:
            again = f"; ours by: {how}" if how else ""
            return Verdict("contradiction", f"the paper contradicts itself ({clash}){again}")
        return Verdict(
            "not run here", f"not run here{f' ({why})' if why else ''}; to run: {how or 'no way known'}"
        )
    if measured.value is None:
        text = f"differs (our run has no such value; because: {measured.because})"
        if clash:
            return Verdict("contradiction", f"the paper contradicts itself ({clash}); ours {text}")
        return Verdict("differs", text)
    difference, inside, touched = _compare(published, measured)
    unit = f" {published.unit}" if published.unit else ""
    weak = not inside or _crosses(published, measured)
    if inside:
        beyond = ", though our interval reaches beyond" if weak else ""
        text = f"reproduced ({_within(published, measured.value, difference)}{beyond})"
    elif touched:
        low, high = _end(measured.low), _end(measured.high)
        wide = "wider than the tolerance"
        if high - low > abs(published.value):
            wide = "so wide that it proves little"
        text = (
            f"reproduced (inside our interval {format_number(low, published)} to "
            f"{format_number(high, published)}{unit}, which is {wide})"
        )
    else:
        why = measured.because or published.reason or "cause not found"
        text = f"differs ({_distance(published, measured.value, difference)}; because: {why})"
        if clash:
            return Verdict(
                "contradiction", f"the paper contradicts itself ({clash}); ours {text}", difference
            )
        return Verdict("differs", text, difference)
    if clash:
        text += f", though the paper contradicts itself ({clash})"
    return Verdict("reproduced", text, difference, weak=weak)


def count_of_kind(count: int, kind: VerdictKind) -> str:
    """Return how many rows have a verdict, in words: `4 reproduced`, `1 differs`, `6 contradictions`."""
    return counted(count, kind, _PLURALS.get(kind, kind))


def _end(value: float | None) -> float:
    return math.nan if value is None else value


def _compare(published: Published, measured: Measured) -> tuple[float, bool, bool]:
    """Return (difference, within the allowance, touched by our interval)."""
    value = _end(measured.value)
    low = value if measured.low is None else measured.low
    high = value if measured.high is None else measured.high
    bottom, top = published.value, published.value if published.upper is None else published.upper
    room = published.allowance * (1 + 1e-9)
    if published.relation in ("<", "<="):
        # a printed bound is exact: no rounding room, only the stated tolerance
        limit = top + published.tolerance
        meets = operator.le if published.relation == "<=" else operator.lt
        return max(value - top, 0.0), meets(value, limit), meets(low, limit)
    if published.relation in (">", ">="):
        limit = bottom - published.tolerance
        meets = operator.ge if published.relation == ">=" else operator.gt
        return min(value - bottom, 0.0), meets(value, limit), meets(high, limit)
    difference = value - top if value > top else min(value - bottom, 0.0)
    rounding = 0.5 * 10.0**-published.decimals
    return difference, abs(difference) <= room, low - rounding <= top and high + rounding >= bottom


def _distance(published: Published, value: float, difference: float) -> str:
    """Say how far off ours is: absolute, and relative where that means something."""
    if published.relation not in ("=", "~"):
        return f"by {_plain(difference, 3, '+')}: {_claim(published, value)}"
    if published.unit in ("%", "pp"):
        return f"by {_plain(difference, 3, '+')} points"
    unit = f" {published.unit}" if published.unit else ""
    if published.value == 0:
        return f"by {_plain(difference, 4, '+')}{unit}"
    ratio = value / published.value
    relative = f"{ratio:.3g} times" if ratio > 3 else f"{difference / abs(published.value):+.1%}"
    return f"by {_plain(difference, 4, '+')}{unit}, {relative}"


def _plain(number: float, digits: int, sign: str = "") -> str:
    """So many significant digits, but never a power of ten for a large number."""
    large = abs(number) >= 10.0 ** (digits - 1)
    return f"{number:{sign},.0f}" if large else f"{number:{sign}.{digits}g}"


def _claim(published: Published, value: float) -> str:
    unit = f" {published.unit}" if published.unit else ""
    return f"{format_number(value, published)}{unit}, claimed {published.relation} {published.value:g}{unit}"


def _crosses(published: Published, measured: Measured) -> bool:
    """Tell whether our interval reaches beyond a printed bound."""
    if measured.low is None or measured.high is None:
        return False
    if published.relation in ("<", "<="):
        return measured.high > published.value + published.tolerance
    return published.relation in (">", ">=") and measured.low < published.value - published.tolerance


def _within(published: Published, value: float, difference: float) -> str:
    unit = f" {published.unit}" if published.unit else ""
    if published.relation not in ("=", "~"):
        return _claim(published, value)
    if published.upper is not None and difference == 0:
        return f"inside {published.text}"
    if abs(difference) < 10.0 ** -(published.decimals + 6):
        return "exactly"
    rounded = abs(difference) <= 0.5 * 10.0**-published.decimals * (1 + 1e-9)
    note = ", within rounding" if rounded else ""
    return f"within {_plain(abs(difference), 2)}{' points' if published.unit in ('%', 'pp') else unit}{note}"


def format_number(value: float, published: Published) -> str:
    """Print one of ours with the digits of the published number, and three that count below 1."""
    if value == 0:
        return "0"
    digits = published.decimals if published.decimals else (0 if float(value).is_integer() else 1)
    if abs(value) < 1:
        digits = max(digits, min(8, 2 - math.floor(math.log10(abs(value)))))
    shown = f"{value:,.{digits}f}"
    return shown if any(character in "123456789" for character in shown) else f"{value:.1e}"
