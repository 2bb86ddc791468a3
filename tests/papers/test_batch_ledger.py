"""The batch paper's ledger rows: what comes out, what doesn't, and why."""

from __future__ import annotations

import pytest

from clairvoyant_lab.papers.batch import (
    measure,
    measure_table3,
    table1_frame,
    table1_means,
    table3_frame,
)
from clairvoyant_lab.papers.batch_theory import claims_frame, worst_ratio_points
from clairvoyant_lab.papers.ledger import ledger_table


@pytest.fixture(scope="module")
def ledger():
    return ledger_table(measure(fast=True, seed=42))


def verdicts(ledger, prefix):
    return {
        row.published.key: row.verdict.kind
        for row in ledger
        if row.published.key.startswith(prefix) and not (row.measured and row.measured.variant)
    }


def test_fcfs_and_ljf_rows_of_table_1_come_out(ledger):
    for policy in ("fcfs", "ljf"):
        found = verdicts(ledger, f"isjl.table1.{policy}.")
        assert len(found) == 8
        assert set(found.values()) == {"reproduced"}, found


def test_isjl_makespans_do_not_and_the_bound_says_why(ledger):
    rows = [row for row in ledger if row.published.key.endswith("isjl_100.gain_pct")]
    assert {row.measured.variant for row in rows} == {"", "isjl_literal", "isjl_unguarded", "slack"}
    for row in rows:
        assert row.verdict.kind == "differs"
        assert "no α-fair schedule of any of these workloads gains more than" in row.verdict.text


def test_theory_rows(ledger):
    kinds = verdicts(ledger, "isjl.section4.")
    assert kinds["isjl.section4.cr_min"] == "reproduced"
    assert kinds["isjl.section4.isjl_cr_at_0_8"] == "differs"
    assert verdicts(ledger, "isjl.section3_5.") == {"isjl.section3_5.online_cr_limit": "reproduced"}
    assert verdicts(ledger, "isjl.abstract.")["isjl.abstract.isjl_cr"] == "differs"
    assert verdicts(ledger, "isjl.theorem3_3.")["isjl.theorem3_3.ljf_cr_b2"] == "reproduced"


def test_table_3_is_shown_in_steps_and_not_called_reproduced(ledger):
    found = verdicts(ledger, "isjl.table3.")
    assert len(found) == 24
    assert "reproduced" not in found.values()
    assert set(verdicts(ledger, "isjl.section6.mean_tokens").values()) == {"reproduced"}


def test_table_1_frame_is_repeatable_and_no_policy_beats_the_bound():
    frame = table1_frame(range(3), policies=("isjl", "slack"), alphas=(100, 400))
    again = table1_frame(range(3), policies=("isjl", "slack"), alphas=(100, 400))
    assert frame.equals(again)
    bound = frame[frame["policy"] == "bound"].set_index(["seed", "alpha"])["makespan_steps"]
    for row in frame[frame["policy"].isin(["isjl", "slack"])].itertuples():
        assert row.makespan_steps >= bound[(row.seed, row.alpha)]
        assert row.fair
    means = table1_means(frame)
    assert means["intrinsic"].round(9).nunique() == 1
    assert means["policy"].tolist() == ["fcfs", "ljf", "isjl", "isjl", "slack", "slack"]


def test_table_3_on_ones_own_lengths():
    frame = table3_frame(lengths=[5, 9, 2, 7, 7, 1] * 10, batch_sizes=(16,), policies=("isjl",))
    assert len(measure_table3(frame, "here")) == 12 + 4
    assert (frame["throughput"] <= 16).all()


def test_claims_table_finds_the_known_failures():
    frame = claims_frame(most_tokens=8, slow_tokens=5, bounds_tokens=4).set_index("name")
    assert frame.loc["theorem_3_19", "verdict"] == "fails"
    assert frame.loc["theorem_3_22_step_3", "verdict"] == "fails"
    assert frame.loc["isjl_not_slower", "instance"] == "[3, 3, 1, 1], B = 2, α = 1"
    assert frame.loc["theorem_5_1", "verdict"] == "no violation found"


def test_measured_ratios_lie_below_one_and_some_below_the_curve():
    points = worst_ratio_points(most_tokens=10)
    assert ((points["ratio"] > 0.5) & (points["ratio"] < 1)).all()
    three = points[(points["batch_size"] == 3) & (points["gamma"] == 0.5)]
    assert three["ratio"].iloc[0] == pytest.approx(2 / 3)
    assert (points.loc[points["batch_size"] == 2, "ratio"] >= 0.75).all()
