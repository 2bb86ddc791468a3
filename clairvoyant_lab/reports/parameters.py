"""Typed parameters of notebooks.

A notebook declares its parameters in the cell tagged `parameters`, one annotated literal a line:

```python
profile: str = "m1"                       # hardware profile
n: int = 2_000                            # requests
starvation_timeout_s: float | None = 30.0 # seconds; None is no limit
fast: bool = False
seed: int = 42
```

and checks them in the next cell:

```python
from clairvoyant_lab.reports.parameters import validate_parameters

parameters = validate_parameters(
    globals(),
    choices={"profile": ["m1", "rtx4090-gemma"]},
    above={"starvation_timeout_s": 0},
    at_least={"n": 1},
)
```

The annotations are the types. papermill hands `true` and `[1,2]` over as strings and only warns of a
name that the notebook doesn't have; both are settled here: strings are read as the declared type, and a
name that isn't declared is refused with the nearest one that is. The checked values are put back into the
namespace, so later cells use plain names. `clairvoyant-lab report` makes the same checks (except bounds
and choices, which only the notebook knows) before it starts a kernel.
"""

from __future__ import annotations

import ast
import json
import math
import numbers
import types
import typing
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from clairvoyant_lab.errors import DataError, ParameterError, unknown_name

__all__ = [
    "Declaration",
    "cast_value",
    "check_overrides",
    "declared_parameters",
    "injected_names",
    "validate_parameters",
]

# papermill's CLI and Python face head the cell they inject with this comment
_INJECTED_HEAD = "# Parameters"
_TYPES: dict[str, Any] = {"bool": bool, "int": int, "float": float, "str": str, "list": list, "dict": dict}
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


class Declaration(typing.NamedTuple):
    """One declared parameter: its type, its default and the comment on its line."""

    kind: Any
    default: Any
    comment: str


def validate_parameters(
    namespace: MutableMapping[str, Any],
    *,
    choices: Mapping[str, Sequence[Any]] | None = None,
    at_least: Mapping[str, float] | None = None,
    above: Mapping[str, float] | None = None,
    at_most: Mapping[str, float] | None = None,
    below: Mapping[str, float] | None = None,
    injected: Iterable[str] | None = None,
) -> dict[str, Any]:
    """Check and cast a notebook's parameters; refuse what it doesn't declare.

    Parameters
    ----------
    namespace : mutable mapping
        `globals()` of the notebook; the cast values are written back to it.
    choices : mapping of name to sequence, optional
        Accepted values.
    at_least, above, at_most, below : mapping of name to float, optional
        Bounds (`>=`, `>`, `<=`, `<`); of a list, each element is held to them. None passes where the
        annotation allows it.
    injected : iterable of str, optional
        Names that were set from outside. By default they are read from the cell that papermill put in,
        found in IPython's history.

    Returns
    -------
    dict
        Name -> checked value, in the order of declaration.

    Raises
    ------
    ParameterError
        For a name that isn't declared, a value of another type, or one out of bounds.
    """
    kinds: Mapping[str, Any] = namespace.get("__annotations__", {})
    if not kinds:
        raise ParameterError(
            "parameters", sorted(kinds), "annotate the parameters cell: one `name: type = value` a line"
        )
    if injected is None:
        injected = injected_names(namespace.get("In", ()))
    for name in injected:
        if name not in kinds:
            raise unknown_name("parameter", name, kinds)
    checks = {"choices": choices, "at_least": at_least, "above": above, "at_most": at_most, "below": below}
    for check, table in checks.items():
        for name in table or {}:
            if name not in kinds:
                raise unknown_name(check, name, kinds)
    values: dict[str, Any] = {}
    for name, kind in kinds.items():
        if name not in namespace:
            raise ParameterError(name, None, "declared without a value; give it one in the parameters cell")
        values[name] = cast_value(name, namespace[name], kind)
        _check_bounds(name, values[name], checks)
    namespace.update(values)
    return values


def cast_value(name: str, value: Any, kind: Any) -> Any:
    """Read one value as a declared type.

    Parameters
    ----------
    name : str
        The parameter's name, for the error.
    value : object
        A Python or numpy value, or its text.
    kind : type
        `bool`, `int`, `float`, `str`, `list[...]`, `dict` or a union with None.

    Returns
    -------
    object
        A plain Python value, never a numpy scalar, NaN or infinity.

    Raises
    ------
    ParameterError
        If it can't be read so.
    """
    if isinstance(kind, str):  # the notebook has `from __future__ import annotations`
        kind = eval(kind, {"__builtins__": {}}, dict(_TYPES))
    if isinstance(value, np.generic):
        value = value.item()
    elif isinstance(value, np.ndarray):
        value = value.tolist()
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        kinds = typing.get_args(kind)
        if type(None) in kinds and (value is None or _is_word(value, ("none", "null"))):
            return None
        return _first_fit(name, value, [k for k in kinds if k is not type(None)])
    if value is None:
        raise ParameterError(name, None, f"give {_say(kind)}")
    if origin is list or kind is list:
        return _cast_list(name, value, typing.get_args(kind))
    if kind is dict or origin is dict:
        parsed = _parse_text(value) if isinstance(value, str) else value
        if not isinstance(parsed, Mapping):
            raise ParameterError(name, value, "give a mapping, as {'name': value}")
        return dict(parsed)
    if kind in _SCALARS:
        try:
            return _SCALARS[kind](value)
        except (TypeError, ValueError, OverflowError):
            raise ParameterError(name, value, f"give {_say(kind)}") from None
    raise ParameterError(
        name, kind, f"no parameter type; use one of {', '.join(_TYPES)}, list[...] or | None"
    )


def declared_parameters(source: str, *, where: str = "parameters cell") -> dict[str, Declaration]:
    """Read the declarations of a parameters cell without running it.

    Parameters
    ----------
    source : str
        The cell's text.
    where : str
        Named in errors.

    Returns
    -------
    dict of str to Declaration
        In the order of the cell.

    Raises
    ------
    DataError
        For a line that isn't an annotated literal.
    """
    lines = source.splitlines()
    found: dict[str, Declaration] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value):
            raise DataError(
                "write each parameter as `name: type = literal`", source=where, row=node.lineno - 1
            )
        try:
            kind = eval(ast.unparse(node.annotation), {"__builtins__": {}}, dict(_TYPES))
            default = ast.literal_eval(node.value)
        except (NameError, TypeError, ValueError) as error:
            raise DataError(
                f"annotation or literal not understood ({error})", source=where, row=node.lineno - 1
            ) from error
        comment = lines[(node.end_lineno or node.lineno) - 1].partition("#")[2].strip()
        found[node.target.id] = Declaration(kind, default, comment)
    return found


def check_overrides(declared: Mapping[str, Declaration], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Cast values given from outside to the declared types; refuse names that aren't declared.

    Parameters
    ----------
    declared : mapping of str to Declaration
        From `declared_parameters`.
    overrides : mapping
        Name -> value or its text.

    Returns
    -------
    dict
        Plain Python values, ready for papermill.

    Raises
    ------
    ParameterError
        For an unknown name or a value of another type.
    """
    for name in overrides:
        if name not in declared:
            raise unknown_name("parameter", name, declared)
    return {name: cast_value(name, value, declared[name].kind) for name, value in overrides.items()}


def injected_names(history: Sequence[str]) -> list[str]:
    """Return the names that papermill's injected cell sets, from IPython's input history (`In`)."""
    names: list[str] = []
    for source in history:
        if not source.startswith(_INJECTED_HEAD):
            continue
        for node in ast.parse(source).body:
            if isinstance(node, ast.Assign):
                names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return names


def _first_fit(name: str, value: Any, kinds: Sequence[Any]) -> Any:
    # A value that already has one of the types keeps it; text is read as the first type that takes it.
    for kind in kinds:
        if type(value) is kind and kind is not float:
            return value
    for position, kind in enumerate(kinds):
        try:
            return cast_value(name, value, kind)
        except ParameterError:
            if position == len(kinds) - 1:
                raise
    raise ParameterError(name, value, "give None")


def _cast_list(name: str, value: Any, element: tuple[Any, ...]) -> list[Any]:
    parsed = _parse_text(value) if isinstance(value, str) else value
    if not isinstance(parsed, list | tuple):
        raise ParameterError(name, value, "give a list, as [1, 2]")
    if not element:
        return list(parsed)
    return [cast_value(f"{name}[{index}]", item, element[0]) for index, item in enumerate(parsed)]


def _parse_text(text: str) -> Any:
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError):
            continue
    return text


def _read_bool(value: Any) -> bool:
    if _is_word(value, _TRUE + _FALSE):
        return _is_word(value, _TRUE)
    if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise ValueError


def _read_int(value: Any) -> int:
    if isinstance(value, bool):
        raise ValueError
    number = float(value) if isinstance(value, str) and not _plain_int(value) else value
    whole = int(number)
    if whole != number and not isinstance(number, str):
        raise ValueError
    return whole


def _read_float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real | str):
        raise ValueError
    number = float(value)
    if not math.isfinite(number):
        raise ValueError
    return number


def _read_str(value: Any) -> str:
    # `-p name 7` arrives as a number: the text was meant
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise ValueError


_SCALARS: dict[Any, Any] = {bool: _read_bool, int: _read_int, float: _read_float, str: _read_str}


def _plain_int(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True


def _is_word(value: Any, words: tuple[str, ...]) -> bool:
    return isinstance(value, str) and value.strip().lower() in words


def _say(kind: Any) -> str:
    return {
        bool: "true or false",
        int: "a whole number",
        float: 'a finite number ("no limit" is None, where it is allowed)',
        str: "a text",
    }.get(kind, str(kind))


def _check_bounds(name: str, value: Any, checks: Mapping[str, Mapping[str, Any] | None]) -> None:
    values = value if isinstance(value, list) else [value]
    for check, table in checks.items():
        if table is None or name not in table:
            continue
        limit = table[name]
        for item in values:
            if item is None:
                continue
            if check == "choices":
                if item not in limit:
                    raise unknown_name(name, item, [str(choice) for choice in limit])
                continue
            fits = {
                "at_least": item >= limit,
                "above": item > limit,
                "at_most": item <= limit,
                "below": item < limit,
            }[check]
            if not fits:
                raise ParameterError(name, value, f"give {check.replace('_', ' ')} {limit}")
