"""Balanced samples and splits, seeded and fingerprinted (Clairvoyant, section 4.2 and Table 4)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import DataError, ParameterError, StarvedDatasetError
from clairvoyant_lab.lengths import LengthClass

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Split", "balanced_rows", "balanced_sample", "group_split", "stratified_split"]


@dataclass(frozen=True, eq=False)
class Split:
    """Row positions of two parts that share no row.

    Attributes
    ----------
    train, test : ndarray of int64
        Positions, ascending.
    kind : str
        `stratified` or `group`.
    seed : int
    """

    train: NDArray[np.int64]
    test: NDArray[np.int64]
    kind: str
    seed: int

    @property
    def fingerprint(self) -> str:
        """Short hash of the parts."""
        digest = hashlib.sha256(f"{self.kind}/{self.seed}/{self.train.size}:".encode())
        digest.update(self.train.tobytes() + self.test.tobytes())
        return digest.hexdigest()[:16]

    def summary(self) -> dict[str, object]:
        """Sizes, kind, seed, fingerprint."""
        return {
            "train": int(self.train.size),
            "test": int(self.test.size),
            "kind": self.kind,
            "seed": self.seed,
            "fingerprint": self.fingerprint,
        }


def balanced_rows(length_class: ArrayLike, per_class: int | None = None, seed: int = 42) -> NDArray[np.int64]:
    """Positions of a random sample with the same number of rows of each class.

    Parameters
    ----------
    length_class : array_like of int, shape (n,)
        Values of `LengthClass`.
    per_class : int, optional
        Rows a class; by default as many as the smallest class has.
    seed : int
        Seed of the draw.

    Returns
    -------
    ndarray of int64
        Positions, ascending.

    Raises
    ------
    StarvedDatasetError
        When a class has fewer rows than asked for, or none.
    """
    classes = np.asarray(length_class)
    counts = {one: int((classes == one).sum()) for one in LengthClass}
    smallest = min(counts, key=lambda one: counts[one])
    wanted = counts[smallest] if per_class is None else per_class
    if wanted < 1 and per_class is not None:
        raise ParameterError("per_class", per_class, "give a positive number of rows")
    if counts[smallest] < max(wanted, 1):
        raise StarvedDatasetError(
            f"{counts[smallest]:,} {smallest.label} rows, {max(wanted, 1):,} are needed; "
            f"take another corpus, all turns, or per_class={counts[smallest]}",
            column="length_class",
        )
    rng = np.random.default_rng(seed)
    chosen = [
        rng.choice(np.flatnonzero(classes == one), wanted, replace=False, shuffle=False)
        for one in LengthClass
    ]
    return np.sort(np.concatenate(chosen)).astype(np.int64)


def balanced_sample(corpus: pd.DataFrame, per_class: int | None = None, seed: int = 42) -> pd.DataFrame:
    """Rows of a corpus with the same number of each class; see `balanced_rows`.

    `attrs["corpus"]["sample"]` says what was drawn, with a fingerprint.
    """
    rows = balanced_rows(corpus["length_class"].to_numpy(), per_class, seed)
    sample = corpus.iloc[rows].reset_index(drop=True)
    known = dict(corpus.attrs.get("corpus", {}))
    digest = hashlib.sha256(f"{known.get('fingerprint')}/balanced/{seed}:".encode() + rows.tobytes())
    step = {"balanced": rows.size // 3, "seed": seed, "fingerprint": digest.hexdigest()[:16]}
    sample.attrs = {**corpus.attrs, "corpus": {**known, "sample": step}}
    return sample


def stratified_split(length_class: ArrayLike, test_share: float = 0.2, seed: int = 42) -> Split:
    """Split rows with the classes' shares kept, as scikit-learn draws them (section 4.3: 80/20, seed 42).

    Raises
    ------
    ParameterError
        Unless 0 < test_share < 1.
    DataError
        When a class has too few rows to stand in both parts.
    """
    from sklearn.model_selection import train_test_split

    _check_share(test_share)
    classes = np.asarray(length_class)
    try:
        train, test = train_test_split(
            np.arange(classes.size), test_size=test_share, random_state=seed, stratify=classes
        )
    except ValueError as error:
        raise DataError(f"cannot be split ({error})", column="length_class") from error
    return Split(np.sort(train).astype(np.int64), np.sort(test).astype(np.int64), "stratified", seed)


def group_split(group: ArrayLike, length_class: ArrayLike, test_share: float = 0.2, seed: int = 42) -> Split:
    """Split so that no group (conversation) stands in both parts, with class shares about kept.

    Groups are drawn within strata by the longest class they hold.

    Parameters
    ----------
    group : array_like, shape (n,)
        Group of each row.
    length_class : array_like of int, shape (n,)
        Values of `LengthClass`.
    test_share : float
        About this share of the groups of each stratum becomes the test part.
    seed : int
        Seed of the draw.

    Raises
    ------
    ParameterError
        Unless 0 < test_share < 1.
    DataError
        When a part would be empty.
    """
    _check_share(test_share)
    classes = np.asarray(length_class)
    groups, member = np.unique(np.asarray(group), return_inverse=True)
    longest = np.full(groups.size, -1, dtype=np.int64)
    np.maximum.at(longest, member, classes.astype(np.int64))
    rng = np.random.default_rng(seed)
    in_test = np.zeros(groups.size, dtype=bool)
    for one in np.unique(longest):
        stratum = rng.permutation(np.flatnonzero(longest == one))
        in_test[stratum[: round(test_share * stratum.size)]] = True
    mask = in_test[member]
    train, test = np.flatnonzero(~mask), np.flatnonzero(mask)
    if train.size == 0 or test.size == 0:
        raise DataError(f"{groups.size} groups are too few for test_share = {test_share}", column="group")
    return Split(train.astype(np.int64), test.astype(np.int64), "group", seed)


def _check_share(test_share: float) -> None:
    if not 0 < test_share < 1:
        raise ParameterError("test_share", test_share, "give a share between 0 and 1")
