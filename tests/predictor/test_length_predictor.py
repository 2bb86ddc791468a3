"""What a loaded predictor takes, gives and refuses; token caps; many threads."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import clairvoyant_lab as cl
from clairvoyant_lab.errors import DataError, ParameterError, SchemaMismatchError
from clairvoyant_lab.predictor import model_names
from clairvoyant_lab.predictor.caps import apply_token_cap, expected_tokens
from clairvoyant_lab.prompts.schema import SCHEMA_HASH

PROMPTS = [
    "What is 2+2?",
    "Write a 2000-word essay on the sea, with a table",
    "",
    "日本語で説明して",
    "x" * 20_000,
]


@pytest.fixture(scope="module", params=["sharegpt-rich", "sharegpt"])
def predictor(request: pytest.FixtureRequest) -> cl.LengthPredictor:
    return cl.LengthPredictor.load(request.param)


def test_the_default_is_the_rich_model() -> None:
    assert cl.LengthPredictor.load().info.name == "sharegpt-rich"
    assert {"sharegpt", "sharegpt-rich"} <= set(model_names())


def test_probabilities_are_float32_rows_that_sum_to_one(predictor: cl.LengthPredictor) -> None:
    table = predictor.predict_proba(PROMPTS)
    assert table.dtype == np.float32
    assert table.shape == (5, 3)
    assert np.allclose(table.sum(axis=1), 1, atol=1e-5)
    for row, prompt in enumerate(PROMPTS):
        assert predictor.p_long(prompt) == table[row, 2]
        assert np.array_equal(predictor.predict(prompt).probabilities, table[row])


def test_one_call_gives_everything(predictor: cl.LengthPredictor) -> None:
    found = predictor.predict(PROMPTS[1])
    assert found.features.shape == (19,)
    assert np.array_equal(found.features, cl.extract_features(PROMPTS[1]))
    assert found.predicted_class == found.probabilities.argmax()
    assert found.predicted_tokens == pytest.approx(
        float(expected_tokens(found.probabilities, predictor.info.class_mean_tokens))
    )
    assert predictor.predicted_tokens(PROMPTS[1]) == found.predicted_tokens
    json.dumps(found.summary())


def test_essays_rank_behind_questions(predictor: cl.LengthPredictor) -> None:
    assert predictor.p_long(PROMPTS[1]) > predictor.p_long(PROMPTS[0])


@pytest.mark.parametrize(
    ("cap", "zero"),
    [(0, (1, 2)), (12, (1, 2)), (199, (1, 2)), (200, (2,)), (799, (2,)), (800, ()), (None, ())],
)
def test_a_class_that_starts_above_the_cap_gets_nothing(
    predictor: cl.LengthPredictor, cap: int | None, zero: tuple[int, ...]
) -> None:
    found = predictor.predict(PROMPTS[1], token_cap=cap)
    assert all(found.probabilities[k] == 0 for k in zero)
    assert all(found.probabilities[k] > 0 for k in range(3) if k not in zero)
    assert float(found.probabilities.sum()) == pytest.approx(1, abs=1e-6)
    assert predictor.p_long(PROMPTS[1], cap) == found.p_long
    means = predictor.info.class_mean_tokens
    expected = sum(
        p * (mean if cap is None else min(mean, cap))
        for p, mean in zip(found.probabilities, means, strict=True)
    )
    assert found.predicted_tokens == pytest.approx(expected)
    assert cap is None or found.predicted_tokens <= cap


@given(
    st.lists(st.floats(0.001, 1), min_size=3, max_size=3),
    st.one_of(st.none(), st.integers(0, 3000)),
)
def test_caps_keep_the_ratio_of_what_is_left(weights: list[float], cap: int | None) -> None:
    p = np.array(weights) / sum(weights)
    capped = apply_token_cap(p, cap)
    assert capped.sum() == pytest.approx(1, abs=1e-5)
    kept = [k for k, start in enumerate((0, 200, 800)) if cap is None or start <= cap]
    assert all(capped[k] == 0 for k in range(3) if k not in kept)
    assert np.allclose(capped[kept], p[kept] / p[kept].sum(), atol=1e-5)


def test_a_certain_class_above_the_cap_falls_to_the_longest_left() -> None:
    assert apply_token_cap([0.0, 0.0, 1.0], 300).tolist() == [0, 1, 0]
    assert apply_token_cap([[0.0, 0.0, 1.0], [0.5, 0.5, 0.0]], 10).tolist() == [[1, 0, 0], [1, 0, 0]]


@pytest.mark.parametrize("cap", [-1, 2.5, "300", True])
def test_a_cap_that_is_no_count_is_refused(predictor: cl.LengthPredictor, cap: object) -> None:
    with pytest.raises(ParameterError, match="token_cap"):
        predictor.predict("x", token_cap=cap)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="token_cap"):
        predictor.p_long("x", cap)  # type: ignore[arg-type]


def test_bad_prompts_are_refused(predictor: cl.LengthPredictor) -> None:
    with pytest.raises(ParameterError, match="at least one prompt"):
        predictor.predict_proba([])
    with pytest.raises(ParameterError, match="give a list"):
        predictor.predict_proba("one prompt")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"prompts\[1\]"):
        predictor.predict_proba(["a", None])  # type: ignore[list-item]
    with pytest.raises(ParameterError, match="not int"):
        predictor.predict(7)  # type: ignore[arg-type]


def test_a_lexical_model_takes_features() -> None:
    predictor = cl.LengthPredictor.load("sharegpt")
    features = cl.extract_features_batch(PROMPTS)
    assert np.array_equal(predictor.predict_proba(features), predictor.predict_proba(PROMPTS))
    with pytest.raises(DataError, match=r"give \(n, 19\)"):
        predictor.predict_proba(features[:, :5])
    features[2, 5] = np.nan
    with pytest.raises(DataError, match=r"row 2.*clause_count"):
        predictor.predict_proba(features)


def test_a_missing_model_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"known: .*sharegpt-rich"):
        cl.LengthPredictor.load("sharegtp")
    with pytest.raises(ParameterError, match="no such file"):
        cl.LengthPredictor.load(tmp_path / "none.onnx")
    with pytest.raises(ParameterError, match="no fast form"):
        cl.LengthPredictor.load("sharegpt", form="fast")
    with pytest.raises(ParameterError, match="threads"):
        cl.LengthPredictor.load("sharegpt", threads=0)
    with pytest.raises(ParameterError, match="class_mean_tokens"):
        cl.LengthPredictor.load("sharegpt", class_mean_tokens=(1, 2))  # type: ignore[arg-type]


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"not a model")
    with pytest.raises(DataError, match=r"broken\.onnx.*cannot be read"):
        cl.LengthPredictor.load(path)


def test_a_model_of_another_schema_is_refused_with_both_names(tmp_path: Path) -> None:
    import onnx

    from clairvoyant_lab.paths import models_dir

    model = onnx.load(str(models_dir() / "sharegpt.onnx"))
    for entry in model.metadata_props:
        if entry.key == "schema_hash":
            entry.value = "feedfacefeedface"
    onnx.save(model, str(tmp_path / "other.onnx"))
    with pytest.raises(SchemaMismatchError, match=f"feedfacefeedface.*{SCHEMA_HASH}"):
        cl.LengthPredictor.load(tmp_path / "other.onnx")
    del model.metadata_props[:]
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 7
    onnx.save(model, str(tmp_path / "seven.onnx"))
    with pytest.raises(SchemaMismatchError, match="no clairvoyant metadata"):
        cl.LengthPredictor.load(tmp_path / "seven.onnx")


def test_class_means_can_be_given() -> None:
    predictor = cl.LengthPredictor.load("sharegpt", class_mean_tokens=(1.0, 2.0, 3.0))
    assert 1 <= predictor.predict("What is rain?").predicted_tokens <= 3


def test_many_threads_get_what_one_gets(predictor: cl.LengthPredictor) -> None:
    prompts = [f"{PROMPTS[i % 4]} {i}" for i in range(400)]
    alone = [predictor.p_long(prompt) for prompt in prompts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(predictor.p_long, prompts)) == alone


@pytest.mark.parametrize("name", ["sharegpt", "sharegpt-rich", "sharegpt-intervals"])
def test_committed_files_say_what_they_are(name: str) -> None:
    import hashlib

    from clairvoyant_lab.paths import models_dir

    data = (models_dir() / f"{name}.onnx").read_bytes()
    card = (models_dir() / f"{name}.md").read_text(encoding="utf-8")
    assert hashlib.sha256(data).hexdigest() in card
    assert f"export {name} --to" in card


def test_committed_paper_model_is_remade_bit_for_bit(tmp_path: Path) -> None:
    from clairvoyant_lab.paths import models_dir
    from clairvoyant_lab.predictor.committed import remake
    from clairvoyant_lab.predictor.model_info import library_versions

    remade = remake("sharegpt", tmp_path, progress=False)
    committed = cl.LengthPredictor.load("sharegpt").info
    if committed.versions != library_versions():
        pytest.skip("the committed model was made with other library versions")
    assert remade.report.path.read_bytes() == (models_dir() / "sharegpt.onnx").read_bytes()
    assert committed.metrics["ranking_accuracy_low"] < 0.7629 < committed.metrics["ranking_accuracy_high"]
