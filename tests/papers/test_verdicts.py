"""The verdict is computed: properties of `judge` and what `Measured` refuses."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clairvoyant_lab.errors import ParameterError
from clairvoyant_lab.papers.verdicts import (
    VERDICT_KINDS,
    Contradiction,
    Measured,
    Published,
    judge,
)

finite = st.floats(-1e6, 1e6, allow_nan=False)
positive = st.floats(1e-3, 1e6, allow_nan=False)


def published(value: float, **more: object) -> Published:
    settings: dict[str, object] = {
        "key": "p.t.c", "paper": "p", "table": "T", "cell": "c", "unit": "s", "text": str(value),
        "decimals": 2,
    }  # fmt: skip
    return Published(value=value, **(settings | more))  # type: ignore[arg-type]


def ours(value: float, **more: object) -> Measured:
    return Measured("p.t.c", value, how="call()", **more)  # type: ignore[arg-type]


@given(finite, finite, st.floats(0, 1e3))
def test_a_value_is_reproduced_iff_it_lies_within_the_allowance(
    value: float, off: float, tolerance: float
) -> None:
    number = published(value, tolerance=tolerance)
    verdict = judge(number, ours(value + off))
    distance = abs((value + off) - value)
    if distance <= number.allowance:
        assert verdict.kind == "reproduced"
        assert not verdict.weak
    elif distance > number.allowance * (1 + 1e-6):
        assert verdict.kind == "differs"


@given(finite, finite, positive)
def test_the_difference_is_ours_minus_published(value: float, measured: float, tolerance: float) -> None:
    verdict = judge(published(value, tolerance=tolerance), ours(measured))
    assert verdict.difference == pytest.approx(measured - value, abs=1e-9)


@given(finite, finite, st.floats(0, 100), st.floats(0, 100))
def test_a_wider_tolerance_never_turns_reproduced_into_differs(
    value: float, off: float, first: float, second: float
) -> None:
    narrow, wide = sorted((first, second))
    if judge(published(value, tolerance=narrow), ours(value + off)).kind == "reproduced":
        assert judge(published(value, tolerance=wide), ours(value + off)).kind == "reproduced"


@given(finite, st.floats(-50, 50), st.floats(0, 100))
def test_an_interval_that_holds_the_published_value_is_weak_evidence_beyond_the_tolerance(
    value: float, off: float, half: float
) -> None:
    number = published(value)
    verdict = judge(number, ours(value + off, low=value + off - half, high=value + off + half))
    if abs(off) > number.allowance * (1 + 1e-6):
        assert (verdict.kind == "reproduced") == (abs(off) <= half + 0.005 + 1e-6) or abs(
            abs(off) - half - 0.005
        ) < 1e-6
        assert verdict.weak == (verdict.kind == "reproduced")


@given(finite, positive)
def test_a_bound_is_reproduced_on_its_side_only(value: float, off: float) -> None:
    assert judge(published(value, relation="<"), ours(value - off)).kind == "reproduced"
    assert judge(published(value, relation="<"), ours(value + off)).kind == "differs"
    assert judge(published(value, relation=">="), ours(value + off)).kind == "reproduced"
    assert judge(published(value, relation=">="), ours(value - off)).kind == "differs"


def test_a_strict_bound_is_not_met_by_its_own_value() -> None:
    assert judge(published(10.0, relation="<"), ours(10.0)).kind == "differs"
    assert judge(published(10.0, relation="<="), ours(10.0)).kind == "reproduced"
    assert judge(published(10.0, relation=">"), ours(10.0)).kind == "differs"
    assert "10.00 s, claimed < 10 s" in judge(published(10.0, relation="<"), ours(10.0)).text


def test_a_very_wide_interval_says_that_it_proves_little() -> None:
    verdict = judge(published(10.47), ours(8.45, low=0.0, high=35.1))
    assert verdict.weak
    assert "proves little" in verdict.text


def test_an_interval_beyond_a_bound_makes_it_weak() -> None:
    number = published(0.02, relation="<", unit="%")
    assert judge(number, ours(0.0, low=0.0, high=0.19)).weak
    assert not judge(number, ours(0.0, low=0.0, high=0.01)).weak


@pytest.mark.parametrize(
    ("value", "kind", "difference"),
    [(62.0, "reproduced", 0.0), (75.0, "reproduced", 0.0), (96.0, "reproduced", 0.0), (60.0, "differs", -2.0),
     (99.0, "differs", 3.0)],
)  # fmt: skip
def test_a_range_holds_its_ends_and_measures_to_the_nearer_one(
    value: float, kind: str, difference: float
) -> None:
    verdict = judge(published(62.0, upper=96.0), ours(value))
    assert (verdict.kind, verdict.difference) == (kind, pytest.approx(difference))


def test_two_printed_standard_deviations_count_as_reproduced() -> None:
    assert judge(published(229.5, spread=12.3, decimals=1), ours(254.0)).kind == "reproduced"
    assert judge(published(229.5, spread=12.3, decimals=1), ours(255.0)).kind == "differs"


def test_the_reason_is_shown_only_where_it_differs() -> None:
    number = published(10.0, reason="known cause")
    assert "known cause" in judge(number, ours(20.0)).text
    assert "nearer cause" in judge(number, ours(20.0, because="nearer cause")).text
    assert "cause" not in judge(number, ours(10.0, because="nearer cause")).text
    assert "cause not found" in judge(published(10.0), ours(20.0)).text


CLASH = Contradiction("x", ("p.t.c", "p.t.d"), "Table A and Table B", "1 against 2")


def test_a_contradiction_wins_unless_we_reproduce_the_number() -> None:
    number = published(10.0)
    assert judge(number, None, [CLASH]).kind == "contradiction"
    assert judge(number, ours(20.0), [CLASH]).kind == "contradiction"
    reproduced = judge(number, ours(10.0), [CLASH])
    assert reproduced.kind == "reproduced"
    assert "Table A and Table B" in reproduced.text


def test_a_run_without_such_a_number_differs() -> None:
    measured = Measured.no_value("p.t.c", how="call()", because="nothing breaks even")
    verdict = judge(published(10.0, how="x"), measured)
    assert verdict.kind == "differs"
    assert verdict.difference is None
    assert "nothing breaks even" in verdict.text


def test_percentages_differ_by_points_and_factors_by_times() -> None:
    assert "-9.6 points;" in judge(published(14.8, unit="%"), ours(5.2)).text
    assert "129 times" in judge(published(62.0), ours(7986.4)).text


def test_not_run_names_the_command() -> None:
    verdict = judge(published(10.0), Measured.not_run("p.t.c", how="do this", why="needs a GPU"))
    assert verdict.kind == "not run here"
    assert "do this" in verdict.text
    assert "needs a GPU" in verdict.text
    assert judge(published(10.0, how="other command"), None).text.endswith("other command")


@given(st.one_of(st.none(), finite), st.booleans(), st.sampled_from(["=", "~", "<", "<=", ">", ">="]))
def test_every_verdict_is_one_of_the_kinds_and_has_words(
    value: float | None, clash: bool, relation: str
) -> None:
    measured = None if value is None else ours(value)
    verdict = judge(published(3.0, relation=relation), measured, [CLASH] if clash else [])
    assert verdict.kind in VERDICT_KINDS
    assert verdict.text.startswith(
        ("reproduced (", "differs (", "the paper contradicts itself (", "not run here")
    )
    assert (verdict.difference is None) == (measured is None)


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("value", {"value": math.nan, "how": "x"}),
        ("value", {"value": math.inf, "how": "x"}),
        ("how", {"value": 1.0, "how": ""}),
        ("low, high", {"value": 1.0, "low": 0.0, "how": "x"}),
        ("low, high", {"value": 1.0, "low": 2.0, "high": 3.0, "how": "x"}),
        ("value", {"value": None, "low": 0.0, "high": 1.0, "how": "x"}),
        ("value", {"value": None, "how": "x"}),
    ],
)
def test_measured_refuses_what_a_row_cannot_show(field: str, arguments: dict[str, object]) -> None:
    with pytest.raises(ParameterError) as caught:
        Measured("p.t.c", **arguments)  # type: ignore[arg-type]
    assert caught.value.field == field


def test_measured_keeps_plain_numbers() -> None:
    import numpy as np

    row = Measured("p.t.c", np.float64(1.5), np.float32(1.0), np.float64(2.0), n=np.int64(7), how="x")  # type: ignore[arg-type]
    assert (type(row.value), type(row.low), type(row.n)) == (float, float, int)
