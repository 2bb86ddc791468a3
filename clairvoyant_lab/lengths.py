"""Length classes: how long an answer is, in three steps (Clairvoyant, section 3.3 and Table 1)."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import DataError, ParameterError

__all__ = ["LONG_FROM_TOKENS", "SHORT_BELOW_TOKENS", "LengthClass", "check_bounds", "classify_lengths"]

SHORT_BELOW_TOKENS = 200
LONG_FROM_TOKENS = 800


class LengthClass(IntEnum):
    """Class of a response by its number of tokens: SHORT < 200 <= MEDIUM < 800 <= LONG by default."""

    SHORT = 0
    MEDIUM = 1
    LONG = 2

    @property
    def label(self) -> str:
        """The class's name as people read it: `Short`, `Medium`, `Long`."""
        return self.name.capitalize()


def check_bounds(short_below: int, long_from: int) -> None:
    """Refuse class bounds that leave no room for a class.

    Raises
    ------
    ParameterError
        Unless 0 < short_below <= long_from.
    """
    if not short_below > 0:
        raise ParameterError("short_below", short_below, "give a positive number of tokens")
    if long_from < short_below:
        raise ParameterError("long_from", long_from, f"give at least short_below = {short_below}")


def classify_lengths(
    response_tokens: ArrayLike,
    short_below: int = SHORT_BELOW_TOKENS,
    long_from: int = LONG_FROM_TOKENS,
) -> NDArray[np.int8]:
    """Class of each response.

    Parameters
    ----------
    response_tokens : array_like of shape (n,)
        Response lengths in tokens.
    short_below : int
        A response with fewer tokens is SHORT.
    long_from : int
        A response with at least so many tokens is LONG.

    Returns
    -------
    ndarray of int8, shape (n,)
        Values of `LengthClass`.

    Raises
    ------
    ParameterError
        For bounds in the wrong order.
    DataError
        For a length that is negative or not a number; the row is named.
    """
    check_bounds(short_below, long_from)
    tokens: NDArray[Any] = np.asarray(response_tokens)
    bad = ~(tokens >= 0)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(
            f"{tokens.ravel()[row]!r} is no token count; give 0 or more", row=row, column="response_tokens"
        )
    return (tokens >= short_below).astype(np.int8) + (tokens >= long_from).astype(np.int8)
