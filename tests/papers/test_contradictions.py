"""Contradictions are found by computing: the ones the papers hold, and none where the numbers agree."""

from __future__ import annotations

import dataclasses

import pytest

from clairvoyant_lab.papers.contradictions import find_contradictions
from clairvoyant_lab.papers.published import load_published

NUMBERS = load_published()
FOUND = {clash.name: clash for clash in find_contradictions(NUMBERS)}


def changed(**values: float) -> set[str]:
    """Names of the contradictions after some numbers are changed (`__` stands for a dot)."""
    numbers = dict(NUMBERS)
    for name, value in values.items():
        key = name.replace("__", ".")
        numbers[key] = dataclasses.replace(numbers[key], value=value)
    return {clash.name for clash in find_contradictions(numbers)}


@pytest.mark.parametrize(
    "name",
    [
        "table6_table8_a", "table6_table8_b", "table6_table8_c", "table4_table6_c", "table4_share_c",
        "table3_same_total", "table3_share_sharegpt", "table3_sum_alpaca", "table8_section3_3_p99",
        "tau_definition", "tau_bound", "section5_5_rates", "section5_6_work", "ljf_ratio", "a_max",
        "section6_b16_throughput_sjf", "table1_table2_50", "table1_table2_400", "table3_b16_unit",
    ],
)  # fmt: skip
def test_known_contradictions_are_found(name: str) -> None:
    assert name in FOUND


def test_what_agrees_is_not_flagged() -> None:
    # sums that rounding of round counts explains, averages, costs, gains, and the other claims of section 6
    agreeing = {
        "table3_sum_lmsys", "table3_sum_dolly", "table3_sum_cnn_dailymail", "table3_share_dolly",
        "table4_sum_a",
        "table4_table6_a", "table1_table2_250", "section6_b16_throughput_ljf", "section6_b32_throughput_sjf",
    }  # fmt: skip
    assert not agreeing & set(FOUND)
    assert not [
        name for name in FOUND if name.startswith(("table5_average", "table1_cost", "table1_gain", "table2_"))
    ]


def test_every_contradiction_names_published_numbers_and_its_arithmetic() -> None:
    for clash in FOUND.values():
        assert len(clash.keys) >= 2
        assert set(clash.keys) <= set(NUMBERS)
        assert clash.cells
        assert any(character.isdigit() for character in clash.detail)


def test_mended_numbers_are_no_longer_flagged() -> None:
    assert "table6_table8_c" not in changed(clairvoyant__table8__clairvoyant__oasst1=62.2)
    assert "table4_table6_c" not in changed(clairvoyant__table4__c__test__total=600)
    assert "section6_b16_throughput_sjf" not in changed(isjl__section6__b16__throughput_over_sjf_pct=41)
    assert "table1_table2_50" not in changed(isjl__table2__isjl_50__tau_e=1.33)
    assert "table3_sum_alpaca" not in changed(clairvoyant__table3__alpaca__short=49_942)
    assert "section5_6_work" not in changed(clairvoyant__section5_5__requests=300)


def test_broken_numbers_are_flagged() -> None:
    assert "table5_average_clause_count" in changed(clairvoyant__table5__clause_count__average=1.2)
    assert "table1_cost_fcfs" in changed(isjl__table1__fcfs__cost=70.0)
    assert "table1_gain_isjl_300" in changed(isjl__table1__isjl_300__gain_pct=25.0)
    assert "table2_50" in changed(isjl__table2__isjl_50__break_even_c=0.02)
    assert "table4_classes_b_val" in changed(clairvoyant__table4__b__val__long=150)


def test_a_registry_of_one_paper_is_checked_alone() -> None:
    only = {key: number for key, number in NUMBERS.items() if number.paper == "isjl"}
    assert {clash.name for clash in find_contradictions(only)} <= set(FOUND)
    assert "a_max" in {clash.name for clash in find_contradictions(only)}
