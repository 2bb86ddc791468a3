"""Train the paper's predictor: 19 lexical features into XGBoost (Clairvoyant, section 4.3)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import DataError, ParameterError, StarvedDatasetError, unknown_name
from clairvoyant_lab.lengths import (
    LONG_FROM_TOKENS,
    SHORT_BELOW_TOKENS,
    LengthClass,
    check_bounds,
    classify_lengths,
)
from clairvoyant_lab.predictor.metrics import class_metrics
from clairvoyant_lab.predictor.splits import group_split, stratified_split
from clairvoyant_lab.prompts.schema import FEATURE_NAMES
from clairvoyant_lab.results import summary_html

if TYPE_CHECKING:
    from clairvoyant_lab.predictor.export import ExportReport

__all__ = [
    "MIN_ROWS_PER_CLASS",
    "PAPER_HYPER",
    "TrainedPredictor",
    "checked_rows",
    "checked_tokens",
    "fit_trees",
    "refuse_starved",
    "train_predictor",
    "training_fingerprint",
]

PAPER_HYPER: Mapping[str, Any] = {"n_estimators": 300, "max_depth": 6, "learning_rate": 0.1}
"""Section 4.3: 300 rounds, depth 6, learning rate 0.1."""

MIN_ROWS_PER_CLASS = 5
"""Below this an 80/20 split leaves a class without a test row."""

_KNOWN_HYPER = (
    "n_estimators",
    "max_depth",
    "learning_rate",
    "subsample",
    "colsample_bytree",
    "min_child_weight",
    "reg_lambda",
    "reg_alpha",
    "gamma",
    "max_bin",
    "max_leaves",
    "tree_method",
    "early_stopping_rounds",
)


@dataclass(frozen=True)
class TrainedPredictor:
    """XGBoost trees over float32 features, with what is known about them.

    Attributes
    ----------
    model : xgboost.XGBClassifier
        Fitted on every row that was given.
    feature_names : tuple of str
        Names of the columns.
    metrics : dict of str to float
        Figures on the held-out rows, from a model that did not see them (`class_metrics`), and n_train;
        without a held-out part (`test_fraction=None`) only n_train.
    class_mean_tokens : tuple of float
        Mean response tokens of each class in the training rows.
    class_bounds : tuple of int
        (short_below, long_from) in tokens.
    hyper : dict
        What XGBoost was given.
    fingerprint : str
        Hash of the training rows.
    seed : int
        Seed of the split and of XGBoost.
    """

    model: Any = field(repr=False)
    feature_names: tuple[str, ...]
    metrics: dict[str, float]
    class_mean_tokens: tuple[float, float, float]
    class_bounds: tuple[int, int]
    hyper: dict[str, Any]
    fingerprint: str
    seed: int
    training_rows: NDArray[np.float32] = field(repr=False)

    def predict_proba(self, features: ArrayLike) -> NDArray[np.float32]:
        """Class probabilities.

        Parameters
        ----------
        features : array_like of shape (n, n_features)
            float32 rows in the order of `feature_names`.

        Returns
        -------
        ndarray of float32, shape (n, 3)
            P(Short), P(Medium), P(Long).
        """
        rows = checked_rows(features, len(self.feature_names))
        return np.asarray(self.model.predict_proba(rows), dtype=np.float32)

    def export_onnx(
        self,
        path: str | Path,
        *,
        name: str | None = None,
        variant: str = "paper",
        metrics: Mapping[str, float] | None = None,
    ) -> ExportReport:
        """Write the model as ONNX after proving it equal (`predictor.export.export_lexical`).

        Parameters
        ----------
        path : str or Path
            Where to write; the folder must exist.
        name : str, optional
            Name in the metadata; the file's stem by default.
        variant : {"paper", "authors"}
            The extractor that made the features, so that the runtime uses the same.
        metrics : mapping, optional
            Figures for the metadata instead of `self.metrics`.

        Raises
        ------
        ExportParityError
            If any probability differs by 1e-5 or more from XGBoost's own.
        """
        from clairvoyant_lab.predictor.export import export_lexical

        return export_lexical(self, Path(path), name=name, variant=variant, metrics=metrics)

    def summary(self) -> dict[str, object]:
        """Return the figures by name."""
        return {**self.metrics, "seed": self.seed, "fingerprint": self.fingerprint}

    def _repr_html_(self) -> str:
        return summary_html("Trained predictor (held-out figures)", self.summary())


def train_predictor(
    features: ArrayLike,
    response_tokens: ArrayLike,
    seed: int = 42,
    *,
    test_fraction: float | None = 0.2,
    groups: ArrayLike | None = None,
    short_below: int = SHORT_BELOW_TOKENS,
    long_from: int = LONG_FROM_TOKENS,
    feature_names: tuple[str, ...] = FEATURE_NAMES,
    **hyper: Any,
) -> TrainedPredictor:
    """Train a three-class length predictor with the paper's settings (section 4.3).

    The rows are split 80/20, stratified by class (or by whole groups when `groups` is given); a model
    trained on the 80 % gives `.metrics` on the 20 %. The model that is returned is then fitted on all the
    rows, so no row that was paid for is thrown away, and a caller who splits the rows beforehand trains
    on exactly what was given.

    Parameters
    ----------
    features : array_like of shape (n, 19)
        Features, by default in the order of `FEATURE_NAMES`.
    response_tokens : array_like of shape (n,)
        Response lengths in tokens.
    seed : int
        Seed of the split and of XGBoost.
    test_fraction : float or None
        Share held out for `.metrics`; None trains without held-out figures.
    groups : array_like of shape (n,), optional
        Conversation of each row: a conversation is never split between the two sides.
    short_below, long_from : int
        Class bounds in tokens.
    feature_names : tuple of str
        Names of the columns, one for each.
    **hyper
        Settings of XGBoost instead of 300 rounds, depth 6, learning rate 0.1. `early_stopping_rounds`
        sets a tenth of the training rows apart to stop on.

    Returns
    -------
    TrainedPredictor

    Raises
    ------
    StarvedDatasetError
        If a class is missing or has fewer than 5 rows.
    DataError
        If a feature or length is not a finite number (the row and column are named), or shapes disagree.
    ParameterError
        For an unknown or impossible setting.
    """
    check_bounds(short_below, long_from)
    settings = _checked_hyper(hyper)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise ParameterError("seed", seed, "give a whole number from 0 to 2**32 - 1")
    if test_fraction is not None and not 0 < test_fraction < 1:
        raise ParameterError(
            "test_fraction", test_fraction, "give a share in (0, 1), or None for no held-out rows"
        )
    rows = checked_rows(features, len(feature_names))
    tokens = checked_tokens(response_tokens, len(rows))
    classes = classify_lengths(tokens, short_below, long_from)
    refuse_starved(classes, short_below, long_from)

    metrics: dict[str, float] = {"n_train": len(rows)}
    if test_fraction is not None:
        train, test = (
            stratified_split(classes, test_fraction, seed)
            if groups is None
            else group_split(groups, classes, test_fraction, seed)
        )
        trial = fit_trees(rows[train], classes[train], seed, settings)
        metrics = class_metrics(trial.predict_proba(rows[test]), tokens[test], short_below, long_from)
        metrics["n_train"] = int(train.size)
    means = tuple(float(tokens[classes == k].mean()) for k in range(3))
    return TrainedPredictor(
        model=fit_trees(rows, classes, seed, settings),
        feature_names=tuple(feature_names),
        metrics=metrics,
        class_mean_tokens=(means[0], means[1], means[2]),
        class_bounds=(short_below, long_from),
        hyper=dict(settings),
        fingerprint=training_fingerprint(rows, tokens),
        seed=seed,
        training_rows=rows,
    )


def fit_trees(
    rows: NDArray[np.float32],
    classes: NDArray[np.int8],
    seed: int,
    hyper: Mapping[str, Any],
    weights: NDArray[np.float64] | None = None,
) -> Any:
    """Fit XGBoost's three-class softmax on one thread, so that the same rows give the same trees."""
    from xgboost import XGBClassifier

    settings = {**hyper, "objective": "multi:softprob", "random_state": seed, "n_jobs": 1}
    if settings.get("early_stopping_rounds") is None:
        settings.pop("early_stopping_rounds", None)
        return XGBClassifier(**settings).fit(rows, classes, sample_weight=weights)
    fit, stop = stratified_split(classes, 0.1, seed)
    return XGBClassifier(**settings).fit(
        rows[fit],
        classes[fit],
        sample_weight=None if weights is None else weights[fit],
        eval_set=[(rows[stop], classes[stop])],
        verbose=False,
    )


def training_fingerprint(rows: NDArray[np.float32], tokens: NDArray[np.float64]) -> str:
    """Hash of the rows a model was trained on, in their order (16 hex digits)."""
    digest = hashlib.sha256()
    digest.update(f"{rows.shape}".encode())
    digest.update(np.ascontiguousarray(rows, dtype="<f4").tobytes())
    digest.update(np.ascontiguousarray(tokens, dtype="<f8").tobytes())
    return digest.hexdigest()[:16]


def checked_rows(features: ArrayLike, n_features: int) -> NDArray[np.float32]:
    """Features as a C-ordered float32 table, or an error that names the row and column."""
    try:
        rows = np.ascontiguousarray(features, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"the features are not a table of numbers ({error})") from error
    if rows.ndim != 2 or rows.shape[1] != n_features:
        raise DataError(f"the features have shape {rows.shape}; give (n, {n_features})")
    bad = np.argwhere(~np.isfinite(rows))
    if bad.size:
        row, column = (int(place) for place in bad[0])
        name = FEATURE_NAMES[column] if n_features == len(FEATURE_NAMES) else str(column)
        raise DataError(f"{rows[row, column]} is not a finite number", row=row, column=name)
    return rows


def checked_tokens(response_tokens: ArrayLike, n: int) -> NDArray[np.float64]:
    """Lengths as float64, or an error that names the row."""
    tokens = np.asarray(response_tokens, dtype=np.float64)
    if tokens.shape != (n,):
        raise DataError(f"response_tokens has shape {tokens.shape}; the features have {n} rows")
    bad = np.flatnonzero(~np.isfinite(tokens))
    if bad.size:
        raise DataError("the length is not a finite number", row=int(bad[0]), column="response_tokens")
    return tokens


def _checked_hyper(hyper: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in hyper.items():
        if name not in _KNOWN_HYPER:
            raise unknown_name("hyper", name, _KNOWN_HYPER)
        if isinstance(value, int | float) and value < 0:
            raise ParameterError(name, value, "give 0 or more")
    for name in ("n_estimators", "early_stopping_rounds"):
        value = hyper.get(name)
        if value is not None and (not isinstance(value, int | np.integer) or value < 1):
            raise ParameterError(name, value, "give a whole number of rounds, 1 or more")
    return {**PAPER_HYPER, **hyper}


def refuse_starved(classes: NDArray[np.int8], short_below: int, long_from: int) -> None:
    """Refuse rows in which a class has fewer than `MIN_ROWS_PER_CLASS`."""
    counts = np.bincount(classes, minlength=3)
    for length_class in LengthClass:
        if counts[length_class] < MIN_ROWS_PER_CLASS:
            raise StarvedDatasetError(
                f"{counts[length_class]} {length_class.label} rows among {classes.size} (bounds "
                f"{short_below} and "
                f"{long_from} tokens); training needs at least {MIN_ROWS_PER_CLASS} of each class: take a "
                "corpus of "
                "natural conversations, or other bounds"
            )
