"""Splits of rows: stratified by class, or by whole groups so that no conversation is on both sides."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import DataError, ParameterError

__all__ = ["group_folds", "group_split", "linked_groups", "stratified_split"]


def stratified_split(
    classes: NDArray[np.int8], test_fraction: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row numbers of the two sides, each class in proportion (section 4.3)."""
    from sklearn.model_selection import train_test_split

    train, test = train_test_split(
        np.arange(classes.size), test_size=test_fraction, stratify=classes, random_state=seed
    )
    return train, test


def group_split(
    groups: ArrayLike, classes: NDArray[np.int8], test_fraction: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row numbers of the two sides; whole groups, drawn per class of the group's longest row."""
    folds = group_folds(groups, classes, max(2, round(1 / test_fraction)), seed)
    return np.flatnonzero(folds != 0), np.flatnonzero(folds == 0)


def group_folds(groups: ArrayLike, classes: NDArray[np.int8], n_folds: int, seed: int) -> NDArray[np.int64]:
    """Fold of each row; a group lies in one fold, and folds hold about the same number of each class.

    Parameters
    ----------
    groups : array_like of shape (n,)
        Group of each row.
    classes : ndarray of int8, shape (n,)
        Class of each row; groups are dealt out by their highest class.
    n_folds : int
        At least 2.
    seed : int
        Seed of the deal.

    Returns
    -------
    ndarray of int64, shape (n,)
    """
    if n_folds < 2:
        raise ParameterError("n_folds", n_folds, "give at least 2")
    labels: NDArray[Any] = np.asarray(groups)
    if labels.shape != classes.shape:
        raise DataError(f"groups have shape {labels.shape}, the rows {classes.shape}")
    names, place = np.unique(labels, return_inverse=True)
    if names.size < n_folds:
        raise DataError(f"{names.size} groups cannot fill {n_folds} folds")
    top = np.zeros(names.size, dtype=np.int64)
    np.maximum.at(top, place, classes)
    rng = np.random.default_rng(seed)
    fold = np.empty(names.size, dtype=np.int64)
    start = 0
    for length_class in range(3):
        members = rng.permutation(np.flatnonzero(top == length_class))
        # Going on where the last class stopped keeps the folds' sizes within one group of each other.
        fold[members] = (start + np.arange(members.size)) % n_folds
        start += members.size
    return fold[place]


def linked_groups(first: ArrayLike, second: ArrayLike) -> NDArray[np.int64]:
    """Groups of rows connected through either label: same conversation, or same prompt.

    Parameters
    ----------
    first, second : array_like of shape (n,)
        Two labels of each row.

    Returns
    -------
    ndarray of int64, shape (n,)
        Number of the connected component.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    _, a = np.unique(np.asarray(first), return_inverse=True)
    _, b = np.unique(np.asarray(second), return_inverse=True)
    if a.shape != b.shape:
        raise DataError(f"the two labels have shapes {a.shape} and {b.shape}")
    n = int(a.max(initial=-1)) + 1
    size = n + int(b.max(initial=-1)) + 1
    graph = coo_array((np.ones(a.size, dtype=np.int8), (a, b + n)), shape=(size, size))
    _, component = connected_components(graph, directed=False)
    return np.asarray(component[a], dtype=np.int64)
