"""Train the richer predictor: hashed n-grams into linear scores, with the prompt's surface into trees.

Three stages. Two linear scores see every word and pair of words: the log-odds of Long against Short, and
the expected log length. They are fitted on first turns and, at a small weight, on later turns, which know
many more long answers. Shallow trees see the 19 lexical features, counts of the prompt's surface, and the
scores of fits that did not see the row's conversation; they give one number, the margin of Long against
Short, that never falls when a score rises. Medium rows only blur that margin, so the trees don't see
them; they come in last, when three lines turn the margin into probabilities that follow how often each
class occurs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import ParameterError, unknown_name
from clairvoyant_lab.lengths import LONG_FROM_TOKENS, SHORT_BELOW_TOKENS
from clairvoyant_lab.predictor.linear import LinearScores
from clairvoyant_lab.predictor.metrics import class_metrics
from clairvoyant_lab.predictor.ngrams import RICH_NAMES, scan_many
from clairvoyant_lab.predictor.rich_rows import N_FOLDS, ScannedRows, fit_stage_one, refuse_lonely, scan_rows
from clairvoyant_lab.predictor.splits import group_split
from clairvoyant_lab.results import summary_html

if TYPE_CHECKING:
    from clairvoyant_lab.predictor.export import ExportReport

__all__ = ["RICH_HYPER", "TrainedRich", "fit_rich", "margin_of", "softmax_lines", "train_rich"]

RICH_HYPER: Mapping[str, Any] = {
    "n_estimators": 100,
    "max_depth": 3,
    "learning_rate": 0.05,
    "subsample": 0.5,
    "colsample_bytree": 0.5,
    "min_child_weight": 10,
    "regularisation": 1.0,
    "follow_up_weight": 0.1,
}
"""Chosen by ranking accuracy on folds of whole conversations, ShareGPT only."""

_TREE_NAMES = (
    "n_estimators",
    "max_depth",
    "learning_rate",
    "subsample",
    "colsample_bytree",
    "min_child_weight",
)

_FAINT_SLOPE = 0.01


@dataclass(frozen=True)
class TrainedRich:
    """The richer predictor in memory.

    Attributes
    ----------
    linear : LinearScores
        Stage one: two scores a prompt.
    trees : xgboost.XGBClassifier or None
        Stage two: Long against Short, on `RICH_NAMES` and the scores. None for a weighted sum of the two
        scores instead, which is all that a few hundred rows may support.
    lines : ndarray of float64, shape (3, 2)
        Stage three: probabilities are the softmax of intercept + slope · margin.
    mix, fast_lines : ndarray of float64, shapes (2,) and (3, 2)
        The `fast` form: the margin is a weighted sum of the scores, with lines of its own.
    metrics : dict of str to float
        Figures on held-out conversations, from a model that did not see them; only n_train when nothing
        was held out.
    class_mean_tokens, class_bounds, hyper, fingerprint, seed
        As in `TrainedPredictor`.
    """

    linear: LinearScores = field(repr=False)
    trees: Any = field(repr=False)
    lines: NDArray[np.float64]
    mix: NDArray[np.float64]
    fast_lines: NDArray[np.float64]
    metrics: dict[str, float]
    class_mean_tokens: tuple[float, float, float]
    class_bounds: tuple[int, int]
    hyper: dict[str, Any]
    fingerprint: str
    seed: int
    training_rows: NDArray[np.float32] = field(repr=False)
    training_ids: list[NDArray[np.int32]] = field(repr=False)

    def predict_proba(self, prompts: Sequence[str]) -> NDArray[np.float32]:
        """Class probabilities of prompts, shape (n, 3)."""
        return self.from_scan(*scan_many(prompts))

    def from_scan(
        self, features: NDArray[np.float32], ids: Sequence[NDArray[np.int32]]
    ) -> NDArray[np.float32]:
        """Class probabilities of scanned prompts (`ngrams.scan_many`), shape (n, 3)."""
        if self.trees is None:
            return softmax_lines(self.linear.scores(ids) @ self.mix, self.lines)
        rows = np.column_stack([features, self.linear.scores(ids)])
        return softmax_lines(margin_of(self.trees, rows), self.lines)

    def fast_proba(self, ids: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        """Class probabilities by the `fast` form, shape (n, 3)."""
        return softmax_lines(self.linear.scores(ids) @ self.mix, self.fast_lines)

    def export_onnx(
        self, path: str | Path, *, name: str | None = None, metrics: Mapping[str, float] | None = None
    ) -> ExportReport:
        """Write one ONNX graph, features and ids in, after proving it equal.

        Parameters
        ----------
        path : str or Path
            Where to write; the folder must exist.
        name : str, optional
            Name in the metadata; the file's stem by default.
        metrics : mapping, optional
            Figures for the metadata instead of `self.metrics`.

        Raises
        ------
        ExportParityError
            If any probability differs by 1e-5 or more.
        """
        from clairvoyant_lab.predictor.rich_export import export_rich

        return export_rich(self, Path(path), name=name, metrics=metrics)

    def summary(self) -> dict[str, object]:
        """Return the figures by name."""
        return {**self.metrics, "seed": self.seed, "fingerprint": self.fingerprint}

    def _repr_html_(self) -> str:
        return summary_html("Trained rich predictor (held-out figures)", self.summary())


def train_rich(
    prompts: Sequence[str],
    response_tokens: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    first_turn: ArrayLike | None = None,
    seed: int = 42,
    test_fraction: float | None = 0.2,
    short_below: int = SHORT_BELOW_TOKENS,
    long_from: int = LONG_FROM_TOKENS,
    base: LinearScores | None = None,
    trees: bool | None = None,
    **hyper: Any,
) -> TrainedRich:
    """Train the richer predictor on prompts and how long their answers were.

    Parameters
    ----------
    prompts : sequence of str
        The prompts.
    response_tokens : array_like of shape (n,)
        Response lengths in tokens.
    groups : array_like of shape (n,), optional
        Conversation of each row; folds and the held-out part take whole conversations. Each row its own
        by default.
    first_turn : array_like of bool, shape (n,), optional
        Rows that open a conversation. Others help the linear scores only, at `follow_up_weight`. All by
        default.
    seed : int
        Seed of folds, solver and trees.
    test_fraction : float or None
        Share of conversations held out for `.metrics`; None holds out nothing.
    short_below, long_from : int
        Class bounds in tokens.
    base : LinearScores, optional
        Scores of a model that was trained on much other traffic (`rich_engine.read_linear`), taken over
        as they are. They must come from other rows than these.
    trees : bool, optional
        Whether trees stand on the scores, or a weighted sum of the two, which a few hundred rows can fit.
        By default trees with scores of one's own, none with those of `base`.
    **hyper
        Settings instead of `RICH_HYPER`.

    Returns
    -------
    TrainedRich

    Raises
    ------
    StarvedDatasetError, DataError, ParameterError
        As `train_predictor`.
    """
    settings = _checked_settings(hyper, test_fraction)
    bounds = (short_below, long_from)
    table = scan_rows(prompts, response_tokens, groups, first_turn, bounds)
    return _train(table, bounds, seed, test_fraction, base, trees, settings)


def fit_rich(
    table: ScannedRows,
    *,
    seed: int = 42,
    test_fraction: float | None = None,
    short_below: int = SHORT_BELOW_TOKENS,
    long_from: int = LONG_FROM_TOKENS,
    base: LinearScores | None = None,
    trees: bool | None = None,
    **hyper: Any,
) -> TrainedRich:
    """Train as `train_rich` does, on rows that were scanned before (`rich_rows.rows_from_scan`).

    A proxy's journal holds such rows and no prompt. Parameters and errors are those of `train_rich`.
    """
    settings = _checked_settings(hyper, test_fraction)
    return _train(table, (short_below, long_from), seed, test_fraction, base, trees, settings)


def _train(
    table: ScannedRows,
    bounds: tuple[int, int],
    seed: int,
    test_fraction: float | None,
    base: LinearScores | None,
    trees: bool | None,
    settings: Mapping[str, Any],
) -> TrainedRich:
    from threadpoolctl import threadpool_limits

    with_trees = base is None if trees is None else trees
    metrics: dict[str, float] = {"n_train": int(table.opens.sum())}
    # On vectors of this size a second BLAS thread mostly waits: twice the CPU time and no sooner done.
    with threadpool_limits(1, user_api="blas"):
        if test_fraction is not None:
            fit, test = group_split(table.groups, table.classes, test_fraction, seed)
            trial = _fit(table.take(fit), seed, settings, bounds, metrics, base, with_trees)
            asked = table.take(test[table.opens[test]])
            metrics = class_metrics(trial.from_scan(asked.features, asked.ids), asked.tokens, *bounds)
            metrics["n_train"] = int(table.opens[fit].sum())
        return _fit(table, seed, settings, bounds, metrics, base, with_trees)


def _fit(
    table: ScannedRows,
    seed: int,
    settings: Mapping[str, Any],
    bounds: tuple[int, int],
    metrics: dict[str, float],
    base: LinearScores | None,
    with_trees: bool,
) -> TrainedRich:
    one = fit_stage_one(table, seed, settings, base)
    mix = _fit_mix(one.scores, one.classes)
    lines = fast_lines = _fit_lines(one.scores @ mix, one.classes)
    trees = None
    if with_trees:
        refuse_lonely(one.classes, one.fold)
        trees = _fit_margin(one.rows, one.classes, seed, settings)
        # The lines are fitted on margins of trees that did not see the row, as the scores were.
        unseen = np.empty(one.classes.size, np.float32)
        for k in range(N_FOLDS):
            rest = one.fold == k
            apart = _fit_margin(one.rows[~rest], one.classes[~rest], seed, settings)
            unseen[rest] = margin_of(apart, one.rows[rest])
        lines = _fit_lines(unseen, one.classes)
    means = [float(one.tokens[one.classes == k].mean()) for k in range(3)]
    first = np.flatnonzero(table.opens)
    return TrainedRich(
        linear=one.linear,
        trees=trees,
        lines=lines,
        mix=mix,
        fast_lines=fast_lines,
        metrics=dict(metrics),
        class_mean_tokens=(means[0], means[1], means[2]),
        class_bounds=bounds,
        hyper=dict(settings),
        fingerprint=table.fingerprint(),
        seed=seed,
        training_rows=table.features[first],
        training_ids=[table.ids[row] for row in first],
    )


def margin_of(trees: Any, rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Log-odds of Long against Short by the trees, shape (n,)."""
    return np.asarray(trees.predict(rows, output_margin=True), dtype=np.float32)


def softmax_lines(margin: NDArray[Any], lines: NDArray[np.float64]) -> NDArray[np.float32]:
    """Probabilities of the three classes from a margin, shape (n, 3)."""
    height = lines[:, 0] + np.outer(margin, lines[:, 1])
    power = np.exp(height - height.max(axis=1, keepdims=True))
    return np.asarray(power / power.sum(axis=1, keepdims=True), dtype=np.float32)


def _fit_margin(
    rows: NDArray[np.float32], classes: NDArray[np.int8], seed: int, settings: Mapping[str, Any]
) -> Any:
    from xgboost import XGBClassifier

    ends = np.flatnonzero(classes != 1)
    is_long = classes[ends] == 2
    counts = np.bincount(is_long, minlength=2)
    n_scores = rows.shape[1] - len(RICH_NAMES)
    chosen = {name: settings[name] for name in _TREE_NAMES}
    # On a few hundred rows the usual weight of a leaf would leave no leaf at all.
    chosen["min_child_weight"] = min(chosen["min_child_weight"], ends.size / 64)
    return XGBClassifier(
        **chosen,
        objective="binary:logistic",
        base_score=0.5,
        monotone_constraints=(0,) * len(RICH_NAMES) + (1,) * n_scores,
        random_state=seed,
        n_jobs=1,
    ).fit(rows[ends], is_long, sample_weight=(counts.sum() / (2 * counts))[is_long.astype(np.int8)])


def _fit_mix(scores: NDArray[np.float32], classes: NDArray[np.int8]) -> NDArray[np.float64]:
    from sklearn.linear_model import LogisticRegression

    ends = np.flatnonzero(classes != 1)
    model = LogisticRegression(class_weight="balanced", max_iter=1000)
    return np.round(model.fit(scores[ends].astype(np.float64), classes[ends] == 2).coef_[0], 6)


def _fit_lines(margin: NDArray[Any], classes: NDArray[np.int8]) -> NDArray[np.float64]:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=1000).fit(margin[:, None].astype(np.float64), classes)
    lines = np.column_stack([model.intercept_, model.coef_[:, 0]])
    if lines[2, 1] <= lines[0, 1]:
        # Margins of unseen rows can run the wrong way where few rows are long: what one part has more of,
        # the rest has less of. The model then knows little, but not the opposite: the classes' shares, in
        # the margin's order.
        shares = np.bincount(classes, minlength=3) / classes.size
        lines = np.column_stack([np.log(shares), [-_FAINT_SLOPE, 0.0, _FAINT_SLOPE]])
    return np.round(lines, 6)


def _checked_settings(hyper: Mapping[str, Any], test_fraction: float | None) -> dict[str, Any]:
    if test_fraction is not None and not 0 < test_fraction < 1:
        raise ParameterError(
            "test_fraction", test_fraction, "give a share in (0, 1), or None for no held-out rows"
        )
    for name, value in hyper.items():
        if name not in RICH_HYPER:
            raise unknown_name("hyper", name, RICH_HYPER)
        if not value > 0 and not (name in ("follow_up_weight", "min_child_weight") and value == 0):
            raise ParameterError(name, value, "give a positive number")
    return {**RICH_HYPER, **hyper}
