"""Printed numbers as the checks of contradictions read them: a number is the interval that rounds to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from clairvoyant_lab.papers.verdicts import Contradiction, Published

__all__ = ["Book", "Check", "Span"]


@dataclass(frozen=True)
class Span:
    """What a printed number may have been before it was rounded."""

    low: float
    high: float

    def __add__(self, other: Span) -> Span:
        return Span(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Span) -> Span:
        return Span(self.low - other.high, self.high - other.low)

    def __mul__(self, other: Span) -> Span:
        ends = [x * y for x in (self.low, self.high) for y in (other.low, other.high)]
        return Span(min(ends), max(ends))

    def __truediv__(self, other: Span) -> Span:
        ends = [x / y for x in (self.low, self.high) for y in (other.low, other.high)]
        return Span(min(ends), max(ends))

    def meets(self, other: Span, slack: float = 1e-9) -> bool:
        """Tell whether both can be one number."""
        return self.low <= other.high + slack and other.low <= self.high + slack


@dataclass(frozen=True)
class Book:
    """The published numbers as a check reads them."""

    numbers: Mapping[str, Published]

    def __contains__(self, key: str) -> bool:
        return key in self.numbers

    def __getitem__(self, key: str) -> float:
        return self.numbers[key].value

    def text(self, key: str) -> str:
        """Return the number as printed."""
        return self.numbers[key].text

    def span(self, key: str) -> Span:
        """Return the interval that rounds to the printed number."""
        number = self.numbers[key]
        half = 0.5 * 10.0**-number.decimals
        top = number.value if number.upper is None else number.upper
        return Span(number.value - half, top + half)

    def count(self, key: str) -> Span:
        """Return the interval of a count: exact, or half of its last digit that isn't zero if it is round."""
        value = int(self[key])
        zeros = len(str(value)) - len(str(value).rstrip("0"))
        half = 0.0 if zeros < 2 else 0.5 * 10.0**zeros
        return Span(value - half, value + half)


Check = Callable[[Book], Iterator[Contradiction]]
