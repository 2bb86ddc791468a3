"""Train the richer predictor: hashed n-grams into linear scores, with the surface of the prompt into shallow trees.

Two stages. The linear scores see every word and pair of words; they are fitted on first turns and, at a small weight,
on later turns, which know many more long answers. The trees see the 19 lexical features, counts of the prompt's
surface, and the scores of fits that did not see the row's conversation; they are shallow, for deep ones unlearn what
the scores know.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import DataError, ParameterError
from clairvoyant_lab.lengths import LONG_FROM_TOKENS, SHORT_BELOW_TOKENS, check_bounds, classify_lengths
from clairvoyant_lab.predictor.linear import LinearScores, bag_of_ids, fit_linear, out_of_fold_scores
from clairvoyant_lab.predictor.metrics import class_metrics
from clairvoyant_lab.predictor.ngrams import scan_many
from clairvoyant_lab.predictor.splits import group_split
from clairvoyant_lab.predictor.training import checked_tokens, fit_trees, refuse_starved
from clairvoyant_lab.results import summary_html

if TYPE_CHECKING:
    from clairvoyant_lab.predictor.export import ExportReport

__all__ = ["RICH_HYPER", "TrainedRich", "fit_fast_form", "train_rich"]

RICH_HYPER: Mapping[str, Any] = {
    "n_estimators": 100,
    "max_depth": 3,
    "learning_rate": 0.1,
    "regularisation": 2.0,
    "follow_up_weight": 0.1,
}


@dataclass(frozen=True)
class TrainedRich:
    """The richer predictor in memory.

    Attributes
    ----------
    linear : LinearScores
        Stage one.
    trees : xgboost.XGBClassifier
        Stage two, on `RICH_NAMES` and the scores.
    prior_shift : ndarray of float32, shape (3,)
        Added to the trees' margins: it takes the class weights of training out again, so that probabilities follow
        how often each class occurs.
    fast_coefficients : ndarray of float64, shape (3, 2)
        The `fast` form: softmax of intercept + slope · first score.
    metrics : dict of str to float
        Figures on held-out conversations, from a model that did not see them; only n_train when nothing was held
        out.
    class_mean_tokens, class_bounds, hyper, fingerprint, seed
        As in `TrainedPredictor`.
    """

    linear: LinearScores
    trees: Any
    prior_shift: NDArray[np.float32]
    fast_coefficients: NDArray[np.float64]
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
        rows = np.column_stack([features, self.linear.scores(ids)])
        margin = self.trees.predict(rows, output_margin=True) + self.prior_shift
        power = np.exp(margin - margin.max(axis=1, keepdims=True))
        return np.asarray(power / power.sum(axis=1, keepdims=True), dtype=np.float32)

    def fast_proba(self, ids: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        """Class probabilities by the `fast` form, shape (n, 3)."""
        margin = self.fast_coefficients[:, 0] + np.outer(
            self.linear.scores(ids)[:, 0], self.fast_coefficients[:, 1]
        )
        power = np.exp(margin - margin.max(axis=1, keepdims=True))
        return np.asarray(power / power.sum(axis=1, keepdims=True), dtype=np.float32)

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
        Conversation of each row; folds and the held-out part take whole conversations. Each row its own by default.
    first_turn : array_like of bool, shape (n,), optional
        Rows that open a conversation. Others help the linear scores only, at `follow_up_weight`. All by default.
    seed : int
        Seed of folds, solver and trees.
    test_fraction : float or None
        Share of conversations held out for `.metrics`; None holds out nothing.
    short_below, long_from : int
        Class bounds in tokens.
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
    check_bounds(short_below, long_from)
    settings = _checked_settings(hyper)
    if test_fraction is not None and not 0 < test_fraction < 1:
        raise ParameterError(
            "test_fraction", test_fraction, "give a share in (0, 1), or None for no held-out rows"
        )
    tokens = checked_tokens(response_tokens, len(prompts))
    classes = classify_lengths(tokens, short_below, long_from)
    conversation = np.unique(
        np.arange(len(prompts)) if groups is None else np.asarray(groups), return_inverse=True
    )[1]
    opens = np.ones(len(prompts), bool) if first_turn is None else np.asarray(first_turn, dtype=bool)
    for name, column in (("groups", conversation), ("first_turn", opens)):
        if column.shape != tokens.shape:
            raise DataError(f"{name} has shape {column.shape}; there are {len(prompts)} prompts")
    refuse_starved(classes[opens], short_below, long_from)

    features, ids = scan_many(prompts)
    bounds = (short_below, long_from)
    table = _Table(features, ids, tokens, classes, conversation, opens)
    metrics: dict[str, float] = {"n_train": int(opens.sum())}
    if test_fraction is not None:
        fit, test = group_split(conversation, classes, test_fraction, seed)
        trial = _fit(table.take(fit), seed, settings, bounds, metrics)
        asked = test[opens[test]]
        metrics = class_metrics(
            trial.from_scan(features[asked], [ids[row] for row in asked]), tokens[asked], *bounds
        )
        metrics["n_train"] = int(opens[fit].sum())
    return _fit(table, seed, settings, bounds, metrics)


@dataclass(frozen=True)
class _Table:
    features: NDArray[np.float32]
    ids: list[NDArray[np.int32]]
    tokens: NDArray[np.float64]
    classes: NDArray[np.int8]
    groups: NDArray[np.int64]
    opens: NDArray[np.bool_]

    def take(self, rows: NDArray[np.int64]) -> _Table:
        return _Table(
            self.features[rows],
            [self.ids[row] for row in rows],
            self.tokens[rows],
            self.classes[rows],
            self.groups[rows],
            self.opens[rows],
        )


def _fit(
    table: _Table,
    seed: int,
    settings: Mapping[str, Any],
    bounds: tuple[int, int],
    metrics: dict[str, float],
) -> TrainedRich:
    weights = np.where(table.opens, 1.0, settings["follow_up_weight"])
    stage = {"regularisation": settings["regularisation"], "seed": seed}
    oof = out_of_fold_scores(table.ids, table.classes, table.tokens, weights, table.groups, **stage)
    linear = fit_linear(bag_of_ids(table.ids), table.classes, table.tokens, weights, **stage)

    first = np.flatnonzero(table.opens)
    classes = table.classes[first]
    rows = np.column_stack([table.features[first], oof[first]])
    counts = np.bincount(classes, minlength=3)
    balance = counts.sum() / (3 * counts)
    names = ("n_estimators", "max_depth", "learning_rate")
    trees = fit_trees(rows, classes, seed, {name: settings[name] for name in names}, balance[classes])
    means = [float(table.tokens[first][classes == k].mean()) for k in range(3)]
    return TrainedRich(
        linear=linear,
        trees=trees,
        prior_shift=(-np.log(balance)).astype(np.float32),
        fast_coefficients=fit_fast_form(oof[first, 0], classes),
        metrics=dict(metrics),
        class_mean_tokens=(means[0], means[1], means[2]),
        class_bounds=bounds,
        hyper=dict(settings),
        fingerprint=_fingerprint(table),
        seed=seed,
        training_rows=table.features[first],
        training_ids=[table.ids[row] for row in first],
    )


def fit_fast_form(score: NDArray[np.float32], classes: NDArray[np.int8]) -> NDArray[np.float64]:
    """Intercept and slope of each class's margin as a function of the linear score, shape (3, 2)."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1.0, max_iter=1000).fit(score[:, None].astype(np.float64), classes)
    return np.round(np.column_stack([model.intercept_, model.coef_[:, 0]]), 6)


def _fingerprint(table: _Table) -> str:
    digest = hashlib.sha256()
    for column in (table.features.astype("<f4"), table.tokens.astype("<f8"), table.opens):
        digest.update(np.ascontiguousarray(column).tobytes())
    for row in table.ids:
        digest.update(row.astype("<i4").tobytes())
    return digest.hexdigest()[:16]


def _checked_settings(hyper: Mapping[str, Any]) -> dict[str, Any]:
    from clairvoyant_lab.errors import unknown_name

    for name, value in hyper.items():
        if name not in RICH_HYPER:
            raise unknown_name("hyper", name, RICH_HYPER)
        if not value > 0 and not (name == "follow_up_weight" and value == 0):
            raise ParameterError(name, value, "give a positive number")
    return {**RICH_HYPER, **hyper}
