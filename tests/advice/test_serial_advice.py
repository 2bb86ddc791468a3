"""Advice on serial queues: τ within its budget on other seeds, the gate, what-if."""

from __future__ import annotations

import numpy as np
import pytest

import clairvoyant_lab as cl
from clairvoyant_lab.advice import calibrate_tau, deploy_gate, what_if
from clairvoyant_lab.advice.gate import ranking_interval
from clairvoyant_lab.simulation.resample import resample_trace
from clairvoyant_lab.simulation.scores import noisy_score
from clairvoyant_lab.simulation.workloads import paper_mix, poisson_trace


def test_tau_is_the_best_of_its_frontier_within_the_budget() -> None:
    advice = calibrate_tau("l4", long_p99_budget_pct=5.0, seeds=8, check_seeds=8)
    frontier = advice.to_frame()
    allowed = frontier[frontier["long_p99_change_pct"] <= 5.0]
    assert advice.starvation_timeout_s in allowed["tau_s"].tolist()
    chosen = frontier[frontier["tau_s"] == advice.starvation_timeout_s].iloc[0]
    assert chosen["short_p50_s"] == allowed["short_p50_s"].min()
    # τ = 0 is FCFS; pure SJF is the best for short requests and breaks the budget
    assert frontier.iloc[0]["short_p50_change_pct"] == 0.0
    assert frontier.iloc[-1]["long_p99_change_pct"] > 50.0
    # the notes on the papers: most of pure SJF's gain for a small price on the long P99
    assert advice.check["short_p50_change_pct"] < 0.75 * frontier.iloc[-1]["short_p50_change_pct"]
    assert advice.check["long_p99_change_pct"] < 12.0
    assert "short P50" in advice.sentence()
    assert "no clear gain" not in advice.sentence()
    assert "no clear gain" in calibrate_tau("l4", taus_s=[0.0], seeds=2, check_seeds=2).sentence(), (
        "that is FCFS"
    )
    # 3 x E[S_short] gives away most of the gain
    paper = calibrate_tau("l4", taus_s=[10.5], seeds=8, check_seeds=8)
    assert paper.check["short_p50_change_pct"] > advice.check["short_p50_change_pct"] + 10.0


def test_tau_from_a_trace_uses_its_own_score_and_load() -> None:
    trace = poisson_trace(3000, paper_mix(0.5), rho=0.7, seed=5, accuracy=0.9)
    advice = calibrate_tau(trace, seeds=5, check_seeds=5)
    assert advice.workload == trace.source
    assert advice.check["short_p50_change_pct"] < -10.0
    blind = trace.with_columns(score=noisy_score(np.asarray(trace.length_class), 0.3, 1))
    worse = calibrate_tau(blind, seeds=5, check_seeds=5)
    assert worse.check["short_p50_change_pct"] > advice.check["short_p50_change_pct"] + 10.0


def test_bad_budgets_and_traffic_are_refused() -> None:
    with pytest.raises(cl.ParameterError, match="long_p99_budget_pct"):
        calibrate_tau("l4", long_p99_budget_pct=-1.0)
    with pytest.raises(cl.StarvedDatasetError, match="no Long requests"):
        calibrate_tau(cl.Trace.from_arrays([0, 1, 2], [1, 1, 1], [0, 0, 0], length_class=[0, 0, 0]))
    with pytest.raises(cl.ParameterError, match="smallest rise is"):
        calibrate_tau("l4", taus_s=[None], long_p99_budget_pct=1.0, seeds=2, check_seeds=2)


def test_the_gate_opens_for_a_good_predictor_and_stays_shut_for_a_bad_one() -> None:
    trace = poisson_trace(4000, paper_mix(1.0), rho=0.74, seed=6, accuracy=0.95)
    good = deploy_gate(trace, replicates=6, n=1500)
    assert good.passed
    assert good.accuracy == pytest.approx(0.95, abs=0.005)
    assert good.accuracy_low < good.accuracy < good.accuracy_high
    assert good.needed is not None
    assert 0.45 < good.needed < 0.7
    assert good.sentence().endswith("deploy.")
    bad = deploy_gate(
        trace.with_columns(score=noisy_score(np.asarray(trace.length_class), 0.45, 2)), replicates=6, n=1500
    )
    assert not bad.passed
    assert bad.sentence().endswith("keep FCFS.")
    impossible = deploy_gate(trace, min_cut_pct=99.0, replicates=2, n=500)
    assert impossible.needed is None
    assert not impossible.passed


def test_the_gate_names_what_is_missing() -> None:
    with pytest.raises(cl.DataError, match="column 'score'"):
        deploy_gate(cl.Trace.from_arrays([0, 1], [1, 2], length_class=[0, 2]))


def test_the_ranking_interval_covers_the_truth() -> None:
    rng = np.random.default_rng(9)
    covered = 0
    for _ in range(60):
        classes = np.repeat([0, 2], [150, 60]).astype(np.int8)
        score = rng.standard_normal(210) + classes / 2.0  # P(long > short) = Φ(1/√2) = 0.760
        _, low, high = ranking_interval(score, classes, rng, draws=300)
        covered += low <= 0.7602 <= high
    assert covered >= 51  # 95 % of 60 is 57; 51 or fewer would happen once in some thousand times


def test_a_resampled_trace_keeps_load_and_rows() -> None:
    trace = poisson_trace(2000, paper_mix(0.5), rho=0.7, seed=7, accuracy=0.9)
    loads = [resample_trace(trace, seed).load for seed in range(30)]
    assert np.mean([load for load in loads if load is not None]) == pytest.approx(0.7, rel=0.05)
    other = resample_trace(trace, 1)
    pairs = set(zip(trace.service_s.tolist(), np.asarray(trace.score).tolist(), strict=True))
    assert set(zip(other.service_s.tolist(), np.asarray(other.score).tolist(), strict=True)) <= pairs


def test_what_if_takes_every_policy_that_the_trace_has_columns_for() -> None:
    trace = poisson_trace(500, paper_mix(0.5), rho=0.8, seed=8, accuracy=0.9)
    result = what_if(trace)
    assert [run.policy.name for run in result.runs] == ["fcfs", "sjf", "oracle", "srpt"]
    assert result.skipped == {"sjf_tokens": "no predicted_tokens", "sjf_service": "no expected_service_s"}
    frame = result.to_frame()
    assert set(frame["class"]) == {"all", "Short", "Long"}
    assert (frame.query("policy == 'fcfs'")["p50_change_pct"] == 0).all()
    assert frame.query("policy == 'sjf' and `class` == 'Short'")["p50_change_pct"].item() < 0
    with pytest.raises(cl.DataError, match="predicted_tokens"):
        what_if(trace, ["sjf_tokens"])
