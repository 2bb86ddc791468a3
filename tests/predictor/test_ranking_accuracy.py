"""Equation 2 against its definition, and its refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import clairvoyant_lab as cl
from clairvoyant_lab.errors import DataError, ParameterError, StarvedDatasetError
from clairvoyant_lab.predictor import bootstrap_ranking
from clairvoyant_lab.predictor.metrics import calibration, class_metrics

LENGTHS = st.sampled_from([0, 10, 199, 200, 500, 799, 800, 2000])
# Few distinct scores, so that ties are common.
SCORES = st.sampled_from([0.0, 0.1, 0.5, 0.5000001, 1.0])


def by_definition(scores: np.ndarray, tokens: np.ndarray, tie: float) -> float:
    pairs = [(i, j) for i in np.flatnonzero(tokens < 200) for j in np.flatnonzero(tokens >= 800)]
    return sum(1.0 if scores[j] > scores[i] else tie * (scores[j] == scores[i]) for i, j in pairs) / len(
        pairs
    )


@given(st.lists(st.tuples(SCORES, LENGTHS), min_size=1, max_size=40))
def test_equals_the_definition_with_ties_wrong_or_half(rows: list[tuple[float, int]]) -> None:
    rows = [*rows, (0.3, 5), (0.3, 900)]
    scores, tokens = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    assert cl.ranking_accuracy(scores, tokens) == pytest.approx(by_definition(scores, tokens, 0.0))
    half = cl.ranking_accuracy(scores, tokens, ties="half")
    assert half == pytest.approx(by_definition(scores, tokens, 0.5))


def test_medium_rows_take_no_part() -> None:
    assert cl.ranking_accuracy([0.1, 0.9, 0.5], [10, 300, 900]) == 1.0
    assert cl.ranking_accuracy([0.1, 0.5], [10, 900]) == 1.0


def test_bounds_are_parameters() -> None:
    assert cl.ranking_accuracy([0.1, 0.5], [10, 60], short_below=50, long_from=60) == 1.0


@pytest.mark.parametrize("tokens", [[10, 20], [900, 950], [300, 400]])
def test_a_missing_class_is_named(tokens: list[int]) -> None:
    with pytest.raises(StarvedDatasetError, match=r"no (Short|Long) row"):
        cl.ranking_accuracy([0.1, 0.2], tokens)


def test_bad_scores_are_refused_with_their_row() -> None:
    with pytest.raises(DataError, match=r"row 1.*p_long"):
        cl.ranking_accuracy([0.1, float("nan")], [10, 900])
    with pytest.raises(DataError, match="shape"):
        cl.ranking_accuracy([0.1], [10, 900])
    with pytest.raises(ParameterError, match="ties"):
        cl.ranking_accuracy([0.1, 0.2], [10, 900], ties="no")


def test_bootstrap_covers_the_truth_about_as_often_as_it_says() -> None:
    # Short ~ N(0, 1), Long ~ N(1, 1): P(L > S) = Φ(1/√2) = 0.7602.
    rng = np.random.default_rng(5)
    hits = 0
    for trial in range(100):
        scores = np.concatenate([rng.normal(size=80), rng.normal(1, 1, size=40)])
        tokens = np.repeat([10, 900], [80, 40])
        interval = bootstrap_ranking(scores, tokens, n_boot=200, seed=trial)
        assert interval.low <= interval.value <= interval.high
        hits += interval.low <= 0.7602 <= interval.high
    # 95 % nominal; a binomial of 100 falls below 85 with probability 0.0001.
    assert hits >= 85


def test_calibration_error_is_zero_for_a_calibrated_score_and_large_for_an_inverted_one() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(20_000)
    truth = rng.random(20_000) < p
    assert calibration(p, truth).error < 0.02
    assert calibration(1 - p, truth).error > 0.4
    assert calibration(p, truth).to_frame()["rows"].sum() == 20_000


def test_class_metrics_of_a_perfect_predictor() -> None:
    tokens = np.array([10, 300, 900, 50, 1000])
    table = np.eye(3)[[0, 1, 2, 0, 2]]
    figures = class_metrics(table, tokens)
    assert figures["class_accuracy"] == figures["ranking_accuracy"] == figures["auc_long"] == 1.0
    assert figures["expected_calibration_error"] == 0.0
    assert (figures["n_short"], figures["n_medium"], figures["n_long"]) == (2, 1, 2)
