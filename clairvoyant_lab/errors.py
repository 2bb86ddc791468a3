"""The error tree.

```
ClairvoyantError
├── ParameterError          an argument is out of range (also a ValueError)
├── DataError               a file or table cannot be used: row, column, reason (also a ValueError)
│   └── StarvedDatasetError     a class needed for training is missing or too small
├── SchemaMismatchError     a model or journal speaks another feature schema
├── ExportParityError       an exported model does not equal the trained one
├── MissingExtraError       an optional dependency is not installed (also an ImportError)
├── NotebookError           a notebook failed: cell, source, traceback
└── BackendError            talking to a proxy or backend
    ├── QueueFullError          429
    ├── UpstreamTimeoutError    504
    └── UpstreamStatusError     any other status that is not a success
```
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from numbers import Real
from typing import TypeGuard

__all__ = [
    "BackendError",
    "ClairvoyantError",
    "DataError",
    "ExportParityError",
    "MissingExtraError",
    "NotebookError",
    "ParameterError",
    "QueueFullError",
    "SchemaMismatchError",
    "StarvedDatasetError",
    "UpstreamStatusError",
    "UpstreamTimeoutError",
    "called",
    "is_finite_number",
    "unknown_name",
]


class ClairvoyantError(Exception):
    """Base of every error that clairvoyant-lab raises on purpose."""


class ParameterError(ClairvoyantError, ValueError):
    """An argument is missing, of the wrong kind or out of range.

    Parameters
    ----------
    field : str
        The argument's name as the caller wrote it.
    value : object
        What was given.
    remedy : str
        What would be accepted.
    """

    def __init__(self, field: str, value: object, remedy: str) -> None:
        self.field = field
        self.value = value
        self.remedy = remedy
        super().__init__(f"{field} = {_short(value)}: {remedy}")

    def __reduce__(self) -> tuple[type[ParameterError], tuple[str, object, str]]:
        return (type(self), (self.field, self.value, self.remedy))


class DataError(ClairvoyantError, ValueError):
    """A file, table or row cannot be used.

    Parameters
    ----------
    reason : str
        What is wrong and what would mend it.
    source : str, optional
        The file or table.
    row : int, optional
        0-based row.
    column : str, optional
        Column name.
    """

    def __init__(
        self, reason: str, *, source: str | None = None, row: int | None = None, column: str | None = None
    ) -> None:
        self.reason = reason
        self.source = source
        self.row = row
        self.column = column
        where = [
            part
            for part in (
                source,
                None if row is None else f"row {row}",
                None if column is None else f"column {column!r}",
            )
            if part is not None
        ]
        super().__init__(f"{', '.join(where)}: {reason}" if where else reason)


class StarvedDatasetError(DataError):
    """A length class that training or ranking needs has too few rows."""


class SchemaMismatchError(ClairvoyantError):
    """A model or journal was made for another feature schema; the message names both."""


class ExportParityError(ClairvoyantError):
    """An exported model's probabilities differ from the trained model's."""


class MissingExtraError(ClairvoyantError, ImportError):
    """An optional dependency is not installed.

    Parameters
    ----------
    package : str
        The missing distribution.
    extra : str
        The extra of clairvoyant-lab that brings it.
    purpose : str
        What it is needed for.
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        self.package = package
        self.extra = extra
        self.purpose = purpose
        super().__init__(
            f"{purpose} needs the package {package!r}: pip install 'clairvoyant-lab[{extra}]'",
            name=package,
        )

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str, str]]:
        return (type(self), (self.package, self.extra, self.purpose))


class NotebookError(ClairvoyantError):
    """A notebook did not run to its end."""


class BackendError(ClairvoyantError):
    """A proxy or backend could not be reached or answered with an error."""


class QueueFullError(BackendError):
    """The proxy's queue is full (429).

    Parameters
    ----------
    message : str
        The server's words.
    retry_after_s : float, optional
        When the server suggests to try again, in seconds.
    """

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)


class UpstreamTimeoutError(BackendError):
    """The backend was silent for too long (504), or the client's own timeout ran out."""


class UpstreamStatusError(BackendError):
    """The server answered with a status that is not a success.

    Parameters
    ----------
    message : str
        The server's words.
    status : int
        HTTP status code.
    """

    def __init__(self, message: str, status: int) -> None:
        self.status = status
        super().__init__(message)


@contextmanager
def called(field: str, inner: str = "name") -> Iterator[None]:
    """Let what is refused inside under one name be refused under the name that the caller knows.

    Parameters
    ----------
    field : str
        The caller's word for the argument.
    inner : str
        The word of the function that is called.
    """
    try:
        yield
    except ParameterError as error:
        if error.field != inner:
            raise
        raise ParameterError(field, error.value, error.remedy) from error


def is_finite_number(value: object) -> TypeGuard[float]:
    """Whether a value is a finite real number; a text that reads like one is not, nor is True."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def unknown_name(field: str, value: object, known: Iterable[str]) -> ParameterError:
    """Build the error for a name that is not one of a fixed set, with the nearest known name.

    Parameters
    ----------
    field : str
        The argument's name.
    value : object
        What was given.
    known : iterable of str
        The accepted names, in the order to show them.

    Returns
    -------
    ParameterError
        To be raised by the caller.
    """
    names = list(known)
    near = get_close_matches(str(value), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return ParameterError(field, value, f"unknown; known: {', '.join(names)}.{hint}")


def _short(value: object, limit: int = 120) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
