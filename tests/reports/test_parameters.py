"""Typed parameters: what papermill hands over is read, what nobody declared is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clairvoyant_lab.errors import DataError, ParameterError
from clairvoyant_lab.reports.parameters import (
    cast_value,
    check_overrides,
    declared_parameters,
    injected_names,
    validate_parameters,
)

CELL = '''"""Parameters."""
profile: str = "m1"                 # hardware profile
n: int = 2_000                      # requests
alpha: float = 0.5
tau: float | None = 30.0            # seconds; None is no limit
rhos: list[float] = [0.5, 0.74]
fast: bool = False
seed: int = 42
'''


def namespace(**changes: Any) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(CELL, names)
    names.update(changes)
    return names


def test_defaults_pass_and_come_back_in_order() -> None:
    names = namespace()
    values = validate_parameters(names)
    assert list(values) == ["profile", "n", "alpha", "tau", "rhos", "fast", "seed"]
    assert values["n"] == 2_000


def test_text_is_read_as_the_declared_type_and_put_back() -> None:
    names = namespace(
        n="1e3", fast="true", rhos="[1, 2]", tau="None", alpha=np.float32(0.25), seed=np.int64(7)
    )
    validate_parameters(names)
    assert (names["n"], names["fast"], names["rhos"], names["tau"]) == (1_000, True, [1.0, 2.0], None)
    assert type(names["alpha"]) is float
    assert type(names["seed"]) is int


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", 2.5),
        ("n", "many"),
        ("n", True),
        ("n", None),
        ("alpha", float("nan")),
        ("alpha", float("inf")),
        ("alpha", "inf"),
        ("tau", float("inf")),
        ("tau", [1.0]),
        ("fast", "maybe"),
        ("fast", 2),
        ("rhos", 0.5),
        ("rhos", ["a"]),
        ("rhos", "0.5"),
        ("profile", None),
        ("profile", True),
    ],
)
def test_another_type_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ParameterError) as caught:
        validate_parameters(namespace(**{name: value}))
    assert caught.value.field.startswith(name)


def test_a_name_nobody_declared_is_refused_with_the_nearest() -> None:
    history = ["", CELL, "# Parameters\nalhpa = 1\n", "validate_parameters(globals())"]
    with pytest.raises(ParameterError, match=r"alhpa.*Did you mean 'alpha'"):
        validate_parameters(namespace(In=history))


def test_only_papermills_cell_counts_as_injected() -> None:
    assert injected_names(["x = 1", "# Parameters\nn = 3\ntau = None\n"]) == ["n", "tau"]
    validate_parameters(namespace(In=["other = 1", CELL], other=1))


def test_bounds_and_choices() -> None:
    validate_parameters(namespace(tau=None), above={"tau": 0}, at_least={"n": 1}, below={"rhos": 1})
    for changes, checks in (
        ({"tau": 0.0}, {"above": {"tau": 0}}),
        ({"n": 0}, {"at_least": {"n": 1}}),
        ({"n": 9}, {"at_most": {"n": 8}}),
        ({"rhos": [0.5, 1.0]}, {"below": {"rhos": 1}}),
        ({"profile": "m2"}, {"choices": {"profile": ["m1", "l4"]}}),
    ):
        with pytest.raises(ParameterError):
            validate_parameters(namespace(**changes), **checks)


def test_a_bound_on_a_name_nobody_declared_is_a_slip() -> None:
    with pytest.raises(ParameterError, match="Did you mean 'alpha'"):
        validate_parameters(namespace(), above={"alhpa": 0})


def test_no_annotations_no_parameters() -> None:
    with pytest.raises(ParameterError, match="annotate"):
        validate_parameters({"n": 3})


def test_string_annotations_work_too() -> None:
    names = namespace()
    names["__annotations__"] = {"tau": "float | None"}
    assert validate_parameters(names | {"tau": "3"})["tau"] == 3.0


def test_declarations_are_read_without_running_the_cell() -> None:
    declared = declared_parameters(CELL)
    assert declared["n"].default == 2_000
    assert declared["n"].comment == "requests"
    assert declared["tau"].kind == (float | None)


@pytest.mark.parametrize("line", ["n = 3", "n: int = f()", "n: Path = 'x'", "import os", "n: int"])
def test_a_cell_of_another_form_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(DataError, match="row 1"):
        declared_parameters(f"m: int = 1\n{line}\n")


def test_overrides_are_cast_before_a_kernel_starts() -> None:
    declared = declared_parameters(CELL)
    values = check_overrides(
        declared, {"tau": "none", "rhos": np.array([0.5]), "fast": "1", "n": np.int32(5)}
    )
    assert values == {"tau": None, "rhos": [0.5], "fast": True, "n": 5}
    with pytest.raises(ParameterError, match="Did you mean 'alpha'"):
        check_overrides(declared, {"alhpa": 1})


@given(st.integers())
def test_whole_numbers_survive_their_text(value: int) -> None:
    assert cast_value("n", str(value), int) == value
    assert cast_value("n", value, int | None) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_survive_their_text(value: float) -> None:
    assert cast_value("x", repr(value), float) == value
    assert cast_value("x", np.float64(value), float | None) == value


@given(st.one_of(st.text(), st.floats(), st.none(), st.lists(st.integers()), st.booleans()))
def test_any_value_gives_the_type_or_our_error(value: Any) -> None:
    for kind in (int, float, bool, str, float | None, list[int]):
        try:
            got = cast_value("x", value, kind)
        except ParameterError:
            continue
        if isinstance(got, float):
            assert math.isfinite(got)
        assert not isinstance(got, np.generic)
