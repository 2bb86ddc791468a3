"""The paper's studies, planner's report, latency table, figures and commands."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import clairvoyant_lab as cl
from clairvoyant_lab.errors import DataError, MissingExtraError, ParameterError
from clairvoyant_lab.figures import prediction as figures
from clairvoyant_lab.predictor import evaluation
from clairvoyant_lab.predictor.committed import balanced_rows, remake
from clairvoyant_lab.predictor.evaluation import Rows
from clairvoyant_lab.predictor.intervals import Intervals, interval_coverage
from clairvoyant_lab.predictor.latency import latency_table
from clairvoyant_lab.predictor.metrics import calibration
from clairvoyant_lab.predictor.planning import packable_error, upper_bound_report
from clairvoyant_lab.predictor.ranking import bootstrap_ranking

LIGHT = {"n_estimators": 20, "max_depth": 3}


def rows(name: str = "toy", n: int = 450, seed: int = 0, useful: int = 0) -> Rows:
    """Rows whose length follows one feature, all other features being noise."""
    rng = np.random.default_rng(seed)
    features = np.zeros((n, 19), np.float32)
    features[:, 0] = rng.integers(0, 100, n)
    features[:, 1:5] = rng.integers(0, 2, (n, 4))
    features[:, 5] = rng.integers(0, 5, n)
    features[np.arange(n), 6 + rng.integers(0, 13, n)] = 1
    strength = features[:, useful] / features[:, useful].max()
    return Rows.checked(name, features, (strength * 1100 + rng.integers(0, 150, n)).astype(int))


def test_seed_study_reports_every_seed_with_its_interval() -> None:
    study = evaluation.seed_study(rows(), (42, 1, 2), **LIGHT)
    frame = study.to_frame()
    assert frame["seed"].tolist() == [42, 1, 2]
    assert (frame["low"] <= frame["ranking_accuracy"]).all()
    assert (frame["ranking_accuracy"] <= frame["high"]).all()
    assert study.summary()["mean_ranking_accuracy"] > 0.95


def test_ablation_finds_the_one_feature_that_matters() -> None:
    study = evaluation.ablation(rows(), (42, 1), **LIGHT)
    pushes = {name: value for name, value in study.summary().items() if name != "minimal model (pp)"}
    assert min(pushes, key=lambda name: pushes[name]) == "prompt_token_len (pp)"
    assert pushes["prompt_token_len (pp)"] < -30
    assert all(abs(value) < 5 for name, value in pushes.items() if name != "prompt_token_len (pp)")
    assert set(study.frame["removed"]) == {"nothing", "minimal model", *evaluation.FEATURE_GROUPS}


def test_every_column_belongs_to_one_group_of_table_5() -> None:
    columns = [column for group in evaluation.FEATURE_GROUPS.values() for column in group]
    assert sorted(columns) == list(range(19))


def test_cross_matrix_transfers_only_where_the_signal_is_the_same() -> None:
    study = evaluation.cross_matrix([rows("a"), rows("b", seed=1), rows("c", useful=5)], **LIGHT)
    figures_by_pair = study.summary()
    assert figures_by_pair["a -> b"] > 0.95
    assert figures_by_pair["a -> c"] < 0.7
    assert len(study.frame) == 9
    assert study.frame["in_sample"].sum() == 3


def test_baselines_have_ties_and_chance_where_they_should() -> None:
    frame = evaluation.baselines(rows(), draws=50, **LIGHT).to_frame().set_index("method")
    assert frame.loc["random order (FCFS)", "ranking_accuracy"] == pytest.approx(0.5, abs=0.05)
    assert frame.loc["prompt length as a score", "ranking_accuracy"] > 0.95
    rule = frame.loc["prompt-length rule"]
    assert rule["ranking_accuracy"] <= rule["ranking_accuracy_ties_half"]
    assert 0 < rule["threshold"] < 100


def test_retraining_curve_uses_equal_classes_and_refuses_too_many() -> None:
    study = evaluation.retraining_curve(rows(n=900), (30, 90), (0, 1), **LIGHT)
    assert study.frame.groupby("n_train").size().tolist() == [2, 2]
    with pytest.raises(ParameterError, match="multiples of 3"):
        evaluation.retraining_curve(rows(), (100,))
    with pytest.raises(DataError, match="need more than"):
        evaluation.retraining_curve(rows(), (900,))


def test_balanced_rows_are_balanced_and_ordered() -> None:
    classes = np.repeat([0, 1, 2], [50, 80, 20]).astype(np.int8)
    chosen = balanced_rows(classes, 1)
    assert np.bincount(classes[chosen]).tolist() == [20, 20, 20]
    assert (np.diff(chosen) > 0).all()
    with pytest.raises(ParameterError, match="only 20 Long"):
        balanced_rows(classes, 1, per_class=21)


def exact_packable(lengths: np.ndarray, error: np.ndarray, alpha: int, size: int) -> int:
    """Smallest sum of the groups' largest errors over all partitions, by trying them."""
    if not lengths.size:
        return 0
    rest = range(1, lengths.size)
    best = 10**9
    for extra in range(min(size, lengths.size)):
        for others in combinations(rest, extra):
            group = [0, *others]
            if np.ptp(lengths[group]) <= alpha:
                left = np.setdiff1d(np.arange(lengths.size), group)
                tail = exact_packable(lengths[left], error[left], alpha, size)
                best = min(best, int(error[group].max()) + tail)
    return best


def test_packable_error_lies_between_the_bound_and_the_sum() -> None:
    rng = np.random.default_rng(3)
    for _ in range(30):
        n, size, alpha = int(rng.integers(1, 7)), int(rng.integers(1, 4)), int(rng.integers(0, 60))
        true = rng.integers(1, 100, n)
        upper = true + rng.integers(0, 50, n)
        report = upper_bound_report(Intervals(true // 2, upper, 0.9), true, alpha=alpha, batch_size=size)
        exact = exact_packable(true, upper - true, alpha, size)
        assert report.packable_error_low_tokens <= exact <= report.packable_error_high_tokens
        assert report.packable_error_high_tokens <= report.total_error_tokens
        assert report.uncovered == 0


def test_packable_error_of_the_papers_remark() -> None:
    # Remark 3.25: all lengths in one window, all errors e: ceil(n / B) · e.
    lengths, error = np.full(10, 50), np.full(10, 7)
    assert packable_error(lengths, error, 0, 4) == 3 * 7
    assert packable_error(np.arange(10) * 100, error, 5, 4) == 10 * 7


def test_upper_bound_report_says_what_is_not_covered() -> None:
    report = upper_bound_report(
        Intervals(np.array([0, 10]), np.array([20, 20]), 0.9), [30, 10], alpha=5, batch_size=2
    )
    assert report.uncovered == 0.5
    assert report.total_error_tokens == 10
    assert report.kappa == 0
    assert report.guarantee == pytest.approx(0.75 / (1 + 2 * 10 / 40))
    with pytest.raises(ParameterError, match="batch_size"):
        upper_bound_report(Intervals(np.array([0]), np.array([1]), 0.9), [1], alpha=1, batch_size=0)


def test_latency_table_times_every_form() -> None:
    frame = latency_table(["What is rain?", "Write a long essay"] * 5)
    assert len(frame) == 5
    assert (frame["p50_us"] > 0).all()
    assert (frame["p50_us"] <= frame["p99_us"]).all()


def test_figures_show_what_they_are_given() -> None:
    toy = rows()
    estimate = bootstrap_ranking(toy.features[:, 0], toy.tokens, n_boot=50)
    ranking = figures.ranking_intervals({"ours": estimate}, {"ours": 0.7})
    assert ranking.data[0].x[0] == pytest.approx(100 * estimate.value)
    assert ranking.data[1].x[0] == pytest.approx(70)
    curve = calibration(toy.features[:, 0] / 100, toy.tokens >= 800)
    assert len(figures.calibration_curve({"toy": curve}).data) == 2
    separation = figures.class_separation(toy.features[:, 0] / 100, toy.tokens)
    assert [trace.name.split()[0] for trace in separation.data] == ["Short", "Medium", "Long"]
    bars = figures.ablation_bars([evaluation.ablation(toy, (1, 2), **LIGHT)])
    assert len(bars.data[0].y) == 8
    matrix = figures.cross_heatmap(evaluation.cross_matrix([toy, rows("b", seed=2)], **LIGHT))
    assert matrix.data[0].z.shape == (2, 2)
    line = figures.retraining_line({"toy": evaluation.retraining_curve(toy, (30,), (0, 1), **LIGHT)})
    assert line.data[0].x[0] == 30
    bounds = Intervals(np.zeros(450, np.int64), np.full(450, 600), 0.9)
    coverage = figures.coverage_by_class(interval_coverage(bounds, toy.tokens))
    assert len(coverage.data) == 3
    why = cl.LengthPredictor.load().explain("Write a long essay")
    assert len(figures.contribution_bars(why, top=5).data[0].x) == 5


def run(*arguments: str) -> tuple[int, str]:
    from clairvoyant_lab.cli import app

    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout  # progress bars go to stderr


def test_predict_prints_and_explains() -> None:
    code, text = run("predict", "Write a long essay on the sea", "--token-cap", "300", "--json")
    assert code == 0
    found = json.loads(text)
    assert found["p_long"] == 0
    assert found["token_cap"] == 300
    code, text = run("predict", "Write a long essay on the sea", "--why")
    assert code == 0
    assert "essay" in text
    assert run("predict", "x", "--model", "nothing")[0] == 2
    assert run("predict", "x", "--token-cap", "-1")[0] == 2


def test_evaluate_says_no_below_the_bar(tmp_path: Path) -> None:
    code, text = run("evaluate", "sharegpt", "--model", "sharegpt", "--held-out", "--json")
    assert code == 0
    figure = json.loads(text)["ranking_accuracy"]
    assert figure == pytest.approx(cl.LengthPredictor.load("sharegpt").info.metrics["ranking_accuracy"])
    assert run("evaluate", "sharegpt", "--model", "sharegpt", "--held-out", "--at-least", "0.99")[0] == 1
    chats = tmp_path / "chats.jsonl"
    answers = [
        {
            "prompt": "Please explain to me what the weather is like in the mountains. " * size,
            "response": "so " * 90 * size,
        }
        for size in (1, 2, 12)
    ]
    chats.write_text("".join(json.dumps(one) + "\n" for one in answers))
    assert run("evaluate", str(chats), "--held-out")[0] == 2
    assert run("evaluate", str(chats), "--baseline", "length")[0] == 0
    trace = tmp_path / "trace.csv"
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00.0,5,6\n")
    assert run("evaluate", str(trace))[0] == 2  # a rich model needs texts, which a trace of counts lacks


def test_train_and_use_a_file_of_ones_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = []
    for row in range(120):
        size = int(rng.choice([20, 400, 1500]))
        word = {20: "Name", 400: "Explain", 1500: "Write a long essay about"}[size]
        lines.append(json.dumps({"prompt": f"{word} thing {row}", "response": "word " * size}))
    data = tmp_path / "mine.jsonl"
    data.write_text("\n".join(lines), encoding="utf-8")
    for kind in ("lexical", "rich"):
        model = tmp_path / f"{kind}.onnx"
        code, text = run("train", str(data), "--to", str(model), "--kind", kind, "--json")
        assert code == 0, text
        assert json.loads(text)["ranking_accuracy"] > 0.9
        code, text = run("predict", "Write a long essay about thing 7", "--model", str(model), "--json")
        assert json.loads(text)["predicted_class"] == "Long"
    assert run("train", str(data), "--to", str(tmp_path / "x.onnx"), "--kind", "other")[0] == 2


def test_export_refuses_unknown_names(tmp_path: Path) -> None:
    assert run("export", "nothing", "--to", str(tmp_path))[0] == 2
    with pytest.raises(ParameterError, match="folder"):
        remake("sharegpt", tmp_path / "nowhere")


def test_the_transformer_names_its_extra() -> None:
    try:
        import transformers  # noqa: F401
    except ImportError:
        from clairvoyant_lab.predictor.transformer import evaluate_transformer

        with pytest.raises(MissingExtraError, match=r"clairvoyant-lab\[transformer\]"):
            evaluate_transformer(["a"] * 30, [10, 300, 900] * 10)
    else:
        pytest.skip("the extra is installed; the baseline downloads weights")
