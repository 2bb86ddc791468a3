"""Workloads: loads, shares and ranking accuracies are those asked for; seeds share what they can."""

from __future__ import annotations

import numpy as np
import pytest

import clairvoyant_lab as cl
from clairvoyant_lab.predictor import ranking_accuracy
from clairvoyant_lab.simulation.replicates import Replicates
from clairvoyant_lab.simulation.scores import class_ranking_accuracy, noisy_score
from clairvoyant_lab.simulation.service_times import deterministic, empirical, exponential, gamma
from clairvoyant_lab.simulation.workloads import burst_trace, on_off_trace, paper_mix, poisson_trace


@pytest.mark.parametrize("accuracy", [0.0, 0.3, 0.5, 0.62, 0.763, 0.95, 0.99, 1.0])
@pytest.mark.parametrize("n", [60, 2000])
def test_the_noisy_score_ranks_as_well_as_asked(accuracy: float, n: int) -> None:
    rng = np.random.default_rng(4)
    for seed in range(20):
        classes = rng.choice([0, 1, 2], n, p=[0.5, 0.2, 0.3])
        score = noisy_score(classes, accuracy, seed)
        assert ((score > 0) & (score < 1)).all()
        got = class_ranking_accuracy(score, classes)
        assert abs(got - accuracy) <= 0.005
        # the predictor's own measure of eq. 2 says the same
        tokens = np.choose(classes, [100, 400, 1000])
        assert got == pytest.approx(ranking_accuracy(score, tokens))


def test_ties_count_as_wrong() -> None:
    assert class_ranking_accuracy([0.5, 0.5, 0.7], [0, 2, 2]) == 0.5


def test_without_a_pair_there_is_no_accuracy() -> None:
    with pytest.raises(cl.StarvedDatasetError, match="3 Short and 0 Long"):
        class_ranking_accuracy([0.1, 0.2, 0.3], [0, 0, 0])
    assert noisy_score([0, 0, 0], 0.9, 1).shape == (3,)


@pytest.mark.parametrize("rho", [0.3, 0.8])
def test_poisson_arrivals_have_the_load_asked_for(rho: float) -> None:
    trace = poisson_trace(60_000, paper_mix(1.0), rho=rho, seed=1, accuracy=0.9)
    assert trace.load == pytest.approx(rho, rel=0.02)
    gaps = np.diff(trace.arrival_s)
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.02)
    assert trace.length_class is not None
    assert np.mean(trace.length_class == 0) == pytest.approx(0.5, abs=0.01)


def test_on_off_arrivals_have_the_load_and_are_burstier() -> None:
    trace = on_off_trace(60_000, exponential(2.0), rho=0.6, on_s=60.0, off_s=120.0, seed=2)
    assert trace.load == pytest.approx(0.6, rel=0.05)
    gaps = np.diff(trace.arrival_s)
    assert gaps.std() / gaps.mean() > 1.5
    plain = on_off_trace(20_000, exponential(2.0), rho=0.6, on_s=60.0, off_s=0.0, seed=2)
    gaps = np.diff(plain.arrival_s)
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.03)


def test_a_burst_has_exact_shares_in_random_order() -> None:
    trace = burst_trace(100, paper_mix(), seed=3, accuracy=1.0)
    assert trace.length_class is not None
    assert np.bincount(trace.length_class).tolist() == [50, 0, 50]
    assert (trace.arrival_s == 0).all()
    assert trace.length_class[:50].sum() not in (0, 100)
    other = burst_trace(100, paper_mix(), seed=4, accuracy=1.0)
    assert other.length_class is not None
    assert trace.length_class.tolist() != other.length_class.tolist()


def test_one_seed_shares_arrivals_over_loads_and_classes_over_spreads() -> None:
    low, high = (poisson_trace(500, paper_mix(0.5), rho=rho, seed=9) for rho in (0.4, 0.8))
    np.testing.assert_allclose(low.arrival_s, 2.0 * high.arrival_s)
    np.testing.assert_array_equal(low.service_s, high.service_s)
    wide = poisson_trace(500, paper_mix(0.6), rho=0.8, seed=9)
    np.testing.assert_array_equal(wide.length_class, high.length_class)
    assert np.corrcoef(wide.service_s, high.service_s)[0, 1] > 0.99


def test_empirical_service_times_are_those_measured() -> None:
    model = empirical([1.0, 2.0, 10.0, 20.0], [0, 0, 2, 2])
    trace = poisson_trace(4000, model, rho=0.5, seed=1)
    assert set(np.unique(trace.service_s)) == {1.0, 2.0, 10.0, 20.0}
    assert trace.length_class is not None
    assert set(trace.service_s[trace.length_class == 2]) == {10.0, 20.0}
    with pytest.raises(cl.DataError, match="row 1"):
        empirical([1.0, float("nan")])


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: poisson_trace(0, gamma(1, 1), rho=0.5, seed=1), "n"),
        (lambda: poisson_trace(10, gamma(1, 1), rho=-0.5, seed=1), "rho"),
        (lambda: poisson_trace(10, gamma(1, 1), seed=1), "rho"),
        (lambda: poisson_trace(10, gamma(1, 1), rho="0.5", seed=1), "rho"),  # type: ignore[arg-type]
        (lambda: poisson_trace(10, gamma(1, 1), rho=0.5, seed=-1), "seed"),
        (lambda: poisson_trace(10, gamma(1, 1), rho=0.5, seed=1, accuracy=0.9), "accuracy"),
        (lambda: poisson_trace(10, paper_mix(), rho=0.5, seed=1, accuracy=1.1), "accuracy"),
        (lambda: gamma(-1, 1), "mean_s"),
        (lambda: gamma(1, float("nan")), "cs2"),
        (lambda: deterministic(0), "mean_s"),
        (lambda: paper_mix(share_long=1.5), "share_long"),
        (lambda: on_off_trace(10, gamma(1, 1), rho=0.5, on_s=0, off_s=1, seed=1), "on_s"),
        (lambda: Replicates(()), "traces"),
    ],
)
def test_bad_parameters_are_named(call: object, field: str) -> None:
    with pytest.raises(cl.ParameterError) as refused:
        call()  # type: ignore[operator]
    assert refused.value.field == field


def test_replicates_give_what_single_runs_give() -> None:
    traces = Replicates.poisson(400, paper_mix(1.0), rho=0.8, seeds=(1, 2, 3), accuracy=0.9)
    for policy in (
        cl.serial_policy("sjf", 8.0),
        cl.serial_policy("sjf", 8.0, promotion="shortest"),
        cl.serial_policy("sjf", 20.0, promotion="long_only"),
        cl.serial_policy("fcfs"),
        cl.serial_policy("hrrn"),
    ):
        for what in ("sojourn_s", "wait_s"):
            result = traces.percentiles(policy, (50, 95, 99), what=what)
            for column, trace in enumerate(traces.traces):
                run = cl.simulate_serial(trace, policy)
                for row, group in enumerate(result.groups):
                    expected = run.percentile((50, 95, 99), group, what)
                    np.testing.assert_allclose(result.values_s[row, :, column], expected, rtol=1e-12)
                    rows = slice(None) if group is None else trace.length_class == group
                    assert result.promoted_share[row, column] == run.promoted[rows].mean()
