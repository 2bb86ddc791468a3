"""Training on the 19 features, its refusals, and the proof that an exported file equals the model."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

import clairvoyant_lab as cl
from clairvoyant_lab.errors import (
    DataError,
    ExportParityError,
    ParameterError,
    SchemaMismatchError,
    StarvedDatasetError,
)
from clairvoyant_lab.predictor import export
from clairvoyant_lab.predictor.runtime import LengthPredictor
from clairvoyant_lab.prompts.schema import NUMERIC_NAMES, VERBS


def authors_rows(path: Path) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Features as the authors published them, lengths, prompts."""
    with path.open(encoding="utf-8", newline="") as handle:
        records = list(csv.DictReader(handle))
    features = np.zeros((len(records), 19), np.float32)
    for row, record in enumerate(records):
        features[row, :6] = [float(record[name]) for name in NUMERIC_NAMES]
        verb = record["instruction_verb"]
        features[row, 6 + VERBS.index(verb if verb in VERBS else "other")] = 1
    tokens = np.array([int(record["actual_output_tokens"]) for record in records])
    return features, tokens, [record["prompt"] for record in records]


@pytest.fixture(scope="module")
def oasst1(shared_dir: Path) -> tuple[np.ndarray, np.ndarray, list[str]]:
    return authors_rows(shared_dir / "data" / "clairvoyant_oasst1_labeled.csv")


def toy(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose length grows with the first feature."""
    rng = np.random.default_rng(seed)
    features = np.zeros((n, 19), np.float32)
    features[:, 0] = rng.integers(0, 200, n)
    features[:, 5] = rng.integers(0, 6, n)
    features[np.arange(n), 6 + rng.integers(0, 13, n)] = 1
    return features, (features[:, 0] * 6 + rng.integers(0, 200, n)).astype(int)


def test_model_c_comes_out_to_two_digits(oasst1: tuple[np.ndarray, np.ndarray, list[str]]) -> None:
    features, tokens, _ = oasst1
    trained = cl.train_predictor(features, tokens, seed=42)
    assert round(100 * trained.metrics["ranking_accuracy"], 2) == 62.21
    assert round(100 * trained.metrics["class_accuracy"], 2) == 40.96
    # A caller who splits beforehand trains on exactly the rows given.
    classes = cl.classify_lengths(tokens)
    train, test = train_test_split(np.arange(len(tokens)), test_size=0.2, stratify=classes, random_state=42)
    p_long = cl.train_predictor(features[train], tokens[train], seed=42).predict_proba(features[test])[:, 2]
    assert round(100 * cl.ranking_accuracy(p_long, tokens[test]), 2) == 62.21


def test_the_authors_model_ranks_as_published(shared_dir: Path) -> None:
    predictor = LengthPredictor.load(shared_dir / "data" / "authors_predictor.onnx")
    assert predictor.info.variant == "authors"
    for name, published in (("oasst1", 56.32), ("dolly", 52.67)):
        features, tokens, prompts = authors_rows(shared_dir / "data" / f"clairvoyant_{name}_labeled.csv")
        by_text = predictor.predict_proba(prompts)
        assert np.array_equal(by_text, predictor.predict_proba(features))
        assert round(100 * cl.ranking_accuracy(by_text[:, 2], tokens), 2) == published


@pytest.mark.parametrize("hyper", [{}, {"early_stopping_rounds": 5}, {"n_estimators": 7, "max_depth": 2}])
def test_export_is_equal_and_the_same_twice(tmp_path: Path, hyper: dict[str, int]) -> None:
    features, tokens = toy()
    trained = cl.train_predictor(features, tokens, **hyper)
    first = trained.export_onnx(tmp_path / "a.onnx", name="toy")
    again = cl.train_predictor(features, tokens, **hyper).export_onnx(tmp_path / "b.onnx", name="toy")
    assert first.max_abs_difference < 1e-5
    assert first.rows_checked > 2300
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert first.sha256 == again.sha256
    loaded = LengthPredictor.load(tmp_path / "a.onnx")
    assert np.abs(loaded.predict_proba(features) - trained.predict_proba(features)).max() < 1e-5
    assert loaded.info.training_fingerprint == trained.fingerprint
    assert loaded.info.class_mean_tokens == pytest.approx(trained.class_mean_tokens, abs=1e-3)
    assert not list(tmp_path.glob("*.partial"))


def test_early_stopping_exports_the_best_round_only(tmp_path: Path) -> None:
    features, tokens = toy()
    stopped = cl.train_predictor(features, tokens, early_stopping_rounds=3)
    full = cl.train_predictor(features, tokens)
    small = stopped.export_onnx(tmp_path / "small.onnx").n_bytes
    assert stopped.model.best_iteration < 299
    assert small < full.export_onnx(tmp_path / "full.onnx").n_bytes / 2


def test_a_changed_leaf_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    features, tokens = toy()
    trained = cl.train_predictor(features, tokens, n_estimators=5)
    honest = export.tree_node

    def tampered(*args: object) -> object:
        node = honest(*args)
        for attribute in node.attribute:
            if attribute.name == "class_weights":
                attribute.floats[0] += 0.5
        return node

    monkeypatch.setattr(export, "tree_node", tampered)
    with pytest.raises(ExportParityError, match="largest difference"):
        trained.export_onnx(tmp_path / "bad.onnx")
    assert not (tmp_path / "bad.onnx").exists()


def test_threshold_rows_catch_a_comparison_turned_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features, tokens = toy()
    trained = cl.train_predictor(features, tokens, n_estimators=5)
    honest = export.tree_node

    def tampered(*args: object) -> object:
        node = honest(*args)
        for attribute in node.attribute:
            if attribute.name == "nodes_modes":
                attribute.strings[:] = [b"BRANCH_LEQ" if m == b"BRANCH_LT" else m for m in attribute.strings]
        return node

    monkeypatch.setattr(export, "tree_node", tampered)
    with pytest.raises(ExportParityError):
        trained.export_onnx(tmp_path / "bad.onnx")


def test_starved_and_broken_rows_are_refused_by_name() -> None:
    features, tokens = toy()
    with pytest.raises(StarvedDatasetError, match="0 Long rows"):
        cl.train_predictor(features, np.minimum(tokens, 700))
    with pytest.raises(StarvedDatasetError, match="at least 5"):
        cl.train_predictor(features[:8], [10, 10, 300, 300, 900, 900, 10, 300])
    broken = features.copy()
    broken[17, 0] = np.nan
    with pytest.raises(DataError, match=r"row 17.*prompt_token_len"):
        cl.train_predictor(broken, tokens)
    lengths = tokens.astype(float)
    lengths[3] = np.inf
    with pytest.raises(DataError, match=r"row 3.*response_tokens"):
        cl.train_predictor(features, lengths)
    with pytest.raises(DataError, match=r"give \(n, 19\)"):
        cl.train_predictor(features[:, :18], tokens)
    with pytest.raises(DataError, match="features have 300 rows"):
        cl.train_predictor(features, tokens[:-1])


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("n_estimators", 0),
        ("max_depth", -1),
        ("test_fraction", 1.5),
        ("early_stopping_rounds", 0),
        ("seed", -1),
    ],
)
def test_impossible_settings_are_refused(setting: str, value: float) -> None:
    features, tokens = toy()
    with pytest.raises(ParameterError, match=setting):
        cl.train_predictor(features, tokens, **{setting: value})


def test_an_unknown_setting_is_refused_with_the_nearest_name() -> None:
    features, tokens = toy()
    with pytest.raises(ParameterError, match="Did you mean 'max_depth'"):
        cl.train_predictor(features, tokens, max_dept=3)


def test_groups_stay_on_one_side() -> None:
    from clairvoyant_lab.predictor.splits import group_folds, group_split, linked_groups

    rng = np.random.default_rng(1)
    groups = rng.integers(0, 60, 400)
    classes = rng.integers(0, 3, 400).astype(np.int8)
    train, test = group_split(groups, classes, 0.2, 3)
    assert not set(groups[train]) & set(groups[test])
    assert sorted([*train, *test]) == list(range(400))
    folds = group_folds(groups, classes, 5, 3)
    assert all(np.unique(folds[groups == g]).size == 1 for g in np.unique(groups))
    sizes = [np.unique(groups[folds == k]).size for k in range(5)]
    assert max(sizes) - min(sizes) <= 1
    linked = linked_groups(["a", "a", "b", "c", "d"], [1, 2, 2, 3, 3])
    assert len(set(linked[:3])) == 1
    assert linked[3] == linked[4] != linked[0]


def test_other_columns_are_not_exported_as_the_19(tmp_path: Path) -> None:
    features, tokens = toy()
    trained = cl.train_predictor(features[:, :6], tokens, feature_names=tuple("abcdef"), n_estimators=5)
    with pytest.raises(SchemaMismatchError, match="lexical-19"):
        trained.export_onnx(tmp_path / "six.onnx")


def test_the_path_is_checked_before_it_is_written(tmp_path: Path) -> None:
    features, tokens = toy()
    trained = cl.train_predictor(features, tokens, n_estimators=3)
    with pytest.raises(ParameterError, match="ends in"):
        trained.export_onnx(tmp_path / "model.bin")
    with pytest.raises(ParameterError, match="folder"):
        trained.export_onnx(tmp_path / "nowhere" / "model.onnx")
