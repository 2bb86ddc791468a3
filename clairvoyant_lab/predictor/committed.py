"""Make the committed models again, bit for bit, and write their cards.

`clairvoyant-lab export NAME --to FOLDER` runs this. The same library versions (they stand in the card) on
one thread of the same kind of processor give the same bytes; another version of XGBoost or scikit-learn, or
another processor under the n-gram scores, may round differently.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from clairvoyant_lab.errors import ParameterError, unknown_name
from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.predictor.cards import ModelCard
from clairvoyant_lab.predictor.export import ExportReport
from clairvoyant_lab.predictor.metrics import class_metrics
from clairvoyant_lab.predictor.ranking import bootstrap_ranking
from clairvoyant_lab.predictor.sharegpt_rows import held_out, rich_rows
from clairvoyant_lab.prompts.schema import FEATURE_NAMES

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["COMMITTED", "Remade", "balanced_rows", "held_out_metrics", "remake"]

SEED = 42


@dataclass(frozen=True)
class Remade:
    """A committed model made again.

    Attributes
    ----------
    report : ExportReport
        The file and its parity proof.
    card : ModelCard
        What to know about it; written beside it as markdown.
    """

    report: ExportReport
    card: ModelCard


def remake(name: str, folder: str | Path, *, progress: bool = True) -> Remade:
    """Train and export a committed model, and write its card.

    Parameters
    ----------
    name : str
        One of `COMMITTED`.
    folder : str or Path
        Where `NAME.onnx` and `NAME.md` go; it must exist.
    progress : bool
        Show a bar while texts are read.

    Raises
    ------
    ParameterError
        For an unknown name or a missing folder.
    MissingExtraError
        If the model needs texts and the extra `sharegpt` is not installed.
    """
    if name not in COMMITTED:
        raise unknown_name("name", name, COMMITTED)
    target = Path(folder)
    if not target.is_dir():
        raise ParameterError("folder", str(folder), "the folder does not exist; make it first")
    remade = COMMITTED[name](target, progress)
    (target / f"{name}.md").write_text(remade.card.to_markdown(), encoding="utf-8")
    return remade


def balanced_rows(classes: NDArray[np.int8], seed: int, per_class: int | None = None) -> NDArray[np.int64]:
    """Row numbers with equally many of each class (section 4.2), in their order.

    Parameters
    ----------
    classes : ndarray of int8, shape (n,)
        Length classes.
    seed : int
        Seed of the draw.
    per_class : int, optional
        Rows of each class; the smallest class's size by default.
    """
    counts = np.bincount(classes, minlength=3)
    size = int(counts.min()) if per_class is None else per_class
    if size > counts.min():
        scarce = LengthClass(int(counts.argmin())).label
        raise ParameterError("per_class", size, f"there are only {counts.min()} {scarce} rows")
    rng = np.random.default_rng(seed)
    return np.sort(
        np.concatenate([rng.choice(np.flatnonzero(classes == k), size, replace=False) for k in range(3)])
    )


def held_out_metrics(
    probabilities: NDArray[np.float32], response_tokens: NDArray[np.int64], n_boot: int = 1000
) -> dict[str, float]:
    """`class_metrics` with the bootstrap interval of the ranking accuracy."""
    metrics = class_metrics(probabilities, response_tokens)
    estimate = bootstrap_ranking(probabilities[:, 2], response_tokens, n_boot=n_boot, seed=SEED)
    metrics["ranking_accuracy_low"], metrics["ranking_accuracy_high"] = estimate.low, estimate.high
    return metrics


def _first_turns() -> pd.DataFrame:
    from clairvoyant_lab.corpora import load_corpus

    return load_corpus("sharegpt", progress=False)


def _paper(folder: Path, progress: bool) -> Remade:
    from clairvoyant_lab.predictor.training import train_predictor

    corpus = _first_turns()
    out = held_out(corpus)
    train = corpus[~out]
    rows = balanced_rows(train["length_class"].to_numpy(np.int8), SEED)
    names = list(FEATURE_NAMES)
    trained = train_predictor(
        train[names].to_numpy(np.float32)[rows], train["response_tokens"].to_numpy()[rows], seed=SEED
    )
    test = corpus[out]
    metrics = held_out_metrics(
        trained.predict_proba(test[names].to_numpy(np.float32)), test["response_tokens"].to_numpy()
    )
    metrics["n_train"] = rows.size
    metrics["split_ranking_accuracy"] = trained.metrics["ranking_accuracy"]
    metrics["split_class_accuracy"] = trained.metrics["class_accuracy"]
    report = trained.export_onnx(folder / "sharegpt.onnx", metrics=metrics)
    card = ModelCard(
        name="sharegpt",
        title="The paper's predictor, on ShareGPT",
        what=(
            "The 19 lexical features of section 3.2 into XGBoost with section 4.3's settings, trained on "
            "equally many Short, Medium and Long first turns, as section 4.2 does."
        ),
        limits=(
            "`split_*` are the figures of section 4.3's own 80/20 split of the balanced training rows (the "
            "paper's Model A: 76.29 % and 47.6 % on other rows of ShareGPT, labelled with the Llama-2 "
            "tokenizer). All other figures are on held-out conversations with their natural shares of "
            "classes. On foreign traffic it ranks little better than the prompt's length does."
        ),
        metrics=metrics,
        report=report,
        fingerprint=trained.fingerprint,
        corpus_fingerprint=str(corpus.attrs["corpus"]["fingerprint"]),
        needs="",
    )
    return Remade(report, card)


def _rich(folder: Path, progress: bool) -> Remade:
    from clairvoyant_lab.predictor.ngrams import scan_many
    from clairvoyant_lab.predictor.rich import train_rich

    rows = rich_rows(progress)
    train, test = rows.take(~rows.held_out), rows.take(rows.held_out & rows.first_turn)
    trained = train_rich(
        train.prompts,
        train.response_tokens,
        groups=train.groups,
        first_turn=train.first_turn,
        seed=SEED,
        test_fraction=None,
    )
    features, ids = scan_many(test.prompts)
    metrics = held_out_metrics(trained.from_scan(features, ids), test.response_tokens)
    fast = held_out_metrics(trained.fast_proba(ids), test.response_tokens)
    for name in ("ranking_accuracy", "ranking_accuracy_low", "ranking_accuracy_high", "class_accuracy"):
        metrics[f"fast_{name}"] = fast[name]
    metrics["n_train"] = int(train.first_turn.sum())
    metrics["n_train_later_turns"] = int((~train.first_turn).sum())
    report = trained.export_onnx(folder / "sharegpt-rich.onnx", metrics=metrics)
    card = ModelCard(
        name="sharegpt-rich",
        title="The richer predictor, on ShareGPT (the default)",
        what=(
            "Hashed words and pairs of words into two linear scores; the scores, the 19 lexical features and "
            "14 counts of the prompt's surface into shallow trees; one ONNX graph. The `fast` form uses the "
            "scores alone. Trained on English first turns with their natural shares of classes, the linear "
            "scores also on later turns at a weight of 0.1."
        ),
        limits=(
            "Figures are on conversations of which no turn was used in training or in choosing settings. "
            "English only; trained on answers of GPT-3.5/4 of 2023, so rank it on your own traffic "
            "(`clairvoyant-lab gate`) before relying on it. The weights are hashed words of public "
            "conversations: no text can be read back, but whether a word is telling can be guessed."
        ),
        metrics=metrics,
        report=report,
        fingerprint=trained.fingerprint,
        corpus_fingerprint=rows.fingerprint,
        needs=_NEEDS_TEXTS,
    )
    return Remade(report, card)


def _intervals(folder: Path, progress: bool) -> Remade:
    from clairvoyant_lab.predictor.intervals import interval_coverage, train_intervals

    rows = rich_rows(progress)
    train, test = rows.take(~rows.held_out), rows.take(rows.held_out & rows.first_turn)
    trained = train_intervals(
        train.prompts,
        train.response_tokens,
        groups=train.groups,
        first_turn=train.first_turn,
        seed=SEED,
    )
    coverage = interval_coverage(trained.predict(test.prompts), test.response_tokens)
    metrics = coverage.summary()
    for group, share in zip(coverage.groups[1:], coverage.both[1:], strict=True):
        metrics[f"coverage_{group.lower()}"] = float(share)
    metrics["n_calibration"] = trained.n_calibration
    report = trained.export_onnx(folder / "sharegpt-intervals.onnx", metrics=metrics)
    card = ModelCard(
        name="sharegpt-intervals",
        title="Intervals of response lengths, on ShareGPT",
        what=(
            "Quantile trees on the rich model's features and scores, one for each side, moved by split "
            "conformal prediction on a quarter of the training conversations. Read it with "
            "`clairvoyant_lab.predictor.LengthIntervals`."
        ),
        limits=(
            "The promise holds over all prompts of like traffic, not within each class: a long answer is "
            "above its upper bound more often than a short one. On other traffic calibrate again."
        ),
        metrics=metrics,
        report=report,
        fingerprint=trained.fingerprint,
        corpus_fingerprint=rows.fingerprint,
        needs=_NEEDS_TEXTS,
    )
    return Remade(report, card)


_NEEDS_TEXTS = "pip install 'clairvoyant-lab[sharegpt]' (the texts), then "

COMMITTED: dict[str, Callable[[Path, bool], Remade]] = {
    "sharegpt": _paper,
    "sharegpt-rich": _rich,
    "sharegpt-intervals": _intervals,
}
"""Name of each committed model -> what makes it."""
