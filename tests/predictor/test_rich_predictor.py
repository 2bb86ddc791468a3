"""The rich predictor: same ids in two implementations, exact export, forms, explanations, intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clairvoyant_lab as cl
from clairvoyant_lab.errors import DataError, ParameterError, SchemaMismatchError, StarvedDatasetError
from clairvoyant_lab.paths import models_dir
from clairvoyant_lab.predictor import LengthIntervals, interval_coverage, ngrams, train_intervals, train_rich
from clairvoyant_lab.predictor.attribution import Leaves, shapley_values
from clairvoyant_lab.predictor.engines import open_session
from clairvoyant_lab.predictor.ngram_names import describe_ids
from clairvoyant_lab.predictor.rich import TrainedRich
from clairvoyant_lab.predictor.rich_engine import read_linear

OPENINGS = [
    "What is",
    "Name",
    "Define",
    "Explain",
    "Describe",
    "Write an essay about",
    "Write a long story on",
]
THINGS = ["a queue", "the sea", "rust", "time", "a lighthouse", "jazz", "the moon", "bread", "an owl", "rain"]
TAILS = ["?", ".", " in one word.", " in detail, with examples.", " in 2000 words.", " for my class"]


def corpus(n: int = 600, seed: int = 0) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Prompts whose words tell the length, with noise; three in a group."""
    rng = np.random.default_rng(seed)
    prompts, tokens = [], []
    for _ in range(n):
        opening, tail = int(rng.integers(len(OPENINGS))), int(rng.integers(len(TAILS)))
        prompts.append(f"{OPENINGS[opening]} {THINGS[int(rng.integers(len(THINGS)))]}{TAILS[tail]}")
        mean = 60 * (1.5**opening) * (1.45**tail)
        tokens.append(int(mean * rng.lognormal(0, 0.4)))
    return prompts, np.array(tokens), np.arange(n) // 3


@pytest.fixture(scope="module")
def trained() -> TrainedRich:
    prompts, tokens, groups = corpus()
    return train_rich(prompts, tokens, groups=groups)


@pytest.fixture(scope="module")
def exported(trained: TrainedRich, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rich") / "toy-rich.onnx"
    trained.export_onnx(path)
    return path


@pytest.fixture(scope="module")
def adapted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model without trees: a committed model's scores, weighed anew."""
    prompts, tokens, _ = corpus(240, seed=5)
    path = tmp_path_factory.mktemp("rich") / "adapted.onnx"
    base = read_linear(models_dir() / "sharegpt-rich.onnx")
    train_rich(prompts, tokens, base=base, test_fraction=None).export_onnx(path)
    return path


def ids_of(prompt: str) -> list[int]:
    row = np.empty(len(ngrams.SHAPE_NAMES), np.float32)
    return ngrams.scan_prompt(prompt, row, 0).tolist()


@given(st.text(max_size=300))
@settings(max_examples=300, deadline=None)
def test_compiled_and_plain_scan_give_the_same_ids_in_the_same_order(prompt: str) -> None:
    assert ids_of(prompt) == list(describe_ids(prompt))


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "\0",
        "it's",
        "6'4, 3'",
        "''",
        "a" * 10_000,
        "é ü " * 3000,
        "1 2 3",
        "x\n\n\n\n\n\ny",
        "a\0b" * 2000,
    ],
)
def test_both_scans_agree_on_odd_prompts(prompt: str) -> None:
    assert ids_of(prompt) == list(describe_ids(prompt))


@given(st.text(alphabet="ab1 ?'\n", max_size=400))
@settings(max_examples=200, deadline=None)
def test_ids_are_distinct_and_within_the_table(prompt: str) -> None:
    ids = ids_of(prompt)
    assert len(ids) == len(set(ids))
    assert all(0 <= place < ngrams.N_BUCKETS for place in ids)


def test_the_middle_of_a_long_prompt_is_not_read_but_its_length_is() -> None:
    head, tail = "h " * 1536, "t " * 512
    one, other = f"{head}{'x ' * 50}{tail}", f"{head}{'y ' * 50}{tail}"
    assert ids_of(one) == ids_of(other)
    row = np.empty(len(ngrams.SHAPE_NAMES), np.float32)
    ngrams.scan_prompt(one, row, 0)
    assert row[0] == len(one)


def test_shape_counts_of_a_known_prompt() -> None:
    row = np.empty(len(ngrams.SHAPE_NAMES), np.float32)
    ngrams.scan_prompt("List 12 {x}!\nIn 300 words", row, 0)
    found = dict(zip(ngrams.SHAPE_NAMES, row.tolist(), strict=True))
    assert (found["n_words"], found["n_lines"], found["n_capitals"], found["n_numbers"]) == (6, 1, 2, 2)
    assert (found["largest_number"], found["last_number"]) == (300, 300)
    assert (found["n_punctuation"], found["n_code_symbols"]) == (3, 2)


def test_it_learns_what_words_tell(trained: TrainedRich) -> None:
    assert trained.metrics["ranking_accuracy"] > 0.95
    p = trained.predict_proba(["Name rust in one word.", "Write a long story on the sea in 2000 words."])
    assert p[1, 2] > 0.6
    assert p[0, 0] > 0.6
    assert p[0, 2] < 0.05
    assert np.allclose(p.sum(axis=1), 1, atol=1e-6)


def test_one_graph_equals_the_model_and_is_the_same_twice(trained: TrainedRich, tmp_path: Path) -> None:
    first = trained.export_onnx(tmp_path / "a.onnx", name="toy")
    prompts, tokens, groups = corpus()
    again = train_rich(prompts, tokens, groups=groups).export_onnx(tmp_path / "b.onnx", name="toy")
    assert first.max_abs_difference < 1e-5
    assert first.sha256 == again.sha256
    loaded = cl.LengthPredictor.load(tmp_path / "a.onnx")
    fresh = [*corpus(300, seed=9)[0], "", "?" * 5000, "日本語のテキスト"]
    assert np.abs(loaded.predict_proba(fresh) - trained.predict_proba(fresh)).max() < 1e-6
    one_by_one = np.array([loaded.predict(prompt).probabilities for prompt in fresh])
    assert np.array_equal(one_by_one, loaded.predict_proba(fresh))


@given(st.lists(st.text(max_size=300), min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
@pytest.mark.parametrize("name", ["sharegpt-rich", "adapted"])
def test_what_runs_is_the_whole_graph_to_the_last_bit(name: str, adapted: Path, prompts: list[str]) -> None:
    path = models_dir() / "sharegpt-rich.onnx" if name == "sharegpt-rich" else adapted
    features, ids = ngrams.scan_many(prompts)
    inputs = {"features": features, "ids": ngrams.pad_ids(ids)}
    whole = open_session(path, 1).run(["probabilities"], inputs)[0]
    loaded = cl.LengthPredictor.load(path)
    assert np.array_equal(loaded.predict_proba(prompts), whole)
    assert np.array_equal(loaded.predict(prompts[0]).probabilities, whole[0])


def test_fast_form_is_the_linear_scores(trained: TrainedRich, exported: Path) -> None:
    fast = cl.LengthPredictor.load(exported, form="fast")
    prompts, tokens, _ = corpus(400, seed=3)
    p = fast.predict_proba(prompts)
    assert np.abs(p - trained.fast_proba(ngrams.scan_many(prompts)[1])).max() < 1e-6
    assert cl.ranking_accuracy(p[:, 2], tokens) > 0.95
    assert np.array_equal(cl.LengthPredictor.load(f"{exported}:fast").predict_proba(prompts), p)


def test_a_rich_model_refuses_bare_features(exported: Path) -> None:
    for form in ("full", "fast"):
        predictor = cl.LengthPredictor.load(exported, form=form)
        with pytest.raises(ParameterError, match="reads the prompts' words"):
            predictor.predict_proba(np.zeros((2, 19), np.float32))


def test_an_older_rich_schema_is_refused_with_both_names(exported: Path, tmp_path: Path) -> None:
    import onnx

    model = onnx.load(str(exported))
    for entry in model.metadata_props:
        if entry.key == "schema_hash":
            entry.value = "0123456789abcdef"
    onnx.save(model, str(tmp_path / "old.onnx"))
    with pytest.raises(SchemaMismatchError, match=f"0123456789abcdef.*{ngrams.RICH_HASH}"):
        cl.LengthPredictor.load(tmp_path / "old.onnx")


@pytest.mark.parametrize(
    ("key", "value", "form"),
    [
        ("class_bounds", "[800, 200]", "full"),
        ("class_mean_tokens", "[NaN, 1, 2]", "full"),
        ("form", "[]", "full"),
        ("form", '{"mix": [1], "fast_lines": [[0, 1], [0, 1], [0, 1]]}', "fast"),
        ("form", '{"mix": [1, 1], "fast_lines": [[0, 1]]}', "fast"),
    ],
)
def test_settings_no_prediction_can_be_made_with_are_refused(
    exported: Path, tmp_path: Path, key: str, value: str, form: str
) -> None:
    import onnx

    model = onnx.load(str(exported))
    for entry in model.metadata_props:
        if entry.key == key:
            entry.value = value
    onnx.save(model, str(tmp_path / "odd.onnx"))
    with pytest.raises(SchemaMismatchError):
        cl.LengthPredictor.load(tmp_path / "odd.onnx", form=form)


@pytest.mark.parametrize("name", ["weights", "scale", "intercept"])
def test_tables_of_another_shape_are_refused(exported: Path, tmp_path: Path, name: str) -> None:
    import onnx
    from onnx import numpy_helper

    model = onnx.load(str(exported))
    (held,) = [item for item in model.graph.initializer if item.name == name]
    held.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(held)[..., :1].copy(), name))
    onnx.save(model, str(tmp_path / "odd.onnx"))
    for form in ("full", "fast"):
        with pytest.raises((SchemaMismatchError, DataError)):
            cl.LengthPredictor.load(tmp_path / "odd.onnx", form=form)


def test_a_graph_without_the_rich_ones_middle_is_refused(exported: Path, tmp_path: Path) -> None:
    import onnx

    model = onnx.load(str(exported))
    for node in model.graph.node:
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                names[place] = "elsewhere" if name == "rows" else name
    onnx.save(model, str(tmp_path / "odd.onnx"))
    with pytest.raises(DataError, match=r"odd\.onnx.*rich model"):
        cl.LengthPredictor.load(tmp_path / "odd.onnx")


@pytest.mark.parametrize("form", ["full", "fast"])
def test_contributions_add_up_to_the_models_own_log_odds(exported: Path, form: str) -> None:
    predictor = cl.LengthPredictor.load(exported, form=form)
    for prompt in ("Write an essay about jazz in 2000 words.", "Define time?", ""):
        why = predictor.explain(prompt)
        p = predictor.predict(prompt).probabilities.astype(np.float64)
        assert why.log_odds == pytest.approx(np.log(p[2] / p[0]), abs=1e-3)
        pushed = sum(item.push for item in why.contributions)
        assert why.typical_log_odds + pushed == pytest.approx(why.log_odds, abs=1e-4)
    if form == "fast":
        names = set(predictor.explain("Write an essay about jazz in 2000 words.").to_frame()["name"])
        assert {"essay", "2000", "in number of 4 digits"} <= names


def test_shapley_values_equal_the_average_over_all_orders() -> None:
    from itertools import permutations

    rng = np.random.default_rng(2)
    low = np.where(rng.random((30, 4)) < 0.5, -np.inf, rng.random((30, 4))).astype(np.float32)
    high = np.where(rng.random((30, 4)) < 0.5, np.inf, low + rng.random((30, 4))).astype(np.float32)
    leaves = Leaves(low, high, rng.normal(size=30), 0.3)
    row, reference = rng.random(4).astype(np.float32), rng.random(4).astype(np.float32)
    expected = np.zeros(4)
    orders = list(permutations(range(4)))
    for order in orders:
        mixed = reference.copy()
        for feature in order:
            before = leaves.total(mixed)
            mixed[feature] = row[feature]
            expected[feature] += (leaves.total(mixed) - before) / len(orders)
    found = shapley_values(leaves, row, reference)
    assert np.allclose(found, expected)
    assert found.sum() == pytest.approx(leaves.total(row) - leaves.total(reference))


def test_works_with_240_rows() -> None:
    prompts, tokens, _ = corpus(1200, seed=4)
    classes = cl.classify_lengths(tokens)
    train = np.concatenate([np.flatnonzero(classes == k)[:80] for k in range(3)])
    rest = np.setdiff1d(np.arange(1200), train)
    few = train_rich([prompts[row] for row in train], tokens[train], test_fraction=None)
    p = few.predict_proba([prompts[row] for row in rest])
    assert cl.ranking_accuracy(p[:, 2], tokens[rest]) > 0.93


def test_240_rows_of_other_traffic_on_the_scores_of_a_committed_model(tmp_path: Path) -> None:
    prompts, tokens, _ = corpus(1000, seed=5)
    base = read_linear(models_dir() / "sharegpt-rich.onnx")
    adapted = train_rich(prompts[:240], tokens[:240], base=base, test_fraction=None)
    p = adapted.predict_proba(prompts[240:])
    zero_shot = cl.LengthPredictor.load("sharegpt-rich").predict_proba(prompts[240:])
    gained = cl.ranking_accuracy(p[:, 2], tokens[240:]) - cl.ranking_accuracy(zero_shot[:, 2], tokens[240:])
    assert gained > -0.02
    classes = cl.classify_lengths(tokens[240:])
    right = [(table.argmax(axis=1) == classes).mean() for table in (p, zero_shot)]
    assert right[0] > right[1]
    assert adapted.export_onnx(tmp_path / "adapted.onnx").max_abs_difference < 1e-5
    loaded = cl.LengthPredictor.load(tmp_path / "adapted.onnx")
    assert np.abs(loaded.predict_proba(prompts[240:300]) - p[:60]).max() < 1e-5
    why = loaded.explain(prompts[300])
    pushed = sum(item.push for item in why.contributions)
    assert why.typical_log_odds + pushed == pytest.approx(why.log_odds, abs=1e-4)


def test_bad_rows_and_settings_are_refused() -> None:
    prompts, tokens, groups = corpus(60)
    with pytest.raises(StarvedDatasetError, match="Long"):
        train_rich(prompts, np.minimum(tokens, 700))
    with pytest.raises(DataError, match="groups has shape"):
        train_rich(prompts, tokens, groups=groups[:-1])
    with pytest.raises(DataError, match="row 2"):
        train_rich(prompts, [float("nan") if row == 2 else n for row, n in enumerate(tokens)])
    with pytest.raises(ParameterError, match="max_depth"):
        train_rich(prompts, tokens, max_depth=0)
    with pytest.raises(ParameterError, match="unknown"):
        train_rich(prompts, tokens, depth=3)


@pytest.fixture(scope="module")
def interval_model() -> Any:
    prompts, tokens, groups = corpus(1500, seed=7)
    return train_intervals(prompts, tokens, groups=groups, level=0.8)


def test_intervals_hold_as_often_as_they_say_and_survive_export(interval_model: Any, tmp_path: Path) -> None:
    prompts, tokens, _ = corpus(2000, seed=8)
    intervals = interval_model.predict(prompts)
    coverage = interval_coverage(intervals, tokens)
    assert coverage.summary()["coverage"] == pytest.approx(0.8, abs=0.05)
    assert coverage.summary()["below_upper"] == pytest.approx(0.9, abs=0.04)
    frame = coverage.to_frame()
    assert frame["rows"].iloc[1:].sum() == frame["rows"].iloc[0] == 2000
    report = interval_model.export_onnx(tmp_path / "i.onnx")
    assert report.max_abs_difference < 1e-4
    loaded = LengthIntervals.load(tmp_path / "i.onnx").predict(prompts)
    assert np.abs(loaded.upper_tokens - intervals.upper_tokens).max() <= 1
    assert np.abs(loaded.lower_tokens - intervals.lower_tokens).max() <= 1
    with pytest.raises(SchemaMismatchError, match="rich-interval"):
        cl.LengthPredictor.load(tmp_path / "i.onnx")


def test_intervals_are_ordered_capped_and_shifted(interval_model: Any) -> None:
    intervals = interval_model.predict(["Name bread.", "Write a long story on rain in 2000 words.", ""])
    assert (intervals.lower_tokens >= 0).all()
    assert (intervals.lower_tokens <= intervals.upper_tokens).all()
    capped = intervals.capped([5, 10**6, 0])
    assert capped.upper_tokens.tolist() == [5, intervals.upper_tokens[1], 0]
    shifted = intervals.shifted([100, 0, 7])
    assert (shifted.upper_tokens - intervals.upper_tokens).tolist() == [100, 0, 7]
    with pytest.raises(ParameterError, match="token_caps"):
        intervals.capped(-1)
    with pytest.raises(ParameterError, match="level"):
        train_intervals(*corpus(60)[:2], level=1.0)


def test_a_lexical_file_is_no_interval_model(exported: Path) -> None:
    with pytest.raises(SchemaMismatchError, match="rich-interval"):
        LengthIntervals.load(exported)
