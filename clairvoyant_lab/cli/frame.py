"""The frame that every command shares: printing tables, JSON, and errors with exit codes.

Exit codes: 0 done; 1 the answer is no, or a run failed; 2 bad use.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar, get_type_hints

import typer

from clairvoyant_lab.errors import ClairvoyantError, DataError, MissingExtraError, ParameterError
from clairvoyant_lab.results import format_value

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["JsonOption", "command_errors", "print_frame", "print_json", "print_record", "refuse"]

P = ParamSpec("P")
R = TypeVar("R")

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def command_errors(function: Callable[P, R]) -> Callable[P, R]:
    """Turn our errors into one line on stderr and an exit code: 2 for bad input, 1 for a failed run."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except ParameterError as error:
            typer.echo(f"error: {_as_typed(error, function, kwargs)}", err=True)
            raise typer.Exit(2) from error
        except (DataError, MissingExtraError) as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(2) from error
        except ClairvoyantError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(1) from error
        except BrokenPipeError:  # `clairvoyant-lab ledger | head` is a fine thing to do
            sys.stderr.close()
            raise typer.Exit(0) from None

    return wrapped


def refuse(message: str) -> typer.Exit:
    """Print why the answer is no; raise what is returned."""
    typer.echo(message, err=True)
    return typer.Exit(1)


def print_json(value: object) -> None:
    """Print strict JSON: NaN and infinities become null."""
    typer.echo(json.dumps(_strict(value), indent=2, ensure_ascii=False))


def print_frame(frame: pd.DataFrame, as_json: bool = False) -> None:
    """Print a tidy frame as aligned text, or as a JSON list of records."""
    if as_json:
        print_json(frame.to_dict(orient="records"))
        return
    _print_table(list(map(str, frame.columns)), [list(row) for row in frame.itertuples(index=False)])


def print_record(record: Mapping[str, Any], as_json: bool = False) -> None:
    """Print one mapping as `name  value` lines, or as a JSON object."""
    if as_json:
        print_json(record)
        return
    width = max((len(name) for name in record), default=0)
    for name, value in record.items():
        typer.echo(f"{name:<{width}}  {format_value(value)}")


def _as_typed(error: ParameterError, function: Callable[..., object], given: Mapping[str, object]) -> str:
    """The error's words, under the name of the option it is about where the library calls that otherwise."""
    declared = inspect.signature(function).parameters
    about = [error.field] if error.field in given else []
    if not about:
        about = [
            name
            for name, value in given.items()
            if value != declared[name].default and _holds(value, error.value)
        ]
    if len(about) != 1:
        return str(error)
    hint = get_type_hints(function, include_extras=True)[about[0]]
    spelled = [
        name
        for item in getattr(hint, "__metadata__", ())
        # inside Annotated typer takes the first spelling for a default
        for name in (getattr(item, "default", None), *(getattr(item, "param_decls", None) or ()))
        if isinstance(name, str) and name.startswith("--")
    ]
    field = spelled[0].lstrip("-").replace("-", "_") if spelled else about[0]
    return str(ParameterError(field, error.value, error.remedy))


def _holds(given: object, value: object) -> bool:
    """Whether a value is what was given or one of several, also where a number or path was read from text."""
    if isinstance(given, list | tuple):
        return any(_holds(item, value) for item in given)
    if given is None or isinstance(given, bool) or value is None or isinstance(value, bool):
        return False
    if str(getattr(given, "value", given)) == str(value):
        return True
    try:
        return float(str(given)) == float(str(value))
    except ValueError:
        return False


def _print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    cells = [[format_value(value) for value in row] for row in rows]
    widths = [max([len(name), *(len(row[i]) for row in cells)]) for i, name in enumerate(header)]
    numeric = [
        bool(rows) and all(isinstance(row[i], int | float) or hasattr(row[i], "dtype") for row in rows)
        for i in range(len(header))
    ]

    def line(values: Sequence[str]) -> str:
        return "  ".join(
            value.rjust(width) if right else value.ljust(width)
            for value, width, right in zip(values, widths, numeric, strict=True)
        ).rstrip()

    typer.echo(line(header))
    typer.echo("  ".join("-" * width for width in widths))
    for row in cells:
        typer.echo(line(row))


def _strict(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    if hasattr(value, "tolist"):
        return _strict(value.tolist())
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)
