"""Prompts scanned once, as every stage of training reads them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import DataError, StarvedDatasetError
from clairvoyant_lab.lengths import LengthClass, check_bounds, classify_lengths
from clairvoyant_lab.predictor.linear import LinearScores, bag_of_ids, fit_linear, out_of_fold_scores
from clairvoyant_lab.predictor.ngrams import N_BUCKETS, RICH_NAMES, scan_many
from clairvoyant_lab.predictor.splits import group_folds
from clairvoyant_lab.predictor.training import checked_rows, checked_tokens, refuse_starved

__all__ = [
    "N_FOLDS",
    "ScannedRows",
    "StageOne",
    "fit_stage_one",
    "refuse_lonely",
    "rows_from_scan",
    "scan_rows",
]

N_FOLDS = 5
"""Folds of whole conversations for scores and margins of rows a fit did not see."""


@dataclass(frozen=True)
class ScannedRows:
    """Rows of a training set.

    Attributes
    ----------
    features : ndarray of float32, shape (n, 33)
        `RICH_NAMES`.
    ids : list of ndarray of int32
        Hashed n-grams of each prompt.
    tokens : ndarray of float64, shape (n,)
        Response tokens.
    classes : ndarray of int8, shape (n,)
        Length classes.
    groups : ndarray of int64, shape (n,)
        Conversation, numbered from 0.
    opens : ndarray of bool, shape (n,)
        Whether the row opens its conversation.
    """

    features: NDArray[np.float32]
    ids: list[NDArray[np.int32]]
    tokens: NDArray[np.float64]
    classes: NDArray[np.int8]
    groups: NDArray[np.int64]
    opens: NDArray[np.bool_]

    def take(self, rows: NDArray[np.int64]) -> ScannedRows:
        """Rows by number."""
        return ScannedRows(
            self.features[rows],
            [self.ids[row] for row in rows],
            self.tokens[rows],
            self.classes[rows],
            self.groups[rows],
            self.opens[rows],
        )

    def fingerprint(self) -> str:
        """Hash of the rows, in their order (16 hex digits)."""
        digest = hashlib.sha256()
        for column in (self.features.astype("<f4"), self.tokens.astype("<f8"), self.opens):
            digest.update(np.ascontiguousarray(column).tobytes())
        for row in self.ids:
            digest.update(row.astype("<i4").tobytes())
        return digest.hexdigest()[:16]


def scan_rows(
    prompts: Sequence[str],
    response_tokens: ArrayLike,
    groups: ArrayLike | None,
    first_turn: ArrayLike | None,
    bounds: tuple[int, int],
) -> ScannedRows:
    """Check and scan a training set.

    Raises
    ------
    StarvedDatasetError
        If a class has too few first turns.
    DataError
        If lengths are not finite, or shapes disagree.
    """
    labels = _checked_labels(len(prompts), response_tokens, groups, first_turn, bounds)
    features, ids = scan_many(prompts)
    return ScannedRows(features, ids, *labels)


def rows_from_scan(
    features: ArrayLike,
    ids: Sequence[NDArray[np.int32]],
    response_tokens: ArrayLike,
    groups: ArrayLike | None,
    first_turn: ArrayLike | None,
    bounds: tuple[int, int],
) -> ScannedRows:
    """Check a training set whose prompts were scanned before, and are no longer there.

    Parameters
    ----------
    features : array_like of shape (n, 33)
        `RICH_NAMES`.
    ids : sequence of ndarray of int32
        Hashed n-grams of each prompt, each once.
    response_tokens, groups, first_turn, bounds
        As `scan_rows`.

    Raises
    ------
    StarvedDatasetError, DataError
        As `scan_rows`; also for an id that no scan gives.
    """
    rows = checked_rows(features, len(RICH_NAMES))
    if len(ids) != len(rows):
        raise DataError(f"there are ids of {len(ids)} rows and features of {len(rows)}")
    for number, row in enumerate(ids):
        if not row.size:  # even an empty prompt has the ids of its size
            raise DataError("there are no ids", row=number, column="ids")
        if not (int(row.min()) >= 0 and int(row.max()) < N_BUCKETS):
            raise DataError(f"an id is outside 0 to {N_BUCKETS - 1}", row=number, column="ids")
    labels = _checked_labels(len(rows), response_tokens, groups, first_turn, bounds)
    return ScannedRows(rows, list(ids), *labels)


def _checked_labels(
    n: int,
    response_tokens: ArrayLike,
    groups: ArrayLike | None,
    first_turn: ArrayLike | None,
    bounds: tuple[int, int],
) -> tuple[NDArray[np.float64], NDArray[np.int8], NDArray[np.int64], NDArray[np.bool_]]:
    check_bounds(*bounds)
    tokens = checked_tokens(response_tokens, n)
    classes = classify_lengths(tokens, *bounds)
    own = np.arange(n) if groups is None else np.asarray(groups)
    opens = np.ones(n, bool) if first_turn is None else np.asarray(first_turn, dtype=bool)
    for name, column in (("groups", own), ("first_turn", opens)):
        if column.shape != tokens.shape:
            raise DataError(f"{name} has shape {column.shape}; there are {n} prompts")
    refuse_starved(classes[opens], *bounds)
    return tokens, classes, np.unique(own, return_inverse=True)[1], opens


@dataclass(frozen=True)
class StageOne:
    """Linear scores, and what the later stages learn from.

    Attributes
    ----------
    linear : LinearScores
        Fitted on all rows.
    rows : ndarray of float32, shape (first turns, 35)
        Features of the first turns, with scores of fits that did not see the row's conversation.
    scores : ndarray of float32, shape (first turns, 2)
        Those scores.
    classes : ndarray of int8, shape (first turns,)
        Length classes.
    tokens : ndarray of float64, shape (first turns,)
        Response tokens.
    fold : ndarray of int64, shape (first turns,)
        Fold of each.
    """

    linear: LinearScores
    rows: NDArray[np.float32]
    scores: NDArray[np.float32]
    classes: NDArray[np.int8]
    tokens: NDArray[np.float64]
    fold: NDArray[np.int64]


def fit_stage_one(
    table: ScannedRows, seed: int, settings: Mapping[str, Any], base: LinearScores | None = None
) -> StageOne:
    """Fit the linear scores on all rows, and once a fold for scores of unseen rows; or take over `base`."""
    weights = np.where(table.opens, 1.0, settings["follow_up_weight"])
    stage = {"regularisation": settings["regularisation"], "seed": seed}
    fold = group_folds(table.groups, table.classes, N_FOLDS, seed)
    if base is not None:
        linear, unseen = base, base.scores(table.ids)
    else:
        refuse_lonely(table.classes[table.opens], fold[table.opens])
        unseen = out_of_fold_scores(table.ids, table.classes, table.tokens, weights, fold, **stage)
        linear = fit_linear(bag_of_ids(table.ids), table.classes, table.tokens, weights, **stage)
    first = np.flatnonzero(table.opens)
    scores = unseen[first]
    return StageOne(
        linear=linear,
        rows=np.column_stack([table.features[first], scores]),
        scores=scores,
        classes=table.classes[first],
        tokens=table.tokens[first],
        fold=fold[first],
    )


def refuse_lonely(classes: NDArray[np.int8], fold: NDArray[np.int64]) -> None:
    """Refuse rows of which all of a class lie in one fold: what is left to learn from would lack it."""
    for k in range(N_FOLDS):
        counts = np.bincount(classes[fold != k], minlength=3)
        if not counts.all():
            name = LengthClass(int(counts.argmin())).label
            raise StarvedDatasetError(
                f"the {name} rows lie in one conversation, or in few; training needs them in at least "
                f"{N_FOLDS} different ones"
            )
