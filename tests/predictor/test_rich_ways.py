"""Training on scanned rows, the choice between the ways, and two rankings compared on the same rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clairvoyant_lab as cl
from clairvoyant_lab.errors import DataError, ParameterError, StarvedDatasetError
from clairvoyant_lab.paths import models_dir
from clairvoyant_lab.predictor import train_rich
from clairvoyant_lab.predictor.ngrams import N_BUCKETS, scan_many
from clairvoyant_lab.predictor.ranking import bootstrap_difference, bootstrap_ranking
from clairvoyant_lab.predictor.rich import fit_rich
from clairvoyant_lab.predictor.rich_engine import read_linear
from clairvoyant_lab.predictor.rich_rows import ScannedRows, rows_from_scan
from clairvoyant_lab.predictor.rich_ways import MIN_ENDS, WAYS, choose_way, fit_way

BOUNDS = (200, 800)
ASKED = [("What is {}?", 40), ("Explain {} to me.", 400), ("Write a long story about {}.", 1500)]
WORDS = ["sea", "rust", "time", "jazz", "moon", "bread", "owl", "rain", "fog", "tea", "oak", "tin", "salt"]


def made_up(n: int, seed: int = 0) -> tuple[list[str], np.ndarray]:
    """Prompts whose first words tell the length."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(3, size=n)
    prompts = [ASKED[k][0].format(" and ".join(rng.choice(WORDS, 2))) for k in kinds]
    return prompts, np.array([int(ASKED[k][1] * rng.uniform(0.7, 1.3)) for k in kinds])


def table_of(n: int, seed: int = 0) -> ScannedRows:
    prompts, tokens = made_up(n, seed)
    return rows_from_scan(*scan_many(prompts), tokens, None, None, BOUNDS)


def test_scanned_rows_train_the_same_model_as_their_prompts() -> None:
    prompts, tokens = made_up(150)
    from_prompts = train_rich(prompts, tokens, test_fraction=None, n_estimators=20)
    from_rows = fit_rich(table_of(150), n_estimators=20)
    assert from_rows.fingerprint == from_prompts.fingerprint
    assert np.array_equal(from_rows.predict_proba(prompts), from_prompts.predict_proba(prompts))


def test_scanned_rows_that_no_scan_gives_are_refused() -> None:
    prompts, tokens = made_up(30)
    features, ids = scan_many(prompts)
    spoilt = [*ids[:4], np.array([N_BUCKETS], np.int32), *ids[5:]]
    with pytest.raises(DataError, match="an id is outside"):
        rows_from_scan(features, spoilt, tokens, None, None, BOUNDS)
    with pytest.raises(DataError, match="no ids"):
        rows_from_scan(features, [ids[0][:0], *ids[1:]], tokens, None, None, BOUNDS)
    with pytest.raises(DataError, match=r"\(n, 33\)"):
        rows_from_scan(features[:, :19], ids, tokens, None, None, BOUNDS)
    with pytest.raises(DataError, match="ids of 29 rows"):
        rows_from_scan(features, ids[1:], tokens, None, None, BOUNDS)
    features[2, 20] = np.nan
    with pytest.raises(DataError, match="row 2"):
        rows_from_scan(features, ids, tokens, None, None, BOUNDS)


def test_a_class_that_lies_in_one_conversation_is_refused_before_the_solver_sees_it() -> None:
    prompts, tokens = made_up(90)
    order = np.argsort(tokens, kind="stable")
    conversation = np.minimum(np.arange(90) // 3, 15)  # the longest 45 are one
    with pytest.raises(StarvedDatasetError, match="Long rows lie in one conversation"):
        train_rich([prompts[k] for k in order], tokens[order], groups=conversation, test_fraction=None)


def test_a_long_answer_is_never_the_likelier_the_lower_the_margin() -> None:
    """Few long rows: margins of unseen rows may run the wrong way, the model's probabilities may not."""
    rng = np.random.default_rng(1)
    words = [f"w{k}" for k in range(400)]
    for seed in range(6):
        prompts = [" ".join(rng.choice(words, 12)) for _ in range(60)]
        tokens = np.array([1500] * 7 + [30] * 30 + [400] * 23)
        trained = train_rich(prompts, tokens, test_fraction=None, seed=seed, n_estimators=10)
        for lines in (trained.lines, trained.fast_lines):
            assert lines[2, 1] > lines[0, 1]


@pytest.mark.parametrize("way", WAYS)
def test_every_way_learns_exports_and_explains(way: str, tmp_path: object) -> None:
    from pathlib import Path

    base = read_linear(models_dir() / "sharegpt-rich.onnx")
    trained = fit_way(way, table_of(150), base, n_estimators=20)
    assert (trained.trees is None) == (way == "base")
    assert np.array_equal(trained.linear.weights, base.weights) == (way != "own")
    fresh, tokens = made_up(80, seed=7)
    p = trained.predict_proba(fresh)
    assert cl.ranking_accuracy(p[:, 2], tokens) > 0.95
    path = Path(str(tmp_path)) / "way.onnx"
    assert trained.export_onnx(path).max_abs_difference < 1e-5
    loaded = cl.LengthPredictor.load(path)
    assert np.abs(loaded.predict_proba(fresh) - p).max() < 1e-6
    assert np.abs(loaded.predict(fresh[0]).probabilities - p[0]).max() < 1e-6
    why = loaded.explain(fresh[0])
    pushed = sum(item.push for item in why.contributions)
    assert why.typical_log_odds + pushed == pytest.approx(why.log_odds, abs=1e-4)


def test_the_choice_says_what_it_rests_on() -> None:
    base = read_linear(models_dir() / "sharegpt-rich.onnx")
    choice = choose_way(table_of(120), base, n_estimators=10)
    assert set(choice.ranking) == set(WAYS)
    assert choice.way == max(WAYS, key=choice.ranking.__getitem__)
    assert choose_way(table_of(120), None).way == "own"
    few = choose_way(table_of(3 * MIN_ENDS - 15), base)
    assert (few.way, few.ranking) == ("base", {})
    assert "too few" in few.why
    with pytest.raises(ParameterError, match="unknown"):
        fit_way("mine", table_of(60), base)


# -- two rankings -----------------------------------------------------------------------------------

scores = st.lists(st.floats(0, 1, width=32), min_size=12, max_size=12)


@given(scores, scores)
@settings(max_examples=60, deadline=None)
def test_a_difference_is_that_of_the_two_and_turns_with_them(one: list[float], other: list[float]) -> None:
    tokens = np.array([10] * 6 + [900] * 6)
    got = bootstrap_difference(one, other, tokens, n_boot=40)
    back = bootstrap_difference(other, one, tokens, n_boot=40)
    assert got.value == pytest.approx(cl.ranking_accuracy(one, tokens) - cl.ranking_accuracy(other, tokens))
    assert (got.value, got.low, got.high) == pytest.approx((-back.value, -back.high, -back.low))
    same = bootstrap_difference(one, one, tokens, n_boot=40)
    assert (same.value, same.low, same.high) == (0.0, 0.0, 0.0)


def test_pairing_sees_a_small_gain_that_two_intervals_hide() -> None:
    rng = np.random.default_rng(3)
    tokens = np.where(rng.random(800) < 0.5, 50, 1000)
    shared = (tokens > 500) + rng.normal(0, 1.5, 800)
    better = shared + 0.4 * (tokens > 500)
    gain = bootstrap_difference(better, shared, tokens)
    one, other = bootstrap_ranking(better, tokens), bootstrap_ranking(shared, tokens)
    assert gain.low > 0
    assert one.low < other.high
    assert {"ranking_difference", "low", "high"} <= set(gain.summary())
    with pytest.raises(ParameterError, match="level"):
        bootstrap_difference(better, shared, tokens, level=1.5)
