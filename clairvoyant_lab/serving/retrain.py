"""Learn from a journal: train on its earlier part, compare with what was in use on its held-out tail."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from clairvoyant_lab.errors import DataError, ParameterError
from clairvoyant_lab.journal_reader import TrainingSet, read_journal
from clairvoyant_lab.lengths import LengthClass, classify_lengths
from clairvoyant_lab.results import summary_html

__all__ = ["RetrainReport", "retrain_from_journal"]


@dataclass(frozen=True)
class RetrainReport:
    """What retraining brought.

    Attributes
    ----------
    model : str
        The exported file.
    n_train, n_held_out : int
        Rows; the held-out ones came last.
    ranking_new, ranking_in_use : float or None
        Ranking accuracy (eq. 2) on the tail: of the new model, and of the probabilities in the journal;
        None where the tail lacks short or long answers.
    ranking_new_interval, ranking_in_use_interval : tuple of float or None
        95 % bootstrap intervals.
    better : bool or None
        Whether the new model ranks higher on the tail.
    dropped : dict of str to int
        Rows of the journal that could not teach, by reason.
    """

    model: str
    n_train: int
    n_held_out: int
    ranking_new: float | None
    ranking_in_use: float | None
    ranking_new_interval: tuple[float, float] | None
    ranking_in_use_interval: tuple[float, float] | None
    better: bool | None
    dropped: dict[str, int] = field(default_factory=dict)

    def summary(self) -> dict[str, object]:
        """The figures by name."""
        rows: dict[str, object] = {
            "model": self.model,
            "n_train": self.n_train,
            "n_held_out": self.n_held_out,
            "ranking_new": self.ranking_new,
            "ranking_in_use": self.ranking_in_use,
            "better": self.better,
        }
        for name in ("ranking_new_interval", "ranking_in_use_interval"):
            interval = getattr(self, name)
            if interval is not None:
                rows[f"{name}_low"], rows[f"{name}_high"] = interval
        return {**rows, **{f"dropped: {reason}": count for reason, count in self.dropped.items()}}

    def _repr_html_(self) -> str:
        return summary_html("Retrained from a journal", self.summary())


def retrain_from_journal(
    path: str | Path,
    out: str | Path,
    *,
    hold_out: float = 0.2,
    seed: int = 42,
    name: str = "journal",
    **hyper: Any,
) -> RetrainReport:
    """Train a lexical model on a journal's earlier requests and export it.

    Parameters
    ----------
    path : path
        The journal.
    out : path
        The ONNX file to write.
    hold_out : float
        Share of the rows, the last ones, that the comparison is made on.
    seed : int
        Of training and bootstrap.
    name : str
        The model's name.
    **hyper
        As for `train_predictor`.

    Raises
    ------
    ParameterError
        For a share outside (0, 1).
    StarvedDatasetError
        If a class has too few rows to learn from.
    DataError
        If the journal has no usable row.
    """
    from clairvoyant_lab.predictor import train_predictor

    if not 0.0 < hold_out < 1.0:
        raise ParameterError("hold_out", hold_out, "give a share above 0 and below 1")
    rows = read_journal(path).training_set()
    if len(rows) < 2:
        raise DataError(f"has {len(rows)} rows to learn from; dropped: {rows.dropped}", source=str(path))
    cut = max(1, min(len(rows) - 1, round(len(rows) * (1.0 - hold_out))))
    trained = train_predictor(
        rows.features[:cut], rows.response_tokens[:cut], seed=seed, test_fraction=None, **hyper
    )
    trained.export_onnx(out, name=name)
    return _compare(rows, cut, trained.predict_proba(rows.features[cut:])[:, 2], Path(out), seed)


def _compare(rows: TrainingSet, cut: int, p_new: Any, out: Path, seed: int) -> RetrainReport:
    from clairvoyant_lab.predictor import bootstrap_ranking

    tokens = rows.response_tokens[cut:]
    classes = classify_lengths(tokens)
    comparable = bool(np.any(classes == LengthClass.SHORT)) and bool(np.any(classes == LengthClass.LONG))
    new = bootstrap_ranking(p_new, tokens, seed=seed) if comparable else None
    old = bootstrap_ranking(rows.p_long[cut:], tokens, seed=seed) if comparable else None
    return RetrainReport(
        model=str(out),
        n_train=cut,
        n_held_out=int(tokens.size),
        ranking_new=None if new is None else new.value,
        ranking_in_use=None if old is None else old.value,
        ranking_new_interval=None if new is None else (new.low, new.high),
        ranking_in_use_interval=None if old is None else (old.low, old.high),
        better=None if new is None or old is None else new.value > old.value,
        dropped=rows.dropped,
    )
